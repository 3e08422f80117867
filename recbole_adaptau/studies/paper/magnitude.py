"""Figure 1: how long the embeddings of popular items grow, and what that does, with and without normalisation."""

from collections.abc import Sequence
from statistics import mean
from typing import Any

import numpy as np

from ...reporting import plots
from ...reporting.saved_run import SavedRun
from ...runs.runner import Spec
from ...training.toplists import GROUPS
from .base import PAPER, Asked, Experiment, Figure, Row, Run
from .summary import TITLES, figures_of, grouped, label

# A falling learning rate would bring everything to rest, and every epoch is looked at.
EVERY_EPOCH = {"record_groups": True, "eval_step": 1, "lr_schedule": "constant", "learning_rate": 0.001}


def runs(asked: Asked) -> list[Spec]:
    made = []
    for seed in asked.seeds:
        for strategy, more in (("none", {"test_score": "auto", "normalization": "auto"}), ("adaptive_user", {})):
            varied = {"tau_strategy": strategy, **more, **EVERY_EPOCH, "seed": seed}
            made.append(asked.spec(f"magnitude-{strategy}", varied, base=PAPER))
    return made


def measure(run: SavedRun) -> dict[str, Any]:
    """What the epochs have left, and how many items a group has."""
    epochs = [record for record in run.folder.read_epochs() if "groups" in record]
    kept = ("norms", "recall", "positive_score")
    return {
        "items": np.bincount(run.groups[1:].numpy(), minlength=GROUPS).tolist(),
        "test_recall": run.test_lists.recall_by_group(run.groups).tolist(),
        "epoch": [record["epoch"] for record in epochs],
        "valid_recall": [record["valid_result"]["recall@20"] for record in epochs],
        **{key: [record["groups"][key] for record in epochs] for key in kept},
    }


def over_runs(group: Sequence[Run], key: str) -> np.ndarray:
    """The mean over seeds of something measured; an empty group's norm is NaN."""
    return np.mean([np.array(run["measured"][key], dtype=float) for run in group], axis=0)


def table(asked: Asked, runs: Sequence[Run]) -> list[Row]:
    rows = []
    groups = grouped(runs, label)
    for number in range(GROUPS if runs else 0):
        row: Row = {"group (10 = most popular)": number + 1}
        for name, group in groups.items():
            row.setdefault("items", group[0]["measured"]["items"][number])
            norms = over_runs(group, "norms")[:, number]
            row[f"norm first → last epoch, {name}"] = f"{norms[0]:.2f} → {norms[-1]:.2f}"
            row[f"test recall@20, {name}"] = float(over_runs(group, "test_recall")[number])
        rows.append(row)
    return rows


def remarks(asked: Asked, runs: Sequence[Run]) -> list[str]:
    said = [
        "Groups hold (nearly) equally many training interactions, items ordered by their number, equal ones by id. A "
        "group's recall@20 is its part of the whole: the ten add up to recall@20."
    ]
    for name, group in grouped(runs, label).items():
        best = mean(max(run["measured"]["valid_recall"]) for run in group)
        last = mean(run["measured"]["valid_recall"][-1] for run in group)
        scores = over_runs(group, "positive_score")
        middle = scores[len(scores) // 2]
        said.append(
            f"{name}: test recall@20 {figures_of(group)['recall@20']['mean']:.4f}; validation recall@20 best "
            f"{best:.4f}, last {last:.4f}; mean logit of a positive {middle:.2f} half-way and {scores[-1]:.2f} at the "
            "end."
        )
    return said


def draw(asked: Asked, runs: Sequence[Run]) -> Figure:
    groups = grouped(runs, label)
    plain = groups[TITLES["none"]]
    figure, drawn = plots.panels(2, 2)
    (norms, recall), (scores, curve) = drawn
    epochs = over_runs(plain, "epoch")
    for number, line in enumerate(over_runs(plain, "norms").T):
        shade = str(0.8 - 0.8 * number / (GROUPS - 1))
        norms.plot(epochs, line, color=shade, linestyle=plots.dash(1 - number % 2), label=str(number + 1))
    norms.set(xlabel="epoch", ylabel="mean item embedding norm", title="(a) No norm, by popularity group")
    norms.legend(title="group", fontsize=7, ncols=2, title_fontsize=8)
    values = {name: over_runs(group, "test_recall") for name, group in groups.items()}
    plots.grouped_bars(recall, [str(number + 1) for number in range(GROUPS)], values)
    recall.set(
        xlabel="popularity group (10 = most popular)", ylabel="part of test recall@20", title="(b) Recall by group"
    )
    recall.legend(fontsize=8)
    for number, (name, group) in enumerate(groups.items()):
        scores.plot(epochs, over_runs(group, "positive_score"), label=name, **plots.style(number, markers=False))
        curve.plot(epochs, over_runs(group, "valid_recall"), label=name, **plots.style(number, markers=False))
    scores.set(xlabel="epoch", ylabel="mean logit of a training positive", title="(c) Score of positives")
    curve.set(xlabel="epoch", ylabel="validation recall@20", title="(d) Recall by epoch")
    for panel in (scores, curve):
        panel.legend(fontsize=8)
    return plots.titled(figure, asked.described("Embedding magnitude"))


EXPERIMENT = Experiment(
    name="magnitude",
    brief="Figure 1: embedding norms, recall by popularity group and scores of positives by epoch.",
    runs=runs,
    table=table,
    draw=draw,
    remarks=remarks,
    measure=measure,
    epochs=60,
    quick_epochs=40,
)
