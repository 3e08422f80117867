"""What an epoch of each loss takes beside the softmax, all timed in turn."""

from functools import partial
from typing import Any

from tqdm import tqdm

from ...core.losses import LOSSES
from .contenders import NEGATIVES, Contender
from .speed import TURNS, one_round
from .timing import epoch_seconds, fitting_batches, median_and_range

TAU = 0.2


def measure(dataset: str, data_path: str, rounds: int, budget: float) -> dict[str, Any]:
    """Seconds of an epoch of AdapTauMF with each loss at a fixed temperature, and their ratios to the softmax."""
    common = {"data_path": data_path, "num_negatives": NEGATIVES, "tau_strategy": "fixed", "tau": TAU}
    field = [Contender(loss, "AdapTauMF", dataset, {**common, "loss": loss}) for loss in LOSSES]
    numbers = {entry.label: fitting_batches(entry.trainer, entry.batches, budget) for entry in field}
    timers = {entry.label: partial(epoch_seconds, entry.trainer, entry.batches) for entry in field}
    seconds: dict[str, list[float]] = {loss: [] for loss in timers}
    with tqdm(total=rounds * TURNS, desc=f"losses {dataset}", disable=None) as bar:
        for _ in range(rounds):
            for loss, value in one_round(timers, numbers, bar).items():
                seconds[loss].append(value)
    ratios = {
        loss: median_and_range([a / b for a, b in zip(values, seconds["softmax"], strict=True)])
        for loss, values in seconds.items()
    }
    return {
        "dataset": dataset,
        "epoch_seconds": {loss: median_and_range(values) for loss, values in seconds.items()},
        "ratios": ratios,
    }
