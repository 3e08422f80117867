"""Interactions from tables in memory: pandas, Polars, Arrow, and SciPy's sparse matrices."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import scipy.sparse as sp

from ..errors import DataError, did_you_mean
from .columns import NONE, Columns
from .interaction_file import read_interactions
from .readers import open_table
from .text import unreadable

UNFIT = (bool, bytes, list, tuple, dict, set, np.ndarray)  # as ids


def interactions_table(
    data: Any,
    user: str = "user",
    item: str = "item",
    time: str | None = None,
    rating: str | None = None,
    user_ids: Sequence[Any] | None = None,
    item_ids: Sequence[Any] | None = None,
) -> pd.DataFrame:
    """The interactions of a table: user, item and, if asked for, time and rating, as numbers.

    Ids keep their type, text or whole numbers; rows without an id are left out. Nothing else is dropped.

    Args:
        data: A pandas or Polars DataFrame, an Arrow table, or a SciPy matrix: a row for each user, a column for each
            item, and the stored values as ratings.
        user, item, time, rating: The columns of a table.
        user_ids, item_ids: The ids of a matrix's rows and columns.
    """
    if sp.issparse(data):
        return _of_matrix(data, user_ids, item_ids)
    wanted = {"user": user, "item": item, "time": time, "rating": rating}
    table = _pandas(data, {kind: name for kind, name in wanted.items() if name is not None})
    table = table[~(_missing(table["user"]) | _missing(table["item"]))].reset_index(drop=True)
    if table.empty:
        raise DataError("the table has no interactions.")
    for kind in ("user", "item"):
        table[kind] = _ids(table[kind], wanted[kind] or kind)
    if "time" in table:
        table["time"] = _seconds(table["time"], str(time))
    if "rating" in table:
        table["rating"] = _numbers(table["rating"], str(rating))
    return table


def read_pairs(
    path: Path,
    user: str | None = None,
    item: str | None = None,
    time: str | None = None,
    rating: str | None = NONE,
) -> pd.DataFrame:
    """The interactions of a file that `data import` reads: user, item and, where there are such columns, time, rating.

    Args:
        path: The file; delimited text has a header line.
        user, item, time, rating: The columns, where they do not have a usual name; "none" for one not to be used.
    """
    table = read_interactions(open_table(path), Columns(user, item, time, rating))
    columns: dict[str, Any] = {
        kind: np.array(table.ids[kind], dtype=object)[table.codes[kind]] for kind in ("user", "item")
    }
    if table.times is not None:
        columns["time"] = table.times
    if table.ratings is not None:
        columns["rating"] = table.ratings
    return pd.DataFrame(columns)


def are_numbers(ids: pd.Series) -> bool:
    return bool(pd.api.types.is_integer_dtype(ids))


def _pandas(data: Any, wanted: dict[str, str]) -> pd.DataFrame:
    """The wanted columns as a new pandas table, by kind."""
    if isinstance(data, pd.DataFrame):
        names, column = list(data.columns), lambda name: data[name].array
    elif hasattr(data, "column_names") and hasattr(data, "schema"):  # Arrow
        names, column = list(data.column_names), lambda name: data[name].to_pandas().array
    elif hasattr(data, "columns") and hasattr(data, "get_column"):  # Polars, which needs Arrow for `to_pandas`
        names, column = list(data.columns), lambda name: data[name].to_numpy()
    else:
        raise TypeError(
            f"interactions: give a pandas or Polars DataFrame, an Arrow table or a SciPy matrix, not a "
            f"{type(data).__name__}."
        )
    for name in wanted.values():
        if name not in names:
            known = ", ".join(map(str, names))
            raise DataError(f"the table has no column '{name}'; it has: {known}.{did_you_mean(name, map(str, names))}")
        if names.count(name) > 1:
            raise DataError(f"two columns of the table are called '{name}'; rename one.")
    if len(set(wanted.values())) < len(wanted):
        raise DataError(f"user, item, time and rating must be different columns, not {wanted}.")
    return pd.DataFrame({kind: column(name) for kind, name in wanted.items()})


def _of_matrix(data: Any, user_ids: Sequence[Any] | None, item_ids: Sequence[Any] | None) -> pd.DataFrame:
    matrix = sp.csr_array(data)
    matrix.eliminate_zeros()
    matrix = matrix.tocoo()
    if user_ids is None or item_ids is None:
        raise DataError("a matrix has no ids: give those of its rows as user_ids and of its columns as item_ids.")
    ids = []
    for name, given, size in zip(("user_ids", "item_ids"), (user_ids, item_ids), matrix.shape, strict=True):
        own = pd.Series(list(given))
        if len(own) != size:
            raise DataError(f"{name}: {len(own)} ids, but the matrix has {size} {name.partition('_')[0]}s.")
        if own.duplicated().any():
            raise DataError(f"{name}: {_shown(own[own.duplicated()].iloc[0])} is given twice.")
        ids.append(_ids(own, name))
    if not np.isfinite(matrix.data.astype(float)).all():
        raise DataError("the matrix has values that are not numbers (NaN or infinity).")
    if not matrix.nnz:
        raise DataError("the matrix has no interactions.")
    users, items = (
        own.iloc[places].reset_index(drop=True) for own, places in zip(ids, (matrix.row, matrix.col), strict=True)
    )
    return pd.DataFrame({"user": users, "item": items, "rating": matrix.data.astype(float)})


def _missing(ids: pd.Series) -> pd.Series:
    """Where there is no id: nothing, or text without a character."""
    if ids.dtype != object and not pd.api.types.is_string_dtype(ids):
        return ids.isna()
    return ids.isna() | (ids.astype(str).str.strip() == "")


def _ids(values: pd.Series, column: str) -> pd.Series:
    """Whole numbers as int64, all else as text that RecBole can read back."""
    if isinstance(values.dtype, pd.CategoricalDtype):
        values = values.astype(values.cat.categories.dtype)
    if pd.api.types.is_integer_dtype(values):
        return values.astype(np.int64)
    if pd.api.types.is_float_dtype(values):
        if not (values == np.floor(values)).all():
            raise DataError(f"column {column}: ids are text or whole numbers, not {values[values % 1 != 0].iloc[0]}.")
        if (values.abs() >= 2**53).any():
            raise DataError(
                f"column {column}: floats of this size have lost digits; give ids as whole numbers or text."
            )
        return values.astype(np.int64)
    if pd.api.types.is_bool_dtype(values) or pd.api.types.is_datetime64_any_dtype(values):
        raise DataError(f"column {column}: ids are text or whole numbers, not {values.dtype}.")
    if len(others := values[values.map(lambda value: isinstance(value, UNFIT))]):
        raise DataError(f"column {column}: ids are text or whole numbers, not {_shown(others.iloc[0])}.")
    text = values.map(lambda value: value if isinstance(value, str) else str(value)).str.strip()
    for value in text.unique():
        if not value.isprintable() or unreadable(value):
            row = int(np.flatnonzero(text == value)[0])
            raise DataError(f"column {column}, row {row}: RecBole cannot read the id {value!a} back; rename it.")
    return text


def _seconds(values: pd.Series, column: str) -> pd.Series:
    """Numbers as they are, dates as seconds since 1970."""
    is_date = pd.api.types.is_datetime64_any_dtype(values)
    if is_date or pd.to_numeric(values, errors="coerce").isna().any():
        try:
            dates = pd.to_datetime(values, utc=True, format=None if is_date else "ISO8601")
        except (ValueError, TypeError) as error:
            told = str(error).partition("\n")[0]
            raise DataError(f"column {column}: neither numbers nor dates ({told}).") from error
        values = (dates - pd.Timestamp(0, tz="UTC")).dt.total_seconds()
    return _numbers(values, column)


def _numbers(values: pd.Series, column: str) -> pd.Series:
    numbers = pd.to_numeric(values, errors="coerce").astype(float)
    if not np.isfinite(numbers).all():
        row = int(np.flatnonzero(~np.isfinite(numbers))[0])
        raise DataError(f"column {column}, row {row}: {_shown(values.iloc[row])} is not a number.")
    return numbers


def _shown(value: Any) -> str:
    """As typed in Python; NumPy 2 would add the name of its type."""
    return repr(value.item() if isinstance(value, np.generic) else value)
