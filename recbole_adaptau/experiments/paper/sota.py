"""Figure 5: accuracy against time an epoch and against time in all, beside RecBole's contrastive models."""

from collections.abc import Sequence
from statistics import mean
from typing import TYPE_CHECKING

import recbole.utils

from ...model import AdapTauRecommender
from ..runner import Spec
from .base import RECIPE, Asked, Experiment, Row, Run
from .summary import figures_of, grouped, is_recipe

if TYPE_CHECKING:
    from matplotlib.figure import Figure

# What the models must share to be compared; everything else is RecBole's default for them.
PEERS = {
    **RECIPE,
    "valid_metric": "NDCG@20",
    "embedding_size": 64,
    "train_batch_size": 2048,
    "eval_batch_size": 16000000,
    "metric_decimal_place": 6,
}


def runs(asked: Asked) -> list[Spec]:
    """Ours as in the paper and with the package's defaults; the others as RecBole sets them."""
    made = []
    for model in asked.models:
        for seed in asked.seeds:
            if issubclass(recbole.utils.get_model(model), AdapTauRecommender):
                made += [asked.strategy("adaptive_user", seed, model), asked.recipe(seed, model)]
            else:
                made.append(asked.spec("peer", {"seed": seed}, model, PEERS))
    return made


def name_of(run: Run) -> str:
    return run["model"] + (", our defaults" if is_recipe(run) else "")


def table(asked: Asked, runs: Sequence[Run]) -> list[Row]:
    return [
        {
            "model": name,
            **figures_of(group),
            "seconds an epoch": mean(run["train_seconds"] / run["epochs"] for run in group),
            "seconds in all": mean(run["seconds"] for run in group),
            "best epoch": ", ".join(str(run["best_epoch"]) for run in group),
        }
        for name, group in grouped(runs, name_of).items()
    ]


def remarks(asked: Asked, runs: Sequence[Run]) -> list[str]:
    return [
        "All with 64 dimensions and the same number of epochs, which favours what learns fast, and in batches of 2048 "
        "but for AdapTauLightGCN with our defaults: the others "
        "have RecBole's own defaults, are not tuned and may not have come to rest, so that their accuracy here is no "
        "measure of what they can do; the leaderboard is. Seconds an epoch are of training, seconds in all of training "
        "and validation, on the machine named above, which other work may have shared."
    ]


def figures(asked: Asked, runs: Sequence[Run]) -> "dict[str, Figure]":
    from matplotlib.ticker import FuncFormatter, NullFormatter

    from ...analysis import plots

    rows = table(asked, runs)
    figure, (drawn,) = plots.panels(2, width=5.6)
    for panel, column in zip(drawn, ("seconds an epoch", "seconds in all"), strict=True):
        for number, row in enumerate(rows):
            marker = plots.MARKERS[number % len(plots.MARKERS)]
            colour = plots.COLOURS[number % len(plots.COLOURS)]
            panel.plot(
                row[column], row["recall@20"]["mean"], marker, color=colour, ms=10, mec="black", label=row["model"]
            )
        panel.set_xscale("log")
        panel.set_xlabel(f"{column} (log scale)")
        panel.set_ylabel("test recall@20")
        panel.xaxis.set_major_formatter(FuncFormatter(lambda seconds, _: f"{seconds:g}"))
        panel.xaxis.set_minor_formatter(NullFormatter())
        panel.margins(0.15)
    figure.legend(*drawn[0].get_legend_handles_labels(), loc="outside lower center", ncols=4, fontsize=8)
    figure.suptitle(asked.described("Accuracy and time"), fontsize=10)
    return {"": figure}


EXPERIMENT = Experiment(
    name="sota",
    brief="Figure 5: accuracy against time, beside SGL, NCL, SimpleX and SimGCL.",
    runs=runs,
    table=table,
    figures=figures,
    remarks=remarks,
    models=("AdapTauMF", "AdapTauLightGCN", "SGL", "NCL", "SimpleX", "SimGCL"),
    several_models=True,
)
