"""RecBole's models before and after Adap-tau: what the plug-in is worth, with everything else as it was."""

from collections.abc import Mapping, Sequence
from typing import Any

from ..reporting.tables import METRICS, methods, opening, over_seeds, seconds, table, title
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
# What RecBole asks for beside a model's own properties.
BEFORE: dict[str, dict[str, Any]] = {"ENMF": {"train_neg_sample_args": None}}


def specs(
    models: Sequence[str],
    dataset: str,
    seeds: Sequence[int],
    given: Mapping[str, Any],
    adapted_epochs: int | None = None,
) -> list[Spec]:
    """For each seed and model a run of RecBole's own and one of its Adap-tau version.

    Args:
        adapted_epochs: The epochs of the latter alone, over which their learning rate falls; None for those configured.
    """
    common = {**EVALUATION, **given}
    plain = {key: value for key, value in common.items() if key != "recipe"}  # which RecBole's models do not have
    after = {} if adapted_epochs is None else {"epochs": adapted_epochs}
    made = []
    for seed in seeds:
        for model in models:
            for name, own, shared in ((model, BEFORE.get(model, {}), plain), (f"AdapTau{model}", after, common)):
                made.append(Spec(f"{name}-seed{seed}", name, dataset, {"seed": seed, **own}, shared))
    return made


def files(about: dict[str, Any], runs: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """The reports by file name."""
    data = collected(about, runs)
    return {"plugin.json": data, "plugin.md": text(data)}


def collected(about: dict[str, Any], runs: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """All that plugin.json holds: a row for each model of which some run is there, before and after."""
    rows = []
    for model in about["models"]:
        sides: dict[str, dict[str, Any] | None] = {}
        for side, name in (("before", model), ("after", f"AdapTau{model}")):
            group = [run for run in runs if run["name"] == f"{name}-seed{run['seed']}"]
            if not group:
                sides[side] = None
                continue
            cut = [run["seed"] for run in group if run.get("stopped_by") == "budget"]
            epochs = [run["best_epoch"] for run in group]
            sides[side] = {"method": methods(group), **over_seeds(group), "best_epochs": epochs, "out_of_budget": cut}
        if any(sides.values()):
            rows.append({"model": model, **sides})
    return {**about, "summary": rows, "runs": list(runs)}


def change(row: dict[str, Any], name: str) -> float | None:
    """By how many per cent the mean test figure is higher afterwards; None while a side is missing, or 0 before."""
    if not row["before"] or not row["after"] or row["before"]["test"][name]["mean"] == 0:
        return None
    return 100 * (row["after"]["test"][name]["mean"] / row["before"]["test"][name]["mean"] - 1)


def text(data: dict[str, Any]) -> str:
    lines = opening(f"RecBole's models before and after Adap-tau on {data['dataset']}", data)
    rows = []
    for row in data["summary"]:
        cells = [row["model"], row["after"]["method"] if row["after"] else ""]
        for name in METRICS:
            cells += [row[side]["test"][name] if row[side] else "" for side in ("before", "after")]
            percent = change(row, name)
            cells.append("" if percent is None else f"{percent:+.1f} %")
        for side in ("before", "after"):
            epochs = row[side]["best_epochs"] if row[side] else []
            mark = " ‡" if epochs and row[side]["out_of_budget"] else ""
            cells.append(f"{', '.join(map(str, epochs))}; {seconds(row[side]['seconds'])} s{mark}" if epochs else "")
        rows.append(cells)
    head = [f"{title(name)} {part}" for name in METRICS for part in ("before", "after", "change")]
    lines += table(["before", "after", *head, "before: best epochs, time a run", "after: the same"], rows)
    lines += [
        "",
        "Test figures. Before: RecBole's model with RecBole's properties; after: the same inside Adap-tau with its",
        "defaults, no temperature tuned. Epochs count from 0; time is of training and validation.",
    ]
    if any("‡" in str(value) for row in rows for value in row):
        lines.append("‡ Some run was stopped by its budget of time.")
    return "\n".join([*lines, ""])
