"""How time and memory of our models grow, on synthetic power-law data; each point is measured in its own process."""

from types import SimpleNamespace
from typing import Any

import numpy as np
import torch
from recbole.config import Config
from recbole.data.interaction import Interaction
from recbole.utils import get_model, init_seed
from tqdm import tqdm

from ...core.row_adam import RowAdam
from ...training.checkpoint import shielded_argv
from .timing import EPOCH, in_own_process, peak_memory, seconds_of

BASE = {
    "users": 50_000,
    "items": 50_000,
    "interactions": 1_000_000,
    "negatives": 1024,
    "d": 64,
    "mode": "shared",
}
LEARNERS = {"AdapTauMF": "row_adam", "AdapTauLightGCN": "adam"}  # their defaults
AXES: dict[str, tuple[int, ...]] = {
    "users": (50_000, 100_000, 200_000, 400_000, 1_000_000),
    "items": (50_000, 100_000, 200_000, 400_000, 1_000_000),
    "interactions": (1_000_000, 2_000_000, 5_000_000, 10_000_000),
    "negatives": (256, 512, 1024, 2048, 4096),
    "d": (32, 64, 128, 256),
}
BATCH = 2048


def study(model: str) -> dict[str, Any]:
    """Every axis from the base upwards, with the exponent of its last half; `full` and dense Adam at most items."""
    base, most = {**BASE, "model": model, "learner": LEARNERS[model]}, {"items": AXES["items"][-1]}
    points = [(axis, {**base, axis: size}) for axis, sizes in AXES.items() for size in sizes]
    points.append(("full", {**base, **most, "mode": "full"}))
    if base["learner"] != "adam":
        points.append(("dense", {**base, **most, "learner": "adam"}))
    measured: dict[str, list[dict[str, Any]]] = {}
    for axis, point in tqdm(points, desc=f"scaling {model}", disable=None):
        measured.setdefault(axis, []).append({**point, **in_own_process({"scale": point})})
    exponents = {
        axis: {
            key: _exponent([p[axis] for p in rows], [p[key] for p in rows]) for key in ("epoch_seconds", "peak_bytes")
        }
        for axis, rows in measured.items()
        if axis in AXES
    }
    return {"model": model, "batch": BATCH, "base": base, "points": measured, "exponents": exponents}


def measure_point(point: dict[str, Any], batches: int = 12) -> dict[str, float]:
    """One size: seconds of an epoch, of its temperature update, and memory beyond parameters and optimiser state."""
    init_seed(1, True)
    users, items = power_law_pairs(point["users"], point["items"], point["interactions"])
    settings = {
        "negatives": point["mode"],
        **({"num_negatives": point["negatives"]} if point["mode"] == "shared" else {}),
        "embedding_size": point["d"],
        "train_batch_size": BATCH,
        "learner": point["learner"],
    }
    with shielded_argv():
        config = Config(point["model"], "synthetic", config_dict=settings)
    dataset = SimpleNamespace(
        dataset_name="synthetic",
        uid_field="user_id",
        iid_field="item_id",
        user_num=point["users"] + 1,
        item_num=point["items"] + 1,
        inter_feat={"user_id": users, "item_id": items},
        num=lambda field: point["users" if field == "user_id" else "items"] + 1,
    )
    model = get_model(point["model"])(config, dataset).train()
    by_rows = point["learner"] == "row_adam"
    optimiser = RowAdam(model.parameters()) if by_rows else torch.optim.Adam(model.parameters(), fused=True)
    for parameter in model.parameters():
        nothing = torch.zeros_like(parameter)
        parameter.grad = nothing.to_sparse(1) if by_rows else nothing
    optimiser.step()  # now the optimiser has its state
    optimiser.zero_grad()

    def step() -> None:
        chosen = torch.randint(len(users), (BATCH,))
        batch = Interaction({"user_id": torch.from_numpy(users)[chosen], "item_id": torch.from_numpy(items)[chosen]})
        optimiser.zero_grad()
        model.calculate_loss(batch).backward()
        optimiser.step()

    with peak_memory() as peak:
        tau = seconds_of(lambda: model.begin_epoch(EPOCH))
        step()
        each = min(seconds_of(step) for _ in range(batches if point["mode"] != "full" else 2))
        memory = peak()
    steps = -(-point["interactions"] // BATCH)
    return {"epoch_seconds": tau + each * steps, "batch_seconds": each, "tau_seconds": tau, "peak_bytes": memory}


def power_law_pairs(users: int, items: int, interactions: int) -> tuple[np.ndarray, np.ndarray]:
    """Pairs of ids from 1, users and items drawn with probability proportional to 1 / rank ** 0.8."""
    rng = np.random.default_rng(0)
    drawn = []
    for number in (users, items):
        cumulative = np.cumsum(np.arange(1, number + 1) ** -0.8)
        drawn.append(np.searchsorted(cumulative, rng.random(interactions) * cumulative[-1]) + 1)
    return drawn[0], drawn[1]


def _exponent(sizes: list[float], values: list[float]) -> float:
    """Slope in log-log of the larger half, where constant costs matter least."""
    half = len(sizes) // 2
    slope = float(np.polyfit(np.log(sizes[half:]), np.log(np.maximum(values[half:], 1e-9)), 1)[0])
    return round(slope, 9) + 0.0  # a cost that does not grow is 0.00 on every processor, not −0.00
