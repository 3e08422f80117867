"""Popularity and diversity metrics that run, and count real items only (issues 2131, 2191)."""

import copy
from typing import Any

import numpy as np
import torch
from recbole.evaluator import metrics
from recbole.evaluator.collector import Collector

PER_EVALUATION = ("rec.topk", "rec.meanrank", "rec.score", "rec.items", "data.label")


def restore_numpy_names() -> None:
    """np.float, which RecBole's metrics use and NumPy has dropped; RecBole puts it back, but only in a Config."""
    if "float" not in vars(np):
        np.float = np.float64  # type: ignore[attr-defined]


def collect_numbers_and_counters() -> None:
    """Let the collector hold what is not a tensor, and leave the padding id out of its counts.

    RecBole calls .cpu() on ints and Counters, so ItemCoverage, GiniIndex, AveragePopularity and
    TailPercentage crash; and id 0, which nobody can be recommended, counts as an item and as a user.
    """
    collect = Collector.data_collect

    def data_collect(self: Any, train_data: Any) -> None:
        collect(self, train_data)
        for key in ("data.num_items", "data.num_users"):
            if self.register.need(key):
                self.data_struct.set(key, self.data_struct.get(key) - 1)

    def get_data_struct(self: Any) -> Any:
        held = self.data_struct._data_dict
        for key, value in held.items():
            if isinstance(value, torch.Tensor):
                held[key] = value.cpu()
        returned = copy.deepcopy(self.data_struct)
        for key in PER_EVALUATION:
            held.pop(key, None)
        return returned

    Collector.data_collect = data_collect
    Collector.get_data_struct = get_data_struct


def look_up_popularity_at_once() -> None:
    """The same AveragePopularity and TailPercentage without a Python loop over users times items."""

    def get_pop(self: Any, item_matrix: np.ndarray, item_count: dict[int, int]) -> np.ndarray:
        counts = np.zeros(max([int(item_matrix.max(initial=0)), *map(int, item_count)]) + 1, item_matrix.dtype)
        counts[np.fromiter(item_count.keys(), dtype=np.int64)] = list(item_count.values())
        return counts[item_matrix]

    def get_tail(self: Any, item_matrix: np.ndarray, count_items: dict[int, int]) -> np.ndarray:
        if self.tail > 1:
            tail_items = [item for item, count in count_items.items() if count <= self.tail]
        else:
            rarest = sorted(count_items, key=lambda item: (count_items[item], item))
            tail_items = rarest[: max(int(len(rarest) * self.tail), 1)]
        return np.isin(item_matrix, tail_items).astype(item_matrix.dtype)

    metrics.AveragePopularity.get_pop = get_pop
    metrics.TailPercentage.get_tail = get_tail
