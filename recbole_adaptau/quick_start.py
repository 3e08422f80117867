"""RecBole's quick start with a run folder, by RecBole's own signatures and results."""

from pathlib import Path
from typing import Any

import recbole.quick_start as recbole_quick_start
from recbole.config import Config

from .checkpoint import quoted, shielded_argv
from .errors import CheckpointError
from .runs import RunFolder


def run_recbole_adaptau(
    model: str | None = None,
    dataset: str | None = None,
    config_file_list: list[str] | None = None,
    config_dict: dict[str, Any] | None = None,
    saved: bool = True,
    queue: Any = None,
) -> dict[str, Any]:
    """Train and test any model, ours or RecBole's, and leave everything in one run folder.

    Args:
        model: Model name; None to take it from the configuration.
        dataset: Dataset name; None to take it from the configuration.
        config_file_list: YAML files with settings.
        config_dict: Settings by name; they win over the files.
        saved: Whether to save checkpoints.
        queue: As in RecBole, for several processes.

    Returns:
        RecBole's result (best_valid_score, valid_score_bigger, best_valid_result, test_result) and run_folder.
    """
    settings = {**(config_dict or {}), "record_run": True}
    # Built once here too, so that bad settings end the run before anything is written, and to know the folder.
    config = Config(model, dataset, config_file_list, dict(settings))
    folder = config["run_folder"]
    if not config["resume"]:
        RunFolder(folder).refuse_if_used()
    settings |= quoted({"run_folder": folder})
    result = recbole_quick_start.run_recbole(model, dataset, config_file_list, settings, saved, queue)
    return {**result, "run_folder": folder}


def objective_function(
    config_dict: dict[str, Any] | None = None,
    config_file_list: list[str] | None = None,
    saved: bool = True,
) -> dict[str, Any]:
    """One trial for RecBole's HyperTuning, with a run folder of its own."""
    settings = {**(config_dict or {}), "record_run": True}
    return recbole_quick_start.objective_function(settings, config_file_list, saved)


def load_data_and_model(model_file: str | Path) -> tuple[Any, ...]:
    """Config, model, dataset and the three loaders of a checkpoint, or of a run folder's best epoch."""
    path = Path(model_file)
    if path.is_dir():
        path = RunFolder.existing(path).best
        if not path.is_file():
            raise CheckpointError(f"{model_file} has no best.pth yet: no epoch was saved there.")
    return recbole_quick_start.load_data_and_model(str(path))


def resume(run_folder: str | Path, saved: bool = True) -> dict[str, Any]:
    """Continue an interrupted run from its last whole epoch, as if it had not stopped.

    A run that is complete already is not trained again; its result is returned.
    """
    run = RunFolder.existing(run_folder)
    if run.is_complete:
        result = run.read_result()
        return {
            "best_valid_score": result["best_valid_score"],
            "valid_score_bigger": result["valid_score_bigger"],
            "best_valid_result": result["best_valid_result"],
            "test_result": result["test_result"],
            "run_folder": str(run.path),
        }
    settings = {**run.settings(), "run_folder": str(run.path), "resume": True}
    with shielded_argv():
        result = recbole_quick_start.run_recbole(
            settings["model"], settings["dataset"], config_dict=quoted(settings), saved=saved
        )
    return {**result, "run_folder": str(run.path)}
