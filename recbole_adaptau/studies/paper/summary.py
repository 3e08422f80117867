"""From finished runs to rows: means over seeds, and the best of a grid."""

from collections.abc import Callable, Hashable, Sequence
from typing import Any

from ...reporting.tables import over_seeds
from .base import Run

# The paper's names of our strategies.
TITLES = {
    "none": "No norm",
    "fixed": "Grid search",
    "learned": "C-tau",
    "learned_user": "Cu-tau",
    "adaptive": "Adap-tau_0",
    "adaptive_user": "Adap-tau",
}


def grouped(runs: Sequence[Run], key: Callable[[Run], Hashable]) -> dict[Any, list[Run]]:
    """Runs by a key, in the order in which the keys appear."""
    groups: dict[Any, list[Run]] = {}
    for run in runs:
        groups.setdefault(key(run), []).append(run)
    return groups


def goes_beyond(run: Run) -> bool:
    """Whether the run has the recipe plus, beside runs that do not."""
    return "recipe" in run["settings"]


def label(run: Run) -> str:
    """The paper's name of a run's strategy, or the method's where it goes beyond the paper."""
    return run["method"] if goes_beyond(run) else TITLES[run["settings"]["tau_strategy"]]


def best_of_grid(runs: Sequence[Run]) -> list[Run]:
    """Of runs at fixed temperatures those of the tau that validates best on average over its seeds."""
    by_tau = grouped(runs, lambda run: run["settings"]["tau"])
    bigger = runs[0]["valid_score_bigger"]

    def score(group: list[Run]) -> float:
        return sum(run["best_valid_score"] for run in group) / len(group)

    return (max if bigger else min)(by_tau.values(), key=score)


def chosen(runs: Sequence[Run]) -> dict[str, list[Run]]:
    """Runs of one model and dataset by the paper's names, the grid standing with its best tau only."""
    groups = grouped(runs, label)
    return {name: best_of_grid(group) if name == TITLES["fixed"] else group for name, group in groups.items()}


def figures_of(runs: Sequence[Run]) -> dict[str, Any]:
    """The test figures that every table shows."""
    found = over_seeds(runs)
    return {"recall@20": found["test"]["recall@20"], "NDCG@20": found["test"]["ndcg@20"]}


def seconds_of(runs: Sequence[Run]) -> float:
    return sum(run["seconds"] for run in runs)
