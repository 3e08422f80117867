"""The pictures of runs: data in, a figure out."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator
from numpy.typing import NDArray

from ..training.toplists import GROUPS
from . import plots
from .curves import Curve
from .saved_run import SavedRun
from .tables import METRICS, PROTOCOLS, methods, title


def grid_figure(data: dict[str, Any]) -> Figure:
    """NDCG@20 over tau, on validation and on test; each strategy stands at the tau_0 it has found."""
    figure, (panels,) = plots.panels(2, width=5.5, height=4.4)
    for panel, part in zip(panels, ("valid", "test"), strict=True):
        draw_grid(panel, data, part)
    plots.legend_below(figure, panels[1])
    seeds, done, asked = len(data["seeds"]), len(data["runs"]), data["runs_asked"]
    return plots.titled(
        figure,
        f"{methods(data['runs'])} on {data['dataset']}, "
        + (f"mean ± std of {seeds} seeds" if seeds > 1 else f"seed {data['seeds'][0]}")
        + (f" ({done} of {asked} runs done)" if done < asked else "")
        + f"\n{PROTOCOLS[data['protocol']]}",
    )


def draw_grid(panel: Any, data: dict[str, Any], part: str) -> None:
    """A panel of `grid_figure`: NDCG@20 of the fixed temperatures as a line, of strategies as points at their tau_0.

    Args:
        part: valid or test.
    """
    fixed = sorted((row for row in data["summary"] if row["tau"] is not None), key=lambda row: row["tau"])
    taus = [row["tau"] for row in fixed]
    means = [row[part]["ndcg@20"]["mean"] for row in fixed]
    if fixed:
        deviations = [row[part]["ndcg@20"]["std"] or 0.0 for row in fixed]
        panel.errorbar(
            taus, means, deviations if any(deviations) else None, capsize=3, label="fixed tau", **plots.style(0)
        )
        plots.tau_axis(panel, taus)
    else:
        panel.set_xticks([])
    if data["best_fixed_tau"] is not None:
        place = taus.index(data["best_fixed_tau"])
        plots.ring(panel, taus[place], means[place], f"best tau by validation ({taus[place]:g})")
    for number, row in enumerate((row for row in data["summary"] if row["tau"] is None), start=1):
        mean, std = row[part]["ndcg@20"]["mean"], row[part]["ndcg@20"]["std"]
        label = f"{row['strategy']}: {mean:.4f}"
        if "tau_0" in row:
            look = {**plots.style(number), "linestyle": "none", "ms": 9}
            panel.errorbar(row["tau_0"], mean, std, capsize=3, label=f"{label} at {row['tau_0']:.3f}", **look)
        else:
            panel.axhline(mean, label=label, **plots.style(number, markers=False))
    panel.set_ylabel(f"{'validation' if part == 'valid' else part} NDCG@20")


def curves_figure(curves: Sequence[Curve]) -> Figure:
    """Recall@20 and NDCG@20 by epoch, side by side; references in grey, our runs in colour."""
    figure, (panels,) = plots.panels(len(METRICS), width=5.5)
    runs = [curve for curve in curves if not curve.is_reference]
    references = [curve for curve in curves if curve.is_reference]
    for panel, metric in zip(panels, METRICS, strict=True):
        for number, curve in enumerate(references):
            grey = {"color": "0.25" if number % 2 == 0 else "0.6", "linestyle": plots.dash(1 + number % 3)}
            _draw(panel, curve, metric, grey, "reference: ")
        for number, curve in enumerate(runs):
            _draw(panel, curve, metric, plots.style(number, markers=False), "")
        panel.set(xlabel="epoch (the first is 0)", ylabel=title(metric))
        panel.set_title(f"validation {title(metric)}" + (" and reference" if references else ""))
    plots.legend_below(figure, panels[0], columns=1)
    return figure


def _draw(panel: Any, curve: Curve, metric: str, look: dict[str, Any], prefix: str) -> None:
    # A single epoch is a point, which a line would not show.
    marker = "o" if len(curve.epochs) == 1 else None
    panel.plot(curve.epochs, curve.values[metric], marker=marker, label=prefix + curve.label, **look)


def tuning_figure(data: dict[str, Any]) -> Figure:
    """The validation score by trial with the best so far, and by each tuned key."""
    runs, keys = data["runs"], data["keys"]
    scores = [run["best_valid_score"] for run in runs]
    better = max if runs[0]["valid_score_bigger"] else min
    figure, ((first, *panels),) = plots.panels(len(keys) + 1, width=4, height=3.6, sharey=True)
    point = {**plots.style(0), "linestyle": "none"}
    first.plot(range(1, len(runs) + 1), scores, label="trial", **point)
    best = [better(scores[: end + 1]) for end in range(len(scores))]
    look = plots.style(1, markers=False)
    first.plot(range(1, len(runs) + 1), best, drawstyle="steps-post", label="best so far", **look)
    first.xaxis.set_major_locator(MaxNLocator(integer=True))
    first.set(xlabel="trial", ylabel=f"validation {data['valid_metric']}")
    first.legend(frameon=False)
    for panel, key in zip(panels, keys, strict=True):
        values = [run["settings"][key] for run in runs]
        numbers = all(isinstance(value, int | float) for value in values)
        few: list[Any] = sorted(set(values)) if numbers else list(dict.fromkeys(map(str, values)))
        if numbers and len(few) > 8:
            panel.plot(values, scores, **point)
            panel.set_xscale("symlog", linthresh=min(abs(value) for value in few if value))
        else:
            panel.plot([few.index(value if numbers else str(value)) for value in values], scores, **point)
            panel.set_xticks(range(len(few)), [f"{value:g}" if numbers else value for value in few])
        panel.set_xlabel(key)
    return plots.titled(figure, f"{methods(runs)} on {data['dataset']}, {PROTOCOLS[data['protocol']]}")


def trace_figure(records: list[dict[str, Any]]) -> Figure:
    """tau_0 and the spread of tau_u by epoch, and beside it the gap mu+ − mu that tau_0 follows."""
    figure, ((taus, gaps),) = plots.panels(2)
    epochs = [record["epoch"] for record in records]
    least, most = ([record[key] for record in records] for key in ("tau_u_min", "tau_u_max"))
    taus.fill_between(epochs, least, most, color="0.85", label="tau_u, smallest to largest")
    for panel, key, label, number in (
        (taus, "tau_0", "tau_0", 0),
        (taus, "tau_u_mean", "tau_u, mean", 1),
        (gaps, "gap", "mu+ − mu", 0),
    ):
        values = [record[key] for record in records]
        panel.plot(epochs, values, label=label, **plots.style(number, markers=False))
        panel.legend(fontsize=8)
    taus.set(xlabel="epoch", ylabel="temperature tau")
    gaps.set(xlabel="epoch", ylabel="mean score of positives above all")
    return figure


def users_figure(run: SavedRun) -> Figure:
    """tau_u by a user's number of positives, and by their popularity."""
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
    norms.set(xlabel=f"popularity group ({GROUPS} = most popular)", ylabel="mean item embedding norm")
    recall.set(xlabel=f"popularity group ({GROUPS} = most popular)", ylabel="part of test recall@20")
    return figure
