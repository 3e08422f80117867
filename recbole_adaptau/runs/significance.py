"""Whether one model ranks better than another for the users of a test, or only by chance: paired over users.

The only paired test of the package. The runs of both models are paired by seed, so that each user is compared on the
same held-out items; a user's differences are averaged over the seeds, and the test is over users, who are independent
of each other.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from recbole.config import Config
from recbole.evaluator.base_metric import TopkMetric
from recbole.evaluator.register import metrics_dict
from scipy import stats

from ..errors import AdapTauError, DataError, OptionError
from .folder import RunFolder

# What every table shows, by the keys RecBole gives its results.
METRICS = ("recall@20", "ndcg@20")
# RecBole's metrics of a user's own ranking, which tested.npz is enough for.
USER_METRICS = ("recall", "ndcg", "mrr", "hit", "precision", "map")


@dataclass(frozen=True)
class Paired:
    """One model against another.

    Attributes:
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


def user_metric(run: RunFolder, metric: str) -> tuple[np.ndarray, np.ndarray]:
    """A run's test users and the metric of each, by RecBole's own formula. Shape: ids [U], values [U]."""
    return _user_metric(run, run.read_tested(), metric)


def paired(first: Sequence[RunFolder], second: Sequence[RunFolder], metric: str = "ndcg@20") -> Paired:
    """Compare two models by complete runs on the same data.

    Several runs are paired by seed. One run of each is compared whatever the seeds, if both were tested on the same
    interactions.
    """
    pairs = [(first[0], second[0])] if len(first) == len(second) == 1 else _pairs(first, second)
    sums: dict[str, float] = {}
    counts: dict[str, int] = {}
    for ours, theirs in pairs:
        for user, difference in zip(*_differences(ours, theirs, metric), strict=True):
            sums[user] = sums.get(user, 0.0) + float(difference)
            counts[user] = counts.get(user, 0) + 1
    return compare(np.array([sums[user] / counts[user] for user in sums]), metric)


def against(best: str, runs: Mapping[str, Sequence[RunFolder]], metric: str = "ndcg@20") -> dict[str, dict[str, Any]]:
    """Every other model compared with one of them: the pair and its `p_holm`, or the `error` that forbids it."""
    found: dict[str, dict[str, Any]] = {}
    for name in runs:
        if name != best:
            try:
                found[name] = dict(vars(paired(runs[name], runs[best], metric)))
            except AdapTauError as error:
                found[name] = {"error": str(error)}
    for name, p in holm({name: pair["p"] for name, pair in found.items() if "p" in pair}).items():
        found[name]["p_holm"] = p
    return found


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
        p_wilcoxon = float(stats.wilcoxon(differences[differences != 0]).pvalue)
    better, worse = int((differences > 0).sum()), int((differences < 0).sum())
    return Paired(metric, len(differences), mean, low, high, p, p_wilcoxon, better, worse)


def holm(p_values: Mapping[str, float]) -> dict[str, float]:
    """Holm's correction for testing several at once: p-values whose least is below 0.05 by chance in 5 % of cases."""
    from statsmodels.stats.multitest import multipletests  # slow to import, and only needed here

    corrected = multipletests(list(p_values.values()), method="holm")[1].tolist() if p_values else []
    return dict(zip(p_values, corrected, strict=True))


def _user_metric(run: RunFolder, tested: Mapping[str, np.ndarray], metric: str) -> tuple[np.ndarray, np.ndarray]:
    name, _, k = metric.lower().partition("@")
    if name not in USER_METRICS or not k.isdigit() or int(k) < 1:
        raise OptionError(f"metric = {metric!r}: must be one of {', '.join(USER_METRICS)} with its k, as ndcg@20.")
    hits, positives = tested["hits"], tested["positives"]
    if int(k) > hits.shape[1]:
        raise DataError(f"{run.path} ranks {hits.shape[1]} items, too few for {metric}: run it with {k} in topk.")
    formula: TopkMetric = metrics_dict[name]({"topk": [int(k)], "metric_decimal_place": 6})
    Config.compatibility_settings(None)  # np.float, which the formulas use and NumPy has dropped
    needs_positives = name in ("recall", "ndcg", "map")
    values = formula.metric_info(hits, positives) if needs_positives else formula.metric_info(hits)
    return tested["user"], np.asarray(values)[:, int(k) - 1]


def _pairs(first: Sequence[RunFolder], second: Sequence[RunFolder]) -> list[tuple[RunFolder, RunFolder]]:
    ours, theirs = _by_seed(first), _by_seed(second)
    common = sorted(ours.keys() & theirs.keys())
    if not common:
        raise DataError(
            f"{first[0].path.parent}: no seed in common (seeds {sorted(ours)} and {sorted(theirs)}), so that no user "
            "can be compared on the same held-out items."
        )
    return [(ours[seed], theirs[seed]) for seed in common]


def _by_seed(runs: Sequence[RunFolder]) -> dict[int, RunFolder]:
    found: dict[int, RunFolder] = {}
    for run in runs:
        seed = run.read_result()["seed"]
        if seed in found:
            raise DataError(f"{found[seed].path} and {run.path} have the same seed {seed}: give one of them.")
        found[seed] = run
    return found


def _differences(first: RunFolder, second: RunFolder, metric: str) -> tuple[np.ndarray, np.ndarray]:
    ours, theirs = first.read_tested(), second.read_tested()
    for key in ("user", "positives", "positive_items"):
        if not np.array_equal(ours[key], theirs[key]):
            raise DataError(
                f"{first.path} and {second.path} were tested on different interactions: were they made from the same "
                "data with the same split and seed?"
            )
    users, values = _user_metric(first, ours, metric)
    return users, values - _user_metric(second, theirs, metric)[1]
