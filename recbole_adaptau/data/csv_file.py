"""From a CSV file of interactions (user, item, perhaps a time) to RecBole's atomic files."""

import csv
import io
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd

from ..errors import DataError, did_you_mean
from .convert import check_folder, check_name, printable_name, publish
from .text import counts, read_text, unreadable

# What a column may be called, in any case, to be found without being named.
USUAL = {
    "user": ("user_id", "user", "userid", "uid"),
    "item": ("item_id", "item", "itemid", "iid"),
    "time": ("timestamp", "time", "datetime", "date"),
}
SIDECAR = """\
# Converted from {source}: {report.users:,} users, {report.items:,} items, {report.interactions:,} interactions.
load_col: {{inter: [{columns}]}}
"""


@dataclass(frozen=True)
class CsvReport:
    """What was written and what was cleaned away."""

    folder: Path
    columns: dict[str, str]
    users: int
    items: int
    interactions: int
    duplicates_dropped: int

    def __str__(self) -> str:
        times = f"with times, column {self.columns['time']}" if "time" in self.columns else "without times"
        rows = [
            ("users", self.users, f"column {self.columns['user']}"),
            ("items", self.items, f"column {self.columns['item']}"),
            ("interactions", self.interactions, times),
            ("duplicates dropped", self.duplicates_dropped, "further rows of the same user and item"),
        ]
        return counts(self.folder, rows)


def convert_csv(
    source: Path,
    name: str,
    output: Path = Path("dataset"),
    user: str | None = None,
    item: str | None = None,
    time: str | None = None,
    force: bool = False,
) -> CsvReport:
    """Write `output/name/` from a CSV file with a header line.

    Comma, semicolon or tab may separate the columns; further columns are passed over. Ids are taken as text, as they
    stand. Of a pair that occurs more than once the first is kept, the earliest where there are times. RecBole splits
    the data when it loads it (eval_args).

    Args:
        source: The file.
        name: Name of the dataset, later given as `--dataset=name`.
        output: Folder of all datasets, RecBole's `data_path`.
        user, item, time: The columns, where they do not have a usual name; times are numbers or dates.
        force: Replace our files if `output/name` exists.

    Raises:
        DataError: The file or an option cannot be used; the message says where and what to do.
    """
    source, folder = Path(source), Path(output) / name
    check_name(name)
    check_folder(folder, force)
    table = _read(source)
    columns = _columns(source, list(table.columns), {"user": user, "item": item, "time": time})
    data = pd.DataFrame({"user_id": table[columns["user"]], "item_id": table[columns["item"]]})
    for kind in ("user", "item"):
        _check_ids(source, columns[kind], data[f"{kind}_id"])
    if "time" in columns:
        data["timestamp"] = _times(source, columns["time"], table[columns["time"]])
        data = data.sort_values("timestamp", kind="stable")
    kept = data.drop_duplicates(["user_id", "item_id"]).sort_index()
    report = CsvReport(
        folder=folder,
        columns=columns,
        users=kept["user_id"].nunique(),
        items=kept["item_id"].nunique(),
        interactions=len(kept),
        duplicates_dropped=len(data) - len(kept),
    )
    types = {"user_id": "token", "item_id": "token", "timestamp": "float"}
    header = "\t".join(f"{column}:{types[column]}" for column in kept)
    # No quoting: ids with a tab, a quotation mark or a line end have been refused.
    text = kept.to_csv(sep="\t", index=False, header=False, quoting=csv.QUOTE_NONE, lineterminator="\n")
    sidecar = SIDECAR.format(source=repr(printable_name(source)), report=report, columns=", ".join(kept.columns))
    publish({f"{name}.yaml": sidecar, f"{name}.inter": f"{header}\n{text}"}, folder, force)
    return report


def _read(source: Path) -> pd.DataFrame:
    if not source.is_file():
        siblings = [path.name for path in source.parent.iterdir()] if source.parent.is_dir() else []
        raise DataError(f"there is no file '{source}'.{did_you_mean(source.name, siblings)}")
    text = read_text(source)
    header = text.partition("\n")[0]
    separator = max(",;\t", key=header.count)
    try:
        table = pd.read_csv(io.StringIO(text), sep=separator, dtype=str, keep_default_na=False, skipinitialspace=True)
    except (pd.errors.ParserError, pd.errors.EmptyDataError) as error:
        raise DataError(f"{source}: not a table with a header line ({str(error).strip()}).") from error
    if not len(table):
        raise DataError(f"{source}: no interactions below the header line.")
    # Rows longer than the header make pandas take the first columns for an index.
    if not isinstance(table.index, pd.RangeIndex):
        raise DataError(f"{source}: the rows have more columns than the header line.")
    table = table.rename(columns=str.strip)
    if not table.columns.is_unique:
        twice = table.columns[table.columns.duplicated()][0]
        raise DataError(f"{source}: two columns of the header line are called '{twice}'; rename one.")
    return table


def _columns(source: Path, found: list[str], given: dict[str, str | None]) -> dict[str, str]:
    """Which column is which; the time may be missing."""
    by_lower = {column.lower(): column for column in reversed(found)}
    columns: dict[str, str] = {}
    for kind, named in given.items():
        if named is not None and named not in found:
            raise DataError(
                f"{source} has no column '{named}'; it has: {', '.join(found)}.{did_you_mean(named, found)}"
            )
        usual = (by_lower[name] for name in USUAL[kind] if name in by_lower)
        column = named if named is not None else next(usual, None)
        if column is not None:
            columns[kind] = column
        elif kind != "time":
            raise DataError(
                f"{source} has no column that is called {' or '.join(USUAL[kind])}; it has: {', '.join(found)}. "
                f"Name the one with the {kind}s: --{kind} COLUMN."
            )
    if len(set(columns.values())) < len(columns):
        raise DataError(f"{source}: user, item and time must be different columns, not {columns}.")
    return columns


def _check_ids(source: Path, column: str, ids: pd.Series) -> None:
    for value in ids.unique():
        if not value or not value.isprintable() or unreadable(value):
            # The header is line 1.
            line = int(np.flatnonzero(ids == value)[0]) + 2
            what = f"RecBole cannot read the id {value!a} back; rename it" if value else "the id is empty"
            raise DataError(f"{source}, line {line}, column {column}: {what}.")


def _times(source: Path, column: str, values: pd.Series) -> pd.Series:
    """Seconds: numbers as they are, dates since 1970."""
    times = pd.to_numeric(values, errors="coerce")
    if times.isna().any():
        dates = pd.to_datetime(values, errors="coerce", utc=True, format="ISO8601")
        times = (dates - pd.Timestamp(0, tz="UTC")).dt.total_seconds()
    if not np.isfinite(times).all():
        place = int(np.flatnonzero(~np.isfinite(times))[0])
        raise DataError(
            f"{source}, line {place + 2}, column {column}: {values.iloc[place]!r} is neither a number nor a date such "
            "as 2024-05-31 or 2024-05-31T12:00:00."
        )
    return times
