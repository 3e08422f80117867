"""The same settings with several seeds, beside what the paper reports where the two can be compared."""

from collections.abc import Mapping, Sequence
from typing import Any

from ..reporting.tables import METRICS, methods, opening, over_seeds, seconds, table, title
from ..runs.runner import Spec
from .published import published

SEEDS = (2020, 2021, 2022)


def specs(model: str, dataset: str, seeds: Sequence[int], given: Mapping[str, Any]) -> list[Spec]:
    return [Spec(f"seed{seed}", model, dataset, {"seed": seed}, given) for seed in seeds]


def files(about: dict[str, Any], runs: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """The reports by file name."""
    data = collected(about, runs)
    return {"repeat.json": data, "repeat.md": text(data)}


def collected(about: dict[str, Any], runs: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """All that repeat.json holds."""
    plain = all(run["method"] == about["model"] for run in runs)
    strategy = about["tau_strategies"][0] if plain else None
    paper = published(about["model"], about["dataset"], about["protocol"], strategy)
    return {**about, "paper": paper, "summary": over_seeds(runs), "runs": list(runs)}


def text(data: dict[str, Any]) -> str:
    summary, paper = data["summary"], data["paper"]
    lines = opening(f"{methods(data['runs'])} on {data['dataset']}: {len(data['seeds'])} seeds", data)
    rows = []
    for name in METRICS:
        test = summary["test"][name]
        cells = [title(name), summary["valid"][name], test]
        if paper:
            cells += [paper[name], f"{100 * (test['mean'] / paper[name] - 1):+.1f} %"]
        rows.append(cells)
    lines += table(["", "valid", "test", *(["paper (Adap-tau)", "test against paper"] if paper else [])], rows)
    each = [
        [
            run["seed"],
            *(run[part][name] for part in ("best_valid_result", "test_result") for name in METRICS),
            f"{run['best_epoch']} of {run['epochs']}",
            seconds(run["seconds"]),
        ]
        for run in data["runs"]
    ]
    head = [f"{part} {title(name)}" for part in ("valid", "test") for name in METRICS]
    lines += ["", *table(["seed", *head, "best epoch", "seconds"], each)]
    return "\n".join([*lines, "", "Epochs count from 0. Seconds are of training and validation.", ""])
