"""What the page shows, read from run folders: complete, going on, failed or damaged."""

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from statistics import mean
from typing import Any

import numpy as np
import torch

from ...config.keys import CHOSEN_BY
from ...errors import AdapTauError, DataError
from ...recipe import method_name
from ...runs.folder import RunFolder
from ...runs.significance import against
from ...training.toplists import popularity_groups
from ..palette import for_plotly
from ..tables import PROTOCOLS, spread

# Five popularity groups, not the ten of other reports: bars of many methods stand side by side.
GROUPS = ("rarest", "rare", "middle", "popular", "most popular")
# Places on the machine of the run, and what differs from run to run without telling models apart.
LEFT_OUT = (
    "data_path",
    "run_folder",
    "run_root",
    "checkpoint_dir",
    "resume",
    "record_run",
    "gpu_id",
    "show_progress",
    "state",
)
RANKED_BY = "ndcg@20"
# As many points of a curve show its course, and keep the page of some hundred runs below 6 MB.
POINTS = 60
# What the page has columns and filters for; other models than ours have none of them.
CHOICES = ("loss", "recipe", "tau_strategy")
# Differences that make two rows of one method but say little about them: how a run was watched, not what it was.
UNSAID = ("budget_minutes", "eval_batch_size", "eval_step", "metrics", "topk", "valid_metric", "stopping_step")
SAID_AT_MOST = 4


def find_runs(places: Iterable[str | Path]) -> tuple[list[RunFolder], list[str]]:
    """The run folders at or below some places, and what is to be said of places without any."""
    found: dict[Path, RunFolder] = {}
    skipped = []
    for place in map(Path, places):
        inside = sorted({file.parent for name in ("config.yaml", "error.json") for file in place.rglob(name)})
        if not inside:
            skipped.append(f"{place.name}: {'there is no run in it' if place.is_dir() else 'there is no such folder'}.")
        found |= {folder: RunFolder(folder) for folder in inside}
    return list(found.values()), skipped


def collect(runs: Sequence[RunFolder], skipped: Sequence[str] = ()) -> dict[str, Any]:
    """All that the page is made from; runs that cannot be read are named in `skipped`."""
    read, problems = [], list(skipped)
    for run in runs:
        try:
            read.append(read_run(run))
        except (AdapTauError, OSError, ValueError, KeyError, TypeError) as error:
            told = str(error) if isinstance(error, AdapTauError) else f"{run.path} is damaged: {error!r}"
            # By its name alone: the page may be passed on, and need not tell where it was made.
            problems.append(told.replace(str(run.path), run.path.name))
    _label(read)
    rows = _rows(read, {id(entry): entry.pop("run") for entry in read})
    shown = {"palette": for_plotly(), "protocols": PROTOCOLS, "groups": list(GROUPS)}
    return {"rows": rows, "runs": read, "skipped": problems, **shown}


def read_run(run: RunFolder) -> dict[str, Any]:
    """One run; figures with five digits, which is all that a chart can show."""
    error = run.read_error()
    settings = run.settings() if run.config.is_file() else {"model": run.path.name, "dataset": "–"}
    epochs = run.read_epochs()
    result = run.read_result() if run.is_complete else None
    if result is not None:
        result["test_result"] = result["test_result"] or {}  # without a test part there are no figures
    taken = np.cumsum([record["train_seconds"] + record.get("valid_seconds", 0.0) for record in epochs])
    for record, seconds in zip(epochs, taken, strict=True):
        record["seconds"] = _short(seconds)
    best = result["best_epoch"] if result else None
    validated = _thinned([record for record in epochs if record.get("valid_result")], best)
    adaptive = _thinned([record for record in epochs if "tau_0" in record], best)
    return {
        "run": run,
        "folder": run.path.name,
        "model": settings["model"],
        "method": method_name(settings["model"], settings.get("recipe")),
        **{key: _told(settings, key) for key in CHOICES},
        "dataset": settings["dataset"],
        "protocol": settings.get("protocol") or "honest",
        "seed": settings.get("seed"),
        "state": "complete" if result else "failed" if error else "going on",
        "error": error,
        "epochs": [record["epoch"] for record in validated],
        "seconds": [record["seconds"] for record in validated],
        "curves": {
            name: [_short(record["valid_result"][name]) for record in validated]
            for name in (validated[0]["valid_result"] if validated else ())
        },
        "epochs_made": len(epochs),
        "temperature": {
            name: [_short(record[name]) for record in adaptive] for name in ("tau_0", "tau_u_min", "tau_u_max")
        }
        | {"epochs": [record["epoch"] for record in adaptive]}
        if adaptive
        else None,
        "taus": _histogram(run.read_temperatures()["tau_u"]) if run.temperatures.is_file() else None,
        "by_popularity": recall_by_popularity(run.read_tested()) if run.tested.is_file() else None,
        "result": {key: result[key] for key in result if key not in ("model", "dataset", "protocol", "seed")}
        if result
        else None,
        "config": {key: value for key, value in sorted(settings.items()) if key not in LEFT_OUT},
        "environment": run.read_environment(),
    }


def _thinned(records: list[dict[str, Any]], best: int | None) -> list[dict[str, Any]]:
    """Records evenly spread, from the first to the last, and the one of the best epoch."""
    if len(records) <= POINTS:
        return records
    kept = set(np.linspace(0, len(records) - 1, POINTS).round().astype(int).tolist())
    return [record for place, record in enumerate(records) if place in kept or record["epoch"] == best]


def recall_by_popularity(tested: Mapping[str, np.ndarray]) -> list[dict[str, Any]] | None:
    """Recall within groups of items, from rare to popular, each with about the same number of training interactions.

    Returns:
        For each group how many items it has, how often one of them was held out, and the share of those that was
        recommended; None for a run that did not keep what it recommended.
    """
    if "items" not in tested:
        return None
    group = popularity_groups(torch.from_numpy(tested["item_counts"].astype(np.int64)), len(GROUPS)).numpy()
    of_items = (tested["positive_items"], tested["items"][tested["hits"]], np.arange(1, len(group)))
    held_out, hit, sizes = (np.bincount(group[items], minlength=len(GROUPS)) for items in of_items)
    return [
        {
            "items": int(sizes[g]),
            "held_out": int(held_out[g]),
            "recall": _short(hit[g] / held_out[g]) if held_out[g] else None,
        }
        for g in range(len(GROUPS))
    ]


def _histogram(taus: np.ndarray) -> dict[str, list[float]]:
    heights, edges = np.histogram(taus, bins=30)
    return {
        "middle": [_short(x) for x in (edges[:-1] + edges[1:]) / 2],
        "share": [_short(h / len(taus)) for h in heights],
    }


def _told(settings: Mapping[str, Any], key: str) -> str | None:
    """One of CHOICES in a word or two; None for a model that has no such setting."""
    value = settings.get(key)
    if value is None or "tau_strategy" not in settings:
        return None
    if key == "tau_strategy" and value == "fixed":
        return f"fixed {settings.get('tau')}"
    return " + ".join(value) if isinstance(value, list) else str(value)


def _label(read: list[dict[str, Any]]) -> None:
    """Name each run's row: its method, and the settings in which runs of that method differ beside the seed.

    Settings that the run does not read are left out, as are those that are the same in all runs that read them, and of
    many only the first few are said; rows that would be called the same all the same are numbered.
    """
    numbers: dict[tuple[Any, ...], list[tuple[str, ...]]] = {}
    idle = {id(entry["config"]): _idle(entry["config"]) for entry in read}
    for entry in read:
        alike = [other["config"] for other in read if _kind(other) == _kind(entry)]
        keys = {key for config in alike for key in config} - {"seed", "model", "recipe", "dataset", "protocol"}
        differ = sorted(key for key in keys if len({repr(config.get(key)) for config in alike}) > 1)
        said = [key for key in CHOICES if key in differ] + [key for key in differ if key not in CHOICES]
        shown = []
        for key in said:
            of_readers = {repr(config.get(key)) for config in alike if key not in idle[id(config)]}
            if key not in UNSAID and key not in idle[id(entry["config"])] and len(of_readers) > 1:
                shown.append(_said(entry, key))
        more = f", {len(shown) - SAID_AT_MOST} more" if len(shown) > SAID_AT_MOST else ""
        label = entry["method"] + (f" ({', '.join(shown[:SAID_AT_MOST])}{more})" if shown else "")
        known = numbers.setdefault((*_kind(entry), label), [])
        values = tuple(repr(entry["config"].get(key)) for key in differ)
        if values not in known:
            known.append(values)
        place = known.index(values)
        entry["label"] = f"{label} #{place + 1}" if place else label


def _said(entry: Mapping[str, Any], key: str) -> str:
    return str(entry[key]) if key in CHOICES else f"{key} {entry['config'].get(key)}"


def _idle(config: Mapping[str, Any]) -> set[str]:
    """Settings of parts of the program that such a run does not have; `tau` is said with its strategy."""
    if "tau_strategy" not in config:
        return set()
    chosen = {registry.key: registry.get(config.get(registry.key, "")) for registry in CHOSEN_BY}
    read = {name for found in chosen.values() if found for name in found.Settings.model_fields}
    known = {name for registry in CHOSEN_BY for found in registry.values() for name in found.Settings.model_fields}
    return (known - read) | {"tau", "recipe_parts"}


def _kind(entry: Mapping[str, Any]) -> tuple[str, str, str]:
    return entry["method"], entry["dataset"], entry["protocol"]


def _rows(read: Sequence[dict[str, Any]], folders: Mapping[int, RunFolder]) -> list[dict[str, Any]]:
    groups: dict[tuple[str, str, str], list[dict[str, Any]]] = {}
    for entry in read:
        groups.setdefault((entry["dataset"], entry["protocol"], entry["label"]), []).append(entry)
    made = [_row(*key, entries) for key, entries in groups.items()]
    made.sort(key=lambda row: -row["test"].get(RANKED_BY, {"mean": -1.0})["mean"])
    for dataset, protocol in {(row["dataset"], row["protocol"]) for row in made}:
        ranked = [
            row for row in made if (row["dataset"], row["protocol"]) == (dataset, protocol) and RANKED_BY in row["test"]
        ]
        runs = {
            row["label"]: [folders[id(entry)] for entry in groups[dataset, protocol, row["label"]] if entry["result"]]
            for row in ranked
        }
        found = against(ranked[0]["label"], runs, RANKED_BY) if ranked else {}
        for row in ranked:
            row["significance"] = found.get(row["label"])
            if row["significance"] and "error" in row["significance"]:
                row["significance"]["error"] = "no runs of the same seed, split and data as the best row's"
    return made


def _row(dataset: str, protocol: str, label: str, entries: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    results = [entry["result"] for entry in entries if entry["result"]]
    names = (
        [name for name in results[0]["test_result"] if all(name in r["test_result"] for r in results)]
        if results
        else []
    )
    row = {
        "label": label,
        "model": entries[0]["model"],
        "method": entries[0]["method"],
        **{key: entries[0][key] for key in CHOICES},
        "dataset": dataset,
        "protocol": protocol,
        "seeds": len(results),
        "runs": len(entries),
        "state": _state(entries),
        "error": next((entry["error"] for entry in entries if entry["state"] == "failed"), None),
        "test": {name: spread([result["test_result"][name] for result in results]) for name in names},
        "significance": None,
    }
    if results:
        row["cost"] = {
            "seconds per epoch": mean(r["train_seconds"] / max(r["epochs"], 1) for r in results),
            "epochs to best": mean(r["best_epoch"] + 1 for r in results),
            "seconds to best": _mean(r.get("seconds_to_best") for r in results),
            "seconds in all": mean(r["train_seconds"] + r["valid_seconds"] for r in results),
            "peak MB": _mean(r.get("peak_memory_mb") for r in results),
            "parameters": results[0].get("parameters"),
        }
    return row


def _state(entries: Sequence[Mapping[str, Any]]) -> str:
    states = [entry["state"] for entry in entries]
    if "failed" in states:
        return "failed"
    if "going on" in states:
        return f"{states.count('complete')} of {len(states)} runs done"
    out_of_budget = any(entry["result"].get("stopped_by") == "budget" for entry in entries)
    return "out of budget" if out_of_budget else "complete"


def _mean(values: Iterable[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return mean(known) if known else None


def _short(value: float) -> float:
    return float(f"{value:.5g}")


def need_some(data: Mapping[str, Any], places: Iterable[str | Path]) -> None:
    if not data["runs"]:
        told = f"{', '.join(map(str, places))}. {' '.join(data['skipped'])}"
        raise DataError(f"none of these folders holds a run that can be read: {told}")
