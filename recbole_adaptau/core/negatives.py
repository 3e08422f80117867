"""Where the negatives of a batch come from.

Three modes share their candidates over the batch (`shared`, `in_batch`, `full`) and become one matrix product;
`per_row` takes RecBole's own sampled negatives, M for each positive. A row's positive is never its own negative.
Item 0, the padding, is never a candidate.
"""

from dataclasses import dataclass

import torch
from torch import Tensor, nn

from .interactions import Interactions

MODES = ("shared", "in_batch", "full", "per_row")
DISTRIBUTIONS = ("uniform", "popularity")


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
    """

    items: Tensor
    log_weight: Tensor | None
    hits: tuple[Tensor, Tensor]


class SharedNegatives(nn.Module):
    """Draws the candidates of a batch.

    Args:
        interactions: The training positives.
        mode: One of `shared`, `in_batch`, `full`.
        number: How many items `shared` draws; uniformly, the whole catalogue if it has no more.
        distribution: `uniform` (without replacement: the catalogue is shuffled and dealt out, batch by batch) or
            `popularity` (training counts to the power alpha).
        alpha: That power.
        mask_hits: Leave out every training positive of the row's user, not just the row's own item.
        correct: Subtract log(q_j · m) from the logit of an item drawn with probability q_j, so that a
            popularity-drawn or in-batch sum estimates the uniform one.
    """

    log_correction: Tensor | None
    cumulative: Tensor | None
    everything: Tensor
    column_of: Tensor

    def __init__(
        self,
        interactions: Interactions,
        mode: str,
        number: int,
        distribution: str = "uniform",
        alpha: float = 1.0,
        mask_hits: bool = False,
        correct: bool = False,
    ):
        super().__init__()
        self.interactions = interactions
        popular = mode == "shared" and distribution == "popularity"
        # Drawing uniformly without replacement, that many items are the whole catalogue.
        self.mode = "full" if mode == "shared" and not popular and number >= interactions.n_real_items else mode
        self.number = number
        self.mask_hits = mask_hits
        counts = interactions.item_counts.double()
        q = counts.pow(alpha) if popular else counts
        q[counts == 0] = 0.0  # 0 ** 0 would draw the padding
        q = q / q.sum()
        self.register_buffer("cumulative", q.cumsum(0) if popular else None, persistent=False)
        correction = None
        if correct and (popular or mode == "in_batch"):
            correction = -torch.log(q.clamp_min(torch.finfo(q.dtype).tiny) * interactions.n_real_items).float()
        self.register_buffer("log_correction", correction, persistent=False)
        self.register_buffer("everything", torch.arange(1, interactions.n_items), persistent=False)
        self.register_buffer("column_of", torch.full((interactions.n_items,), -1), persistent=False)
        self.begin_epoch()

    def begin_epoch(self) -> None:
        """Forget what is left of the shuffled catalogue: an epoch depends on nothing but its random state."""
        self._order, self._place = self.everything[:0], 0

    def draw(self, users: Tensor, positives: Tensor) -> Candidates:
        """Shape: users [B], positives [B] (item ids) → candidates shared by the B rows."""
        items, repeats = self._items(positives)
        log_weight = None if repeats is None else torch.log(repeats.float())
        if self.log_correction is not None:
            correction = self.log_correction[items]
            log_weight = correction if log_weight is None else log_weight + correction
        return Candidates(items, log_weight, self._hits(users, positives, items))

    def _items(self, positives: Tensor) -> tuple[Tensor, Tensor | None]:
        """Different item ids, and how often each was drawn (None: once each)."""
        if self.mode == "full":
            return self.everything, None
        if self.mode == "in_batch":
            return torch.unique(positives, return_counts=True)
        if self.cumulative is None:
            if self._place + self.number > len(self._order):
                self._order, self._place = torch.randperm(len(self.everything), device=positives.device) + 1, 0
            self._place += self.number
            return self._order[self._place - self.number : self._place], None
        points = torch.rand(self.number, dtype=self.cumulative.dtype, device=positives.device)
        drawn = torch.searchsorted(self.cumulative, points, right=True)
        return torch.unique(drawn.clamp_max(self.interactions.n_items - 1), return_counts=True)

    def _hits(self, users: Tensor, positives: Tensor, items: Tensor) -> tuple[Tensor, Tensor]:
        self.column_of[items] = torch.arange(len(items), device=items.device)
        if self.mask_hits:
            rows, hit_items = self.interactions.positives_of(users)
        else:
            rows, hit_items = torch.arange(len(users), device=users.device), positives
        columns = self.column_of[hit_items]
        self.column_of[items] = -1
        found = columns >= 0
        return rows[found], columns[found]
