"""Validate, then train on everything: what goes into production has learned from all there is."""

from logging import getLogger
from pathlib import Path
from typing import Any

from recbole.config import Config

from ..distributed.launcher import Rank
from ..errors import OptionError
from ..training.checkpoint import quoted, shielded_argv
from . import quick_start
from .folder import RunFolder, read_interactions

NEEDS_VALIDATION = "a refit needs a validation part to know when to stop: give it a share, as --valid=0.1."
VALIDATION = "validation"  # the folder of the run that validates, below the one that is refitted


def refit(
    model: str | None,
    dataset: str | None,
    config_file_list: list[str] | None = None,
    config_dict: dict[str, Any] | None = None,
    keep_test: bool = False,
    **group: Any,
) -> dict[str, Any]:
    """Train twice: with a validation and a test part, then on all interactions for as many epochs as were best.

    The learning rates of both are the same, epoch by epoch. The run that validates lies in run_folder/validation; its
    figures are in the result of the other, too.

    Args:
        model, dataset, config_file_list, config_dict: As of `run_recbole_adaptau`.
        keep_test: Add the validation part alone to training; both runs have the same test part.
        group: As of `run_processes`, for both runs.
    """
    if Rank.of_process() is not None:
        raise OptionError("--refit: not below torchrun; start it by itself, with --nproc for several processes.")
    settings = {**(config_dict or {}), "record_run": True}
    config = Config(model, dataset, config_file_list, dict(settings))
    run = RunFolder(config["run_folder"])
    run.refuse_if_used()
    shares = (config["eval_args"]["split"] or {}).get("RS")
    if shares is not None and not config["benchmark_filename"] and not shares[1]:
        raise OptionError(NEEDS_VALIDATION)
    validation = RunFolder(run.path / VALIDATION)
    given = {**settings, **quoted({"run_folder": str(validation.path)})}
    quick_start.run_processes(model, dataset, config_file_list, given, **group)
    return _once_more(run, validation, keep_test, **group)


def resume_refit(run_folder: str | Path, keep_test: bool = False, **group: Any) -> dict[str, Any]:
    """Go on with a refit wherever it was interrupted; `keep_test` counts if its second run has not begun."""
    run, validation = RunFolder(run_folder), RunFolder(Path(run_folder) / VALIDATION)
    if not validation.config.is_file():
        RunFolder.existing(run_folder)
        raise OptionError(f"{run_folder} was trained without --refit: go on with it by --resume={run_folder} alone.")
    quick_start.resume(validation.path, **group)
    if not run.config.is_file():
        given = {key: value for key, value in group.items() if value is not None}
        return _once_more(run, validation, keep_test, **given)
    quick_start.resume(run.path, **group)
    return _result(run, validation)


def _once_more(run: RunFolder, validation: RunFolder, keep_test: bool, **group: Any) -> dict[str, Any]:
    """The second run, on training and validation part, and on the test part unless it is kept."""
    result = validation.read_result()
    if not validation.interactions.is_file():
        raise OptionError(f"{result['model']} reads more than users and items, which a refit does not keep.")
    if result["best_valid_score"] is None:
        raise OptionError(NEEDS_VALIDATION)
    run.write_interactions(read_interactions(validation.interactions).all_training(but_test=keep_test))
    epochs = result["best_epoch"] + 1
    getLogger().info(f"refit: all interactions{' but the test part' if keep_test else ''}, {epochs} epochs")
    settings = validation.settings() | {
        "run_folder": str(run.path),
        "stored_data": str(run.interactions.absolute()),
        "stop_epoch": epochs,
        "stored_settings": True,
    }
    for key in ("nproc", "world_size"):
        settings.pop(key, None)
    with shielded_argv():
        quick_start.run_processes(settings["model"], settings["dataset"], None, quoted(settings), **group)
    return _result(run, validation)


def _result(run: RunFolder, validation: RunFolder) -> dict[str, Any]:
    """The result of the refit with the figures of the run that validated."""
    about = validation.about_data()
    run.describe_data(**{key: about[key] for key in ("files", "id_types") if key in about})
    validated = validation.read_result()
    keys = ("best_epoch", "best_valid_score", "best_valid_result", "test_result")
    run.finish({**run.read_result(), VALIDATION: {key: validated[key] for key in keys}})
    figures = {key: validated[key] for key in ("best_valid_score", "valid_score_bigger", *keys[2:])}
    return {**figures, "run_folder": str(run.path)}
