"""Whether Adap-tau differs from each other strategy: paired over users, and over seeds."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from ...reporting.saved_run import SavedRun
from ...runs.runner import Spec
from ...runs.significance import Paired, compare
from .base import Asked, Experiment, Row, Run
from .summary import TITLES, chosen, figures_of

if TYPE_CHECKING:
    from matplotlib.figure import Figure

METRICS = {"recall@20": "_recall", "NDCG@20": "_ndcg"}


def runs(asked: Asked) -> list[Spec]:
    made = []
    for seed in asked.seeds:
        made += [asked.strategy("none", seed), *asked.grid(seed)]
        made += [asked.strategy(name, seed) for name in ("adaptive", "adaptive_user")]
        made.append(asked.recipe(seed))
    return made


def measure(run: SavedRun) -> dict[str, Any]:
    """Every test user's figures, in the order of their ids."""
    return {"_recall": run.test_lists.recall().tolist(), "_ndcg": run.test_lists.ndcg().tolist()}


def paired(ours: Sequence[Run], others: Sequence[Run], metric: str) -> tuple[Paired, Paired | None]:
    """Over users, each with the mean of its seeds, and over seeds where there are several."""
    key = METRICS[metric]
    by_seed = {run["seed"]: run for run in others}
    pairs = [(run["measured"][key], by_seed[run["seed"]]["measured"][key]) for run in ours if run["seed"] in by_seed]
    differences = np.array([np.subtract(mine, theirs) for mine, theirs in pairs])
    over_seeds = compare(differences.mean(1), metric) if len(pairs) > 1 else None
    return compare(differences.mean(0), metric), over_seeds


def comparisons(runs: Sequence[Run]) -> list[tuple[str, str, Paired, Paired | None]]:
    groups = chosen(runs)
    ours = groups.pop(TITLES["adaptive_user"], [])
    return [
        (name, metric, *paired(ours, group, metric))
        for name, group in groups.items()
        if ours and {run["seed"] for run in ours} & {run["seed"] for run in group}
        for metric in METRICS
    ]


def table(asked: Asked, runs: Sequence[Run]) -> list[Row]:
    rows = []
    for name, metric, users, seeds in comparisons(runs):
        other = figures_of(chosen(runs)[name])[metric]["mean"]
        rows.append(
            {
                "Adap-tau against": name,
                "metric": metric,
                "there": other,
                "difference": f"{users.difference:+.4f} ({100 * users.difference / other:+.1f} %)" if other else None,
                "95 % interval": f"{users.low:+.4f} to {users.high:+.4f}",
                "users": users.users,
                "p over users, t": f"{users.p:.2g}",
                "p over users, Wilcoxon": f"{users.p_wilcoxon:.2g}",
                "p over seeds, t": f"{seeds.p:.2g}" if seeds else None,
            }
        )
    return rows


def remarks(asked: Asked, runs: Sequence[Run]) -> list[str]:
    return [
        "Paired, two-sided: each test user's figure (the mean over seeds) under Adap-tau and under the "
        "other. Tests over "
        "users hold the trained models fixed; tests over seeds do not, but have as many pairs as there are seeds. No "
        "correction for the number of comparisons. Any two saved runs: `recbole-adaptau analyse "
        "RUN --against "
        "OTHER`."
    ]


def figures(asked: Asked, runs: Sequence[Run]) -> "dict[str, Figure]":
    from ...reporting import plots

    found = comparisons(runs)
    figure, (drawn,) = plots.panels(len(METRICS))
    for panel, metric in zip(drawn, METRICS, strict=True):
        mine = [(name, users) for name, named, users, _ in found if named == metric]
        for place, (_, users) in enumerate(mine):
            panel.plot([users.low, users.high], [place, place], color="0.3", lw=2)
            panel.plot(users.difference, place, "o", color="black", ms=7)
        panel.axvline(0, color="0.5", linestyle=":")
        panel.set_yticks(range(len(mine)), [f"against {name}" for name, _ in mine])
        panel.set_ylim(len(mine) - 0.5, -0.5)
        panel.locator_params(axis="x", nbins=5)  # labels as long as 0.0025 stand in each other's way
        panel.set_xlabel(f"test {metric}: Adap-tau minus the other (95 % interval over users)")
    figure.suptitle(asked.described("Paired differences"), fontsize=10)
    return {"": figure}


EXPERIMENT = Experiment(
    name="significance",
    brief="Paired tests over users and over seeds between Adap-tau and each other strategy.",
    runs=runs,
    table=table,
    figures=figures,
    remarks=remarks,
    measure=measure,
    taus=(0.1, 0.15, 0.2),
    quick_taus=(0.15, 0.25),
)
