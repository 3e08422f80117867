"""Time to quality: how soon our models pass the best validation NDCG@20 of a peer, beside the time the peer took."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tqdm import tqdm

from ...errors import DataError, OptionError
from ...recipe import method_name
from ...runs.folder import RunFolder
from ..leaderboard.entries import common, entries
from .learning import learning_curve, points

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
        settings |= {} if entry.recipe == "none" else {"recipe": entry.recipe}
        folder = run_root / f"{dataset}-{entry.name}-{seed}"
        about[entry.name] = {"settings": entry.trials[0], "source": entry.source}
        curves[entry.name] = learning_curve(entry.model, dataset, settings, folder, METRIC)
    return {
        "dataset": dataset,
        "peer": peer,
        "metric": METRIC,
        "protocol": "honest",
        "seed": seed,
        "budget_minutes": budget,
        "models": about,
        "curves": curves,
    } | times_to_quality(curves, peer)


def of_saved(folders: Sequence[str], peer: str) -> dict[str, Any]:
    """The same from runs that are there already, one a model, with the same data and seed."""
    curves, about, told = {}, {}, []
    for run in map(RunFolder.existing, folders):
        settings = run.settings()
        name = method_name(settings["model"], settings.get("recipe"))
        if name in curves:
            raise OptionError(f"{run.path} is a second run of {name}: name one run a model.")
        curves[name] = points(run, METRIC)
        if not curves[name]:
            raise DataError(f"{run.path} has validated no epoch yet.")
        kept = ("learning_rate", "train_batch_size", "n_layers", "reg_weight", "fast_propagation")
        shown = {key: settings[key] for key in kept if settings.get(key) is not None}
        about[name] = {"settings": shown, "source": f"A saved run, {run.path.name}."}
        told.append(
            {"protocol": settings.get("protocol") or "honest"}
            | {key: settings.get(key) for key in ("dataset", "seed", "budget_minutes")}
        )
    if len(curves) < 2 or peer not in curves:
        raise OptionError(f"--runs must name a run of {peer} (--peer) and at least one of another model.")
    if differ := [key for key in told[0] if len({repr(of_run[key]) for of_run in told}) > 1]:
        raise OptionError(f"--runs: these runs cannot be compared, they differ in {', '.join(differ)}.")
    found = {"peer": peer, "metric": METRIC, "models": about, "curves": curves}
    return {**told[0], **found, **times_to_quality(curves, peer)}


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
