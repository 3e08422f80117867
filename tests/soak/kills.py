"""Kill runs with SIGKILL, at any time and at chosen moments, go on, and compare with runs that were never stopped."""

import builtins
import os
import random
import re
import signal
import time
from collections import Counter
from collections.abc import Callable
from functools import partial
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import torch
from tqdm import tqdm

from recbole_adaptau import files
from recbole_adaptau.runs.folder import RunFolder
from recbole_adaptau.training import checkpoint

from .children import failure, start

STRATEGIES = ("none", "fixed", "learned", "learned_user", "adaptive", "adaptive_user")
NEGATIVES: dict[str, dict[str, Any]] = {
    "shared": {"num_negatives": 20},
    "in_batch": {},
    "full": {},
    "per_row": {"train_neg_sample_args": {"distribution": "uniform", "sample_num": 3}},
}
# Twelve epochs that mostly end by early stopping, so that its count is part of what has to survive.
COMMON = {"epochs": 12, "stopping_step": 3, "learning_rate": 0.03}
ALL = list(product(STRATEGIES, NEGATIVES))
# Each strategy once, each kind of negatives at least once.
FEW = [(strategy, list(NEGATIVES)[number % 4]) for number, strategy in enumerate(STRATEGIES)]


def _die() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def _half_written(at: int) -> None:
    """In the middle of writing the file that is the at-th to be written."""
    count = 0

    def opened(path: Path, mode: str) -> Any:
        nonlocal count
        count += 1
        file = builtins.open(path, mode)  # noqa: SIM115
        if count < at:
            return file

        class Torn:
            def __enter__(self) -> "Torn":
                return self

            def __exit__(self, *_: Any) -> None:
                file.close()

            def write(self, content: Any) -> None:
                file.write(content[: len(content) // 2])
                file.flush()
                _die()

        return Torn()

    vars(files)["open"] = opened


def _around(owner: Any, name: str, before: bool, at: int) -> None:
    """Just before or just after the at-th call of a function."""
    original, count = getattr(owner, name), 0

    def called(*args: Any, **kwargs: Any) -> Any:
        nonlocal count
        count += 1
        if count == at and before:
            _die()
        result = original(*args, **kwargs)
        if count == at:
            _die()
        return result

    setattr(owner, name, called)


AT_RANDOM = "at a random time"
# By name, what prepares a process to die there. About two files are written an epoch.
MOMENTS: dict[str, Callable[[int], None]] = {
    "file half written": _half_written,
    "file written, not renamed": partial(_around, os, "replace", True),
    "file renamed": partial(_around, os, "replace", False),
    "epoch recorded, last.pth not written": partial(_around, RunFolder, "add_epoch", False),
}


def soak(root: Path, combinations: list[tuple[str, str]], kills: int, seed: int) -> tuple[str, bool]:
    """Kill the run of each combination so many times. Returns a table, and whether all is as it should be."""
    rng = random.Random(seed)
    tried: Counter[str] = Counter()
    wrong: dict[str, list[str]] = {}
    for strategy, negatives in tqdm(combinations, unit="run", disable=None):
        name = f"{strategy}, {negatives}"
        settings = {**COMMON, "tau_strategy": strategy, "negatives": negatives, **NEGATIVES[negatives]}
        wrong[name] = _one(root, f"{strategy}-{negatives}", settings, kills, rng, tried)
    bad = {name: faults for name, faults in wrong.items() if faults}
    lines = ["| killed | times |", "|---|---:|", *(f"| {moment} | {tried[moment]} |" for moment in sorted(tried))]
    lines += [
        f"| **all** | **{tried.total()}** |",
        "",
        f"{len(wrong) - len(bad)} of {len(wrong)} runs ended with the bits of the run that was never stopped "
        f"({kills} kills each, seed {seed}).",
        *(f"FAULT {name}: {fault}" for name, faults in bad.items() for fault in faults),
    ]
    return "\n".join(lines), not bad


def _one(root: Path, name: str, settings: dict[str, Any], kills: int, rng: random.Random, tried: Counter[str]) -> list:
    whole, parts = RunFolder(root / f"{name}-whole"), RunFolder(root / f"{name}-parts")
    begun = time.monotonic()
    fault = failure(start(whole.path, "AdapTauMF", settings), whole.path)
    length = time.monotonic() - begun
    if fault:
        return [fault]
    faults: list[str] = []
    done, epoch = 0, 0
    while done < kills and not parts.is_complete:
        moment = rng.choice([AT_RANDOM] * len(MOMENTS) + list(MOMENTS))
        if moment == AT_RANDOM:
            process = start(parts.path, "AdapTauMF", settings)
            process.join(rng.uniform(0, length))
            process.kill()
        else:
            process = start(parts.path, "AdapTauMF", settings, partial(MOMENTS[moment], rng.randint(1, 9)))
        process.join()
        if process.exitcode == -signal.SIGKILL:
            done += 1
            tried[moment] += 1
        elif process.exitcode != 0:
            return [*faults, failure(process, parts.path)]
        epoch = _check_survivors(parts, epoch, faults)
    fault = failure(start(parts.path, "AdapTauMF", settings), parts.path)
    return [*faults, fault] if fault else faults + differences(whole, parts)


def _check_survivors(run: RunFolder, epoch: int, faults: list[str]) -> int:
    """After a kill both checkpoints are whole, if they are there, and not older than before."""
    if run.best.is_file():
        checkpoint.load(run.best)
    now = checkpoint.load(run.last)["next_epoch"] if run.last.is_file() else 0
    if now < epoch:
        faults.append(f"last.pth went back from epoch {epoch} to {now}")
    return now


def differences(whole: RunFolder, parts: RunFolder) -> list[str]:
    """In what two complete runs differ, other than in the time they took and the place they lie in."""
    found = []
    for name in ("last.pth", "best.pth"):
        one, two = (checkpoint.load(run.path / name) for run in (whole, parts))
        one["config"]["run_folder"] = two["config"]["run_folder"]
        one["config"]["resume"] = two["config"]["resume"]
        found += [f"{name}: {key}" for key in one.keys() | two.keys() if not same(one.get(key), two.get(key))]
    for name, read in (("epochs.jsonl", RunFolder.read_epochs), ("result.json", RunFolder.read_result)):
        if not same(timeless(read(whole)), timeless(read(parts))):
            found.append(name)
    if whole.data.read_bytes() != parts.data.read_bytes():
        found.append("data.json")
    if not same(whole.read_temperatures(), parts.read_temperatures()):
        found.append("temperatures.npz")
    if left := [path.name for path in parts.path.glob(".*.tmp")]:
        found.append(f"left behind: {left}")
    return found


def timeless(value: Any) -> Any:
    """Records without what is measured anew each time, or counts what happened."""
    if isinstance(value, list):
        return [timeless(entry) for entry in value]
    return {key: entry for key, entry in value.items() if not re.search("seconds|memory|restarts", key)}


def same(one: Any, two: Any) -> bool:
    """Equal to the bit, also inside containers."""
    if isinstance(one, torch.Tensor):
        return torch.equal(one, two)
    if isinstance(one, np.ndarray):
        return np.array_equal(one, two)
    if isinstance(one, dict):
        return one.keys() == two.keys() and all(same(one[key], two[key]) for key in one)
    if isinstance(one, list | tuple):
        return len(one) == len(two) and all(map(same, one, two))
    return type(one) is type(two) and one == two
