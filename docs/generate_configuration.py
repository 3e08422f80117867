"""Writes docs/configuration.md from the property files, whose comments are the only place where keys are explained.

python docs/generate_configuration.py            # or: make docs
python docs/generate_configuration.py --check    # exit code 1 if the file is not what would be written
"""

import sys
from pathlib import Path

from recbole_adaptau.config.loading import PROPERTIES, documented_keys, read_yaml

TARGET = Path(__file__).with_name("configuration.md")
HEAD = """# Configuration

Made from `properties/` by `make docs`; change the comments there, not this file. Every key can be given as
`--key=value`, which wins, in `config_dict`, or in a YAML file (`--config_files`). RecBole's own keys hold too, with
RecBole's defaults where none is listed here:
[its documentation](https://recbole.io/docs/user_guide/config_settings.html) explains them.
"""
MODELS = {
    "AdapTauMF": "",
    "AdapTauLightGCN": "",
    "AdapTau": "For every other model of ours: RecBole's base models inside Adap-tau (`AdapTauNGCF`, …), on top of "
    "RecBole's properties of the base model, and [backbones of your own](extending.md).",
}


def table(path: Path) -> list[str]:
    lines, section = [], None
    for heading, key, default, meaning in documented_keys(path):
        if heading != section:
            lines += ["", f"### {heading}"] if heading else []
            lines += ["", "| key | default | meaning |", "|---|---|---|"]
            section = heading
        lines.append(f"| `{key}` | {f'`{default}`' if default else ''} | {meaning} |".replace("||", "\\|\\|"))
    return lines


def presets() -> list[str]:
    lines = ["", "## Presets", "", "`--preset=NAME` sets these, below what is given on the command line."]
    for path in sorted((PROPERTIES / "preset").glob("*.yaml")):
        settings = read_yaml(path)
        special = settings.pop("by_run", {})
        lines += ["", f"### {path.stem}", "", "| for | settings |", "|---|---|"]
        for name, values in {"all models": settings, **special}.items():
            lines.append(f"| {name} | {', '.join(f'`{key}: {value}`' for key, value in values.items())} |")
    return lines


def reference() -> str:
    """The whole of docs/configuration.md."""
    lines = [HEAD, "## All our models", *table(PROPERTIES / "overall.yaml")]
    files = {path.stem: path for path in (PROPERTIES / "model").glob("*.yaml")}
    for name in [*MODELS, *sorted(files.keys() - MODELS.keys())]:
        lines += ["", f"## {name}"]
        lines += ["", MODELS[name]] if MODELS.get(name) else []
        lines += table(files[name])
    lines += presets()
    lines += ["", "## Ranges for tuning", "", "What `run_hyper.py` searches, in RecBole's notation:"]
    for path in sorted((PROPERTIES / "hyper").glob("*.test")):
        lines += ["", f"`properties/hyper/{path.name}`", "", "```text", path.read_text(encoding="utf-8").strip(), "```"]
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    if sys.argv[1:] == ["--check"]:
        sys.exit(
            TARGET.read_text(encoding="utf-8") != reference() and "docs/configuration.md is not up to date: make docs"
        )
    TARGET.write_text(reference(), encoding="utf-8")
