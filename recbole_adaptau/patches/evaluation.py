"""Metrics that run and count real items only, from all processes' users; top lists for any user."""

import copy
from typing import Any

import numpy as np
import torch

from ..distributed import ranks
from ..errors import AdapTauError

_PER_EVALUATION = ("rec.topk", "rec.meanrank", "rec.score", "rec.items", "data.label")


def data_collect(original: Any, self: Any, train_data: Any) -> None:
    original(self, train_data)
    for key in ("data.num_items", "data.num_users"):
        if self.register.need(key):
            self.data_struct.set(key, self.data_struct.get(key) - 1)


def get_data_struct(original: Any, self: Any) -> Any:
    held = self.data_struct._data_dict
    for key, value in held.items():
        if isinstance(value, torch.Tensor):
            held[key] = value.cpu()
    returned = copy.deepcopy(self.data_struct)
    for key in _PER_EVALUATION:
        if held.pop(key, None) is not None and not self.config["single_spec"]:
            returned.set(key, torch.cat(ranks.gathered(returned.get(key), self.device)))
    return returned


def get_pop(original: Any, self: Any, item_matrix: np.ndarray, item_count: dict[int, int]) -> np.ndarray:
    counts = np.zeros(max([int(item_matrix.max(initial=0)), *map(int, item_count)]) + 1, item_matrix.dtype)
    counts[np.fromiter(item_count.keys(), dtype=np.int64)] = list(item_count.values())
    return counts[item_matrix]


def get_tail(original: Any, self: Any, item_matrix: np.ndarray, count_items: dict[int, int]) -> np.ndarray:
    if self.tail > 1:
        tail_items = [item for item, count in count_items.items() if count <= self.tail]
    else:
        rarest = sorted(count_items, key=lambda item: (count_items[item], item))
        tail_items = rarest[: max(int(len(rarest) * self.tail), 1)]
    return np.isin(item_matrix, tail_items).astype(item_matrix.dtype)


def full_sort_scores(
    original: Any, uid_series: Any, model: Any, test_data: Any, device: torch.device | None = None
) -> torch.Tensor:
    """A user without test rows has as history all that the loader's sampler has them down for."""
    users = _checked_users(uid_series, test_data.dataset.user_num)
    if test_data.is_sequential:
        rows = test_data.dataset.inter_feat[test_data.dataset.uid_field].numpy()
        absent = np.setdiff1d(users, rows)
        if absent.size:
            raise AdapTauError(
                f"user id {absent[0]} has no row in this part of the data, and a sequential model has no "
                "other sequence to score it by."
            )
    else:
        histories = test_data.uid2history_item
        for user in users:
            if histories[user] is None:
                histories[user] = torch.tensor(sorted(test_data._sampler.used_ids[user]), dtype=torch.int64)
    scores: torch.Tensor = original(users, model, test_data, device)
    return scores


def _checked_users(uid_series: Any, user_num: int) -> np.ndarray:
    users = np.atleast_1d(np.asarray(uid_series))
    if users.dtype.kind not in "iu":
        raise AdapTauError(
            f"users are given by their internal ids, not as {users.dtype}: {users[:3].tolist()}. "
            "dataset.token2id(dataset.uid_field, name) turns a user's name into the id."
        )
    wrong = users[(users < 1) | (users >= user_num)]
    if wrong.size:
        raise AdapTauError(
            f"user id {wrong[0]} is out of range: ids go from 1 to {user_num - 1} (0 is padding). "
            "dataset.token2id(dataset.uid_field, name) turns a user's name into the id."
        )
    return users
