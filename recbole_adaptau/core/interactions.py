"""The training positives, once, in the layouts the losses and the temperatures need."""

import numpy as np
import scipy.sparse as sp
import torch
from torch import Tensor, nn


class Interactions(nn.Module):
    """User-item pairs of the training part, without duplicates, grouped by user (CSR).

    The ids are RecBole's: 0 is padding in both, so `n_users` and `n_items` are one more than there are.
    The buffers are not persistent: they come from the data, not from training.

    Attributes:
        indptr: [n_users + 1]; user u's items are `items[indptr[u]:indptr[u + 1]]`, ascending.
        users: [|D|], items: [|D|]: the pairs.
        user_counts: [n_users], item_counts: [n_items].
        active_users: the ids of users with at least one training positive.
    """

    indptr: Tensor
    users: Tensor
    items: Tensor
    user_counts: Tensor
    item_counts: Tensor
    active_users: Tensor

    def __init__(self, users: np.ndarray, items: np.ndarray, n_users: int, n_items: int):
        super().__init__()
        self.n_users, self.n_items = n_users, n_items
        pairs = np.unique(users.astype(np.int64) * n_items + items.astype(np.int64))
        users, items = pairs // n_items, pairs % n_items
        user_counts = np.bincount(users, minlength=n_users)
        for name, value in {
            "indptr": np.concatenate([[0], np.cumsum(user_counts)]),
            "users": users,
            "items": items,
            "user_counts": user_counts,
            "item_counts": np.bincount(items, minlength=n_items),
            "active_users": np.flatnonzero(user_counts),
        }.items():
            self.register_buffer(name, torch.from_numpy(value), persistent=False)

    @property
    def n_active_users(self) -> int:
        return len(self.active_users)

    @property
    def n_real_items(self) -> int:
        """Every item but the padding, also those without a training positive: they stand in the softmax."""
        return self.n_items - 1

    def __len__(self) -> int:
        return len(self.users)

    def user_weights(self, balance: float) -> Tensor:
        """[n_users] each user's count ** -balance, scaled so that the mean over all positives is 1; 0 without any."""
        counts = self.user_counts.double()
        weights = torch.where(counts > 0, counts**-balance, 0.0)
        return (weights * counts.sum() / (weights * counts).sum()).float()

    def matrix(self) -> sp.csr_array:
        """1 for each pair, 0 elsewhere. Shape: [n_users, n_items], float32."""
        pairs = tuple(ids.cpu().numpy().astype(np.int32) for ids in (self.users, self.items))
        return sp.csr_array((np.ones(len(self), np.float32), pairs), (self.n_users, self.n_items))

    def positives_of(self, users: Tensor) -> tuple[Tensor, Tensor]:
        """All training items of each given user.

        Shape: users [B] → rows [P], items [P]; row r of the batch has the items with rows == r.
        """
        counts = self.user_counts[users]
        rows = torch.repeat_interleave(torch.arange(len(users), device=users.device), counts)
        first = torch.cumsum(counts, 0) - counts
        position = torch.arange(len(rows), device=users.device) - first[rows] + self.indptr[users][rows]
        return rows, self.items[position]


def diagonal(values: np.ndarray) -> sp.dia_array:
    """A square matrix of zeros but for these values; SciPy 1.11 has no `diags_array`."""
    return sp.dia_array((values[None], [0]), shape=(len(values), len(values)))
