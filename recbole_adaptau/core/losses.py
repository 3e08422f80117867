"""Losses by name. A loss is a function of a batch's scores and does not reduce over the batch."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

import torch
import torch.nn.functional as F
from torch import Tensor

from .component import Component, Registry
from .epoch_view import EpochView
from .settings import SettingsModel, setting


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
    """

    positive: Tensor
    positive_logit: Tensor | None
    tau: Tensor
    tau_0: Tensor
    logsumexp: Callable[[Tensor], Tensor]
    scores: Callable[[], tuple[Tensor, Tensor | None]]

    def positive_at(self, tau: Tensor) -> Tensor:
        """The positive's logit at a temperature. Shape: tau [B] → [B]."""
        logit = self.positive / tau
        return logit if self.positive_logit is None else logit + self.positive_logit


class Loss(Component):
    """The contract: the loss of every row of a batch."""

    def begin_epoch(self, view: EpochView) -> None:
        """Look at the model before an epoch; what is remembered goes into buffers."""

    def forward(self, batch: ScoredBatch) -> Tensor:
        """Shape: [B], unreduced."""
        raise TypeError(f"{type(self).__name__} has no forward(batch).")


LOSSES: Registry[type[Loss]] = Registry("loss")
register_loss = LOSSES.register


@register_loss("softmax")
class SoftmaxLoss(Loss):
    """`softmax`: −log softmax of the positive among its negatives (the paper's)."""

    class Settings(SettingsModel):
        positive_tau: Literal["tau_u", "tau_0"] = setting(
            "tau_u", "Temperature of the positive: tau_u like its negatives, or tau_0 (the authors' code)."
        )
        positive_in_denominator: bool = setting(True, "Whether the positive stands in the softmax's denominator.")

    def forward(self, batch: ScoredBatch) -> Tensor:
        tau = batch.tau if self.settings.positive_tau == "tau_u" else batch.tau_0.expand_as(batch.tau)
        positive = batch.positive_at(tau)
        return softmax_loss(positive, batch.logsumexp(batch.tau), self.settings.positive_in_denominator)


def softmax_loss(positive: Tensor, neg_lse: Tensor, positive_in_denominator: bool) -> Tensor:
    """−log softmax of the positive among its negatives.

    With the positive in the denominator: log(exp(positive) + Σ exp(negative)) − positive, which is
    softplus(neg_lse − positive). Without: neg_lse − positive. A row without any negative costs nothing.

    Shape: positive [B] (the logit: score over temperature, plus any prior), neg_lse [B] (`-inf`: no negatives)
    → [B].
    """
    if positive_in_denominator:
        return F.softplus(neg_lse - positive)
    some = ~torch.isneginf(neg_lse)
    return torch.where(some, torch.where(some, neg_lse, 0.0) - positive, 0.0)
