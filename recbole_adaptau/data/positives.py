"""The training positives of a RecBole dataset."""

import numpy as np
from recbole.data.dataset import Dataset

from ..core.interactions import Interactions
from ..errors import DataError


def training_positives(dataset: Dataset) -> Interactions:
    """Read a RecBole training dataset, refusing what cannot be learned from."""
    users = np.asarray(dataset.inter_feat[dataset.uid_field])
    items = np.asarray(dataset.inter_feat[dataset.iid_field])
    name = f"dataset '{dataset.dataset_name}'"
    if len(users) == 0:
        raise DataError(
            f"The training part of {name} is empty: nothing to learn from. "
            "Check eval_args (or benchmark_filename) and the filters user_inter_num_interval, val_interval."
        )
    if dataset.item_num < 3:
        raise DataError(
            f"{name} has {dataset.item_num - 1} item: a softmax over items needs at least two. "
            "Check ITEM_ID_FIELD and the filters item_inter_num_interval, val_interval."
        )
    return Interactions(users, items, dataset.user_num, dataset.item_num)
