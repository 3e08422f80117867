"""Learning curves by epoch and by second, from runs that are not repeated once they are complete."""

import copy
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from recbole.config import Config

from ...runs.folder import RunFolder
from ...runs.quick_start import resume, run_recbole_adaptau
from ...runs.runner import refuse_if_changed
from ...training.checkpoint import shielded_argv


def learning_curve(
    model: str, dataset: str, settings: Mapping[str, Any], folder: Path, metric: str
) -> list[tuple[int, float, float]]:
    """Train in `folder`, or go on with what is there, if it has these settings; returns what `points` does."""
    asked = {**settings, "state": "ERROR", "show_progress": False, "run_folder": str(folder)}
    with shielded_argv():
        config = Config(model, dataset, None, {**copy.deepcopy(asked), "record_run": True})
        refuse_if_changed(RunFolder(folder), config, "--run_root")
        if RunFolder(folder).config.is_file():
            resume(folder, budget_minutes=config["budget_minutes"])
        else:
            run_recbole_adaptau(model, dataset, None, asked)
    return points(RunFolder(folder), metric)


def points(run: RunFolder, metric: str) -> list[tuple[int, float, float]]:
    """For every validation: epochs so far, seconds of training so far (validation not counted), and the metric."""
    seconds, found = 0.0, []
    for record in run.read_epochs():
        seconds += record["train_seconds"]
        if record.get("valid_result"):
            found.append((record["epoch"] + 1, seconds, record["valid_result"][metric]))
    return found
