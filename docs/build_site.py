"""Build the documentation site into site/ (`make site`); needs the extra `docs`.

The pages of the site are the Markdown files of the repository at their own places, so every link between them works.
"""

import shutil
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
PAGES = (
    "README.md", "CONTRIBUTING.md", "CHANGELOG.md", "LICENSE", "CITATION.cff", "docs/*.md", "docs/*.css",
    "dataset/README.md", "examples/*.py", "examples/*.ipynb", "results/**/*.md", "results/**/*.png",
)  # fmt: skip


def stage(target: Path) -> list[Path]:
    """Copy the pages and their pictures to a new folder; returns their paths there, relative to it."""
    shutil.rmtree(target, ignore_errors=True)
    # Runs lie in folders that git ignores.
    found = [path for pattern in PAGES for path in sorted(ROOT.glob(pattern)) if "runs" not in path.parts]
    for path in found:
        copy = target / path.relative_to(ROOT)
        copy.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(path, copy)
    return [path.relative_to(ROOT) for path in found]


def main() -> int:
    try:
        from mkdocs.commands.build import build
        from mkdocs.config import load_config
    except ModuleNotFoundError:
        print("error: the site needs MkDocs: pip install 'recbole_adaptau[docs]'", file=sys.stderr)
        return 2
    stage(ROOT / "build" / "pages")
    build(load_config(str(ROOT / "mkdocs.yml")))
    print(f"written to {ROOT / 'site'}: open site/index.html")
    return 0


if __name__ == "__main__":
    sys.exit(main())
