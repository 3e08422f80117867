"""The appendix's table: tau_0 by both closed forms, and by solving the condition they approximate."""

from collections.abc import Sequence
from typing import Any

from ...core.closed_form import global_tau
from ...reporting.gradient import best_tau, half_mass_tau
from ...reporting.saved_run import SavedRun
from ...reporting.tables import spread
from ...runs.runner import Spec
from ..published import APPROXIMATION
from .base import Asked, Experiment, Row, Run
from .summary import grouped, label

COLUMNS = {
    "variance_gap": "sigma+² − sigma²",
    "with_variances": "tau_0 with variances",
    "simplified": "tau_0 simplified",
    "exact": "tau of E_u[sum p] = 1/2",
    "peak": "tau of the largest gradient",
}


def runs(asked: Asked) -> list[Spec]:
    return [
        asked.strategy(name, seed, model)
        for model in asked.models
        for seed in asked.seeds
        for name in ("adaptive", "adaptive_user")
    ]


def measure(run: SavedRun) -> dict[str, Any]:
    """The closed forms without their bounds, and what they stand for, on the best epoch's embeddings."""
    view = run.view
    bounds = {"tau_min": 0.0, "tau_max": float("inf")}
    return {
        "gap": view.gap,
        "variance_gap": view.variance_gap,
        "with_variances": global_tau(view.gap, view.log_ratio, variance_gap=view.variance_gap, **bounds),
        "simplified": global_tau(view.gap, view.log_ratio, **bounds),
        "exact": half_mass_tau(view),
        "peak": best_tau(view),
    }


def table(asked: Asked, runs: Sequence[Run]) -> list[Row]:
    rows: list[Row] = []
    for (model, name), group in grouped(runs, lambda run: (run["model"], label(run))).items():
        row: Row = {"embeddings of": f"{model}, {name}"}
        for key, title in COLUMNS.items():
            values = [run["measured"][key] for run in group]
            row[title] = None if None in values else spread(values)
        rows.append(row)
    if rows and asked.dataset in APPROXIMATION:
        paper = APPROXIMATION[asked.dataset]
        rows.append({"embeddings of": "paper", **dict(zip(list(COLUMNS.values())[:3], paper, strict=True))})
    return rows


def remarks(asked: Asked, runs: Sequence[Run]) -> list[str]:
    return [
        "On the embeddings of the best epoch. The last two columns are found numerically from the softmax over all "
        "items of up to 2048 users spread evenly over the data: the largest tau at which a user's training positives "
        "hold half of it on average, and the tau (from 0.01 to 2) at which the mean gradient magnitude is largest."
    ]


EXPERIMENT = Experiment(
    name="approximation",
    brief="Appendix table: tau_0 by both closed forms and by solving E_u[sum p] = 1/2 on trained embeddings.",
    runs=runs,
    table=table,
    remarks=remarks,
    measure=measure,
    several_models=True,
)
