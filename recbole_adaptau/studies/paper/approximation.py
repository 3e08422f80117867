"""The appendix's table: tau_0 by both closed forms, and by solving the condition they approximate."""

from collections.abc import Sequence
from typing import Any

from ...core.closed_form import global_tau
from ...core.epoch_view import EpochView
from ...core.strategies import AdaptiveTau
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
    "with_variances_upper": "with variances, users above the 20 % quantile",
    "simplified_upper": "simplified, users above the 20 % quantile",
    "exact": "tau of E_u[sum p] = 1/2",
    "peak": "tau of the largest gradient",
}


# Of the users' numbers of positives; the authors count only users above it (tau_user_quantile of their preset).
USER_QUANTILE = 0.2


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
    upper = upper_view(view)
    return {
        "gap": view.gap,
        "variance_gap": view.variance_gap,
        **closed_forms(view),
        "gap_upper": upper.gap,
        **{f"{key}_upper": tau for key, tau in closed_forms(upper).items()},
        "exact": half_mass_tau(view),
        "peak": best_tau(view),
    }


def closed_forms(view: EpochView) -> dict[str, float]:
    bounds = {"tau_min": 0.0, "tau_max": float("inf")}
    return {
        "with_variances": global_tau(view.gap, view.log_ratio, variance_gap=view.variance_gap, **bounds),
        "simplified": global_tau(view.gap, view.log_ratio, **bounds),
    }


def upper_view(view: EpochView) -> EpochView:
    """The same embeddings, only users with more positives than the quantile counting."""
    authors = AdaptiveTau(0, 0, AdaptiveTau.Settings(tau_user_quantile=USER_QUANTILE))
    least = authors.min_user_count(view.interactions)
    return EpochView(view.epoch, lambda: view.embeddings, view.interactions, least)


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
        "On the embeddings of the best epoch. Two columns count, as the authors' code does, only users with more "
        "training positives than the 20 % quantile, in mu, mu+, sigma, sigma+, n and |D|. The last two columns are "
        "found numerically from the softmax over all items of up to 2048 users spread evenly over the data: the "
        "largest tau at which a user's training positives hold half of it on average, and the tau (from 0.01 to 2) at "
        "which the mean gradient magnitude is largest."
    ]


EXPERIMENT = Experiment(
    name="approximation",
    brief="Appendix table: tau_0 by both closed forms and by solving E_u[sum p] = 1/2 on trained embeddings.",
    runs=runs,
    table=table,
    remarks=remarks,
    measure=measure,
    measured=("with_variances_upper", "simplified_upper"),
    several_models=True,
)
