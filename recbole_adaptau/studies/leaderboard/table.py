"""The leaderboard from the records of its runs: rows, Markdown and CSV."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import mean
from typing import Any

from ...peers.fast_graphs import LENT
from ...reporting import tables
from ...reporting.tables import methods, opening, seconds, spread, table, title
from ...runs.folder import RunFolder
from ...runs.significance import against

RANKED_BY = "ndcg@20"
ACCURACY = tuple(f"{name}@{k}" for name in ("recall", "ndcg", "mrr", "hit") for k in (10, 20))
BEYOND = tuple(
    f"{name}@{k}" for name in ("giniindex", "averagepopularity", "itemcoverage", "tailpercentage") for k in (10, 20)
)
COST = ("seconds_per_epoch", "epochs_to_best", "seconds_to_best", "seconds", "peak_memory_mb", "parameters")


def rows(groups: Sequence[Mapping[str, Any]], root: Path) -> list[dict[str, Any]]:
    """A row for each method, best first by test NDCG@20.

    Methods that their budget stopped come after the others, as they are not ranked with them; methods without a
    complete run come last.

    Args:
        groups: For each method: its `model`, `source`, `settings`, `temperatures_tried`, `errors` and the records of
            its complete runs, `runs`.
        root: The folder that the records' folders are in.
    """
    made = [_row(group) for group in groups]
    folders = {
        row["method"]: [RunFolder(root / run["folder"]) for run in group["runs"]]
        for row, group in zip(made, groups, strict=True)
    }
    made.sort(key=lambda row: (not row["test"], _is_cut(row), -row["test"][RANKED_BY]["mean"] if row["test"] else 0.0))
    ranked = [row["method"] for row in made if row["test"]]
    found = against(ranked[0], {method: folders[method] for method in ranked}, RANKED_BY) if ranked else {}
    for row in made:
        row["significance"] = found.get(row["method"])
    return made


def _row(group: Mapping[str, Any]) -> dict[str, Any]:
    runs = group["runs"]
    row = {key: group[key] for key in ("model", "source", "settings", "temperatures_tried", "errors")}
    row |= {"loss": group.get("loss"), "published": group.get("published")}
    named = row["loss"] or group.get("label")
    row["method"] = (not named and methods(runs)) or group.get("method", group["model"])
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


def _is_cut(row: Mapping[str, Any]) -> bool:
    """Whether the budget stopped some run before it was done."""
    return bool(row.get("out_of_budget"))


def markdown(data: Mapping[str, Any]) -> str:
    """leaderboard.md."""
    lines = opening(f"Leaderboard on {data['dataset']}", data)
    made = data["rows"]
    ranked, failed = [row for row in made if row["test"]], [row for row in made if not row["test"]]
    lines += ["## Accuracy on test", ""]
    head = ["", "method", *map(title, ACCURACY), "NDCG@20 against the best, p (Holm)", "settings tried"]
    published = any(row.get("published") for row in made)
    head += ["published NDCG@20"] * published
    body = []
    for place, row in enumerate(ranked, 1):
        cells = [row["test"][name] for name in ACCURACY]
        where = "‡" if _is_cut(row) else place
        body.append([where, _name(row), *cells, _against(row, place == 1), row["trials"]])
    body += [["–", row["method"], *["–"] * len(ACCURACY), _failure(row), row["trials"]] for row in failed]
    body = [[*cells, *[row.get("published")] * published] for cells, row in zip(body, [*ranked, *failed], strict=True)]
    lines += [*table(head, body), "", *_legend(data, ranked)]
    lines += ["## Beyond accuracy", ""]
    body = [[row["method"], *(_plain(row["test"][name]) for name in BEYOND)] for row in ranked]
    lines += [*table(["method", *map(title, BEYOND)], body), ""]
    lines += [
        "Gini: 0 is all items equally often, 1 one item for all. Tail: share of recommendations from the rarest tenth.",
        "",
    ]
    lines += ["## Cost", ""]
    head = ["method", "s / epoch", "epochs to best", "s to best", "s in all", "peak MB", "parameters"]
    head += ["settings tried", "temperatures tried"]
    lines += [*table(head, [_cost(row) for row in ranked]), ""]
    lines += [
        "Means over seeds. Seconds are of training and validation; peak memory is of the whole process, Python and "
        "data included. Temperatures tried: values of the temperature that the settings were chosen from, here or "
        "where they were published; – is a model without one.",
        "",
        "## Settings",
        "",
    ]
    return "\n".join([*lines, *(f"- {row['method']}: {_settings(row)}. Source: {row['source']}" for row in ranked), ""])


def as_csv(data: Mapping[str, Any]) -> str:
    """leaderboard.csv: a line a method, a mean and a deviation for each metric."""
    lines = []
    for place, row in enumerate(data["rows"], 1):
        significance = row["significance"] or {}
        ranked = row["test"] and not _is_cut(row)
        line = {"place": place if ranked else None, "method": row["method"], "model": row["model"]}
        line |= {"protocol": data["protocol"], "seeds": " ".join(map(str, row["seeds"]))}
        for name in (*ACCURACY, *BEYOND):
            line |= {f"{name} {part}": row["test"][name][part] if row["test"] else None for part in ("mean", "std")}
        line |= {key: significance.get(key) for key in ("difference", "p_holm")} | {key: row.get(key) for key in COST}
        lines.append(
            {
                **line,
                "temperatures_tried": row["temperatures_tried"],
                "published": row.get("published"),
                "error": " ".join(row["errors"]),
            }
        )
    return tables.as_csv(lines)


def _name(row: Mapping[str, Any]) -> str:
    marks = {"†": row["lent_propagation"], "‡": row["out_of_budget"], "§": row["errors"]}
    return f"{row['method']} {''.join(mark for mark, holds in marks.items() if holds)}".strip()


def _legend(data: Mapping[str, Any], ranked: Sequence[Mapping[str, Any]]) -> list[str]:
    """What the marks of `_name` mean, where they are used."""
    lines = []
    if any(row["lent_propagation"] for row in ranked):
        lines += ["† RecBole's model on our propagation and contrast, which give the same figures sooner.", ""]
    if any(row["out_of_budget"] for row in ranked):
        lines += [
            f"‡ stopped by the budget of {data['budget']:g} minutes a model before it was done; ranked apart.",
            "",
        ]
    for row in ranked:
        lines += [f"§ {row['method']}: {_failure(row)}", ""] if row["errors"] else []
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


def _cost(row: Mapping[str, Any]) -> list[Any]:
    memory = None if row["peak_memory_mb"] is None else f"{row['peak_memory_mb']:,.0f}"
    timed = [
        seconds(row["seconds_per_epoch"]),
        f"{row['epochs_to_best']:.0f}",
        seconds(row["seconds_to_best"]),
        seconds(row["seconds"]),
    ]
    return [row["method"], *timed, memory, f"{row['parameters']:,}", row["trials"], row["temperatures_tried"]]


def _settings(row: Mapping[str, Any]) -> str:
    return ", ".join(f"{key} {value}" for key, value in row["settings"].items()) or "defaults"
