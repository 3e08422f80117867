"""The pictures of one saved run."""

from typing import Any

import numpy as np
from matplotlib.figure import Figure
from numpy.typing import NDArray

from ..training.toplists import GROUPS
from . import plots
from .saved_run import SavedRun


def trace_figure(records: list[dict[str, Any]]) -> Figure:
    """tau_0 and the spread of tau_u by epoch, and beside it the gap mu+ − mu that tau_0 follows."""
    figure, ((taus, gaps),) = plots.panels(2)
    epochs = [record["epoch"] for record in records]
    taus.fill_between(
        epochs,
        [record["tau_u_min"] for record in records],
        [record["tau_u_max"] for record in records],
        color="0.85",
        label="tau_u, smallest to largest",
    )
    taus.plot(epochs, [record["tau_0"] for record in records], label="tau_0", **plots.style(0, markers=False))
    mean = [record["tau_u_mean"] for record in records]
    taus.plot(epochs, mean, label="tau_u, mean", **plots.style(1, markers=False))
    taus.set(xlabel="epoch", ylabel="temperature tau")
    gaps.plot(epochs, [record["gap"] for record in records], label="mu+ − mu", **plots.style(0, markers=False))
    gaps.set(xlabel="epoch", ylabel="mean score of positives above all")
    for panel in (taus, gaps):
        panel.legend(fontsize=8)
    return figure


def users_figure(run: SavedRun) -> Figure:
    """tau_u by how much a user has, and by how popular it is."""
    figure, ((by_activity, by_taste),) = plots.panels(2)
    for panel, values, words in (
        (by_activity, run.activity, "training positives of the user (median of each tenth)"),
        (by_taste, run.taste, "mean popularity rank of the user's items (0 rarest, 1 most popular)"),
    ):
        places, parts = tenths(values, run.temperatures)
        panel.boxplot(parts, showfliers=False, medianprops={"color": "black", "lw": 2}, tick_labels=places)
        panel.set(xlabel=words, ylabel="temperature tau_u (box: quartiles)")
    return figure


def tenths(values: NDArray[Any], taus: NDArray[np.float64]) -> tuple[list[str], list[NDArray[np.float64]]]:
    """Users in ten parts of equal size by a value: the median of each part's values, and its temperatures."""
    order = np.array_split(np.argsort(values, kind="stable"), min(10, len(values)))
    return [f"{np.median(values[part]):.3g}" for part in order], [taus[part] for part in order]


def groups_figure(run: SavedRun) -> Figure:
    """Norms of the items' embeddings and parts of recall@20 by popularity."""
    figure, ((norms, recall),) = plots.panels(2)
    names = [str(number + 1) for number in range(GROUPS)]
    plots.grouped_bars(norms, names, {"norm": run.item_norms})
    plots.grouped_bars(recall, names, {"recall@20": run.test_lists.recall_by_group(run.groups)})
    norms.set(xlabel="popularity group (10 = most popular)", ylabel="mean item embedding norm")
    recall.set(xlabel="popularity group (10 = most popular)", ylabel="part of test recall@20")
    return figure
