"""Whether one of two runs is better for the same users (or seeds), or only by chance."""

from dataclasses import dataclass

import numpy as np
from scipy import stats

from .errors import DataError


@dataclass(frozen=True)
class Paired:
    """One run against another.

    Attributes:
        users: How many were compared.
        difference: Mean over users of (first − second), with its 95 % interval (low, high).
        p: Two-sided paired t-test. p_wilcoxon: Wilcoxon's signed ranks, which asks for no normal distribution.
        better, worse: Users whom the first serves better, and worse.
    """

    metric: str
    users: int
    difference: float
    low: float
    high: float
    p: float
    p_wilcoxon: float
    better: int
    worse: int


def compare(differences: np.ndarray, metric: str) -> Paired:
    """The tests on one difference for each user; no difference at all gives p = 1. Shape: [U], U at least 2."""
    if differences.ndim != 1 or len(differences) < 2:
        raise DataError(f"a paired test needs at least two users in common; there are {differences.size}.")
    low = high = mean = float(differences.mean())
    p = p_wilcoxon = 1.0
    if differences.any():
        result = stats.ttest_1samp(differences, 0.0)
        interval = result.confidence_interval(0.95)
        low, high, p = float(interval.low), float(interval.high), float(result.pvalue)
        p_wilcoxon = float(stats.wilcoxon(differences).pvalue)
    better, worse = int((differences > 0).sum()), int((differences < 0).sum())
    return Paired(metric, len(differences), mean, low, high, p, p_wilcoxon, better, worse)
