"""What is known of the items, from a second file: names and further columns, as RecBole's atomic file."""

import csv
import io
import re
from pathlib import Path

import pandas as pd

from ..errors import DataError, did_you_mean
from .columns import NAMES, USUAL, plain
from .interaction_file import MISSING, id_text
from .readers import open_table


def items_file(source: Path, name: str | None, known: set[str]) -> tuple[str, int, int]:
    """The atomic file of the items from a second file; how many items it describes, and how many rows it dropped."""
    reader = open_table(source)
    if name is not None and name not in reader.columns:
        raise DataError(
            f"{source} has no column '{name}'; it has: {', '.join(reader.columns)}.{did_you_mean(name, reader.columns)}"
        )
    by_plain = {plain(column): column for column in reversed(reader.columns)}
    item = next((by_plain[plain(usual)] for usual in (*USUAL["item"], "id") if plain(usual) in by_plain), None)
    if item is None:
        raise DataError(
            f"{source}: no column is called item_id, product_id or the like; it has: {', '.join(reader.columns)}. "
            "Rename the one with the items' ids to item_id."
        )
    title = name or next((by_plain[plain(usual)] for usual in NAMES if plain(usual) in by_plain), None)
    if title == item:
        raise DataError(
            f"{source}: '{title}' cannot be both the items' ids and their names; give --item-name another column."
        )
    others = [column for column in reader.columns if column not in (item, title)]
    wanted = [item, *([title] if title else []), *others]
    cleaned = [part.apply(lambda column: column.map(_cell)) for part in reader.parts(wanted)]
    table = pd.concat(cleaned or [pd.DataFrame(columns=wanted)])
    usable = ~table[item].isin(MISSING) & ~table[item].duplicated()
    kept = table[usable]
    if not len(kept):
        raise DataError(f"{source}: no row has an item's id.")
    if not kept[item].isin(known).any():
        raise DataError(
            f"{source}: none of its {len(kept):,} items is among the interactions; is '{item}' the right column of ids?"
        )
    heads = ["item_id", *(["item_name"] if title else [])]
    types = ["token", *(["token_seq"] if title else [])]
    for number, column in enumerate(others, start=1):
        head = re.sub(r"\W+", "_", column).strip("_")
        heads.append(head if head and head not in heads else f"column_{number}")
        types.append("float" if pd.to_numeric(kept[column], errors="coerce").notna().all() else "token")
    header = "\t".join(f"{head}:{kind}" for head, kind in zip(heads, types, strict=True))
    text = io.StringIO()
    kept.to_csv(text, sep="\t", index=False, header=False, quoting=csv.QUOTE_NONE, lineterminator="\n")
    return f"{header}\n{text.getvalue()}", int(kept[item].isin(known).sum()), int(len(table) - len(kept))


def _cell(value: object) -> str:
    """A value as an atomic file can have it: on one line, without quotation marks."""
    text = "" if value is None or value != value else id_text(value)
    return " ".join(text.replace('"', "'").split())
