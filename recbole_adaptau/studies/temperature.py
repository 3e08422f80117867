"""Several grid searches side by side: what each strategy has of the best fixed temperature, and tau_0 by epoch."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..errors import DataError
from ..reporting import plots
from ..reporting.tables import PROTOCOLS, Row, as_markdown, machines, methods
from ..runs.folder import RunFolder
from .grid import best_fixed

if TYPE_CHECKING:
    from matplotlib.figure import Figure

# Whatever stands below this line of the page is written by hand, and kept.
BY_HAND = "## Notes"
METRIC = "ndcg@20"


class Grid:
    """What `experiment grid` left in a folder, complete or not.

    Attributes:
        data: Its grid.json.
        best: The row of the fixed temperature that validates best; None where there is none.
        noise: The share of false positives.
    """

    def __init__(self, folder: str | Path):
        self.folder = Path(folder)
        try:
            self.data: dict[str, Any] = json.loads((self.folder / "grid.json").read_text(encoding="utf-8"))
            self.best = best_fixed(self.data["summary"], self.data["runs"][0]["valid_score_bigger"])
        except (OSError, ValueError, LookupError, TypeError) as error:
            raise DataError(
                f"{folder} has no readable grid.json of a grid with a finished run ({type(error).__name__}): name "
                "folders that `recbole-adaptau experiment grid` has written."
            ) from error
        self.noise = float(self.data.get("given", {}).get("noise_ratio") or 0.0)

    @property
    def title(self) -> str:
        noise = f", {100 * self.noise:g} % false positives" if self.noise else ""
        return f"{methods(self.data['runs'])}, {self.data['dataset']}{noise}"

    def strategies(self) -> list[Row]:
        return [row for row in self.data["summary"] if row["tau"] is None]


def rows(grids: Sequence[Grid]) -> list[Row]:
    """A row for each grid: the best fixed temperature by validation, and each strategy's share of its figures."""
    made = []
    for grid in grids:
        row: Row = {
            "dataset": grid.data["dataset"],
            "method": methods(grid.data["runs"]),
            "noise": f"{100 * grid.noise:g} %",
            "seeds": len(grid.data["seeds"]),
            "taus": " ".join(f"{one['tau']:g}" for one in grid.data["summary"] if one["tau"] is not None),
        }
        if grid.best:
            row |= {"best": f"{grid.best['tau']:g}", "NDCG@20": grid.best["test"][METRIC]}
        for found in grid.strategies():
            shown = f"{found['test'][METRIC]['mean']:.4f}"
            if grid.best:
                shown = f"{found['test'][METRIC]['mean'] / grid.best['test'][METRIC]['mean']:.3f} ({shown})"
            row[found["strategy"]] = f"{shown} at {found['tau_0']:.3f}" if "tau_0" in found else shown
        made.append(row)
    return made


def page(grids: Sequence[Grid], pictures: Sequence[str], earlier: str = "") -> str:
    """The report; what was written by hand below `BY_HAND` of an earlier one stays."""
    protocols = dict.fromkeys(PROTOCOLS[grid.data["protocol"]] for grid in grids)
    lines = [
        "# Strategies beside the best fixed temperature",
        "",
        f"{'; '.join(protocols).capitalize()}. `best` is the fixed tau that validates best among `taus`, and the "
        "column after it its test NDCG@20. Each strategy: its test NDCG@20 as a share of that, the figure itself, "
        "and the tau_0 it ended with.",
        "",
        *as_markdown(rows(grids)),
        "",
        f"On {machines([run for grid in grids for run in grid.data['runs']])}. The commands, in this order:",
        "```",
        *(grid.data["command"] for grid in grids),
        "```",
        "This page and the pictures are made by `recbole-adaptau experiment temperature GRID_FOLDER …`.",
    ]
    for file in pictures:
        lines += ["", f"![{Path(file).stem}]({file})"]
    _, line, kept = earlier.partition(f"\n{BY_HAND}")
    return "\n".join([*lines, ""]) + (line + kept)


def sweep_figure(grids: Sequence[Grid]) -> "Figure":
    """A panel for each grid of several fixed tau: validation NDCG@20 over tau, and the strategies at their tau_0."""
    from ..reporting.figures import draw_grid

    columns = min(len(grids), 3)
    figure, panels = plots.panels(columns, -(-len(grids) // columns), width=4.8, height=4.0)
    for panel, grid in zip(panels.flat, grids, strict=False):
        draw_grid(panel, grid.data, "valid")
        panel.set_title(grid.title, fontsize=9)
        panel.legend(fontsize=7)
    for panel in panels.flat[len(grids) :]:
        panel.set_visible(False)
    return plots.titled(figure, "; ".join(dict.fromkeys(PROTOCOLS[grid.data["protocol"]] for grid in grids)))


def trace_figure(grids: Sequence[Grid]) -> "Figure":
    """tau_0 by epoch, a panel for each dataset: a line for each strategy of each grid; fixed bests as ends."""
    datasets = list(dict.fromkeys(grid.data["dataset"] for grid in grids))
    columns = min(len(datasets), 3)
    figure, panels = plots.panels(columns, -(-len(datasets) // columns), width=5.2, height=4.4)
    for panel, dataset in zip(panels.flat, datasets, strict=False):
        number = 0
        for grid in (one for one in grids if one.data["dataset"] == dataset):
            for name in dict.fromkeys(row["strategy"] for row in grid.strategies()):
                run = next(one for one in grid.data["runs"] if one["settings"]["tau_strategy"] == name)
                records = RunFolder(grid.folder / run["folder"]).read_epochs()
                epochs = [record["epoch"] for record in records]
                look = plots.style(number, markers=False)
                label = f"{grid.title.replace(f', {dataset}', '', 1)}, {name}"
                panel.plot(epochs, [record["tau_0"] for record in records], label=label, **look)
                if grid.best:
                    panel.plot(epochs[-1] * 1.03, grid.best["tau"], "<", color=look["color"])
                number += 1
        panel.set(xlabel="epoch", ylabel="tau_0 (log scale)", yscale="log", title=dataset)
        for axis_format in (panel.yaxis.set_major_formatter, panel.yaxis.set_minor_formatter):
            axis_format("{x:g}")
        panel.legend(fontsize=6)
    for panel in panels.flat[len(datasets) :]:
        panel.set_visible(False)
    return plots.titled(figure, "triangles: best fixed tau by validation")


def files(grids: Sequence[Grid], earlier: str = "") -> dict[str, Any]:
    """The reports by file name."""
    pictures = {}
    if swept := [grid for grid in grids if len(grid.data["summary"]) > len(grid.strategies()) + 1]:
        pictures["temperature.png"] = sweep_figure(swept)
    traced = [grid for grid in grids if (grid.folder / grid.data["runs"][0]["folder"]).is_dir() and grid.strategies()]
    if traced:
        pictures["temperature-by-epoch.png"] = trace_figure(traced)
    return {"README.md": page(grids, list(pictures), earlier), **pictures}
