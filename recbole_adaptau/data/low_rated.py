"""Pairs whose rating is too low for a positive: nothing is learned from them, but they count as seen."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd


@dataclass(frozen=True)
class LowRated:
    """Users and items by external ids, each pair once. Some of them may be unknown to a model.

    Attributes:
        user_ids, item_ids: Each id once.
        users, items: [R] the places of every pair's user and item in these.
    """

    user_ids: np.ndarray
    item_ids: np.ndarray
    users: np.ndarray
    items: np.ndarray

    @classmethod
    def of(cls, users: Any = (), items: Any = ()) -> "LowRated":
        """Of a sequence of users and one of items, as text."""
        own, user_ids = pd.factorize(np.asarray(users, dtype=object))
        theirs, item_ids = pd.factorize(np.asarray(items, dtype=object))
        pairs = np.unique(own.astype(np.int64) * max(len(item_ids), 1) + theirs)
        places = (part.astype(np.int32) for part in np.divmod(pairs, max(len(item_ids), 1)))
        return cls(user_ids.astype(str), item_ids.astype(str), *places)

    def __len__(self) -> int:
        return len(self.users)

    def joined(self, other: "LowRated") -> "LowRated":
        if not len(other):
            return self
        return LowRated.of(
            np.concatenate([self.user_ids[self.users], other.user_ids[other.users]]),
            np.concatenate([self.item_ids[self.items], other.item_ids[other.items]]),
        )

    def arrays(self) -> dict[str, np.ndarray]:
        """For a file, empty without a pair; `read` is the way back."""
        return {f"low_rated:{name}": value for name, value in vars(self).items()} if len(self) else {}

    @classmethod
    def read(cls, arrays: Mapping[str, np.ndarray]) -> "LowRated":
        names = ("user_ids", "item_ids", "users", "items")
        if "low_rated:users" not in arrays:
            return cls.of()
        return cls(*(arrays[f"low_rated:{name}"] for name in names))
