"""Item-item ridge regression over each item's nearest items, in closed form, added to the ranking score."""

import sys
from collections.abc import Callable, Iterable, Iterator
from functools import cached_property
from itertools import pairwise
from typing import Any, TypeVar

import numpy as np
import scipy.sparse as sp
import torch
from numpy.typing import NDArray
from torch import Tensor
from tqdm import tqdm

from ..core.epoch_view import EpochView
from ..core.interactions import Interactions, diagonal
from ..core.settings import SettingsModel, setting
from .base import PairScores, RecipePart, register_part

T = TypeVar("T")
# Up to so many items all their products stand in one table, of half a GB at most; of more, each is made when needed.
TABLE_ITEMS = 11_500
# Up to so many users times items h stands in a table, too, of 134 MB at most: every validation asks for all of it.
TABLE_PAIRS = 1 << 25
ITEMS_AT_ONCE = USERS_AT_ONCE = 256
# Weights that are tried on held-out positives, as multiples of the setting, and the epochs from one trial to the next.
WEIGHTS = (0.0, 0.25, 0.5, 1.0, 2.0, 4.0, 8.0)
CHOSEN_EVERY = 4


@register_part("item_regression")
class ItemRegression(RecipePart):
    """`item_regression`: ranking adds w · h(u, i), h the prediction of the item from the user's other items.

    It is computed when it is first asked for. w is `regression_weight`; where the temperature strategy holds positives
    out, it is that times the one of `WEIGHTS` that ranks them best at (f + w h) / tau_0 + added logits over the
    catalogue without the user's training positives: with the largest mean of 1 / log2(1 + rank). If that is not better
    than `regression_weight` by more than a standard error, w stays there, so that chance seldom moves it. It is chosen
    anew every fourth epoch.
    """

    meaning = "ranking adds an item-item ridge regression over the nearest items"

    class Settings(SettingsModel):
        item_neighbours: int = setting(100, "Nearest items that an item is regressed on, at most.", ge=1, le=1 << 16)
        regression_weight: float = setting(
            0.5,
            "Weight of the regression beside the cosine, at the same temperature; with held-out positives, the middle "
            "of the weights tried on them.",
            ge=0.0,
            le=1e6,
        )

    weight: Tensor

    def __init__(self, interactions: Interactions, settings: Any = None):
        super().__init__(interactions, settings)
        self.register_buffer("weight", torch.tensor(self.settings.regression_weight, dtype=torch.float64))

    @torch.no_grad()
    def calibrate(self, view: EpochView, tau_0: float) -> None:
        if view.held_out is None or view.held_out.returned:
            self.__dict__.pop("_without_held_out", None)  # of no use any more
            return
        if view.epoch % CHOSEN_EVERY != 1:
            return
        users, items = view.embeddings
        weights = [self.settings.regression_weight * multiple for multiple in WEIGHTS]
        gains = []
        for who, what in view.held_out.parts():
            logits = torch.mm(users[who], items.T).div_(tau_0)
            if view.item_logits is not None:
                logits += view.item_logits
            logits[self.interactions.positives_of(who)] = -torch.inf
            regression, scales = torch.zeros_like(logits), logits.new_full((len(who),), 1 / tau_0)
            self._without_held_out.add_to(regression, who, scales)
            gains.append(
                torch.stack([_gains(torch.add(logits, regression, alpha=w)[:, 1:], what - 1) for w in weights])
            )
        self.weight.fill_(weights[surest(torch.cat(gains, 1), WEIGHTS.index(1.0))])

    @cached_property
    def scores(self) -> "RegressionScores":
        """What ranking adds: of all training positives, those held out from the loss among them."""
        if self.held_out is None:
            return self._without_held_out
        return RegressionScores(self.held_out.joined(self.interactions), self.settings.item_neighbours)

    @cached_property
    def _without_held_out(self) -> "RegressionScores":
        return RegressionScores(self.interactions, self.settings.item_neighbours)

    def pair_scores(self) -> tuple[float, PairScores]:
        return self.weight.item(), self.scores


def _gains(scores: Tensor, targets: Tensor) -> Tensor:
    """1 / log2(1 + rank) of each row's target. Shape: [rows, items], [rows] → [rows]."""
    ranks = (scores > scores.gather(1, targets.unsqueeze(1))).sum(1) + 1
    return 1 / torch.log2(1 + ranks.double())


def surest(gains: Tensor, default: int) -> int:
    """The row with the largest mean; `default` if that one is not better than it by more than a standard error.

    Shape: gains [k, n] → a row's place.
    """
    best = int(gains.mean(1).argmax())
    differences = gains[best] - gains[default]
    return best if differences.mean() > differences.std(correction=0) / gains.shape[1] ** 0.5 else default


class RegressionScores(PairScores):
    """h(u, i) = Σ_j w_ij over the training positives j of u that are neighbours of i; see `neighbour_weights`.

    Args:
        interactions: The training positives.
        number: Neighbours of an item, at most.
    """

    def __init__(self, interactions: Interactions, number: int):
        self.weights = neighbour_weights(interactions, number)
        self._spread = self.weights.T.tocsr()
        self._positives = interactions.matrix()
        small = interactions.n_users * interactions.n_items <= TABLE_PAIRS
        self._table = torch.from_numpy((self._positives @ self._spread).toarray()) if small else None

    def add_to(self, scores: Tensor, users: Tensor, scales: Tensor) -> None:
        if self._table is not None:
            scores += self._table[users.cpu()].to(scores.device).mul_(scales.unsqueeze(1))
            return
        for rows, some, factors in zip(*(x.split(USERS_AT_ONCE) for x in (scores, users, scales)), strict=True):
            part = (self._positives[some.cpu().numpy()] @ self._spread).tocoo()
            places, items, values = (torch.from_numpy(x).to(scores.device) for x in (part.row, part.col, part.data))
            places = places.long()
            rows.view(-1).index_add_(0, places * rows.shape[1] + items, (factors[places] * values).to(scores.dtype))

    def of_pairs(self, users: Tensor, items: Tensor) -> Tensor:
        products = self._positives[users.cpu().numpy()].multiply(self.weights[items.cpu().numpy()])
        return torch.from_numpy(products.sum(axis=1)).to(users.device)


def neighbour_weights(interactions: Interactions, number: int) -> sp.csr_array:
    """Each item's ridge regression on the `number` items most like it.

    The column of item i in the 0/1 matrix of training pairs is predicted from its neighbours' columns. A user with d
    positives counts d^-1/2; neighbours are the items with the largest cosines of columns weighed like that, and the
    penalty is the mean squared length of such columns. An item is never its own neighbour.

    Returns:
        [n_items, n_items], float32; row i holds the coefficients of i's neighbours.
    """
    activity = np.maximum(interactions.user_counts.cpu().numpy(), 1.0)
    columns = (diagonal(activity**-0.25) @ interactions.matrix()).tocsc()
    squares = columns.power(2).sum(axis=0)
    penalty = squares[1:].mean()
    lengths = np.sqrt(np.where(squares > 0, squares, 1.0))
    gram = _gram(columns)
    neighbours, weights = [], []
    for item, (others, products) in enumerate(_with_bar(_products(columns), columns.shape[1])):
        cosines = np.where(others == item, -np.inf, products / lengths[others])
        near = np.sort(others[np.argsort(-cosines, kind="stable")[: min(number, len(others) - 1)]])
        block = gram(np.append(near, item)) if len(near) else np.empty((1, 1))
        neighbours.append(near)
        weights.append(np.linalg.solve(block[:-1, :-1] + penalty * np.eye(len(near)), block[:-1, -1]))
    rows = np.repeat(np.arange(len(neighbours), dtype=np.int32), [len(near) for near in neighbours])
    places = rows, np.concatenate(neighbours)
    return sp.csr_array((np.concatenate(weights).astype(np.float32), places), columns.shape[1:] * 2)


def _products(columns: sp.csc_array) -> Iterator[tuple[NDArray[np.int32], NDArray[np.float64]]]:
    """Of every column: the columns whose product with it is not zero, and those products."""
    for start in range(0, columns.shape[1], ITEMS_AT_ONCE):
        part = (columns[:, start : start + ITEMS_AT_ONCE].T @ columns).tocsr()
        for first, last in pairwise(part.indptr):
            yield part.indices[first:last], part.data[first:last]


def _gram(columns: sp.csc_array) -> Callable[[NDArray[np.int64]], NDArray[np.float64]]:
    """Gives the products of some columns with each other, [k] → [k, k]."""
    if columns.shape[1] > TABLE_ITEMS:
        return lambda places: (columns[:, places].T @ columns[:, places]).toarray()
    table = np.empty((columns.shape[1],) * 2, np.float32)
    for start in range(0, len(table), ITEMS_AT_ONCE):
        table[start : start + ITEMS_AT_ONCE] = (columns[:, start : start + ITEMS_AT_ONCE].T @ columns).toarray()
    return lambda places: table[np.ix_(places, places)].astype(float)


def _with_bar(items: Iterable[T], total: int) -> Iterable[T]:
    """With a progress bar where somebody looks: even a silent one takes a lock, which a killed process leaves."""
    if not sys.stderr.isatty():
        return items
    return tqdm(items, "neighbours", total, unit=" items", delay=2, leave=False)
