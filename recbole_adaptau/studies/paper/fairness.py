"""Figure 3: recall by popularity of the items for each strategy, beside RecBole's measures of concentration."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from ...reporting import plots
from ...reporting.saved_run import SavedRun
from ...reporting.tables import spread
from ...runs.runner import Spec
from ...training.toplists import GROUPS
from .base import Asked, Experiment, Figure, Row, Run
from .summary import chosen, figures_of

MEASURES = {
    "giniindex@20": "Gini",
    "averagepopularity@20": "mean popularity",
    "itemcoverage@20": "coverage",
    "tailpercentage@20": "tail share",
}


def runs(asked: Asked) -> list[Spec]:
    return [spec for seed in asked.seeds for spec in asked.compared(seed)]


def measure(run: SavedRun) -> dict[str, Any]:
    return {"recall_by_group": run.test_lists.recall_by_group(run.groups).tolist()}


def by_group(group: Sequence[Run]) -> np.ndarray:
    return np.mean([run["measured"]["recall_by_group"] for run in group], axis=0)


def table(asked: Asked, runs: Sequence[Run]) -> list[Row]:
    rows = []
    for name, group in chosen(runs).items():
        parts = by_group(group)
        rows.append(
            {
                "temperature": name,
                **figures_of(group),
                "from groups 1 to 5": float(parts[: GROUPS // 2].sum()),
                **{title: spread([run["test_result"][key] for run in group]) for key, title in MEASURES.items()},
                **{f"group {number + 1}": float(part) for number, part in enumerate(parts)},
            }
        )
    return rows


def remarks(asked: Asked, runs: Sequence[Run]) -> list[str]:
    return [
        "A group's figure is its part of recall@20 (the ten add up to it); group 10 holds the most popular items, and "
        "every group equally many training interactions. Gini (0: all items equally often recommended), mean "
        "popularity, coverage and tail share are RecBole's, of the top 20."
    ]


def draw(asked: Asked, runs: Sequence[Run]) -> Figure:
    groups = chosen(runs)
    figure, ((panel,),) = plots.panels(width=9.0, height=4.2)
    names = [str(number + 1) for number in range(GROUPS)]
    plots.grouped_bars(panel, names, {name: by_group(group) for name, group in groups.items()})
    panel.set_xlabel("popularity group (10 = most popular items)")
    panel.set_ylabel("part of test recall@20")
    panel.legend(fontsize=8)
    return plots.titled(figure, asked.described("Recall by popularity"))


EXPERIMENT = Experiment(
    name="fairness",
    brief="Figure 3: recall by popularity group for each strategy, with Gini, coverage and popularity.",
    runs=runs,
    table=table,
    draw=draw,
    remarks=remarks,
    measure=measure,
    taus=(0.1, 0.15, 0.2),
    quick_taus=(0.15, 0.25),
)
