"""Loading data in a fraction of the time, with the same result."""

from typing import Any

import numpy as np
import pandas as pd
import torch


def read_csv(
    original: Any, path: Any, *, delimiter: str, engine: str, usecols: list[str], dtype: dict[str, Any], **options: Any
) -> pd.DataFrame:
    """Text as Python's own, which pandas 3 no longer reads `str` as; no value in a sequence is an empty sequence."""
    options["dtype"] = {column: object if kind is str else kind for column, kind in dtype.items()}
    table = _parse(original, path, delimiter, engine, usecols, options)
    sequences = [column for column in usecols if column.endswith("_seq")]
    return table.fillna(dict.fromkeys(sequences, ""))


def _parse(
    read: Any, path: Any, delimiter: str, engine: str, usecols: list[str], options: dict[str, Any]
) -> pd.DataFrame:
    """By pandas' C parser where it reads the same; RecBole asks for the Python one."""
    if len(delimiter) == 1:
        try:
            # Columns are chosen afterwards, because the C parser overlooks lines with too many fields when it is given
            # `usecols`.
            # Without index_col, a file whose lines all have a field too many has its columns shifted by one.
            table = read(path, delimiter=delimiter, engine="c", index_col=False, **options)
            return table[usecols]
        except pd.errors.ParserError:
            pass  # the Python parser says what it has always said
    return read(path, delimiter=delimiter, engine=engine, usecols=usecols, index_col=False, **options)


def set_user_property(original: Any, self: Any, uid: Any, used_item: set[int], positive_item: set[int]) -> None:
    if uid is None:
        return
    self.uid2positive_item[uid] = _tensor(positive_item)
    self.uid2items_num[uid] = len(positive_item)
    self.uid2history_item[uid] = _tensor(used_item - positive_item)


def _tensor(items: set[int]) -> torch.Tensor:
    return torch.from_numpy(np.fromiter(items, np.int64, len(items)))
