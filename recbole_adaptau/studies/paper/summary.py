"""From finished runs to rows: means over seeds, and the best of a grid."""

from collections.abc import Callable, Hashable, Sequence
from typing import Any, TypeVar

from ...reporting.tables import over_seeds
from .base import Run

Grouped = TypeVar("Grouped")
# The paper's names of our strategies.
TITLES = {
    "none": "No norm",
    "fixed": "Grid search",
    "learned": "C-tau",
    "learned_user": "Cu-tau",
    "adaptive": "Adap-tau_0",
    "adaptive_user": "Adap-tau",
}


# Behind the name of a strategy whose mu+ − mu is assumed instead of measured.
ASSUMED_GAP = ", gap assumed"


def grouped(runs: Sequence[Grouped], key: Callable[[Grouped], Hashable]) -> dict[Any, list[Grouped]]:
    """Runs, or what stands for them, by a key, in the order in which the keys appear."""
    groups: dict[Any, list[Grouped]] = {}
    for run in runs:
        groups.setdefault(key(run), []).append(run)
    return groups


def goes_beyond(run: Run) -> bool:
    """Whether the run has the recipe plus, beside runs that do not."""
    return "recipe" in run["settings"]


def label(run: Run) -> str:
    """The paper's name of a run's strategy, or the method's where it goes beyond the paper."""
    if goes_beyond(run):
        return str(run["method"])
    settings = run["settings"]
    return TITLES[settings["tau_strategy"]] + (ASSUMED_GAP if "tau_startup_epochs" in settings else "")


def best_of_grid(runs: Sequence[Run]) -> list[Run]:
    """Of runs that differ in what is searched (tau, say) those that validate best on average over their seeds."""
    points = grouped(runs, lambda run: repr({key: run["settings"][key] for key in run["settings"] if key != "seed"}))
    bigger = runs[0]["valid_score_bigger"]

    def score(group: list[Run]) -> float:
        return sum(run["best_valid_score"] for run in group) / len(group)

    return (max if bigger else min)(points.values(), key=score)


def chosen(runs: Sequence[Run]) -> dict[str, list[Run]]:
    """Runs of one model and dataset by the paper's names; where something was searched, the best of the search only."""
    return {name: best_of_grid(group) for name, group in grouped(runs, label).items()}


def figures_of(runs: Sequence[Run]) -> dict[str, Any]:
    """The test figures that every table shows."""
    found = over_seeds(runs)
    return {"recall@20": found["test"]["recall@20"], "NDCG@20": found["test"]["ndcg@20"]}


def seconds_of(runs: Sequence[Run]) -> float:
    return sum(run["seconds"] for run in runs)
