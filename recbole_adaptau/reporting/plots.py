"""One look for all of Matplotlib's pictures: told apart by line, marker and hatching as well as by colour.

Matplotlib is imported only when something is drawn: who does not draw need not have it.
"""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from . import palette
from .palette import COLOURS

if TYPE_CHECKING:
    from matplotlib.figure import Figure
else:
    Figure = Any

MARKERS = tuple(palette.MARKERS)
HATCHES = ("", "///", "...", "xxx", "\\\\\\", "ooo", "++", "--")


def panels(columns: int = 1, rows: int = 1, width: float = 5.2, height: float = 4.0, **more: Any) -> tuple[Figure, Any]:
    """A figure and its panels, [rows, columns]; `more` goes to Matplotlib's subplots."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(width * columns, height * rows), layout="constrained")
    made = figure.subplots(rows, columns, squeeze=False, **more)
    for panel in made.flat:
        panel.grid(alpha=0.25, lw=0.6)
        panel.set_axisbelow(True)
    return figure, made


def titled(figure: Figure, title: str) -> Figure:
    figure.suptitle(title, fontsize=10)
    return figure


def legend_below(figure: Figure, panel: Any, columns: int = 2) -> None:
    """A panel's legend, below all panels."""
    figure.legend(*panel.get_legend_handles_labels(), loc="outside lower center", ncols=columns, fontsize=8)


def dash(number: int) -> Any:
    lengths = palette.DASHES[number % len(palette.DASHES)]
    return (0, lengths) if lengths else "-"


def style(number: int, markers: bool = True) -> dict[str, Any]:
    """Line number `number` of a picture."""
    drawn = {"color": COLOURS[number % len(COLOURS)], "linestyle": dash(number), "lw": 1.6}
    return {**drawn, **({"marker": MARKERS[number % len(MARKERS)], "ms": 5} if markers else {})}


def bar_style(number: int) -> dict[str, Any]:
    place = number % len(COLOURS)
    drawn = {"color": COLOURS[place], "hatch": HATCHES[place]}
    return {**drawn, "alpha": 0.85, "edgecolor": "white", "linewidth": 0.3}


def ring(panel: Any, x: float, y: float, label: str) -> None:
    """A circle around the best point of a line."""
    panel.plot(x, y, "o", ms=13, mfc="none", mec="black", mew=1.5, label=label)


def accuracies(panel: Any, names: Sequence[str], rows: Sequence[Mapping[str, Any]], deviations: bool) -> None:
    """A point for each row's test recall@20 and NDCG@20, spreads over seeds as a table has them.

    Points, not bars: what matters are differences of a few per cent, and bars have to start at 0.
    """
    for number, metric in enumerate(("recall@20", "NDCG@20")):
        values = [row[metric]["mean"] for row in rows]
        errors = [row[metric]["std"] for row in rows] if deviations else None
        look = {**style(number), "linestyle": "none", "ms": 9}
        panel.errorbar(range(len(rows)), values, errors, capsize=4, label=metric, **look)
    panel.set_xticks(range(len(rows)), names)
    panel.margins(x=0.1)
    panel.set_ylabel("test recall@20, NDCG@20")


def grouped_bars(panel: Any, names: Sequence[str], values: Mapping[str, Any]) -> None:
    """For each name a bar of each series, side by side."""
    width = 0.8 / len(values)
    for number, (series, heights) in enumerate(values.items()):
        places = np.arange(len(names)) + (number - (len(values) - 1) / 2) * width
        panel.bar(places, heights, width, label=series, **bar_style(number))
    panel.set_xticks(range(len(names)), names)


def tau_axis(panel: Any, taus: Sequence[float]) -> None:
    """Temperatures on a logarithmic axis with the values themselves as ticks, as many as have room."""
    from matplotlib.ticker import FixedLocator, FuncFormatter, NullLocator

    panel.set_xscale("log")
    shown: list[float] = []
    for tau in sorted(taus):
        if not shown or len(taus) <= 8 or np.log(tau / shown[-1]) > 0.2:
            shown.append(tau)
    panel.xaxis.set_major_locator(FixedLocator(shown))
    panel.xaxis.set_minor_locator(NullLocator())
    panel.xaxis.set_major_formatter(FuncFormatter(lambda tau, _: f"{tau:g}"))
    panel.tick_params(axis="x", rotation=45 if len(shown) > 8 else 0)
    panel.set_xlabel("temperature tau (log scale)")
