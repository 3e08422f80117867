"""RecBole's models before and after Adap-tau, plain and with the recipe plus, at one learning rate and batch."""

from collections.abc import Mapping, Sequence
from typing import Any

from ..reporting.tables import METRICS, cell, methods, opening, over_seeds, seconds, table, title
from ..runs.runner import Spec

MODELS = ("BPR", "NGCF", "SGL", "NCL", "SimpleX", "ENMF")
# The same evaluation for all; strings as Config wants them.
EVALUATION = {
    "metrics": ["Recall", "NDCG"],
    "topk": [10, 20],
    "valid_metric": "'NDCG@20'",
    "metric_decimal_place": 6,
    "eval_batch_size": 16_000_000,
}
# The same on all sides: RecBole's defaults.
SAME = {"learning_rate": 0.001, "train_batch_size": 2048}
# Side, prefix of the model's name, recipe.
SIDES = (("before", "", None), ("after", "AdapTau", "none"), ("plus", "AdapTau", "plus"))
# What RecBole asks for beside a model's own properties.
BEFORE: dict[str, dict[str, Any]] = {"ENMF": {"train_neg_sample_args": None}}


def specs(
    models: Sequence[str],
    dataset: str,
    seeds: Sequence[int],
    given: Mapping[str, Any],
    adapted_epochs: int | None = None,
) -> list[Spec]:
    """For each seed and model a run of RecBole's own, one of its Adap-tau version, and one of that with plus.

    Args:
        adapted_epochs: The epochs of the latter two, over which their learning rate falls; None for those configured.
    """
    common = {**EVALUATION, **SAME, **given}
    after = {} if adapted_epochs is None else {"epochs": adapted_epochs}
    made = []
    for seed in seeds:
        for model in models:
            for _, prefix, recipe in SIDES:
                own = BEFORE.get(model, {}) if recipe is None else {"recipe": recipe, **after}
                name = f"{prefix}{model}"
                made.append(Spec(_folder(name, recipe, seed), name, dataset, {"seed": seed, **own}, common))
    return made


def _folder(name: str, recipe: str | None, seed: int) -> str:
    return f"{name}{'+' if recipe == 'plus' else ''}-seed{seed}"


def files(about: dict[str, Any], runs: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """The reports by file name."""
    data = collected(about, runs)
    return {"plugin.json": data, "plugin.md": text(data)}


def collected(about: dict[str, Any], runs: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """All that plugin.json holds: a row for each model of which some run is there, with all sides."""
    rows = []
    for model in about["models"]:
        sides: dict[str, dict[str, Any] | None] = {}
        for side, prefix, recipe in SIDES:
            group = [run for run in runs if run["name"] == _folder(f"{prefix}{model}", recipe, run["seed"])]
            if not group:
                sides[side] = None
                continue
            cut = [run["seed"] for run in group if run.get("stopped_by") == "budget"]
            epochs = [run["best_epoch"] for run in group]
            sides[side] = {"method": methods(group), **over_seeds(group), "best_epochs": epochs, "out_of_budget": cut}
        if any(sides.values()):
            rows.append({"model": model, **sides})
    return {**about, "summary": rows, "runs": list(runs)}


def change(row: dict[str, Any], name: str, side: str = "after") -> float | None:
    """By how many per cent the mean test figure is higher than before; None while a side is missing, or 0 before."""
    if not row["before"] or not row[side] or row["before"]["test"][name]["mean"] == 0:
        return None
    return 100 * (row[side]["test"][name]["mean"] / row["before"]["test"][name]["mean"] - 1)


def text(data: dict[str, Any]) -> str:
    lines = opening(f"RecBole's models before and after Adap-tau on {data['dataset']}", data)
    rows, sides = [], [side for side, _, _ in SIDES]
    for row in data["summary"]:
        cells = [row["model"]]
        for name in METRICS:
            for side in sides:
                value = row[side]["test"][name] if row[side] else None
                percent = None if side == "before" else change(row, name, side)
                cells.append(f"{cell(value)}{'' if percent is None else f' ({percent:+.1f} %)'}")
        for side in sides:
            epochs = row[side]["best_epochs"] if row[side] else []
            mark = " ‡" if epochs and row[side]["out_of_budget"] else ""
            cells.append(f"{', '.join(map(str, epochs))}; {seconds(row[side]['seconds'])} s{mark}" if epochs else "")
        rows.append(cells)
    head = [f"{title(name)} {side}" for name in METRICS for side in sides]
    lines += table(["model", *head, *(f"{side}: best epochs, time a run" for side in sides)], rows)
    lines += [
        "",
        "Test figures. Before: RecBole's model with RecBole's properties; after: the same inside plain Adap-tau; plus:",
        f"that with the recipe plus. Learning rate {_given(data, 'learning_rate')} and batches of "
        f"{_given(data, 'train_batch_size')} on all sides, no temperature tuned. RecBole counts sampled negatives in a",
        "batch. Epochs count from 0; time is of training and validation.",
    ]
    if any("‡" in str(value) for row in rows for value in row):
        lines.append("‡ Some run was stopped by its budget of time.")
    return "\n".join([*lines, ""])


def _given(data: dict[str, Any], key: str) -> Any:
    return (data.get("given") or {}).get(key, SAME[key])
