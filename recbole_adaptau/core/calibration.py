"""The temperature at which positives that are not trained on are calibrated: pure functions, and the held-out pairs.

A held-out positive i of user u has the softmax NLL −log p(i | u), p(j | u) ∝ exp(s f(u, j) + added_j), over the whole
catalogue; s = 1 / tau. The NLL is a conditional logit, convex in s, so that a few Newton steps find its minimum.
"""

import math
from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from .interactions import Interactions

# With fewer positives the estimate is too inexact: the standard error of log tau is about 1.5 / sqrt(number).
LEAST_POSITIVES = 64
# Of positives whose scores of the catalogue are worked on at once; so many fit into a cache.
MOST_ROWS, MAX_SCORES = 64, 1 << 22
# Beyond a margin of sqrt(2) validation NDCG falls: training positives known by heart say nothing about noise.
MOST_OVERFITTING = 2.0


def spread_places(users: NDArray[np.int64], most: int, seed: int, kept: int = 1) -> NDArray[np.int64]:
    """Choose pairs at random: one of each of as many users as possible, then a second of each, and so on.

    So users count alike, as they do in the metrics. The same seed gives the same pairs.

    Args:
        users: [P] the users of all pairs.
        most: How many to choose at most.
        seed: Of the random order.
        kept: How many pairs of each user are not chosen, at least.

    Returns:
        [H] places in `users`, ascending; [0] if there were fewer than `LEAST_POSITIVES`.
    """
    order = np.random.default_rng(seed).permutation(len(users))
    by_user = order[np.argsort(users[order], kind="stable")]
    _, first, sizes = np.unique(users[by_user], return_index=True, return_counts=True)
    turn = np.arange(len(users)) - np.repeat(first, sizes)  # 0 for a user's first pair in the random order, and so on
    free = turn < np.repeat(sizes, sizes) - kept
    rank = np.empty(len(users), dtype=np.int64)
    rank[order] = np.arange(len(users))
    chosen = by_user[free][np.lexsort((rank[by_user[free]], turn[free]))][:most]
    return np.sort(chosen) if len(chosen) >= LEAST_POSITIVES else chosen[:0]


class HeldOut(nn.Module):
    """Pairs that are not trained on. Shape: users [H], items [H].

    The buffers are not persistent: they come from the data and the seed.

    Attributes:
        returned: Whether they are trained on by now, and no longer measure anything.
    """

    users: Tensor
    items: Tensor
    _keys: Tensor

    def __init__(self, users: Tensor, items: Tensor, n_items: int):
        super().__init__()
        self.n_items = n_items
        self.returned = False
        keys = (users * n_items + items).sort().values
        for name, value in {"users": users, "items": items, "_keys": keys}.items():
            self.register_buffer(name, value, persistent=False)

    @classmethod
    def split(cls, data: Interactions, share: float, most: int, seed: int) -> tuple[Interactions, "HeldOut | None"]:
        """Split training pairs into those to train on and those held out; None if there are too few of them.

        Every user keeps at least one pair to train on.
        """
        places = spread_places(data.users.numpy(), min(int(share * len(data)), most), seed)
        if not len(places):
            return data, None
        users, items = data.users.numpy(), data.items.numpy()
        rest = Interactions(np.delete(users, places), np.delete(items, places), data.n_users, data.n_items)
        return rest, cls(data.users[places], data.items[places], data.n_items)

    def __len__(self) -> int:
        return len(self.users)

    def joined(self, rest: Interactions) -> Interactions:
        """The rest of the pairs and these."""
        users, items = (
            np.concatenate([ids.cpu().numpy() for ids in pair])
            for pair in ((rest.users, self.users), (rest.items, self.items))
        )
        return Interactions(users, items, rest.n_users, rest.n_items)

    def parts(self) -> Iterator[tuple[Tensor, Tensor]]:
        """The pairs, so many at a time that their scores of the catalogue fit into a cache."""
        return zip(*(ids.split(rows_at_once(self.n_items)) for ids in (self.users, self.items)), strict=True)

    def contains(self, users: Tensor, items: Tensor) -> Tensor:
        """Shape: ids [B], [B] → [B] bool."""
        keys = users * self.n_items + items
        places = torch.searchsorted(self._keys, keys).clamp_max(len(self) - 1)
        return self._keys[places] == keys


def rows_at_once(n_items: int) -> int:
    """Positives whose scores of the catalogue are worked on at once."""
    return min(max(MAX_SCORES // n_items, 1), MOST_ROWS)


def nll_derivatives(scale: float, scores: Tensor, targets: Tensor, added: Tensor | None) -> Tensor:
    """First and second derivative in s of the summed NLL: Σ (E_p f − f_target) and Σ Var_p f.

    Shape: scores of the catalogue [B, m], columns of the positives [B], added logits [m] or [B, m] → [2], float64.
    """
    logits = scores * scale
    p = torch.softmax(logits if added is None else logits.add_(added), dim=1)
    weighted = p.mul_(scores)
    mean = weighted.sum(1)
    variance = weighted.mul_(scores).sum(1) - mean * mean
    target = scores.gather(1, targets.unsqueeze(1)).squeeze(1)
    return torch.stack([mean - target, variance]).sum(1, dtype=torch.float64).cpu()


def newton_step(scale: float, derivatives: Tensor) -> float:
    """The next s, at most a factor of 2 away."""
    gradient, curvature = derivatives.tolist()
    return min(max(scale - gradient / max(curvature, 1e-12), scale / 2), scale * 2)


class Calibration(NamedTuple):
    """What positives that are not trained on say about the temperature.

    Attributes:
        new: The temperature that calibrates them.
        overfitting: The median score of training positives of the same users as a multiple of theirs, within 1 and
            `MOST_OVERFITTING`.
    """

    new: float
    overfitting: float

    @property
    def margin(self) -> float:
        """How far above `new` to train.

        Two demands differ where a model overfits: new positives calibrated (tau = new), and training positives with no
        larger logits than new ones deserve (tau = overfitting · new). This is their geometric mean.
        """
        return math.sqrt(self.overfitting)

    @property
    def advised(self) -> float:
        """The temperature to train at."""
        return self.margin * self.new


@torch.no_grad()
def calibration(
    embeddings: tuple[Tensor, Tensor],
    positives: tuple[Tensor, Tensor],
    trained: Tensor,
    added: Tensor | None,
    start: float,
    steps: int,
) -> Calibration:
    """Calibrate new positives by Newton's method in 1 / tau, and compare their scores with training positives'.

    The softmax is the one that is trained on, in expectation: over the whole catalogue, the user's training positives
    included. Memory does not grow with the number of positives.

    Args:
        embeddings: (users [n_users, d], items [n_items, d]) as they are scored in training.
        positives: (users [H], items [H]) of the new positives.
        trained: [H] the mean score of those users' training positives.
        added: [n_items] what is added to an item's logits, if anything.
        start: The temperature to start from; the last epoch's is near.
        steps: Newton steps.
    """
    users, items = embeddings
    parts = list(zip(*(ids.split(rows_at_once(len(items))) for ids in positives), strict=True))
    added = None if added is None else added[1:]
    scale = 1 / start
    for _ in range(steps):
        derivatives = torch.zeros(2, dtype=torch.float64)
        for who, what in parts:
            scores = users[who] @ items[1:].T
            derivatives += nll_derivatives(scale, scores, what - 1, added)
        scale = newton_step(scale, derivatives)
    new = torch.cat([(users[who] * items[what]).sum(1) for who, what in parts])
    # Medians: false positives, known by heart or held out, are far from them.
    return Calibration(1 / scale, overfitting(trained.median().item(), new.median().item()))


def overfitting(trained: float, new: float) -> float:
    """trained / new, within 1 and `MOST_OVERFITTING`; an untrained model's scores may be negative."""
    if trained <= new:
        return 1.0
    return min(trained / new, MOST_OVERFITTING) if new > 0 else MOST_OVERFITTING


def transfer_slope(trained: Tensor, new: Tensor) -> float:
    """What of the differences between users' training losses their held-out losses confirm: a slope within [0, 1].

    Shape: trained [H], new [H], of the same users.
    """
    centred = trained - trained.mean()
    variance = (centred * centred).sum().item()
    return min(max((centred * new).sum().item() / variance, 0.0), 1.0) if variance > 0 else 0.0
