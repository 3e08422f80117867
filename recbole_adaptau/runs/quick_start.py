"""RecBole's quick start with a run folder, by RecBole's own signatures and results."""

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from logging import getLogger
from pathlib import Path
from types import EllipsisType
from typing import Any

import recbole.quick_start
from recbole.config import Config

from ..config.run_settings import RunSettings
from ..data.provide import need_dataset
from ..distributed.launcher import TIMEOUT, Group, ProcessError, launch
from ..errors import CheckpointError, OptionError
from ..training.checkpoint import quoted, shielded_argv
from .folder import RunFolder


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
    run = _new_or_resumed(config)
    need_dataset(config)
    settings |= quoted({"run_folder": config["run_folder"]})
    with run.alone():
        result = recbole.quick_start.run_recbole(model, dataset, config_file_list, settings, saved, queue)
    return {**result, "run_folder": config["run_folder"]}


def run_processes(
    model: str | None = None,
    dataset: str | None = None,
    config_file_list: list[str] | None = None,
    config_dict: dict[str, Any] | None = None,
    saved: bool = True,
    nproc: int = 1,
    world_size: int = -1,
    ip: str = "localhost",
    port: int | str | None = None,
    group_offset: int = 0,
    rank_timeout: float = TIMEOUT,
) -> dict[str, Any]:
    """`run_recbole_adaptau` in several processes, on one machine or several, by the signature of RecBole's `run`.

    Args:
        model, dataset, config_file_list, config_dict, saved: As there.
        nproc: Processes on this machine; the batch is shared among all.
        world_size: Processes on all machines; -1 for `nproc`.
        ip: The machine of rank 0.
        port: Where the processes meet there; None for any free one on one machine, and for 5678 on several.
        group_offset: The rank of this machine's first process.
        rank_timeout: Seconds a process waits for the others before it gives up.

    Returns:
        As there; on a machine without rank 0, run_folder is None.
    """
    group = Group.checked(nproc, world_size, ip, port, group_offset, rank_timeout)
    if group.world_size == 1:
        return run_recbole_adaptau(model, dataset, config_file_list, config_dict, saved)
    settings = {**(config_dict or {}), "record_run": True, "nproc": group.nproc, "world_size": group.world_size}
    config = Config(model, dataset, config_file_list, dict(settings))
    backend = group.check(config)
    need_dataset(config)
    with _folder_here(group, config) as folder:
        args = (model, dataset, config_file_list, settings | quoted({"run_folder": folder}), saved)
        command = f"recbole-adaptau train --resume={folder}"
        try:
            result = launch(group, backend, _rank, *args)
        except ProcessError as error:
            if not RunFolder(folder).last.is_file():
                raise
            raise ProcessError(f"{error} Every finished epoch is saved; continue with: {command}") from error
        except KeyboardInterrupt:
            if RunFolder(folder).last.is_file():
                getLogger().warning(f"Interrupted; every finished epoch is saved. Continue with: {command}")
            raise
    return {**result, "run_folder": folder if group.offset == 0 else None}


@contextmanager
def _folder_here(group: Group, config: Config) -> Iterator[str]:
    """The run folder, ready for all processes of this machine; only rank 0's machine keeps one."""
    if group.offset > 0:
        with tempfile.TemporaryDirectory() as folder:
            yield folder
        return
    _new_or_resumed(config).path.mkdir(parents=True, exist_ok=True)
    yield config["run_folder"]


def _new_or_resumed(config: Config) -> RunFolder:
    """The folder of a run that is to begin or to go on; refuses to begin where there is one already."""
    if not config["run_folder"]:
        raise OptionError("run_root and run_folder are both empty: name a place for what the run writes.")
    run = RunFolder(config["run_folder"])
    if not config["resume"]:
        run.refuse_if_used()
    return run


def _rank(
    local_rank: int, model: str, dataset: str, files: list[str] | None, settings: dict[str, Any], saved: bool
) -> dict[str, Any]:
    """One process's part of a run."""
    return recbole.quick_start.run_recbole(model, dataset, files, {**settings, "local_rank": local_rank}, saved)


def objective_function(
    config_dict: dict[str, Any] | None = None,
    config_file_list: list[str] | None = None,
    saved: bool = True,
) -> dict[str, Any]:
    """One trial for RecBole's HyperTuning, with a run folder of its own."""
    settings = {**(config_dict or {}), "record_run": True}
    return recbole.quick_start.objective_function(settings, config_file_list, saved)


def load_data_and_model(
    model_file: str | Path, data_path: str | Path | None = None, allow_pickle: bool = False
) -> tuple[Any, ...]:
    """Config, model, dataset and the three loaders of a checkpoint, or of a run folder's best epoch.

    Args:
        model_file: A run folder, or a checkpoint file.
        data_path: For a run folder, where the datasets lie now, if they have moved since.
        allow_pickle: Read a checkpoint that RecBole wrote without this package too. It is a pickle, which can run any
            code: only for files whose maker you trust with all that is on your machine.
    """
    if not Path(model_file).is_dir():
        return recbole.quick_start.load_data_and_model(str(model_file), allow_pickle=allow_pickle)
    run = RunFolder.existing(model_file)
    if not run.best.is_file():
        raise CheckpointError(f"{model_file} has no best.pth yet: no epoch was saved there.")
    settings = run.settings()
    if data_path is not None and "data_path" in settings:  # ml-100k is RecBole's own and has none
        settings["data_path"] = str(data_path)
    loaded = recbole.quick_start.load_data_and_model(str(run.best), settings)
    run.refuse_other_ids(loaded[2])
    return loaded


def resume(
    run_folder: str | Path,
    saved: bool = True,
    nproc: int | None = None,
    budget_minutes: "float | EllipsisType | None" = ...,
    **group: Any,
) -> dict[str, Any]:
    """Continue an interrupted run from its last whole epoch, as if it had not stopped.

    A run that is complete already is not trained again; its result is returned. One that its budget stopped goes on
    when it is given a larger one.

    Args:
        run_folder: The folder of the run.
        saved: Whether to save checkpoints.
        nproc: Processes on this machine; None for as many as the run had.
        budget_minutes: Of training, what was spent before included; None for no limit, `...` for what the run had.
        group: world_size, ip, port, group_offset and rank_timeout as for `run_processes`.
    """
    run = RunFolder.existing(run_folder)
    changes = {} if isinstance(budget_minutes, EllipsisType) else {"budget_minutes": budget_minutes}
    RunSettings.read({**RunSettings.defaults(), **changes})
    settings = run.settings()
    if run.is_complete and not (changes and run.can_go_on(changes["budget_minutes"])):
        result = run.read_result()
        return {
            "best_valid_score": result["best_valid_score"],
            "valid_score_bigger": result["valid_score_bigger"],
            "best_valid_result": result["best_valid_result"],
            "test_result": result["test_result"],
            "run_folder": str(run.path),
        }
    settings |= {**changes, "run_folder": str(run.path), "resume": True, "stored_settings": True}
    before = settings.pop("nproc", 1), settings.pop("world_size", -1)
    if nproc is None:
        nproc, group["world_size"] = before if group.get("world_size", -1) <= 0 else (1, group["world_size"])
    model, dataset = settings["model"], settings["dataset"]
    with shielded_argv():
        if nproc != 1 or group.get("world_size", -1) > 1:
            return run_processes(model, dataset, None, quoted(settings), saved, nproc, **group)
        with run.alone():
            result = recbole.quick_start.run_recbole(model, dataset, config_dict=quoted(settings), saved=saved)
    return {**result, "run_folder": str(run.path)}
