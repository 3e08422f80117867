"""Figure 6: random groups of users with different noise, and whether their temperatures come in that order."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from scipy.stats import spearmanr

from ...data.noise import user_groups
from ...reporting import plots
from ...reporting.saved_run import SavedRun
from ...reporting.tables import spread
from ...runs.runner import Spec
from .base import Asked, Experiment, Figure, Row, Run

QUANTILES = np.linspace(0, 1, 401)


def runs(asked: Asked) -> list[Spec]:
    shares = list(asked.shares)
    return [asked.strategy("adaptive_user", seed, noise_groups=shares) for seed in asked.seeds]


def measure(run: SavedRun) -> dict[str, Any]:
    """tau_u by group of users, and whether it rises with the noise."""
    shares = run.config["noise_groups"]
    mine = user_groups(run.interactions.n_users, len(shares), run.config["seed"])[run.interactions.active_users.numpy()]
    parts = [run.temperatures[mine == group] for group in range(len(shares))]
    noise = np.array(shares)[mine]
    rank, p_rank = spearmanr(noise, run.temperatures, alternative="greater")
    return {
        "shares": shares,
        "users": [len(part) for part in parts],
        "mean": [float(part.mean()) for part in parts],
        "median": [float(np.median(part)) for part in parts],
        "quantiles": [np.quantile(part, QUANTILES).round(5).tolist() for part in parts],
        "spearman": float(rank),
        "spearman_p": float(p_rank),
    }


def table(asked: Asked, runs: Sequence[Run]) -> list[Row]:
    if not runs:
        return []
    found = [run["measured"] for run in runs]
    return [
        {
            "noise": f"{100 * share:g} %",
            "users": found[0]["users"][place],
            "mean tau_u": spread([one["mean"][place] for one in found]),
            "median tau_u": spread([one["median"][place] for one in found]),
        }
        for place, share in enumerate(asked.shares)
    ]


def remarks(asked: Asked, runs: Sequence[Run]) -> list[str]:
    said = [
        "Users are split at random into groups whose sizes differ by at most one; each gets its share of false "
        "positives in the training part, as in noise-global."
    ]
    for run in runs:
        found = run["measured"]
        order = np.argsort(np.argsort(found["median"])).tolist()
        right = "as the noise" if order == np.argsort(np.argsort(found["shares"])).tolist() else "not as the noise"
        said.append(
            f"Seed {run['seed']}: medians are ordered {right}; Spearman's rank correlation of a user's noise and tau_u "
            f"is {found['spearman']:.3f} (one-sided p = {found['spearman_p']:.1e}); test recall@20 "
            f"{run['test_result']['recall@20']:.4f}."
        )
    return said


def draw(asked: Asked, runs: Sequence[Run]) -> Figure:
    figure, ((density, medians),) = plots.panels(2)
    values = [
        np.concatenate([run["measured"]["quantiles"][place] for run in runs]) for place in range(len(asked.shares))
    ]
    everything = np.concatenate(values)
    bins = np.linspace(everything.min(), np.quantile(everything, 0.99), 21)
    for number, (share, mine) in enumerate(zip(asked.shares, values, strict=True)):
        heights, _ = np.histogram(mine, bins)
        middle = (bins[1:] + bins[:-1]) / 2
        density.plot(
            middle, 100 * heights / len(mine), label=f"{100 * share:g} % noise", **plots.style(number, markers=False)
        )
    density.set(xlabel="temperature tau_u", ylabel="users of the group (% in each bin)")
    density.legend()
    names = [f"{100 * share:g}" for share in asked.shares]
    medians.boxplot(values, tick_labels=names, showfliers=False, medianprops={"color": "black", "lw": 2})
    medians.set(
        xlabel="false positives added (% of each user's positives)", ylabel="temperature tau_u (box: quartiles)"
    )
    return plots.titled(figure, asked.described("Noise by group of users"))


EXPERIMENT = Experiment(
    name="noise-local",
    brief="Figure 6: four random user groups with 10 to 40 % noise, and the order of their tau_u.",
    runs=runs,
    table=table,
    draw=draw,
    remarks=remarks,
    measure=measure,
    shares=(0.1, 0.2, 0.3, 0.4),
    quick_shares=(0.1, 0.2, 0.3, 0.4),
)
