"""Time to quality: how soon our models pass the best validation NDCG@20 of a peer, beside the time the peer took."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tqdm import tqdm

from ..errors import OptionError
from ..leaderboard.entries import common, entries
from .learning import learning_curve

METRIC = "ndcg@20"


def study(
    dataset: str, data_path: str, peer: str, models: Sequence[str], budget: float | None, seed: int, run_root: Path
) -> dict[str, Any]:
    """Train the peer with the leaderboard's first settings for it, on RecBole's own propagation, then each model."""
    if peer in models:
        raise OptionError(f"--peer {peer} is among --models: leave it out of one of them.")
    curves, about = {}, {}
    for entry in tqdm(entries([peer, *models], dataset), desc=f"time to quality, {dataset}", disable=None):
        settings = {**common(), **entry.trials[0], "fast_propagation": False, "seed": seed, "data_path": data_path}
        settings |= {} if budget is None else {"budget_minutes": budget}
        folder = run_root / f"{dataset}-{entry.model}-{seed}"
        about[entry.model] = {"settings": entry.trials[0], "source": entry.source}
        curves[entry.model] = learning_curve(entry.model, dataset, settings, folder, METRIC)
    return {
        "dataset": dataset,
        "peer": peer,
        "metric": METRIC,
        "seed": seed,
        "budget_minutes": budget,
        "models": about,
        "curves": curves,
    } | times_to_quality(curves, peer)


def times_to_quality(curves: dict[str, list[tuple[int, float, float]]], peer: str) -> dict[str, Any]:
    """The peer's best, the seconds it took to get there first, and when each other model was as good, if ever."""
    best = max(value for _, _, value in curves[peer])
    needed = next(seconds for _, seconds, value in curves[peer] if value >= best)
    reached = {
        model: next(((epoch, seconds) for epoch, seconds, value in points if value >= best), None)
        for model, points in curves.items()
        if model != peer
    }
    return {"goal": best, "peer_seconds": needed, "reached": reached}
