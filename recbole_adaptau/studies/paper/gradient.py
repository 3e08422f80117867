"""The appendix's figure: expected gradient magnitude against tau, exactly and by the bound, beside recall."""

from collections.abc import Sequence
from statistics import mean
from typing import Any

import numpy as np

from ...reporting import plots
from ...reporting.gradient import chosen_users, gradient, gradient_curve
from ...reporting.saved_run import SavedRun
from ...runs.runner import Spec
from .base import Asked, Experiment, Figure, Row, Run
from .summary import TITLES, best_of_grid, figures_of, grouped

CURVE = np.geomspace(0.02, 1.0, 40)


def runs(asked: Asked) -> list[Spec]:
    return [spec for seed in asked.seeds for spec in (*asked.grid(seed), asked.strategy("adaptive", seed))]


def measure(run: SavedRun) -> dict[str, Any]:
    """The gradient at the temperature a run was trained with; for Adap-tau_0 also at all others."""
    tau = float(run.model.strategy.tau_0)
    found: dict[str, Any] = gradient(run.view, tau, chosen_users(run.view))
    if run.config["tau_strategy"] == "adaptive":
        found["curve"] = gradient_curve(run.view, CURVE)
    return found


def table(asked: Asked, runs: Sequence[Run]) -> list[Row]:
    rows = []
    for tau, group in grouped(runs, lambda run: run["settings"].get("tau")).items():
        measured = {key: mean(run["measured"][key] for run in group) for key in ("exact", "bound", "mass")}
        rows.append(
            {
                "trained at": TITLES["adaptive"] if tau is None else f"tau = {tau}",
                "tau": mean(run["tau_0"] for run in group),
                "mean gradient, exact": measured["exact"],
                "bound": measured["bound"],
                "mass of positives": measured["mass"],
                **figures_of(group),
            }
        )
    return rows


def peak(taus: Sequence[float], values: Sequence[float]) -> float:
    return float(taus[int(np.argmax(values))])


def remarks(asked: Asked, runs: Sequence[Run]) -> list[str]:
    said = [
        "The mean gradient magnitude is E_u[2/(m tau) s (1 − s)], s the softmax mass of a user's training positives "
        "over all m items, from up to 2048 users spread evenly over the data; the bound is 2/(m tau) (E s − (E s)²), "
        "Lemma 2 with tau itself for T. Each row was trained at its own temperature and is measured at it."
    ]
    fixed = [run for run in runs if "tau" in run["settings"]]
    adaptive = [run for run in runs if "tau" not in run["settings"]]
    if fixed and adaptive:
        by_tau = grouped(fixed, lambda run: run["settings"]["tau"])
        trained = peak(list(by_tau), [mean(run["measured"]["exact"] for run in group) for group in by_tau.values()])
        curve = adaptive[0]["measured"]["curve"]
        best, tau_0 = best_of_grid(fixed)[0]["settings"]["tau"], mean(run["tau_0"] for run in adaptive)
        said.append(
            f"Largest gradient among the trained runs at tau = {trained:g}; best by validation at tau = {best:g}; "
            f"tau_0 = {tau_0:.3f}. On the embeddings of Adap-tau_0 (seed {adaptive[0]['seed']}) the exact curve peaks "
            f"at {peak(curve['tau'], curve['exact']):.3f} and the bound at {peak(curve['tau'], curve['bound']):.3f}."
        )
    return said


def draw(asked: Asked, runs: Sequence[Run]) -> Figure:
    by_tau = grouped([run for run in runs if "tau" in run["settings"]], lambda run: run["settings"]["tau"])
    adaptive = [run for run in runs if "tau" not in run["settings"]]
    taus = sorted(by_tau)
    tau_0 = mean(run["tau_0"] for run in adaptive)
    figure, ((trained, still, recall),) = plots.panels(3, width=4.6)
    for number, (key, name) in enumerate((("exact", "exact"), ("bound", "bound (Lemma 2)"))):
        values = [mean(run["measured"][key] for run in by_tau[tau]) for tau in taus]
        trained.plot(taus, values, label=name, **plots.style(number))
        if key == "exact":
            place = int(np.argmax(values))
            plots.ring(trained, taus[place], values[place], f"peak: tau = {taus[place]:g}")
        curve = np.mean([run["measured"]["curve"][key] for run in adaptive], axis=0)
        still.plot(CURVE, curve, label=name, **plots.style(number, markers=False))
        if key == "exact":
            plots.ring(still, CURVE[curve.argmax()], curve.max(), f"peak: {CURVE[curve.argmax()]:.3f}")
    recall.plot(
        taus, [figures_of(by_tau[tau])["recall@20"]["mean"] for tau in taus], label="fixed tau", **plots.style(0)
    )
    level = figures_of(adaptive)["recall@20"]["mean"]
    recall.axhline(level, label=f"{TITLES['adaptive']}: {level:.4f}", **plots.style(2, markers=False))
    trained.set_title("trained and measured at tau", fontsize=10)
    still.set_title("embeddings of Adap-tau_0, measured at tau", fontsize=10)
    recall.set_title("recall of the runs", fontsize=10)
    for panel in (trained, still, recall):
        panel.axvline(tau_0, color="0.4", linestyle=":", label=f"tau_0 = {tau_0:.3f}")
        plots.tau_axis(panel, taus)
        panel.set_ylabel("test recall@20" if panel is recall else "mean |dL/df(u, i)|")
        panel.legend(fontsize=8)
    return plots.titled(figure, asked.described("Gradient against tau"))


EXPERIMENT = Experiment(
    name="gradient",
    brief="Appendix figure: gradient magnitude against tau, exactly and by the bound, beside recall.",
    runs=runs,
    table=table,
    draw=draw,
    remarks=remarks,
    measure=measure,
    taus=(0.02, 0.04, 0.06, 0.08, 0.1, 0.12, 0.15, 0.2, 0.25, 0.3, 0.4, 0.6, 1.0),
    quick_taus=(0.04, 0.08, 0.15, 0.25, 0.5, 1.0),
)
