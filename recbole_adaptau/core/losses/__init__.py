"""Losses by name. A loss is a function of a batch's scores and does not reduce over the batch."""

from .base import LOSSES, Loss, ScoredBatch, register_loss
from .bpr import BPRLoss
from .bsl import BilateralSoftmaxLoss
from .psl import PairwiseSoftmaxLoss
from .slatk import SoftmaxLossAtK
from .softmax import SoftmaxLoss, softmax_loss

__all__ = [
    "LOSSES",
    "BPRLoss",
    "BilateralSoftmaxLoss",
    "Loss",
    "PairwiseSoftmaxLoss",
    "ScoredBatch",
    "SoftmaxLoss",
    "SoftmaxLossAtK",
    "register_loss",
    "softmax_loss",
]
