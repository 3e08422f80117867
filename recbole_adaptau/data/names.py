"""What the items are called, from a dataset's .item file."""

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from ..errors import DataError, did_you_mean


def item_names(dataset: Any, field: str | None = None) -> np.ndarray | None:
    """Each item's name by internal id, "" where there is none; None if the data has no names.

    They are read from DATASET.item, which training need not load; where it is gone, they are those that a run has kept.

    Args:
        dataset: A RecBole dataset.
        field: The column with the names; by default the first that is called title or name, as movie_title.

    Shape: [n_items].
    """
    path = Path(dataset.dataset_path) / f"{dataset.dataset_name}.item"
    if not path.is_file():
        if field is None:
            kept = getattr(dataset, "stored", None)
            return None if kept is None or kept.names is None else np.asarray(kept.names, dtype=object)
        raise DataError(f"the names of the items are read from {path}, which is not there.")
    options = {"sep": dataset.config["field_separator"], "encoding": dataset.config["encoding"] or "utf-8"}
    columns = {column.split(":")[0]: column for column in pd.read_csv(path, nrows=0, **options).columns}
    if field is None:
        field = next((name for name in columns if name.lower().endswith(("title", "name"))), None)
        if field is None:
            return None
    for needed in (dataset.iid_field, field):
        if needed not in columns:
            known = ", ".join(columns)
            raise DataError(f"{path} has no column {needed}; it has {known}.{did_you_mean(needed, columns)}")
    wanted = [columns[dataset.iid_field], columns[field]]
    table = pd.read_csv(path, usecols=wanted, dtype=str, keep_default_na=False, quoting=3, **options)
    by_item = dict(zip(table[wanted[0]], table[wanted[1]], strict=True))
    return np.array([by_item.get(item, "") for item in dataset.field2id_token[dataset.iid_field]], dtype=object)
