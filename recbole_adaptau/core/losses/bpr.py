"""BPR, the pairwise loss that the softmax family is compared with."""

from collections.abc import Mapping
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from ...errors import OptionError
from ..logsumexp import LOG2_E
from .base import Loss, ScoredBatch, register_loss

STRATEGIES = ("none", "fixed", "learned", "learned_user")


@register_loss("bpr")
class BPRLoss(Loss):
    """`bpr`: the mean over the negatives j of −log sigmoid((f(u, i) − f(u, j)) / tau).

    Rendle et al., "BPR: Bayesian Personalized Ranking from Implicit Feedback", UAI 2009. With tau_strategy none, f is
    the inner product and tau is 1, as there. What a recipe adds to an
    item's logit is added to the positive's and weighs the negatives.
    """

    @classmethod
    def refuse(cls, values: Mapping[str, Any]) -> None:
        if values["tau_strategy"] not in STRATEGIES:
            raise OptionError(
                f"loss = bpr with tau_strategy = {values['tau_strategy']}: that temperature follows from the softmax, "
                f"which bpr has not. Choose one of {', '.join(STRATEGIES)}."
            )

    def forward(self, batch: ScoredBatch) -> Tensor:
        if batch.pair_means is not None and not batch.tau.requires_grad:
            return batch.pair_means(batch.positive_at(batch.tau) * batch.tau, batch.tau, _log_sigmoids)[0]
        differences, log_weight = batch.differences()
        logits = differences / batch.tau.unsqueeze(1)
        if batch.positive_logit is not None:
            logits = logits - batch.positive_logit.unsqueeze(1)
        weights = torch.softmax(log_weight, dim=1).nan_to_num(0.0)  # NaN: a row without any negative
        return (weights * F.softplus(logits)).sum(1)


def _log_sigmoids(d: Tensor, tau: Tensor) -> tuple[Tensor, Tensor]:
    """softplus(d / tau) and its derivative by d / tau. Shape: d [B, M], tau [B, 1] → [B, M], [B, M]."""
    x = d.div_(tau)
    # F.softplus, as log1p and powers of two take half the time of log and exp.
    softplus = x.abs().mul_(-LOG2_E).exp2_().log1p_().add_(x.clamp_min(0.0))
    return softplus, x.sigmoid_()
