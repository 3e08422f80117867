"""The paper's loss."""

from typing import Any, Literal

import torch
import torch.nn.functional as F
from torch import Tensor

from ..settings import SettingsModel, setting
from .base import Loss, ScoredBatch, register_loss

IN_DENOMINATOR: Any = setting(True, "Whether the positive stands in the softmax's denominator.")


@register_loss("softmax")
class SoftmaxLoss(Loss):
    """`softmax`: −log softmax of the positive among its negatives (the paper's)."""

    class Settings(SettingsModel):
        positive_tau: Literal["tau_u", "tau_0"] = setting(
            "tau_u", "Temperature of the positive: tau_u like its negatives, or tau_0 (the authors' code)."
        )
        positive_in_denominator: bool = IN_DENOMINATOR

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
