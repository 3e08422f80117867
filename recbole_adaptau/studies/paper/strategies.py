"""The main table: six ways to set the temperature on both backbones, and what each search costs."""

from collections.abc import Sequence

from ...reporting import plots
from ...reporting.tables import seconds
from ...runs.runner import Spec
from ..published import reported
from .base import Asked, Experiment, Figure, Row, Run
from .summary import TITLES, chosen, figures_of, goes_beyond, grouped, label, seconds_of

# Settings that are searched on validation, as the table names them. Baselines with untuned settings flatter Adap-tau.
SEARCHED = ("tau", "tau_learning_rate", "reg_weight")


def runs(asked: Asked) -> list[Spec]:
    """Each strategy with the settings common to all; baselines with settings of their own, too."""
    starts, rates, weights = (asked.searched.get(name, ()) for name in ("starts", "tau-rates", "reg-weights"))
    learned: list[dict[str, float]] = [{"tau": start, "tau_learning_rate": rate} for start in starts for rate in rates]
    further = {"none": [{"reg_weight": weight} for weight in weights], "learned": learned, "learned_user": learned}
    made = []
    for model in asked.models:
        for seed in asked.seeds:
            for name in TITLES:
                if name == "fixed":
                    made += asked.grid(seed, model)
                else:
                    points = ({}, *further.get(name, ()))
                    made += [asked.strategy(name, seed, model, **point) for point in points]
            made.append(asked.plus(seed, model))
    return made


def table(asked: Asked, runs: Sequence[Run]) -> list[Row]:
    rows = []
    for model, mine in grouped(runs, lambda run: run["model"]).items():
        tried = grouped(mine, label)
        for name, group in chosen(mine).items():
            settings, made = group[0]["settings"], tried[name]
            paper = None if goes_beyond(group[0]) else reported(model, asked.dataset, settings["tau_strategy"])
            found = [f"{key} = {settings[key]:g}" for key in SEARCHED if key in settings]
            rows.append(
                {
                    "model": model,
                    "temperature": ", ".join([name, *found]),
                    **figures_of(group),
                    "paper": " / ".join(f"{figure:.4f}" for figure in paper) if paper else None,
                    "runs a seed": len(made) // len(group),
                    "seconds a seed": seconds(seconds_of(made) / len(group)),
                }
            )
    return rows


def remarks(asked: Asked, runs: Sequence[Run]) -> list[str]:
    return [
        "Searched on validation: the tau of Grid search; where C-tau and Cu-tau start (tau) and at which rate they "
        "learn (tau_learning_rate); the L2 of No norm (reg_weight). A row has what validates best, named behind the "
        "strategy; where nothing is named, these are the settings of all other rows. Its runs and seconds are those of "
        "the whole search. A model with + has the recipe `plus` and the package's own learning rate and batches, "
        "and goes beyond the paper."
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
    brief="Main table: six temperature strategies on both backbones, with the cost of each search.",
    runs=runs,
    table=table,
    draw=draw,
    remarks=remarks,
    models=("AdapTauMF", "AdapTauLightGCN"),
    several_models=True,
    taus=(0.1, 0.15, 0.2),
    quick_taus=(0.15, 0.25),
    searched={"starts": (0.1, 0.2), "tau-rates": (1e-3, 1e-4, 1e-5), "reg-weights": (1e-3, 1e-2, 1e-1)},
    quick_searched={"starts": (0.2,), "tau-rates": (1e-4,), "reg-weights": (1e-2,)},
)
