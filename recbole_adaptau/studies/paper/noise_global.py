"""The robustness table: false positives added to every user's training part, a grid search against Adap-tau."""

from collections.abc import Sequence
from statistics import mean
from typing import Any

from ...reporting import plots
from ...runs.runner import Spec
from ..published import NOISE
from .base import Asked, Experiment, Figure, Row, Run
from .summary import ASSUMED_GAP, TITLES, chosen, figures_of, grouped


def runs(asked: Asked) -> list[Spec]:
    """Adap-tau also with the authors' assumed mu+ − mu, in every epoch: tau_0 then depends on |D| alone."""
    assumed: dict[str, Any] = {"tau_startup_epochs": asked.epochs}
    made = []
    for seed in asked.seeds:
        for share in sorted({0.0, *asked.shares}):
            more: dict[str, Any] = {"noise_ratio": share} if share else {}
            made += asked.grid(seed, **more)
            made += [asked.strategy("adaptive_user", seed, **more, **further) for further in ({}, assumed)]
    return made


def share_of(run: Run) -> float:
    return run["settings"].get("noise_ratio", 0.0)


def table(asked: Asked, runs: Sequence[Run]) -> list[Row]:
    rows = []
    for share, mine in grouped(runs, share_of).items():
        for name, group in chosen(mine).items():
            paper = NOISE.get(share, {})
            place = 0 if name == TITLES["fixed"] else 1
            rows.append(
                {
                    "noise": f"{100 * share:g} %",
                    "temperature": name,
                    "tau, or tau_0": mean(run["settings"].get("tau", run["tau_0"]) for run in group),
                    **figures_of(group),
                    **{f"paper, {data}": " / ".join(f"{x:.4f}" for x in both[place]) for data, both in paper.items()},
                }
            )
    return rows


def remarks(asked: Asked, runs: Sequence[Run]) -> list[str]:
    return [
        "Noise is a share of each user's training positives, to the nearest whole number: items the user has in no "
        "part of the data, drawn uniformly by the run's seed, added to the training part only. All rows of one seed "
        f"meet the same noise. {TITLES['adaptive_user']}{ASSUMED_GAP}: mu+ − mu is taken to be `tau_startup_gap` (0.7) "
        "in every epoch, as the authors' code does in its first hundred. False positives raise |D| and with it tau_0, "
        "and cannot lower mu+ − mu. Which of the two the paper's Adap-tau is, it does not say; its figures stand with "
        "both."
    ]


def draw(asked: Asked, runs: Sequence[Run]) -> Figure:
    shares = grouped(runs, share_of)
    places = [100 * share for share in shares]
    figure, ((recall, temperature),) = plots.panels(2)
    adaptive = TITLES["adaptive_user"]
    for number, name in enumerate((TITLES["fixed"], adaptive, adaptive + ASSUMED_GAP)):
        groups = [chosen(mine)[name] for mine in shares.values()]
        found = [figures_of(group)["recall@20"] for group in groups]
        errors = [value["std"] for value in found] if len(asked.seeds) > 1 else None
        recall.errorbar(
            places, [value["mean"] for value in found], errors, capsize=2, label=name, **plots.style(number)
        )
        taus = [mean(run["settings"].get("tau", run["tau_0"]) for run in group) for group in groups]
        what = "best tau of the grid" if name == TITLES["fixed"] else f"tau_0 of {name}"
        temperature.plot(places, taus, label=what, **plots.style(number))
    recall.set(xlabel="false positives added (% of each user's positives)", ylabel="test recall@20")
    temperature.set(xlabel="false positives added (% of each user's positives)", ylabel="temperature tau")
    for panel in (recall, temperature):
        panel.legend()
    return plots.titled(figure, asked.described("Noise for all users"))


EXPERIMENT = Experiment(
    name="noise-global",
    brief="Robustness table: 10 to 50 % false positives, grid search against Adap-tau, gap measured or assumed.",
    runs=runs,
    table=table,
    draw=draw,
    remarks=remarks,
    taus=(0.07, 0.1, 0.15, 0.2, 0.25),
    quick_taus=(0.15, 0.25),
    shares=(0.1, 0.2, 0.3, 0.4, 0.5),
    quick_shares=(0.2, 0.5),
)
