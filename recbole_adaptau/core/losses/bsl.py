"""BSL: the softmax with a temperature of its own for the positives."""

from torch import Tensor

from ..settings import SettingsModel, setting
from .base import Loss, ScoredBatch, register_loss
from .softmax import softmax_loss


@register_loss("bsl")
class BilateralSoftmaxLoss(Loss):
    """`bsl`: log Σ_j exp(f(u, j) / tau_2) − f(u, i) / tau_1, positives at another temperature than negatives.

    Wu et al., "BSL: Understanding and Improving Softmax Loss for Recommendation", ICDE 2024. The paper has
    log-mean-exp on both sides, −log E_i exp(f(u, i) / tau_1) + log E_j exp(f(u, j) / tau_2). A row has one positive, so
    the first is −f(u, i) / tau_1. tau_2 is the strategy's temperature and tau_1 = bsl_ratio · tau_2. Up to a factor
    this is the softmax with a weight of bsl_ratio on the negatives' term. The authors state their settings as that
    weight: 1.06 to 1.32 for MF on four datasets, 0.8 to 1.12 for LightGCN. At 1 it is the softmax without the positive
    in its denominator.
    """

    class Settings(SettingsModel):
        bsl_ratio: float = setting(
            1.2, "BSL: temperature of the positives over that of the negatives, tau_1 / tau_2.", ge=0.01, le=100.0
        )

    def forward(self, batch: ScoredBatch) -> Tensor:
        positive = batch.positive_at(batch.tau * self.settings.bsl_ratio)
        return softmax_loss(positive, batch.logsumexp(batch.tau), positive_in_denominator=False)
