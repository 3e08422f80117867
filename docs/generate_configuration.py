"""Writes docs/configuration.md from the declarations of the settings, the only place where they are explained.

python docs/generate_configuration.py            # or: make docs
python docs/generate_configuration.py --check    # exit code 1 if the file is not what would be written
"""

import sys
from pathlib import Path

from recbole_adaptau.cli.settings_help import documented, shown_default
from recbole_adaptau.config.yaml_files import PROPERTIES, read_yaml
from recbole_adaptau.core.settings import kind
from recbole_adaptau.recipe import PARTS

TARGET = Path(__file__).with_name("configuration.md")
HEAD = """# Configuration

Made from the declarations of the settings by `make docs`; change those, not this file. Every key can be given as
`--key=value`, which wins, in `config_dict`, or in a YAML file (`--config_files`). RecBole's own keys hold too, with
RecBole's defaults where none is listed here.

A misspelt key ends the run. A key that the chosen strategy, loss, negatives, recipe or model does not read is an error
on the command line and a warning in a file, which several models may share.
"""


def settings_tables() -> list[str]:
    lines = []
    for title, fields in documented():
        lines += [
            "",
            f"## {title[0].upper()}{title[1:]}",
            "",
            "| key | type | default | meaning |",
            "|---|---|---|---|",
        ]
        for name, field in fields:
            default = shown_default(field)
            shown = f"`{default}`" if default else ""
            lines.append(f"| `{name}` | {kind(field)} | {shown} | {field.description} |")
    return lines


def files(folder: str, head: list[str]) -> list[str]:
    """The settings of each file of a folder of properties/."""
    lines = head
    for path in sorted((PROPERTIES / folder).glob("*.yaml")):
        settings = read_yaml(path)
        special = settings.pop("by_run", {})
        lines += ["", f"### {path.stem}", "", "| for | settings |", "|---|---|"]
        for name, values in {"all" if special else path.stem: settings, **special}.items():
            lines.append(f"| {name} | {', '.join(f'`{key}: {value}`' for key, value in values.items())} |")
    return lines


def reference() -> str:
    """The whole of docs/configuration.md."""
    lines = [HEAD, *settings_tables()]
    lines += ["", "## Parts of a recipe", "", "| part | what it adds to the paper's method |", "|---|---|"]
    lines += [f"| `{name}` | {part.meaning} |" for name, part in PARTS.items()]
    lines += files("recipe", ["", "## Recipes", "", "`--recipe=NAME` has these parts and settings."])
    about = "Lengths and rates; `AdapTau` is for our models without a file of their own, such as `AdapTauNGCF`."
    lines += files("model", ["", "## Models", "", about])
    lines += files("preset", ["", "## Presets", "", "`--preset=NAME` sets these, below what the command line gives."])
    lines += ["", "## Ranges for tuning", "", "What `recbole-adaptau tune` searches, in RecBole's notation:"]
    for path in sorted((PROPERTIES / "hyper").glob("*.test")):
        lines += ["", f"`properties/hyper/{path.name}`", "", "```text", path.read_text(encoding="utf-8").strip(), "```"]
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    if sys.argv[1:] == ["--check"]:
        sys.exit(
            TARGET.read_text(encoding="utf-8") != reference() and "docs/configuration.md is not up to date: make docs"
        )
    TARGET.write_text(reference(), encoding="utf-8")
