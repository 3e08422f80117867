"""Table 1: what normalising the embeddings of users, of items, of both, or of none is worth."""

from collections.abc import Sequence

from ...reporting import plots
from ...runs.runner import Spec
from ..published import NORMALISATION
from .base import Asked, Experiment, Figure, Row, Run
from .summary import best_of_grid, figures_of, grouped


def runs(asked: Asked) -> list[Spec]:
    """N-N has no temperature; the others are run at each tau of a small grid and stand with the best."""
    made = []
    for seed in asked.seeds:
        made.append(asked.strategy("none", seed))
        for sides in ("Y-N", "N-Y"):
            made += asked.grid(seed, normalization=sides)
        made += asked.grid(seed)  # normalises both: the same run as in the other experiments
    return made


def sides_of(run: Run) -> str:
    settings = run["settings"]
    return "N-N" if settings["tau_strategy"] == "none" else settings.get("normalization", "Y-Y")


def table(asked: Asked, runs: Sequence[Run]) -> list[Row]:
    rows = []
    for sides, group in grouped(runs, sides_of).items():
        best = group if sides == "N-N" else best_of_grid(group)
        tau = None if sides == "N-N" else best[0]["settings"]["tau"]
        paper = {
            f"paper, {name}": " / ".join(f"{figure:.4f}" for figure in figures)
            for name, figures in NORMALISATION[sides].items()
        }
        rows.append({"users-items": sides, "tau": tau, **figures_of(best), **paper})
    return rows


def draw(asked: Asked, runs: Sequence[Run]) -> Figure:
    rows = table(asked, runs)
    figure, ((panel,),) = plots.panels()
    plots.accuracies(panel, [row["users-items"] for row in rows], rows, len(asked.seeds) > 1)
    panel.set_xlabel("normalised: users-items")
    plots.legend_below(figure, panel)
    return plots.titled(figure, asked.described("Normalisation"))


EXPERIMENT = Experiment(
    name="norm-ablation",
    brief="Table 1: embeddings of users and items normalised or not (N-N, Y-N, N-Y, Y-Y).",
    runs=runs,
    table=table,
    draw=draw,
    taus=(0.1, 0.15, 0.2),
    quick_taus=(0.15, 0.25),
)
