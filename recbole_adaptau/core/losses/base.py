"""What a loss gets, and what it has to give."""

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from ..component import Component, Registry
from ..epoch_view import EpochView
from ..pairwise import PairMeans


@dataclass(frozen=True)
class ScoredBatch:
    """The scores of a batch of B rows, each a user with a positive and its negatives.

    Attributes:
        positive: [B] f(u, i) of the positive.
        positive_logit: [B] what is added to its logit beside f / tau; None for nothing.
        tau: [B] each row's temperature.
        tau_0: [] the global temperature.
        logsumexp: tau [B] → [B], log Σ_j w_j exp(f(u, j) / tau) over the row's negatives, `-inf` where it has none;
            computed in chunks, so that memory does not grow with their number.
        scores: () → (f(u, j) [B, M] with `-inf` for what is no negative of its row, log w [M] or [B, M] or None):
            all scores at once, for losses that need more than a log-sum-exp.
        users: [B] ids of the rows' users, where a loss may ask.
        pair_means: Means of a function of the differences f(u, j) − f(u, i), computed in chunks; None where each row
            has negatives of its own.
    """

    positive: Tensor
    positive_logit: Tensor | None
    tau: Tensor
    tau_0: Tensor
    logsumexp: Callable[[Tensor], Tensor]
    scores: Callable[[], tuple[Tensor, Tensor | None]]
    users: Tensor | None = None
    pair_means: PairMeans | None = None

    def positive_at(self, tau: Tensor) -> Tensor:
        """The positive's logit at a temperature. Shape: tau [B] → [B]."""
        logit = self.positive / tau
        return logit if self.positive_logit is None else logit + self.positive_logit

    def differences(self) -> tuple[Tensor, Tensor]:
        """f(u, j) − f(u, i) and log w of all negatives at once. Shape: [B, M], [B, M]; `-inf` for what is none."""
        scores, log_weight = self.scores()
        log_weight = scores.new_zeros(1) if log_weight is None else log_weight.to(scores.dtype)
        none = torch.isneginf(scores)
        differences = torch.where(none, 0.0, scores) - self.positive.unsqueeze(1)
        return differences, torch.where(none, -torch.inf, log_weight.expand_as(scores))


class Loss(Component):
    """The contract: the loss of every row of a batch."""

    def begin_epoch(self, view: EpochView) -> None:
        """Look at the model before an epoch; what is remembered goes into buffers."""

    def forward(self, batch: ScoredBatch) -> Tensor:
        """Shape: [B], unreduced."""
        raise TypeError(f"{type(self).__name__} has no forward(batch).")


LOSSES: Registry[type[Loss]] = Registry("loss")
register_loss = LOSSES.register
