"""Whether Adap-tau differs from each other strategy: paired over users, and over seeds."""

from collections.abc import Sequence

import numpy as np

from ...reporting import plots
from ...reporting.tables import title
from ...runs.folder import RunFolder
from ...runs.runner import Spec
from ...runs.significance import METRICS, Paired, compare, paired
from .base import Asked, Experiment, Figure, Row, Run
from .summary import TITLES, chosen, figures_of


def runs(asked: Asked) -> list[Spec]:
    return [spec for seed in asked.seeds for spec in asked.compared(seed)]


def over_seeds(ours: Sequence[Run], others: Sequence[Run], metric: str) -> Paired | None:
    """The differences of the means over users, where there are several seeds."""
    theirs = {run["seed"]: run["test_result"][metric] for run in others}
    pairs = [(run["test_result"][metric], theirs[run["seed"]]) for run in ours if run["seed"] in theirs]
    return compare(np.array([mine - other for mine, other in pairs]), metric) if len(pairs) > 1 else None


def comparisons(asked: Asked, runs: Sequence[Run]) -> list[tuple[str, str, Paired, Paired | None]]:
    """Adap-tau against each other: its name, the metric, over users (each with the mean of its seeds), over seeds."""

    def folders(group: Sequence[Run]) -> list[RunFolder]:
        return [RunFolder(asked.root / run["folder"]) for run in group]

    groups = chosen(runs)
    ours = groups.pop(TITLES["adaptive_user"], [])
    return [
        (name, metric, paired(folders(ours), folders(group), metric), over_seeds(ours, group, metric))
        for name, group in groups.items()
        if ours and {run["seed"] for run in ours} & {run["seed"] for run in group}
        for metric in METRICS
    ]


def table(asked: Asked, runs: Sequence[Run]) -> list[Row]:
    rows = []
    for name, metric, users, seeds in comparisons(asked, runs):
        other = figures_of(chosen(runs)[name])[title(metric)]["mean"]
        rows.append(
            {
                "Adap-tau against": name,
                "metric": title(metric),
                "there": other,
                "difference": f"{users.difference:+.4f} ({100 * users.difference / other:+.1f} %)" if other else None,
                "95 % interval": f"{users.low:+.4f} to {users.high:+.4f}",
                "users": users.users,
                "p over users, t": f"{users.p:.2g}",
                "p over users, Wilcoxon": f"{users.p_wilcoxon:.2g}",
                "p over seeds, t": f"{seeds.p:.2g}" if seeds else None,
            }
        )
    return rows


def remarks(asked: Asked, runs: Sequence[Run]) -> list[str]:
    return [
        "Paired, two-sided: each test user's figure (the mean over seeds) under Adap-tau and under the other. Tests "
        "over users hold the trained models fixed; tests over seeds do not, but have as many pairs as there are seeds. "
        "No correction for the number of comparisons. Any two saved runs: `recbole-adaptau analyse RUN --against "
        "OTHER`."
    ]


def draw(asked: Asked, runs: Sequence[Run]) -> Figure:
    found = comparisons(asked, runs)
    figure, (drawn,) = plots.panels(len(METRICS))
    for panel, metric in zip(drawn, METRICS, strict=True):
        mine = [(name, users) for name, named, users, _ in found if named == metric]
        for place, (_, users) in enumerate(mine):
            panel.plot([users.low, users.high], [place, place], color="0.3", lw=2)
            panel.plot(users.difference, place, "o", color="black", ms=7)
        panel.axvline(0, color="0.5", linestyle=":")
        panel.set_yticks(range(len(mine)), [f"against {name}" for name, _ in mine])
        panel.set_ylim(len(mine) - 0.5, -0.5)
        panel.locator_params(axis="x", nbins=5)  # labels as long as 0.0025 stand in each other's way
        panel.set_xlabel(f"test {title(metric)}: Adap-tau minus the other (95 % interval over users)")
    return plots.titled(figure, asked.described("Paired differences"))


EXPERIMENT = Experiment(
    name="significance",
    brief="Paired tests over users and over seeds between Adap-tau and each other strategy.",
    runs=runs,
    table=table,
    draw=draw,
    remarks=remarks,
    taus=(0.1, 0.15, 0.2),
    quick_taus=(0.15, 0.25),
)
