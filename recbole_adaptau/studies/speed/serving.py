"""How long it takes a saved run to recommend to all of its users, and in how much memory."""

import tempfile
from pathlib import Path
from typing import Any

from ...recipe import method_name
from ...runs.folder import RunFolder
from ...serving import Recommender
from ...serving.tables import write_table
from .timing import median_and_range, peak_memory, process_peak, seconds_of


def measure(run_folder: str, k: int, rounds: int) -> dict[str, Any]:
    """Load the run once, then rank for all users `rounds` times, and once more into a CSV file."""
    loaded: list[Recommender] = []
    load_seconds = seconds_of(lambda: loaded.append(Recommender.load(run_folder)))
    load_peak, (recommender,) = process_peak(), loaded
    with peak_memory() as peak:
        ranking = [seconds_of(lambda: sum(map(len, recommender.batches(None, k)))) for _ in range(rounds)]
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "top.csv"
            writing = seconds_of(lambda: write_table(path, recommender.batches(None, k)))
            size = path.stat().st_size
        ranking_bytes = peak()
    settings = RunFolder(run_folder).settings()
    return {
        "model": method_name(settings["model"], settings.get("recipe")),
        "dataset": settings["dataset"],
        "users": len(recommender.user_ids),
        "items": len(recommender.item_ids),
        "k": k,
        "load_seconds": load_seconds,
        "rank_seconds": median_and_range(ranking),
        "rank_and_write_csv_seconds": writing,
        "csv_bytes": size,
        "rank_peak_bytes": ranking_bytes,
        "process_peak_bytes": max(load_peak, process_peak()),
    }
