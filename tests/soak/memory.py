"""Train for many epochs and see whether memory grows."""

import gc
import json
from functools import partial
from pathlib import Path
from statistics import median
from typing import Any

import torch
from tqdm import tqdm

from recbole_adaptau.runs.folder import RunFolder

from .children import failure, start
from .kills import NEGATIVES

# A table of 98 rows is 0.4 MB: one that is kept at every epoch adds up to tens of megabytes.
COMMON = {"embedding_size": 1024, "train_batch_size": 256, "stopping_step": 10_000}
RUNS: dict[str, tuple[str, dict[str, Any]]] = {
    "AdapTauMF": ("AdapTauMF", {}),
    "AdapTauMF, learned_user, in_batch": ("AdapTauMF", {"tau_strategy": "learned_user", "negatives": "in_batch"}),
    "AdapTauMF, full, dense Adam": ("AdapTauMF", {"negatives": "full", "learner": "adam"}),
    "AdapTauMF, per_row": ("AdapTauMF", {"negatives": "per_row", **NEGATIVES["per_row"]}),
    "AdapTauLightGCN with dropout": ("AdapTauLightGCN", {"edge_dropout": 0.2, "message_dropout": 0.1}),
    "RecBole's BPR": ("BPR", {}),
}
# Looking at every object takes longer than an epoch.
EVERY = 5
# Megabytes by which the last quarter of a run may lie above its second.
ALLOWED = 4.0


def _measure(file: Path) -> None:
    """Write down what is in memory whenever a fifth epoch is recorded."""
    original = RunFolder.add_epoch

    def add_epoch(self: RunFolder, record: dict[str, Any]) -> None:
        original(self, record)
        if record["epoch"] % EVERY:
            return
        gc.collect()
        pages = int(Path("/proc/self/statm").read_text().split()[1])
        tensors = sum(issubclass(type(thing), torch.Tensor) for thing in gc.get_objects())
        with file.open("a") as lines:
            lines.write(json.dumps({"megabytes": pages * 4096 / 1e6, "tensors": tensors}) + "\n")

    RunFolder.add_epoch = add_epoch  # type: ignore[method-assign]


def soak(root: Path, names: list[str], epochs: int) -> tuple[str, bool]:
    """Returns a table, and whether memory stayed flat in every run."""
    lines = ["| run | epochs | MB after a quarter | MB at the end | tensors, quarter | tensors, end |"]
    lines.append("|---|---:|---:|---:|---:|---:|")
    flat = True
    for number, name in enumerate(tqdm(names, unit="run", disable=None)):
        model, settings = RUNS[name]
        folder = root / f"memory{number}"
        file = root / f"memory{number}.jsonl"
        process = start(folder, model, {**COMMON, **settings, "epochs": epochs}, partial(_measure, file))
        if fault := failure(process, folder):
            return f"FAULT {name}: {fault}", False
        seen = [json.loads(line) for line in file.read_text().splitlines()]
        early, late = seen[len(seen) // 4 : len(seen) // 2], seen[-len(seen) // 4 :]
        before, after = (median(entry["megabytes"] for entry in part) for part in (early, late))
        held = early[0]["tensors"], late[-1]["tensors"]
        done = len(RunFolder(folder).read_epochs())
        flat &= done == epochs and after - before < ALLOWED and held[0] == held[1]
        lines.append(f"| {name} | {done} | {before:.1f} | {after:.1f} | {held[0]} | {held[1]} |")
    return "\n".join(lines), flat
