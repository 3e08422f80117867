"""The leaderboard from the records of its runs: rows, Markdown and CSV."""

import csv
import io
from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import mean
from typing import Any

from ...peers.fast_graphs import LENT
from ...reporting.tables import opening, seconds, shown, spread, table
from ...runs.folder import RunFolder
from ...runs.significance import against

RANKED_BY = "ndcg@20"
ACCURACY = tuple(f"{name}@{k}" for name in ("recall", "ndcg", "mrr", "hit") for k in (10, 20))
BEYOND = tuple(
    f"{name}@{k}" for name in ("giniindex", "averagepopularity", "itemcoverage", "tailpercentage") for k in (10, 20)
)
TITLES = {"recall": "Recall", "ndcg": "NDCG", "mrr": "MRR", "hit": "Hit", "giniindex": "Gini"} | {
    "averagepopularity": "popularity", "itemcoverage": "coverage", "tailpercentage": "tail"
}  # fmt: skip
COST = ("seconds_per_epoch", "epochs_to_best", "seconds_to_best", "seconds", "peak_memory_mb", "parameters")


def title(metric: str) -> str:
    name, _, k = metric.partition("@")
    return f"{TITLES[name]}@{k}"


def rows(groups: Sequence[Mapping[str, Any]], root: Path) -> list[dict[str, Any]]:
    """A row for each model, best first by test NDCG@20; models without a complete run last.

    Args:
        groups: For each model: its `model`, `source`, `settings`, `temperatures_tried`, `errors` and the records of
            its complete runs, `runs`.
        root: The folder that the records' folders are in.
    """
    made = [_row(group) for group in groups]
    made.sort(key=lambda row: -row["test"][RANKED_BY]["mean"] if row["test"] else 1.0)
    _add_significance(made, {group["model"]: group["runs"] for group in groups}, root)
    return made


def _row(group: Mapping[str, Any]) -> dict[str, Any]:
    runs = group["runs"]
    row = {key: group[key] for key in ("model", "source", "settings", "temperatures_tried", "errors")}
    row |= {"seeds": [run["seed"] for run in runs], "trials": group["trials"], "test": {}, "significance": None}
    if not runs:
        return row
    row["test"] = {name: spread([run["test_result"][name] for run in runs]) for name in (*ACCURACY, *BEYOND)}
    row["valid_score"] = mean(run["best_valid_score"] for run in runs)
    row |= {
        "seconds_per_epoch": mean(run["train_seconds"] / run["epochs"] for run in runs if run["epochs"]),
        "epochs_to_best": mean(run["best_epoch"] + 1 for run in runs),
        "seconds_to_best": mean(run["seconds_to_best"] for run in runs),
        "seconds": mean(run["seconds"] for run in runs),
        "peak_memory_mb": max((run["peak_memory_mb"] or 0.0 for run in runs), default=0.0) or None,
        "parameters": runs[0]["parameters"],
        "out_of_budget": [run["seed"] for run in runs if run["stopped_by"] == "budget"],
        "lent_propagation": group["model"] in LENT and bool(group["lent"]),
    }
    return row


def _add_significance(made: list[dict[str, Any]], records: Mapping[str, Sequence[Any]], root: Path) -> None:
    """Every model against the first row, NDCG@20 paired over users."""
    ranked = [row for row in made if row["test"]]
    runs = {row["model"]: [RunFolder(root / run["folder"]) for run in records[row["model"]]] for row in ranked}
    found = against(ranked[0]["model"], runs, RANKED_BY) if ranked else {}
    for row in ranked:
        row["significance"] = found.get(row["model"])


def markdown(data: Mapping[str, Any]) -> str:
    """leaderboard.md."""
    lines = opening(f"Leaderboard on {data['dataset']}", dict(data))
    made = data["rows"]
    ranked, failed = [row for row in made if row["test"]], [row for row in made if not row["test"]]
    lines += ["## Accuracy on test", ""]
    head = ["", "model", *map(title, ACCURACY), "NDCG@20 against the best, p (Holm)"]
    body = [
        [str(place), _name(row), *(shown(row["test"][name]) for name in ACCURACY), _against(row, place == 1)]
        for place, row in enumerate(ranked, 1)
    ]
    body += [["–", row["model"], *["–"] * len(ACCURACY), _failure(row)] for row in failed]
    lines += [*table(head, body), "", *_legend(data, ranked)]
    lines += ["## Beyond accuracy", ""]
    body = [[row["model"], *(_plain(row["test"][name]) for name in BEYOND)] for row in ranked]
    lines += [*table(["model", *map(title, BEYOND)], body), ""]
    lines += [
        "Gini: 0 is all items equally often, 1 one item for all. Tail: share of recommendations from the rarest tenth.",
        "",
    ]
    lines += ["## Cost", ""]
    head = [
        "model",
        "s / epoch",
        "epochs to best",
        "s to best",
        "s in all",
        "peak MB",
        "parameters",
        "settings tried",
        "temperatures tried",
    ]
    lines += [*table(head, [_cost(row) for row in ranked]), ""]
    lines += [
        "Means over seeds. Seconds are of training and validation; peak memory is of the whole process, Python and "
        "data included. Temperatures tried: values of the temperature that the settings were chosen from, here or "
        "where they were published; – is a model without one.",
        "",
        "## Settings",
        "",
    ]
    return "\n".join([*lines, *(f"- {row['model']}: {_settings(row)}. Source: {row['source']}" for row in ranked), ""])


def as_csv(data: Mapping[str, Any]) -> str:
    """leaderboard.csv: a line a model, a mean and a deviation for each metric."""
    file = io.StringIO()
    metrics = (*ACCURACY, *BEYOND)
    spreads = [f"{name} {part}" for name in metrics for part in ("mean", "std")]
    cells = ["place", "model", "seeds", *spreads, "difference", "p_holm", *COST, "temperatures_tried", "error"]
    writer = csv.writer(file, lineterminator="\n")
    writer.writerow(cells)
    for place, row in enumerate(data["rows"], 1):
        significance = row["significance"] or {}
        values = [row["test"][name][part] if row["test"] else None for name in metrics for part in ("mean", "std")]
        paired = [significance.get("difference"), significance.get("p_holm")]
        named = [place if row["test"] else None, row["model"], " ".join(map(str, row["seeds"]))]
        cost = [row.get(key) for key in COST]
        writer.writerow([*named, *values, *paired, *cost, row["temperatures_tried"], " ".join(row["errors"])])
    return file.getvalue()


def _name(row: Mapping[str, Any]) -> str:
    marks = {"†": row["lent_propagation"], "‡": row["out_of_budget"], "§": row["errors"]}
    return f"{row['model']} {''.join(mark for mark, holds in marks.items() if holds)}".strip()


def _legend(data: Mapping[str, Any], ranked: Sequence[Mapping[str, Any]]) -> list[str]:
    """What the marks of `_name` mean, where they are used."""
    lines = []
    if any(row["lent_propagation"] for row in ranked):
        lines += ["† RecBole's model on our propagation and contrast, which give the same figures sooner.", ""]
    if any(row["out_of_budget"] for row in ranked):
        lines += [f"‡ stopped by the budget of {data['budget']:g} minutes a model before it was done.", ""]
    for row in ranked:
        lines += [f"§ {row['model']}: {_failure(row)}", ""] if row["errors"] else []
    return lines


def _against(row: Mapping[str, Any], is_best: bool) -> str:
    if is_best:
        return "best"
    found = row["significance"] or {}
    if "error" in found:
        return f"not comparable: {found['error']}"
    star = " *" if found["p_holm"] < 0.05 else ""
    return f"{found['difference']:+.4f}, {found['p_holm']:.2g}{star}"


def _failure(row: Mapping[str, Any]) -> str:
    return "failed: " + " ".join(row["errors"][0].replace("|", "/").split()) if row["errors"] else "not done yet"


def _plain(value: Mapping[str, float | None]) -> str:
    return f"{value['mean']:.4f}" if abs(value["mean"] or 0.0) < 10 else f"{value['mean']:.1f}"


def _cost(row: Mapping[str, Any]) -> list[str]:
    memory = "–" if row["peak_memory_mb"] is None else f"{row['peak_memory_mb']:,.0f}"
    tried = "–" if row["temperatures_tried"] is None else str(row["temperatures_tried"])
    timed = [
        seconds(row["seconds_per_epoch"]),
        f"{row['epochs_to_best']:.0f}",
        seconds(row["seconds_to_best"]),
        seconds(row["seconds"]),
    ]
    return [row["model"], *timed, memory, f"{row['parameters']:,}", str(row["trials"]), tried]


def _settings(row: Mapping[str, Any]) -> str:
    return ", ".join(f"{key} {value}" for key, value in row["settings"].items()) or "defaults"
