"""The appendix's figure: expected gradient magnitude against tau, exactly and by the bound, beside recall."""

from collections.abc import Sequence
from statistics import mean
from typing import Any

import numpy as np

from ...reporting import plots
from ...reporting.gradient import chosen_users, gradient, gradient_curve, sampled_gradient, score_deviations
from ...reporting.saved_run import SavedRun
from ...runs.runner import Spec
from .base import Asked, Experiment, Figure, Row, Run
from .summary import TITLES, best_of_grid, figures_of, grouped

CURVE = np.geomspace(0.02, 1.0, 40)


def runs(asked: Asked) -> list[Spec]:
    return [spec for seed in asked.seeds for spec in (*asked.grid(seed), asked.strategy("adaptive", seed))]


def measure(run: SavedRun) -> dict[str, Any]:
    """The gradient at the temperature a run was trained with; for Adap-tau_0 also at all others."""
    tau, users = float(run.model.strategy.tau_0), chosen_users(run.view)
    found: dict[str, Any] = gradient(run.view, tau, users) | sampled_gradient(run.view, tau, users)
    found |= score_deviations(run.view)
    if run.config["tau_strategy"] == "adaptive":
        found["curve"] = gradient_curve(run.view, CURVE)
    return found


MEASURED = ("exact", "bound", "mass", "sampled", "sampled_mass", "sigma", "sigma_positive")


def averages(group: Sequence[Run]) -> dict[str, float]:
    """What was measured, averaged over seeds."""
    return {key: mean(run["measured"][key] for run in group) for key in MEASURED}


def table(asked: Asked, runs: Sequence[Run]) -> list[Row]:
    rows = []
    for tau, group in grouped(runs, lambda run: run["settings"].get("tau")).items():
        measured = averages(group)
        rows.append(
            {
                "trained at": TITLES["adaptive"] if tau is None else f"tau = {tau}",
                "tau": mean(run["tau_0"] for run in group),
                "mean gradient, exact": measured["exact"],
                "bound": measured["bound"],
                "mass of positives": measured["mass"],
                "mean gradient, 1 + 1024 items": measured["sampled"],
                "mass of the positive there": measured["sampled_mass"],
                "sigma of scores": measured["sigma"],
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
        "Lemma 2 with tau itself for T. Over 1 + 1024 items, a row of training, s is the mass of one positive of the "
        "user among itself and 1,024 items drawn uniformly, and m is 1,025. Each row of the table was trained at its "
        "own temperature and is measured at it."
    ]
    fixed = [run for run in runs if "tau" in run["settings"]]
    adaptive = [run for run in runs if "tau" not in run["settings"]]
    if fixed and adaptive:
        by_tau = grouped(fixed, lambda run: run["settings"]["tau"])
        found = [averages(group) for group in by_tau.values()]
        trained, rows = (peak(list(by_tau), [one[key] for one in found]) for key in ("exact", "sampled"))
        curve = adaptive[0]["measured"]["curve"]
        still = {key: peak(curve["tau"], curve[key]) for key in ("exact", "bound", "sampled")}
        best, tau_0 = best_of_grid(fixed)[0]["settings"]["tau"], mean(run["tau_0"] for run in adaptive)
        said.append(
            f"Largest gradient among the trained runs at tau = {trained:g} over the catalogue and at tau = {rows:g} "
            f"over 1 + 1024 items; best by validation at tau = {best:g}; tau_0 = {tau_0:.3f}. On the embeddings of "
            f"Adap-tau_0 (seed {adaptive[0]['seed']}) the exact curve peaks at {still['exact']:.3f}, the bound at "
            f"{still['bound']:.3f} and the curve over 1 + 1024 items at {still['sampled']:.3f}."
        )
    if adaptive:
        said.append(premise(adaptive))
    return said


def premise(adaptive: Sequence[Run]) -> str:
    """Whether Lemma 3 may be used at tau_0: it needs tau_0 >= 2 lambda, and its lambda is at least sigma."""
    found, tau_0 = averages(adaptive), mean(run["tau_0"] for run in adaptive)
    largest = max(found["sigma"], found["sigma_positive"])
    holds = "may hold" if 2 * largest <= tau_0 else "does not hold"
    return (
        f"The premise of Lemma 3 {holds}: it takes scores to have a standard deviation of at most tau_0 / 2 = "
        f"{tau_0 / 2:.3f}; sigma is {found['sigma']:.3f} over all pairs and {found['sigma_positive']:.3f} over the "
        f"training positives, on the embeddings of Adap-tau_0. At tau_0 = {tau_0:.3f} a user's positives hold "
        f"{found['mass']:.3f} of the softmax on average, which the lemma takes as 0.5."
    )


def draw(asked: Asked, runs: Sequence[Run]) -> Figure:
    by_tau = grouped([run for run in runs if "tau" in run["settings"]], lambda run: run["settings"]["tau"])
    adaptive = [run for run in runs if "tau" not in run["settings"]]
    taus = sorted(by_tau)
    tau_0 = mean(run["tau_0"] for run in adaptive)
    figure, ((trained, still, recall),) = plots.panels(3, width=4.6)
    lines = {"exact": "exact", "bound": "bound (Lemma 2)", "sampled": "1 + 1024 items (scaled)"}
    for number, (key, name) in enumerate(lines.items()):
        values = [mean(run["measured"][key] for run in by_tau[tau]) for tau in taus]
        curve = np.mean([run["measured"]["curve"][key] for run in adaptive], axis=0)
        if key == "exact":
            heights = max(values), curve.max()
        if key == "sampled":  # a mean over fewer items: only its shape can be compared
            values = [value * heights[0] / max(values) for value in values]
            curve = curve * heights[1] / curve.max()
        trained.plot(taus, values, label=name, **plots.style(number))
        if key == "exact":
            place = int(np.argmax(values))
            plots.ring(trained, taus[place], values[place], f"peak: tau = {taus[place]:g}")
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
    brief="Appendix figure: gradient over all and over 1 + 1024 items against tau, beside recall; Lemma 3's premise.",
    runs=runs,
    table=table,
    draw=draw,
    remarks=remarks,
    measure=measure,
    measured=MEASURED,
    taus=(0.02, 0.04, 0.06, 0.08, 0.1, 0.12, 0.15, 0.2, 0.25, 0.3, 0.4, 0.6, 1.0),
    quick_taus=(0.02, 0.04, 0.08, 0.15, 0.25, 0.5, 1.0),
)
