"""The page about one saved run: popularity groups, temperatures, and a paired test against another run."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy.stats import spearmanr

from ..model import AdapTauRecommender
from ..runs.significance import METRICS, paired
from .curves import run_label
from .saved_run import SavedRun
from .tables import table, title

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def against(run: SavedRun, other: SavedRun) -> dict[str, Any]:
    """Paired tests over the test users of two runs."""
    tests = {title(metric): vars(paired([run.folder], [other.folder], metric)) for metric in METRICS}
    return {"run": run_label(other.folder.settings()), **tests}


def files(run: SavedRun, other: SavedRun | None = None) -> dict[str, Any]:
    """The page, its figures as JSON, and the pictures, by file name."""
    from . import figures

    drawn: dict[str, Figure] = {"groups": figures.groups_figure(run)}
    data: dict[str, Any] = {
        "run": run_label(run.folder.settings()),
        "data": run.statistics(),
        "items": np.bincount(run.groups[1:].numpy(), minlength=10).tolist(),
        "norms": [None if np.isnan(norm) else norm for norm in run.item_norms.tolist()],
        "recall_by_group": run.test_lists.recall_by_group(run.groups).tolist(),
        "recall@20": float(run.test_lists.recall().mean()),
    }
    if isinstance(run.model, AdapTauRecommender):
        drawn["trace"] = figures.trace_figure(run.folder.read_epochs())
        data["tau_0"] = float(run.model.strategy.tau_0)
        data["tau_u"] = dict(zip(("min", "5 %", "median", "95 %", "max"), _quantiles(run.temperatures), strict=True))
        if np.ptp(run.temperatures) > 0:
            drawn["users"] = figures.users_figure(run)
            data["spearman"] = {
                "number of positives": rank_correlation(run.activity, run.temperatures),
                "mean popularity of its items": rank_correlation(run.taste, run.temperatures),
            }
    if other is not None:
        data["against"] = against(run, other)
    pictures = {f"{name}.png": figure for name, figure in drawn.items()}
    return {**pictures, "analysis.json": data, "analysis.md": _text(data, list(drawn))}


def rank_correlation(first: np.ndarray, second: np.ndarray) -> float | None:
    """Spearman's; None where one side is the same for everybody."""
    return float(spearmanr(first, second)[0]) if np.ptp(first) > 0 and np.ptp(second) > 0 else None


def _quantiles(values: np.ndarray) -> list[float]:
    return np.quantile(values, [0.0, 0.05, 0.5, 0.95, 1.0]).tolist()


def _text(data: dict[str, Any], pictures: Sequence[str]) -> str:
    size = data["data"]
    lines = [
        f"# {data['run']}",
        "",
        f"{size['users']:,} users, {size['items']:,} items; interactions: train {size['train']:,}, valid "
        f"{size['valid']:,}, test {size['test']:,}. Test recall@20 {data['recall@20']:.4f}.",
        "",
    ]
    if "tau_0" in data:
        spread = ", ".join(f"{name} {value:.4f}" for name, value in data["tau_u"].items())
        lines += [f"tau_0 = {data['tau_0']:.4f}; tau_u: {spread}.", ""]
    if "spearman" in data:
        found = [f"{name} {value:+.3f}" for name, value in data["spearman"].items() if value is not None]
        lines += [f"Rank correlation of tau_u with the user's {', '.join(found) or 'figures: all are equal'}.", ""]
    rows = [
        [str(number + 1), f"{items:,}", "–" if norm is None else f"{norm:.3f}", f"{recall:.4f}"]
        for number, (items, norm, recall) in enumerate(
            zip(data["items"], data["norms"], data["recall_by_group"], strict=True)
        )
    ]
    lines += table(["popularity group (10 = most popular)", "items", "mean norm", "part of recall@20"], rows)
    if "against" in data:
        other = dict(data["against"])
        lines += ["", f"Against {other.pop('run')}, paired over the users both test:", ""]
        head = ["", "difference", "95 % interval", "users", "p, t-test", "p, Wilcoxon"]
        lines += table(
            head,
            [
                [
                    metric,
                    f"{found['difference']:+.4f}",
                    f"{found['low']:+.4f} to {found['high']:+.4f}",
                    f"{found['users']:,}",
                    f"{found['p']:.2g}",
                    f"{found['p_wilcoxon']:.2g}",
                ]
                for metric, found in other.items()
            ],
        )
    for picture in sorted(pictures):
        lines += ["", f"![{picture}]({picture}.png)"]
    return "\n".join([*lines, ""])
