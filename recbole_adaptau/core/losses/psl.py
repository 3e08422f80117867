"""PSL: the softmax with another function in place of the exponential of score differences."""

import math
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, Literal

import torch
from torch import Tensor

from ...errors import OptionError
from ..logsumexp import LOG2_E
from ..settings import SettingsModel, setting
from .base import Loss, ScoredBatch, register_loss
from .softmax import IN_DENOMINATOR, softmax_loss

LEAST = 1e-6  # of ReLU(1 + y), whose logarithm is asked for
# σ(y) for y = d / 2 in [-1, 1], by name: log σ, and σ' / σ from y and log σ. log1p is far faster than log or tanh.
Surrogate = tuple[Callable[[Tensor], Tensor], Callable[[Tensor, Tensor], Tensor]]
SURROGATES: dict[str, Surrogate] = {
    "relu": (lambda y: torch.log1p(y.clamp_min(LEAST - 1)), lambda y, log: (y + 1).clamp_min_(LEAST).reciprocal_()),
    "tanh": (lambda y: math.log(2) - torch.log1p(torch.exp(-2 * y)), lambda y, log: 2 - torch.exp(log)),
    "atan": (lambda y: torch.log1p(torch.atan(y)), lambda y, log: torch.exp(-log).div_(1 + y * y)),
}
# 2 ** (2 / tau) has to fit into float32, also times the number of negatives.
LEAST_TAU = 0.02


@register_loss("psl")
class PairwiseSoftmaxLoss(Loss):
    """`psl`: log(1 + Σ_j σ(d_uij / 2) ^ (2 / tau)), d_uij = f(u, j) − f(u, i), σ a surrogate of the step function.

    Yang et al., "PSL: Rethinking and Improving Softmax Loss from Pairwise Perspective for Recommendation", NeurIPS
    2024: log Σ_j σ(d)^(1/tau) with σ = ReLU(d + 1), tanh(d) + 1 or arctan(d) + 1; with σ = exp it is the softmax. Its
    scores are half a cosine; hence d / 2 and 2 / tau, with which all of them agree with the softmax at the same tau to
    first order in d. The sum over all items has the positive itself as a term of 1: `positive_in_denominator`.
    """

    class Settings(SettingsModel):
        psl_activation: Literal["relu", "tanh", "atan"] = setting(
            "relu", "PSL: what takes the place of the exponential of a score difference."
        )
        positive_in_denominator: bool = IN_DENOMINATOR

    @classmethod
    def refuse(cls, values: Mapping[str, Any]) -> None:
        sides = values["normalization"]
        if sides not in ("auto", "Y-Y") or values["tau_strategy"] == "none":
            raise OptionError(
                "loss = psl is defined for cosines, whose differences are at most 2: it needs normalization=Y-Y and a "
                "tau_strategy other than none."
            )
        if values["tau_min"] < LEAST_TAU:
            raise OptionError(f"loss = psl needs tau_min of at least {LEAST_TAU}: below it 2^(2/tau) overflows.")

    def forward(self, batch: ScoredBatch) -> Tensor:
        log_sigma, slope = SURROGATES[self.settings.psl_activation]
        if batch.pair_means is None or batch.tau.requires_grad:
            differences, log_weight = batch.differences()
            logs = 2 / batch.tau.unsqueeze(1) * log_sigma(differences / 2) + log_weight
            some = ~torch.isneginf(log_weight).all(1)
            log_sum = torch.logsumexp(torch.where(some.unsqueeze(1), logs, 0.0), dim=1)
        else:
            means, log_total = batch.pair_means(batch.positive, batch.tau, partial(_powers, log_sigma, slope))
            some = means > 0
            log_sum = torch.log(torch.where(some, means, 1.0)) + log_total
        log_sum = torch.where(some, log_sum, -torch.inf)  # a row without any negative
        positive = torch.zeros_like(log_sum) if batch.positive_logit is None else batch.positive_logit
        return softmax_loss(positive, log_sum, self.settings.positive_in_denominator)


def _powers(
    log_sigma: Callable[[Tensor], Tensor], slope: Callable[[Tensor, Tensor], Tensor], d: Tensor, tau: Tensor
) -> tuple[Tensor, Tensor]:
    """σ(d / 2)^(2 / tau) and its derivative by d / tau. Shape: d [B, M], tau [B, 1] → [B, M], [B, M]."""
    y = d.mul_(0.5)
    log = log_sigma(y)
    derivatives = slope(y, log)
    powers = log.mul_(2 * LOG2_E / tau).exp2_()
    return powers, derivatives.mul_(powers)
