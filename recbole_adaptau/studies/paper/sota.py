"""Figure 5: accuracy against time an epoch and against time in all, beside RecBole's contrastive models."""

import re
from collections.abc import Sequence
from statistics import mean

from ...reporting import plots
from ...runs.runner import Spec
from ..leaderboard.entries import entries
from .base import Asked, Experiment, Figure, Row, Run
from .summary import figures_of, grouped


def runs(asked: Asked) -> list[Spec]:
    """The leaderboard's, each model with the first of its settings there: in its folder they are found, not made."""
    given = {**({"epochs": asked.epochs} if asked.epochs else {}), **asked.given}
    return [
        entry.spec(0, asked.dataset, seed, given, budget=None)
        for entry in entries(asked.models, asked.dataset)
        for seed in asked.seeds
    ]


def table(asked: Asked, runs: Sequence[Run]) -> list[Row]:
    return [
        {
            "method": name,
            **figures_of(group),
            "seconds an epoch": mean(run["train_seconds"] / run["epochs"] for run in group),
            "seconds in all": mean(run["seconds"] for run in group),
            "best epoch": ", ".join(str(run["best_epoch"]) for run in group),
            "stopped by": ", ".join(run["stopped_by"] or "–" for run in group),
        }
        for name, group in grouped(runs, _entry).items()
    ]


def _entry(run: Run) -> str:
    """The leaderboard's name of the model, with its recipe and loss."""
    return re.sub(r"(-try\d+)?-seed\d+$", "", run["name"])


def remarks(asked: Asked, runs: Sequence[Run]) -> list[str]:
    return [
        "Each model with the leaderboard's settings: ours with the defaults, a peer with those published for this data "
        "or else the first of three (`properties/benchmark/`), 64 dimensions for all. What was stopped by epochs or by "
        "its budget may not have come to rest: its accuracy is what that time buys, not what it can do. "
        "Seconds an epoch are of training, seconds in all of training and validation, until it stopped, on the machine "
        "named above, which other work may have shared."
    ]


def draw(asked: Asked, runs: Sequence[Run]) -> Figure:
    from matplotlib.ticker import FuncFormatter, NullFormatter

    rows = table(asked, runs)
    figure, (drawn,) = plots.panels(2, width=5.6)
    for panel, column in zip(drawn, ("seconds an epoch", "seconds in all"), strict=True):
        for number, row in enumerate(rows):
            look = {**plots.style(number), "linestyle": "none", "ms": 10, "mec": "black"}
            panel.plot(row[column], row["recall@20"]["mean"], label=row["method"], **look)
        panel.set_xscale("log")
        panel.set_xlabel(f"{column} (log scale)")
        panel.set_ylabel("test recall@20")
        panel.xaxis.set_major_formatter(FuncFormatter(lambda seconds, _: f"{seconds:g}"))
        panel.xaxis.set_minor_formatter(NullFormatter())
        panel.margins(0.15)
    plots.legend_below(figure, drawn[0], columns=4)
    return plots.titled(figure, asked.described("Accuracy and time"))


EXPERIMENT = Experiment(
    name="sota",
    brief="Figure 5: accuracy against time, beside SGL, NCL, SimpleX and SimGCL.",
    runs=runs,
    table=table,
    draw=draw,
    remarks=remarks,
    models=("AdapTauMF", "AdapTauLightGCN", "SGL", "NCL", "SimpleX", "SimGCL"),
    several_models=True,
    any_model=True,
    epochs=0,
)
