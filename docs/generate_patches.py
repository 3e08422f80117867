"""Writes docs/patches.md from the table of patches: python docs/generate_patches.py, or make docs."""

from pathlib import Path

from recbole_adaptau.patches.table import PATCHES, RECBOLE

TARGET = Path(__file__).with_name("patches.md")
HEAD = f"""# Patches of RecBole

Made from `recbole_adaptau/patches/table.py` by `make docs`. Importing `recbole_adaptau` changes these functions of
RecBole {RECBOLE} when RecBole is imported. A patch is applied only if RecBole's source is the one it was written for;
with another RecBole the import ends with an error that names the function. For each bug a test shows that RecBole still
has it.
"""
KINDS = {
    "bug": "What RecBole gets wrong",
    "library drift": "Libraries that have changed since",
    "security": "Files and settings that could run code",
    "message": "Refusals that say what is wrong",
    "speed": "The same result sooner",
    "feature": "What this package adds",
}


def page() -> str:
    """The whole of docs/patches.md."""
    lines = [HEAD]
    for kind, heading in KINDS.items():
        rows = [patch for patch in PATCHES if patch.kind == kind]
        lines += [f"## {heading} ({kind}: {len(rows)})", "", "| function | issue | reason |", "|---|---|---|"]
        for patch in rows:
            where = f"{patch.module.rpartition('.')[2]}: {patch.name}" + (f" in {patch.within}" if patch.within else "")
            lines.append(f"| `{where}` | {', '.join(map(str, patch.issues))} | {patch.reason} |")
        lines.append("")
    return "\n".join(lines)


if __name__ == "__main__":
    TARGET.write_text(page(), encoding="utf-8")
