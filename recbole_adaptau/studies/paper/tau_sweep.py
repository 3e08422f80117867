"""Figures 2 and 4: recall against a fixed temperature, Adap-tau and Cu-tau as lines, their temperatures shaded."""

from collections.abc import Sequence
from statistics import mean
from typing import Any

import numpy as np

from ...reporting import plots
from ...reporting.saved_run import SavedRun
from ...runs.runner import Spec
from ..published import BEST_TAU
from .base import Asked, Experiment, Figure, Row, Run
from .summary import TITLES, best_of_grid, figures_of, grouped

PERSONAL = ("adaptive_user", "learned_user")
QUANTILES = np.linspace(0, 1, 201)


def runs(asked: Asked) -> list[Spec]:
    return [
        spec
        for seed in asked.seeds
        for spec in (*asked.grid(seed), *(asked.strategy(name, seed) for name in ("adaptive", *PERSONAL)))
    ]


def measure(run: SavedRun) -> dict[str, Any]:
    """The distribution of tau_u, where users differ."""
    if run.config["tau_strategy"] not in PERSONAL:
        return {}
    return {"tau_u": np.quantile(run.temperatures, QUANTILES).round(5).tolist()}


def table(asked: Asked, runs: Sequence[Run]) -> list[Row]:
    def key(run: Run) -> tuple[str, float | None]:
        return run["settings"]["tau_strategy"], run["settings"].get("tau")

    groups = grouped(runs, key)
    best = max(
        (figures_of(group)["recall@20"]["mean"] for (name, _), group in groups.items() if name == "fixed"), default=None
    )
    rows = []
    for (name, tau), group in groups.items():
        found = figures_of(group)
        rows.append(
            {
                "temperature": TITLES[name] if tau is None else f"tau = {tau}",
                "tau_0": None if tau else mean(run["tau_0"] for run in group),
                "tau_u: 5 %, median, 95 %": quantiles(group) if name in PERSONAL else None,
                **found,
                "recall@20 of the best fixed tau": f"{100 * found['recall@20']['mean'] / best:.1f} %" if best else None,
            }
        )
    return rows


def quantiles(group: Sequence[Run]) -> str:
    spread = np.mean([run["measured"]["tau_u"] for run in group], axis=0)
    return ", ".join(f"{spread[place]:.3f}" for place in (10, 100, 190))


def remarks(asked: Asked, runs: Sequence[Run]) -> list[str]:
    fixed = [run for run in runs if run["settings"]["tau_strategy"] == "fixed"]
    if not fixed:
        return []
    said = f"Best of the grid by validation: tau = {best_of_grid(fixed)[0]['settings']['tau']}."
    if asked.dataset in BEST_TAU:
        said += f" The paper's best on this dataset: {BEST_TAU[asked.dataset]}."
    return [said]


def draw(asked: Asked, runs: Sequence[Run]) -> Figure:
    by_name = grouped(runs, lambda run: run["settings"]["tau_strategy"])
    curve = grouped(by_name["fixed"], lambda run: run["settings"]["tau"])
    taus = sorted(curve)
    recalls = [figures_of(curve[tau])["recall@20"] for tau in taus]
    best = max(recall["mean"] for recall in recalls)
    figure, ((panel,),) = plots.panels(width=7.5, height=4.6)
    panel.errorbar(
        taus,
        [recall["mean"] / best for recall in recalls],
        [(recall["std"] or 0.0) / best for recall in recalls] if len(asked.seeds) > 1 else None,
        capsize=2,
        label="fixed tau",
        **plots.style(0),
    )
    shade = panel.twinx()
    for number, name in enumerate((*PERSONAL, "adaptive"), start=1):
        level = figures_of(by_name[name])["recall@20"]["mean"] / best
        panel.axhline(level, label=f"{TITLES[name]}: {level:.3f}", **plots.style(number, markers=False))
        if name not in PERSONAL:
            continue
        spread = np.sort(np.concatenate([run["measured"]["tau_u"] for run in by_name[name]]))
        bins = np.geomspace(min(taus), max(max(taus), 2 * min(taus)), 60)  # a grid of one tau spans nothing
        shade.hist(
            spread, bins, weights=np.full(len(spread), 100 / len(spread)), color=plots.COLOURS[number], alpha=0.3,
            hatch=plots.HATCHES[number], edgecolor=plots.COLOURS[number], linewidth=0.4, histtype="stepfilled",
            label=f"tau_u of {TITLES[name]}",
        )  # fmt: skip
    shade.set_ylabel("users (% in each bin of tau_u)")
    shade.set_ylim(top=2.2 * shade.get_ylim()[1])
    panel.set_zorder(shade.get_zorder() + 1)
    panel.patch.set_visible(False)
    plots.tau_axis(panel, taus)
    panel.set_ylabel("test recall@20, relative to the best fixed tau")
    handles = [*panel.get_legend_handles_labels()[0], *shade.get_legend_handles_labels()[0]]
    labels = [handle.get_label() for handle in handles]
    figure.legend(handles, labels, fontsize=8, loc="outside lower center", ncols=3)
    return plots.titled(figure, asked.described("Recall against tau"))


EXPERIMENT = Experiment(
    name="tau-sweep",
    brief="Figures 2 and 4: recall@20 against a fixed tau, beside Adap-tau, Cu-tau and their tau_u.",
    runs=runs,
    table=table,
    draw=draw,
    remarks=remarks,
    measure=measure,
    taus=(0.02, 0.04, 0.06, 0.08, 0.1, 0.12, 0.15, 0.2, 0.25, 0.3, 0.4, 0.6, 1.0),
    quick_taus=(0.04, 0.08, 0.15, 0.25, 0.5, 1.0),
)
