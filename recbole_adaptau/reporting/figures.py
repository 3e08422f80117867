"""The experiments' pictures: data in, a figure out."""

from collections.abc import Sequence
from typing import Any

from matplotlib.figure import Figure
from matplotlib.ticker import FixedLocator, MaxNLocator, NullLocator

from .curves import Curve
from .tables import METRICS, TITLES

COLOURS = ("tab:orange", "tab:blue", "tab:green", "tab:red", "tab:purple", "tab:brown")
DASHES = ("-", (0, (6, 2)), (0, (1, 1.5)), (0, (6, 2, 1, 2)))


def grid_figure(data: dict[str, Any]) -> Figure:
    """Test NDCG@20 over tau as a line; what needs no tau as horizontal lines."""
    figure = Figure(figsize=(8, 4.8))
    panel = figure.subplots()
    fixed = sorted((row for row in data["summary"] if row["tau"] is not None), key=lambda row: row["tau"])
    taus = [row["tau"] for row in fixed]
    means = [row["test"]["ndcg@20"]["mean"] for row in fixed]
    if fixed:
        deviations = [row["test"]["ndcg@20"]["std"] or 0.0 for row in fixed]
        panel.errorbar(
            taus, means, deviations if any(deviations) else None, fmt="o-", color="0.3", capsize=3, label="fixed tau"
        )
        panel.set_xscale("log")
        panel.xaxis.set_major_locator(FixedLocator(taus))
        panel.xaxis.set_minor_locator(NullLocator())
        panel.set_xticklabels([f"{tau:g}" for tau in taus], rotation=45 if len(taus) > 10 else 0)
        panel.set_xlabel("tau (log scale)")
    else:
        panel.set_xticks([])
    if data["best_fixed_tau"] is not None:
        place = taus.index(data["best_fixed_tau"])
        panel.plot(
            [taus[place]], [means[place]], "o", ms=13, mfc="none", mec="black", mew=1.5,
            label=f"best tau by validation ({taus[place]:g})",
        )  # fmt: skip
    others = [row for row in data["summary"] if row["tau"] is None]
    for row, colour, dash in zip(others, COLOURS, (DASHES * 2)[1:], strict=False):
        value = row["test"]["ndcg@20"]
        panel.axhline(
            value["mean"], color=colour, linestyle=dash, lw=2, label=f"{row['strategy']}: {value['mean']:.4f}"
        )
        if value["std"]:
            panel.axhspan(value["mean"] - value["std"], value["mean"] + value["std"], color=colour, alpha=0.12, lw=0)
    panel.set_ylabel("test NDCG@20")
    seeds, done, asked = len(data["seeds"]), len(data["runs"]), data["runs_asked"]
    panel.set_title(
        f"{data['model']} on {data['dataset']}, protocol {data['protocol']}, "
        + (f"mean ± std of {seeds} seeds" if seeds > 1 else f"seed {data['seeds'][0]}")
        + (f" ({done} of {asked} runs done)" if done < asked else "")
    )
    panel.grid(alpha=0.3)
    panel.legend(loc="upper center", bbox_to_anchor=(0.5, -0.14), ncols=2, frameon=False)
    return figure


def curves_figure(curves: Sequence[Curve]) -> Figure:
    """Recall@20 and NDCG@20 by epoch, side by side; references in grey, our runs in colour."""
    figure = Figure(figsize=(11, 4.2))
    panels = figure.subplots(1, len(METRICS))
    runs = [curve for curve in curves if not curve.is_reference]
    references = [curve for curve in curves if curve.is_reference]
    for panel, metric in zip(panels, METRICS, strict=True):
        for number, curve in enumerate(references):
            _draw(panel, curve, metric, "0.25" if number % 2 == 0 else "0.6", DASHES[1 + number % 3], "reference: ")
        for number, curve in enumerate(runs):
            dash = DASHES[number // len(COLOURS) % len(DASHES)]
            _draw(panel, curve, metric, COLOURS[number % len(COLOURS)], dash, "")
        panel.set_xlabel("epoch (the first is 0)")
        panel.set_ylabel(TITLES[metric])
        panel.set_title(f"validation {TITLES[metric]}" + (" and reference" if references else ""))
        panel.grid(alpha=0.3)
    handles, labels = panels[0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="upper center", bbox_to_anchor=(0.5, 0.0), frameon=False)
    figure.tight_layout()
    return figure


def _draw(panel: Any, curve: Curve, metric: str, colour: str, dash: Any, prefix: str) -> None:
    # A single epoch is a point, which a line would not show.
    marker = "o" if len(curve.epochs) == 1 else None
    panel.plot(
        curve.epochs, curve.values[metric], color=colour, linestyle=dash, marker=marker, label=prefix + curve.label
    )


def tuning_figure(data: dict[str, Any]) -> Figure:
    """The validation score by trial with the best so far, and by each tuned key."""
    runs, keys = data["runs"], data["keys"]
    scores = [run["best_valid_score"] for run in runs]
    better = max if runs[0]["valid_score_bigger"] else min
    figure = Figure(figsize=(4 * (len(keys) + 1), 3.6), layout="constrained")
    first, *panels = figure.subplots(1, len(keys) + 1, sharey=True, squeeze=False)[0]
    first.plot(range(1, len(runs) + 1), scores, "o", color="0.5", label="trial")
    best = [better(scores[: end + 1]) for end in range(len(scores))]
    first.plot(range(1, len(runs) + 1), best, color=COLOURS[0], drawstyle="steps-post", label="best so far")
    first.xaxis.set_major_locator(MaxNLocator(integer=True))
    first.set_xlabel("trial")
    first.set_ylabel(f"validation {data['valid_metric']}")
    first.legend(frameon=False)
    for panel, key in zip(panels, keys, strict=True):
        values = [run["settings"][key] for run in runs]
        numbers = all(isinstance(value, int | float) for value in values)
        few: list[Any] = sorted(set(values)) if numbers else list(dict.fromkeys(map(str, values)))
        if numbers and len(few) > 8:
            panel.plot(values, scores, "o", color=COLOURS[1])
            panel.set_xscale("symlog", linthresh=min(abs(value) for value in few if value))
        else:
            places = [few.index(value if numbers else str(value)) for value in values]
            panel.plot(places, scores, "o", color=COLOURS[1])
            panel.set_xticks(range(len(few)), [f"{value:g}" if numbers else value for value in few])
        panel.set_xlabel(key)
    for panel in (first, *panels):
        panel.grid(alpha=0.3)
    figure.suptitle(f"{data['model']} on {data['dataset']}")
    return figure
