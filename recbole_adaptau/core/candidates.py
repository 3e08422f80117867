"""The negatives of a batch: what a mode draws, and the sums over them that a loss asks for."""

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

import torch
import torch.nn.functional as F
from torch import Tensor

from .logsumexp import candidate_logsumexp, row_logsumexp
from .pairwise import PairFunction, PairMeans, candidate_pair_means


def rows_of_negatives(negatives: Tensor, rows: int) -> Tensor:
    """RecBole's sample-major negatives as rows: [M·B] (all rows' first, then all rows' second, …) → [B, M]."""
    return negatives.view(-1, rows).T


@dataclass(frozen=True)
class Candidates:
    """Items that all rows of a batch share as negatives.

    Attributes:
        items: [M] different item ids.
        log_weight: [M] log of each item's weight in the sum, or None where all weigh 1.
        hits: (rows [H], columns [H]): the scores that are no negatives of their row.
        again: [B] log of how often a row's own positive is its negative all the same, or None for never. With it every
            row has one hit, its positive.
    """

    items: Tensor
    log_weight: Tensor | None
    hits: tuple[Tensor, Tensor]
    again: Tensor | None = None

    @property
    def draws(self) -> int:
        """How many parts of the batch have items of their own."""
        return 1

    def logsumexp(
        self, users: Tensor, items: Tensor, added: Tensor | None, max_logit: float = math.inf
    ) -> Callable[[Tensor], Tensor]:
        """As `ScoredBatch.logsumexp`. Shape: users [B, d], the candidates' embeddings [M, d], added [M]."""
        weight, again = sum_of(self.log_weight, added), self.again
        if again is None:
            return lambda tau: candidate_logsumexp(users, items, tau, weight, self.hits, max_logit)
        columns, some = self.hits[1], ~torch.isneginf(again)
        positive = (users * items[columns]).sum(1)
        beside = again if added is None else again + added[columns]

        def with_positive(tau: Tensor) -> Tensor:
            others = candidate_logsumexp(users, items, tau, weight, self.hits, max_logit)
            both = torch.logaddexp(others, torch.where(some, positive / tau + beside, 0.0))
            return torch.where(some, both, others)

        return with_positive

    def pair_means(self, users: Tensor, items: Tensor, added: Tensor | None) -> PairMeans:
        """As `ScoredBatch.pair_means`."""
        weight = sum_of(self.log_weight, added)
        return lambda positive, tau, function: candidate_pair_means(
            users, items, positive, tau, function, weight, self.hits
        )

    def scores(self, users: Tensor, items: Tensor, added: Tensor | None) -> tuple[Tensor, Tensor | None]:
        """As `ScoredBatch.scores`."""
        scores, weight = users @ items.T, sum_of(self.log_weight, added)
        if self.again is not None:
            weight = scores.new_zeros(scores.shape) if weight is None else weight.expand(scores.shape).clone()
            weight[self.hits] = self.again if added is None else self.again + added[self.hits[1]]
            return scores, weight
        mask = torch.zeros(scores.shape, dtype=torch.bool, device=scores.device)
        mask[self.hits] = True
        return scores.masked_fill(mask, -torch.inf), weight


@dataclass(frozen=True)
class CandidateGroups:
    """Candidates of the groups of consecutive rows that a batch consists of.

    Attributes:
        groups: Each group's candidates.
        rows: How many rows each has.
    """

    groups: Sequence[Candidates]
    rows: Sequence[int]

    @cached_property
    def items(self) -> Tensor:
        """[K] the item ids of all groups, one group after another."""
        return torch.cat([group.items for group in self.groups])

    @property
    def draws(self) -> int:
        """As `Candidates.draws`."""
        return len(self.groups)

    def logsumexp(
        self, users: Tensor, items: Tensor, added: Tensor | None, max_logit: float = math.inf
    ) -> Callable[[Tensor], Tensor]:
        """As `ScoredBatch.logsumexp`. Shape: users [B, d], the candidates' embeddings [K, d], added [K]."""
        sums = [group.logsumexp(u, i, a, max_logit) for group, (u, i, a) in self._split(users, items, added)]
        return lambda tau: torch.cat([one(part) for one, part in zip(sums, tau.split(self.rows), strict=True)])

    def pair_means(self, users: Tensor, items: Tensor, added: Tensor | None) -> PairMeans:
        """As `ScoredBatch.pair_means`."""
        means = [group.pair_means(*of_group) for group, of_group in self._split(users, items, added)]

        def of_all(positive: Tensor, tau: Tensor, function: PairFunction) -> tuple[Tensor, Tensor]:
            parts = zip(means, positive.split(self.rows), tau.split(self.rows), strict=True)
            mean, log_weight = zip(*(one(p, t, function) for one, p, t in parts), strict=True)
            return torch.cat(mean), torch.cat(log_weight)

        return of_all

    def scores(self, users: Tensor, items: Tensor, added: Tensor | None) -> tuple[Tensor, Tensor]:
        """As `ScoredBatch.scores`; groups with fewer items than others have `-inf` behind them."""
        widest = max(len(group.items) for group in self.groups)
        scores, weights = [], []
        for group, of_group in self._split(users, items, added):
            found, weight = group.scores(*of_group)
            missing = (0, widest - len(group.items))
            scores.append(F.pad(found, missing, value=-torch.inf))
            weights.append(F.pad(torch.zeros_like(found) if weight is None else weight.expand_as(found), missing))
        return torch.cat(scores), torch.cat(weights)

    def _split(
        self, users: Tensor, items: Tensor, added: Tensor | None
    ) -> Iterator[tuple[Candidates, tuple[Tensor, Tensor, Tensor | None]]]:
        """Each group with its rows' users, its items and what is added to them."""
        widths = [len(group.items) for group in self.groups]
        of_items = [None] * len(widths) if added is None else added.split(widths)
        parts = zip(users.split(self.rows), items.split(widths), of_items, strict=True)
        return zip(self.groups, parts, strict=True)


@dataclass(frozen=True)
class RowNegatives:
    """Items that are the negatives of one row each. Shape: items [B, M]."""

    items: Tensor

    @property
    def draws(self) -> int:
        """As `Candidates.draws`."""
        return len(self.items)

    def logsumexp(
        self, users: Tensor, items: Tensor, added: Tensor | None, max_logit: float = math.inf
    ) -> Callable[[Tensor], Tensor]:
        """As `ScoredBatch.logsumexp`. Shape: users [B, d], the negatives' embeddings [B · M, d], added [B, M]."""
        scores, _ = self.scores(users, items, added)
        return lambda tau: row_logsumexp(scores, tau, added)

    def pair_means(self, users: Tensor, items: Tensor, added: Tensor | None) -> None:
        """None: all scores stand at once anyhow."""

    def scores(self, users: Tensor, items: Tensor, added: Tensor | None) -> tuple[Tensor, Tensor | None]:
        """As `ScoredBatch.scores`."""
        return torch.einsum("bd,bmd->bm", users, items.view(*self.items.shape, -1)), added


BatchNegatives = Candidates | CandidateGroups | RowNegatives


def sum_of(first: Tensor | None, second: Tensor | None) -> Tensor | None:
    """Their sum, where None is zero."""
    if first is None or second is None:
        return second if first is None else first
    return first + second
