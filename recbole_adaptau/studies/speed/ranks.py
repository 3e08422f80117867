"""What several ranks cost and bring on this machine, and what a model fitted to that says of k machines."""

import time
from pathlib import Path
from typing import Any

import numpy as np
import torch
import torch.distributed as dist
from recbole.config import Config
from recbole.data import create_dataset, data_preparation
from recbole.utils import get_model, get_trainer, init_seed
from tqdm import tqdm

from ...distributed import ranks
from ...distributed.launcher import Rank, launch
from ...training.checkpoint import quoted, shielded_argv
from ...training.memory import count_anew, peak_megabytes
from .timing import EPOCH, First, seconds_of

MODEL = "AdapTauMF"
BATCH = 2048
LEARNERS = {"dense": "adam", "row-wise": "row_adam"}
RANKS = (1, 2, 4)
MACHINES = (1, 2, 4, 8, 16)
GIGABITS = (1, 10, 100)
ROUNDS = 5  # of which the fastest counts: what else runs on a machine only adds


def study(dataset: str, data_path: str, batches: int) -> dict[str, Any]:
    """Epochs of 1, 2 and 4 ranks, of one process with a rank's part of the batch, and the model fitted to them."""
    points = [(name, number, BATCH) for name in LEARNERS for number in RANKS]
    points += [(name, 1, BATCH // number) for name in LEARNERS for number in RANKS[1:]]
    found: dict[tuple[str, int, int], dict[str, Any]] = {}
    for name, number, rows in tqdm(points, desc="ranks", disable=None):
        settings = {"learner": LEARNERS[name], "train_batch_size": rows, "data_path": data_path, "show_progress": False}
        task = (dataset, quoted({**settings, "state": "ERROR", "run_root": None}), batches)
        found[name, number, rows] = launch(number, _measure, *task, threads=1)
    learners = {}
    for name in LEARNERS:
        alone = [(rows, found[name, 1, rows]["batch_seconds"]) for rows in (BATCH // number for number in RANKS)]
        learners[name] = {
            "ranks": {number: found[name, number, BATCH] for number in RANKS},
            "one_process": dict(alone),
            "model": fit(alone, *(found[name, number, BATCH] for number in RANKS[1:])),
        }
    whole = next(iter(found.values()))
    predicted = {
        name: {speed: [epoch_on(one, whole, k, speed * 1e9 / 8) for k in MACHINES] for speed in GIGABITS}
        for name, one in learners.items()
    }
    about = {key: whole[key] for key in ("users", "items", "d", "steps")}
    return {"dataset": dataset, "batch": BATCH, **about, "learners": learners, "predicted": predicted}


def fit(alone: list[tuple[int, float]], two: dict[str, Any], four: dict[str, Any]) -> dict[str, float]:
    """Seconds of a batch = fixed + per_row · rows + group + sent / bandwidth; sent = (k − 1) (shared / k + own).

    A ring of k sends 2 (k − 1) / k of a dense gradient from each rank. Row-wise, a rank sends its rows to k − 1 others:
    a k-th of the batch's, and those of negatives that it draws for itself.

    Args:
        alone: Rows and seconds of a batch in one process.
        two, four: What so many ranks came to.
    """
    rows, seconds = zip(*alone, strict=True)
    per_row, fixed = (max(float(value), 0.0) for value in np.polyfit(rows, seconds, 1))
    shared = max(4 * (two["sent_bytes"] - four["sent_bytes"] / 3), 0.0)
    beyond = two["batch_seconds"] - fixed - per_row * max(rows) / 2 - two["sent_bytes"] * two["seconds_per_byte"]
    return {
        "fixed": fixed,
        "per_row": per_row,
        "group": max(beyond, 0.0),
        "shared": shared,
        "own": max(two["sent_bytes"] - shared / 2, 0.0),
        "seconds_per_byte": two["seconds_per_byte"],
    }


def epoch_on(one: dict[str, Any], whole: dict[str, Any], machines: int, bandwidth: float) -> float:
    """Seconds of an epoch on machines like a core of this one, that send so many bytes a second."""
    model = one["model"]
    sent = (machines - 1) * (model["shared"] / machines + model["own"])
    wire = max(1 / bandwidth, model["seconds_per_byte"]) * sent + (model["group"] if machines > 1 else 0.0)
    batch = model["fixed"] + model["per_row"] * BATCH / machines + wire
    return float(whole["once_seconds"] + batch * whole["steps"])


def _measure(rank: Rank, dataset: str, settings: dict[str, Any], batches: int) -> dict[str, Any]:
    """In each process: some batches of an epoch; rank 0 returns what all of them came to."""
    if rank.world_size == 1:
        return _measured(dataset, settings, batches)
    group = {"local_rank": rank.local_rank, "nproc": rank.world_size, "world_size": rank.world_size}
    with rank.group("gloo"):
        return _measured(dataset, settings | group, batches)


def _measured(dataset: str, settings: dict[str, Any], batches: int) -> dict[str, Any]:
    with shielded_argv():
        config = Config(MODEL, dataset, config_dict=settings)
    init_seed(config["seed"], True)
    train, *_ = data_preparation(config, create_dataset(config))
    model = get_model(MODEL)(config, train._dataset)
    trainer = get_trainer(config["MODEL_TYPE"], MODEL)(config, model)
    number = max(min(batches, len(train) - 1) // ROUNDS, 1)
    trainer._train_epoch(First(train, 2), EPOCH)
    count_anew(model.device)
    before = _sent()

    def some(number: int) -> float:
        return seconds_of(lambda: trainer._train_epoch(First(train, number), EPOCH))

    timed = [(some(1), some(1 + number)) for _ in range(ROUNDS)]
    sent = (_sent() - before) / (ROUNDS * (2 + number)) / ranks.world_size()
    once = min(first for first, _ in timed)
    each = max(min(more for _, more in timed) - once, 1e-9) / number
    memory = ranks.gathered(torch.tensor([peak_megabytes(model.device) or 0.0]), model.device)
    payload = sum(parameter.numel() * parameter.element_size() for parameter in model.parameters())
    return {
        "once_seconds": once,
        "batch_seconds": each,
        "steps": len(train),
        "epoch_seconds": once + each * (len(train) - 1),
        "peak_megabytes": [float(part) for part in memory],
        "sent_bytes": sent if ranks.world_size() > 1 else 0.0,
        "seconds_per_byte": _seconds_per_byte(payload),
        "users": model.n_users - 1,
        "items": model.n_items - 1,
        "d": config["embedding_size"],
    }


def _seconds_per_byte(size: int) -> float:
    """Of what a rank sends when a tensor of so many bytes is summed over all ranks; 0 in one process."""
    if not ranks.is_active():
        return 0.0
    tensor, before = torch.zeros(size // 4), _sent()
    dist.barrier()
    started = time.perf_counter()
    for _ in range(3):
        dist.all_reduce(tensor)
    seconds = time.perf_counter() - started
    return seconds / max((_sent() - before) / ranks.world_size(), 1.0)


def _sent() -> float:
    """Bytes that the loopback interface has sent (Linux): all that ranks of one machine say to each other."""
    for line in Path("/proc/net/dev").read_text().splitlines():
        name, _, counts = line.partition(":")
        if name.strip() == "lo":
            return float(counts.split()[8])
    return 0.0
