"""How an epoch is timed without training it whole, and memory measured in a process of its own."""

import json
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

EPOCH = 1  # the first epoch has no users' losses to look at yet; all others have


class First:
    """The first batches of a loader; everything else is the loader's."""

    def __init__(self, loader: Any, number: int):
        self.loader, self.number = loader, number

    def __getattr__(self, name: str) -> Any:
        return getattr(self.loader, name)

    def __len__(self) -> int:
        return self.number

    def __iter__(self) -> Iterator[Any]:
        batches = iter(self.loader)
        for _ in range(self.number):
            yield next(batches)


def seconds_of(action: Callable[[], Any]) -> float:
    started = time.perf_counter()
    action()
    return time.perf_counter() - started


def epoch_seconds(trainer: Any, loader: Any, batches: int) -> float:
    """Seconds of a whole epoch from its first batch (with all that happens once an epoch) and `batches` further ones.

    RecBole's own `_train_epoch` is what runs, so everything a user waits for is in it.
    """
    once = seconds_of(lambda: trainer._train_epoch(First(loader, 1), EPOCH))
    more = seconds_of(lambda: trainer._train_epoch(First(loader, 1 + batches), EPOCH))
    return once + max(more - once, 0.0) / batches * (len(loader) - 1)


def fitting_batches(trainer: Any, loader: Any, budget: float, least: int = 4) -> int:
    """How many batches take about `budget` seconds, at least four of them; the trial run warms up as well."""
    trainer._train_epoch(First(loader, 1), EPOCH)
    once = seconds_of(lambda: trainer._train_epoch(First(loader, 1), EPOCH))
    few = seconds_of(lambda: trainer._train_epoch(First(loader, 3), EPOCH))
    each = max((few - once) / 2, 1e-4)
    return int(np.clip(budget / each, min(least, len(loader) - 1), len(loader) - 1))


def median_and_range(values: list[float]) -> dict[str, float]:
    return {"median": float(np.median(values)), "least": min(values), "most": max(values)}


@contextmanager
def peak_memory() -> Iterator[Callable[[], float]]:
    """Bytes this process needed beyond what it held at the start of the block (Linux)."""
    Path("/proc/self/clear_refs").write_text("5")  # the peak starts anew here
    before = _status("VmRSS")
    yield lambda: max(_status("VmHWM") - before, 0.0)


def process_peak() -> float:
    """The most bytes this process has held since its start, or since the last `peak_memory` began (Linux)."""
    return _status("VmHWM")


def _status(key: str) -> float:
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith(key):
            return float(line.split()[1]) * 1024
    raise OSError(f"no {key} in /proc/self/status")


def in_own_process(task: dict[str, Any]) -> dict[str, Any]:
    """Carry out `recbole-adaptau bench point TASK`, whose memory nothing else has touched before."""
    command = [sys.executable, "-m", "recbole_adaptau", "bench", "point", json.dumps(task)]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode != 0:
        raise RuntimeError(f"measuring {task} failed:\n{done.stderr[-2000:]}")
    return json.loads(done.stdout.splitlines()[-1])
