"""Training data that nothing can be learned from is refused."""

from types import SimpleNamespace

import numpy as np
import pytest

from recbole_adaptau.data.positives import training_positives
from recbole_adaptau.errors import DataError


def dataset(users, items, item_num):
    fields = {"u": np.array(users, np.int64), "i": np.array(items, np.int64)}
    return SimpleNamespace(
        inter_feat=fields, uid_field="u", iid_field="i", user_num=3, item_num=item_num, dataset_name="x"
    )


def test_one_row_and_two_items_are_enough():
    found = training_positives(dataset([2], [1], 3))
    assert (found.users.tolist(), found.items.tolist(), found.n_users, found.n_items) == ([2], [1], 3, 3)
    with pytest.raises(DataError, match="training part of dataset 'x' is empty: nothing to learn from"):
        training_positives(dataset([], [], 3))
    with pytest.raises(DataError, match="dataset 'x' has 1 item: a softmax over items needs at least two"):
        training_positives(dataset([2], [1], 2))
