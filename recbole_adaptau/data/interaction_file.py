"""Interactions of a file as arrays: ids as codes, times as seconds, ratings as numbers; every fault with its line."""

from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from ..errors import DataError, OptionError
from .columns import USUAL, Columns, find_columns
from .readers import Reader
from .text import RESERVED_TOKENS, unreadable

# What is read as a missing id, as in atomic files.
MISSING = RESERVED_TOKENS - {"[PAD]"} | {""}


@dataclass
class Table:
    """Interactions as codes, and the ids that the codes are places of.

    Attributes:
        columns: The file's column for each of user, item, time and rating, as far as it has them.
        ids: The ids, of users and of items.
        codes: [N] of users and of items.
        times, ratings: [N] or None; a missing rating is NaN.
        rows: How many rows were read.
        no_id: How many of them have no user or no item and are left out, and where the first is.
    """

    columns: dict[str, str]
    ids: dict[str, list[str]] = field(default_factory=lambda: {"user": [], "item": []})
    codes: dict[str, NDArray[np.int32]] = field(default_factory=dict)
    times: NDArray[np.float64] | None = None
    ratings: NDArray[np.float64] | None = None
    rows: int = 0
    no_id: int = 0
    first_without_id: str = ""


def read_interactions(reader: Reader, named: Columns, min_rating: float | None = None, strict: bool = False) -> Table:
    """Read a file's interactions, row by row as they stand; see `import_file` for the arguments."""
    given = {kind: getattr(named, kind) for kind in USUAL}
    table = Table(find_columns(reader, given))
    if min_rating is not None and "rating" not in table.columns:
        raise OptionError(
            f"--min-rating {min_rating:g}: {reader.path} has no column that is called rating or the like; name it: "
            "--rating COLUMN."
        )
    codes: dict[str, dict[str, int]] = {"user": {}, "item": {}}
    parts: dict[str, list[NDArray[Any]]] = {kind: [] for kind in table.columns}
    as_dates: bool | None = None
    for part in reader.parts(list(table.columns.values())):
        table.rows += len(part)
        found: dict[str, NDArray[Any]] = {
            kind: _codes(part[table.columns[kind]], codes[kind], reader, kind) for kind in codes
        }
        keep = (found["user"] >= 0) & (found["item"] >= 0)
        if not keep.all():
            _note_missing(table, reader, part.index[~keep], found["user"][~keep], strict)
        if "rating" in table.columns:
            found["rating"] = _numbers(part[table.columns["rating"]], reader, "rating", keep)
        if "time" in table.columns:
            values = part[table.columns["time"]]
            if as_dates is None and keep.any():
                as_dates = _are_dates(values[keep])
            found["time"] = _times(values, reader, keep, bool(as_dates))
        for kind, values in found.items():
            parts[kind].append(values[keep])
    if not table.rows:
        raise DataError(f"{reader.path}: no interactions below the header.")
    joined = {kind: np.concatenate(arrays) for kind, arrays in parts.items()}
    if not len(joined["user"]) or (min_rating is not None and not (joined["rating"] >= min_rating).any()):
        rated = "" if min_rating is None else f", and a rating of at least {min_rating:g}"
        raise DataError(f"{reader.path}: none of its {table.rows:,} rows have a user and an item{rated}.")
    table.codes = {kind: joined[kind] for kind in codes}
    table.ids = {kind: list(known) for kind, known in codes.items()}
    table.times, table.ratings = joined.get("time"), joined.get("rating")
    return table


def first_of_pairs(table: Table, min_rating: float | None = None) -> NDArray[np.int64]:
    """The rows that are the first, or the earliest, of their user and item, in the order of the file.

    Rows with at least the lowest rating go before others of the same user and item.
    """
    pairs = table.codes["user"].astype(np.int64) * len(table.ids["item"]) + table.codes["item"]
    order = np.arange(len(pairs)) if table.times is None else np.argsort(table.times, kind="stable")
    if min_rating is not None and table.ratings is not None:
        order = order[np.argsort(~(table.ratings[order] >= min_rating), kind="stable")]
    return np.sort(order[np.unique(pairs[order], return_index=True)[1]])


def _codes(values: pd.Series, known: dict[str, int], reader: Reader, kind: str) -> NDArray[np.int32]:
    """A place in `known` for each id, which grows; −1 where there is none."""
    codes, found = pd.factorize(values)
    places = np.empty(len(found) + 1, dtype=np.int32)
    places[-1] = -1  # factorize's code of a missing value
    for place, value in enumerate(found):
        text = id_text(value)
        if text in MISSING:
            places[place] = -1
            continue
        if text not in known:
            if not text.isprintable() or unreadable(text):
                row = int(values.index[np.flatnonzero(codes == place)[0]])
                raise DataError(
                    f"{reader.path}, {reader.place(row)}, column {values.name}: RecBole cannot read the id {text!a} "
                    "back; rename it."
                )
            known[text] = len(known)
        places[place] = known[text]
    return places[codes]


def id_text(value: object) -> str:
    """An id as text: without white space around it, whole numbers without a decimal point."""
    if isinstance(value, str):
        return value.strip()
    if isinstance(value, float) and value.is_integer():
        return str(int(value))
    return str(value)


def _note_missing(table: Table, reader: Reader, rows: pd.Index, users: NDArray[np.int32], strict: bool) -> None:
    if not table.no_id or strict:
        table.first_without_id = reader.place(int(rows[0]))
    if strict:
        column = table.columns["user" if users[0] < 0 else "item"]
        raise DataError(
            f"{reader.path}, {table.first_without_id}, column {column}: the id is missing; without --strict such rows "
            "are left out and counted."
        )
    table.no_id += len(rows)


def _numbers(values: pd.Series, reader: Reader, kind: str, keep: NDArray[np.bool_]) -> NDArray[np.float64]:
    """Numbers, NaN where there is none; refuses what is no number in a row that is kept."""
    numbers = pd.to_numeric(values, errors="coerce").to_numpy(dtype=np.float64)
    wrong = keep & ~np.isfinite(numbers) & ~_blank(values)
    if wrong.any():
        place = int(np.flatnonzero(wrong)[0])
        raise DataError(
            f"{reader.path}, {reader.place(int(values.index[place]))}, column {values.name}: {values.iloc[place]!r} is "
            f"not a number; correct it, or leave the column out: --{kind} none."
        )
    return numbers


def _blank(values: pd.Series) -> NDArray[np.bool_]:
    missing = values.isna()
    if not pd.api.types.is_numeric_dtype(values):
        missing |= values.astype(str).str.strip().isin(MISSING)
    return missing.to_numpy()


def _are_dates(values: pd.Series) -> bool:
    """Whether times are dates: whether fewer than half of them are numbers."""
    if pd.api.types.is_datetime64_any_dtype(values):
        return True
    return bool(pd.to_numeric(values, errors="coerce").notna().mean() < 0.5)


def _times(values: pd.Series, reader: Reader, keep: NDArray[np.bool_], as_dates: bool) -> NDArray[np.float64]:
    """Seconds: numbers as they are, dates since 1970."""
    if as_dates:
        text = values if pd.api.types.is_datetime64_any_dtype(values) else values.astype(str).str.strip()
        dates = pd.to_datetime(text, errors="coerce", utc=True, format="ISO8601")
        times = (dates - pd.Timestamp(0, tz="UTC")).dt.total_seconds().to_numpy()
    else:
        times = pd.to_numeric(values, errors="coerce").to_numpy(dtype=np.float64)
    wrong = keep & ~np.isfinite(times)
    if wrong.any():
        place = int(np.flatnonzero(wrong)[0])
        wanted = "a date such as 2024-05-31 or 2024-05-31T12:00:00" if as_dates else "a number"
        raise DataError(
            f"{reader.path}, {reader.place(int(values.index[place]))}, column {values.name}: {values.iloc[place]!r} is "
            f"not {wanted}, as most times of the file are; correct it, or leave the column out: --time none."
        )
    return times
