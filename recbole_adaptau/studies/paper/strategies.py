"""The main table: six ways to set the temperature on both backbones, and what the grid search costs."""

from collections.abc import Sequence

from ...reporting import plots
from ...reporting.tables import seconds
from ...runs.runner import Spec
from ..published import reported
from .base import Asked, Experiment, Figure, Row, Run
from .summary import TITLES, chosen, figures_of, goes_beyond, grouped, seconds_of


def runs(asked: Asked) -> list[Spec]:
    made = []
    for model in asked.models:
        for seed in asked.seeds:
            made.append(asked.strategy("none", seed, model))
            made += asked.grid(seed, model)
            made += [asked.strategy(name, seed, model) for name in TITLES if name not in ("none", "fixed")]
            made.append(asked.plus(seed, model))
    return made


def table(asked: Asked, runs: Sequence[Run]) -> list[Row]:
    rows = []
    for model, mine in grouped(runs, lambda run: run["model"]).items():
        for name, group in chosen(mine).items():
            settings = group[0]["settings"]
            paper = None if goes_beyond(group[0]) else reported(model, asked.dataset, settings["tau_strategy"])
            made = (
                [run for run in mine if run["settings"].get("tau_strategy") == "fixed"]
                if name == TITLES["fixed"]
                else group
            )
            rows.append(
                {
                    "model": model,
                    "temperature": name + (f", tau = {settings['tau']}" if "tau" in settings else ""),
                    **figures_of(group),
                    "paper": " / ".join(f"{figure:.4f}" for figure in paper) if paper else None,
                    "runs a seed": len(made) // len(group),
                    "seconds a seed": seconds(seconds_of(made) / len(group)),
                }
            )
    return rows


def remarks(asked: Asked, runs: Sequence[Run]) -> list[str]:
    return [
        "Grid search stands with the tau that validates best; its seconds are those of the whole grid. A model with + "
        "has the recipe `plus` and the package's own learning rate and batches, and goes beyond the paper."
    ]


def draw(asked: Asked, runs: Sequence[Run]) -> Figure:
    models = grouped(table(asked, runs), lambda row: row["model"])
    figure, (drawn,) = plots.panels(len(models), width=6.0)
    for panel, (model, rows) in zip(drawn, models.items(), strict=True):
        names = [row["temperature"].replace(", ", "\n").replace("+", "\n+") for row in rows]
        plots.accuracies(panel, names, rows, len(asked.seeds) > 1)
        panel.tick_params(axis="x", labelsize=8, rotation=30)
        panel.set_title(model, fontsize=10)
    plots.legend_below(figure, drawn[0])
    return plots.titled(figure, asked.described("Strategies"))


EXPERIMENT = Experiment(
    name="strategies",
    brief="Main table: six temperature strategies on both backbones, with the cost of the grid search.",
    runs=runs,
    table=table,
    draw=draw,
    remarks=remarks,
    models=("AdapTauMF", "AdapTauLightGCN"),
    several_models=True,
    taus=(0.1, 0.15, 0.2),
    quick_taus=(0.15, 0.25),
)
