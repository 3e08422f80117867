"""From a file of interactions (user, item, perhaps a time and a rating) to RecBole's atomic files."""

import csv
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from .columns import Columns
from .convert import check_folder, check_name, printable_name, publish
from .interaction_file import Table, first_of_pairs, read_interactions
from .item_file import items_file
from .readers import open_table
from .text import counts

SIDECAR = """\
# Imported from {source}: {report.users:,} users, {report.items:,} items, {report.interactions:,} interactions.
load_col: {{inter: [{columns}]}}
"""
SIDECAR_RATING = """\
# Interactions with a lower rating, or none, are no positives; they count as seen.
min_rating: {least}
"""


@dataclass(frozen=True)
class ImportReport:
    """What was written and what was left out."""

    folder: Path
    columns: dict[str, str]
    users: int
    items: int
    interactions: int
    rows: int
    duplicates_dropped: int
    without_id: int
    first_without_id: str
    below_rating: int
    without_rating: int
    min_rating: float | None
    named_items: int | None
    items_file_rows_dropped: int = 0

    def __str__(self) -> str:
        times = f"with times, column {self.columns['time']}" if "time" in self.columns else "without times"
        rows = [
            ("rows read", self.rows, ""),
            ("users", self.users, f"column {self.columns['user']}"),
            ("items", self.items, f"column {self.columns['item']}"),
            ("interactions", self.interactions, f"{times}; {self._positives()}"),
            ("duplicates dropped", self.duplicates_dropped, "further rows of the same user and item"),
        ]
        if self.without_id:
            rows.append(
                ("without id dropped", self.without_id, f"no user or no item; the first in {self.first_without_id}")
            )
        if self.min_rating is not None:
            rows.append(("low ratings", self.below_rating, f"below {self.min_rating:g}: no positives, but seen"))
        if self.without_rating:
            rows.append(("unrated", self.without_rating, "no rating: no positives, but seen"))
        if self.named_items is not None:
            rows.append(("items described", self.named_items, "with a row in the file of items"))
        if self.items_file_rows_dropped:
            rows.append(("items' rows dropped", self.items_file_rows_dropped, "repeated, or without an id"))
        return counts(self.folder, rows)

    def _positives(self) -> str:
        if "rating" not in self.columns:
            return "every one is a positive"
        name = self.columns["rating"]
        if self.min_rating is not None:
            return f"positives are those with {name} of at least {self.min_rating:g}"
        return f"every one is a positive whatever its {name} (--min-rating N: only those from N on)"


def import_file(
    source: Path,
    name: str,
    output: Path = Path("dataset"),
    columns: Columns | None = None,
    min_rating: float | None = None,
    delimiter: str | None = None,
    header: bool = True,
    strict: bool = False,
    items: Path | None = None,
    item_name: str | None = None,
    force: bool = False,
) -> ImportReport:
    """Write `output/name/` from a file of interactions: delimited text, JSON lines or Parquet, perhaps compressed.

    Ids are taken as text, without white space around them. Of a pair that occurs more than once the first is kept, the
    earliest where there are times. Ratings are kept as a column. RecBole splits the data when it loads it (`split`).
    Memory grows with the number of rows by about 60 bytes each, and with the ids.

    Args:
        source: The file.
        name: Name of the dataset, later given as `--dataset=name`.
        output: Folder of all datasets, RecBole's `data_path`.
        columns: Which column is which, where they do not have a usual name.
        min_rating: Rows with a lower rating, or none, are no positives. They are written, too, and count as seen.
        delimiter: What separates the columns of text; None to find out.
        header: Whether the first line of text names the columns; if not, they are called 1, 2, ….
        strict: Refuse rows without a user or an item, which are left out and counted otherwise.
        items: A second file with a row for each item: its id, its name, and more.
        item_name: The column with the items' names there, if it does not have a usual name.
        force: Replace our files if `output/name` exists.

    Raises:
        DataError: The file or an option cannot be used; the message says where and what to do.
    """
    source, folder = Path(source), Path(output) / name
    check_name(name)
    check_folder(folder, force)
    table = read_interactions(open_table(source, delimiter, header), columns or Columns(), min_rating, strict)
    kept = first_of_pairs(table, min_rating)
    ratings = np.zeros(0) if min_rating is None or table.ratings is None else table.ratings[kept]
    positives = kept if min_rating is None else kept[ratings >= min_rating]
    present = {kind: np.unique(codes[positives]) for kind, codes in table.codes.items()}
    described, dropped = None, 0
    written = (
        ["user_id", "item_id"] + ["timestamp"] * (table.times is not None) + ["rating"] * (table.ratings is not None)
    )
    files: dict[str, str | Iterator[str]] = {f"{name}.inter": _lines(table, kept, written)}
    if items is not None:
        known = {table.ids["item"][code] for code in present["item"]}
        text, described, dropped = items_file(Path(items), item_name, known)
        files[f"{name}.item"] = text
    report = ImportReport(
        folder=folder,
        columns=table.columns,
        users=len(present["user"]),
        items=len(present["item"]),
        interactions=len(positives),
        rows=table.rows,
        duplicates_dropped=len(table.codes["user"]) - len(kept),
        without_id=table.no_id,
        first_without_id=table.first_without_id,
        below_rating=0 if min_rating is None else int((ratings < min_rating).sum()),
        without_rating=int(np.isnan(ratings).sum()),
        min_rating=min_rating,
        named_items=described,
        items_file_rows_dropped=dropped,
    )
    sidecar = SIDECAR.format(source=repr(printable_name(source)), report=report, columns=", ".join(written))
    if min_rating is not None:
        sidecar += SIDECAR_RATING.format(least=int(min_rating) if min_rating == int(min_rating) else min_rating)
    publish({f"{name}.yaml": sidecar, **files}, folder, force)
    return report


def _lines(table: Table, kept: NDArray[np.int64], columns: Sequence[str], rows: int = 200_000) -> Iterator[str]:
    """The atomic file, some rows at a time."""
    types = {"user_id": "token", "item_id": "token", "timestamp": "float", "rating": "float"}
    yield "\t".join(f"{column}:{types[column]}" for column in columns) + "\n"
    ids = {kind: np.array(table.ids[kind], dtype=object) for kind in ("user", "item")}
    for start in range(0, len(kept), rows):
        own = kept[start : start + rows]
        part = pd.DataFrame({f"{kind}_id": ids[kind][table.codes[kind][own]] for kind in ids})
        for name, numbers in (("timestamp", table.times), ("rating", table.ratings)):
            if numbers is not None:
                part[name] = _shortest(numbers[own])
        # No quoting: ids with a tab, a quotation mark or a line end have been refused.
        yield part.to_csv(sep="\t", index=False, header=False, quoting=csv.QUOTE_NONE, lineterminator="\n")


def _shortest(numbers: NDArray[np.float64]) -> NDArray[Any]:
    """Whole numbers as integers, which are written without a decimal point."""
    if np.isnan(numbers).any() or (np.abs(numbers) > 2**53).any() or (numbers != np.floor(numbers)).any():
        return numbers
    return numbers.astype(np.int64)
