"""RecBole's quick start with a run folder, by RecBole's own signatures and results."""

import hashlib
import json
import os
from contextlib import nullcontext
from logging import getLogger
from pathlib import Path
from types import EllipsisType
from typing import Any

import recbole.quick_start
from recbole.config import Config
from torch.distributed.elastic.multiprocessing import SignalException

from ..config.run_settings import RunSettings
from ..data.provide import need_dataset
from ..distributed.launcher import TIMEOUT, ProcessError, Rank, launch
from ..errors import CheckpointError, OptionError
from ..training.checkpoint import config_settings, quoted, shielded_argv
from ..training.interrupt import Stopped
from .folder import RunFolder


def run_recbole_adaptau(
    model: str | None = None,
    dataset: str | None = None,
    config_file_list: list[str] | None = None,
    config_dict: dict[str, Any] | None = None,
    saved: bool = True,
    queue: Any = None,
    rank_timeout: float = TIMEOUT,
) -> dict[str, Any]:
    """Train and test any model, ours or RecBole's, and leave everything in one run folder.

    Below torchrun each process is a rank of one run, and rank 0 writes.

    Args:
        model: Model name; None to take it from the configuration.
        dataset: Dataset name; None to take it from the configuration.
        config_file_list: YAML files with settings.
        config_dict: Settings by name; they win over the files.
        saved: Whether to save checkpoints.
        queue: As in RecBole, for several processes.
        rank_timeout: Seconds a rank waits for the others before it gives up.

    Returns:
        RecBole's result (best_valid_score, valid_score_bigger, best_valid_result, test_result) and run_folder.
    """
    settings = {**(config_dict or {}), "record_run": True}
    if (rank := Rank.of_process(rank_timeout)) is not None:
        with rank.at_work():
            return _run_as_rank(rank, model, dataset, config_file_list, settings, saved)
    # Built once here too, so that bad settings end the run before anything is written, and to know the folder.
    config = Config(model, dataset, config_file_list, dict(settings))
    run = _new_or_resumed(config)
    need_dataset(config)
    settings |= quoted({"run_folder": config["run_folder"]})
    with run.alone():
        result = recbole.quick_start.run_recbole(model, dataset, config_file_list, settings, saved, queue)
    return {**result, "run_folder": config["run_folder"]}


def _run_as_rank(
    rank: Rank, model: str | None, dataset: str | None, files: list[str] | None, settings: dict[str, Any], saved: bool
) -> dict[str, Any]:
    """One process's part of a run; a launch that has begun the run already goes on with it."""
    several = rank.world_size > 1
    if several:
        settings |= {"nproc": rank.local_world_size, "world_size": rank.world_size}
    config = Config(model, dataset, files, dict(settings))
    with rank.group(rank.check(config)) if several else nullcontext():
        run, goes_on = _folder_of_launch(rank, config) if rank.rank == 0 else (None, False)
        told = rank.text_of_first("run", json.dumps([str(run.path) if run else "", goes_on]))
        folder, goes_on = json.loads(told)
        settings |= quoted({"run_folder": folder}) | ({"resume": True} if goes_on else {})
        settings |= {"local_rank": rank.local_rank} if several else {}
        with run.alone() if run is not None else nullcontext():
            result = recbole.quick_start.run_recbole(model, dataset, files, settings, saved)
    return {**result, "run_folder": folder}


def _folder_of_launch(rank: Rank, config: Config) -> tuple[RunFolder, bool]:
    """Where rank 0 writes, and whether this launch was there before and goes on."""
    if not rank.launch:
        return _new_or_resumed(config), False
    described = {key: value for key, value in config_settings(config).items() if key not in ("run_folder", "resume")}
    name = rank.launch
    if name == "none":  # torchrun's word where nobody gave --rdzv-id
        name = f"{os.environ['MASTER_ADDR']}:{os.environ['MASTER_PORT']}"
    launch = f"{name} {hashlib.sha256(repr(sorted(described.items())).encode()).hexdigest()[:12]}"
    given = config.external_config_dict.get("run_folder")
    beside = [] if given or not config["run_folder"] else Path(config["run_folder"]).parent.glob("*/launches.txt")
    for path in [Path(config["run_folder"] or ".")] if given else sorted(file.parent for file in beside):
        found = RunFolder(path)
        unfinished = rank.launch != "none" and not found.is_complete
        if found.read_launches()[-1:] == [launch] and (rank.restarts or unfinished):
            found.add_launch(launch)
            return found, True
    run = _new_or_resumed(config)
    run.add_launch(launch)
    return run, False


def run_processes(
    model: str | None = None,
    dataset: str | None = None,
    config_file_list: list[str] | None = None,
    config_dict: dict[str, Any] | None = None,
    saved: bool = True,
    nproc: int = 1,
    max_restarts: int = 0,
    rank_timeout: float = TIMEOUT,
) -> dict[str, Any]:
    """`run_recbole_adaptau` in several processes of this machine, which share each batch; torchrun is for several.

    Args:
        model, dataset, config_file_list, config_dict, saved, rank_timeout: As there.
        nproc: Processes.
        max_restarts: How often all of them are started again when one dies; they go on from the last whole epoch.
    """
    if Rank.of_process(rank_timeout) is not None:
        raise OptionError(
            f"--nproc={nproc} --max-restarts={max_restarts}: torchrun has started this process already; leave both out."
        )
    if nproc < 1 or max_restarts < 0:
        raise OptionError(
            f"--nproc={nproc} --max-restarts={max_restarts}: at least one process, and at least no restart."
        )
    if nproc == 1 and max_restarts == 0:
        return run_recbole_adaptau(model, dataset, config_file_list, config_dict, saved)
    settings = {**(config_dict or {}), "record_run": True}
    config = Config(model, dataset, config_file_list, dict(settings))
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    backend = Rank(0, nproc, 0, nproc).check(config) if nproc > 1 else ""
    if backend == "gloo" and nproc > cores:
        getLogger().warning(f"{nproc} processes share {cores} cores: more than {cores} gain nothing.")
    run = _new_or_resumed(config)
    need_dataset(config)
    args = (model, dataset, config_file_list, settings | quoted({"run_folder": str(run.path)}), saved)
    threads = None if "OMP_NUM_THREADS" in os.environ else max(1, cores // nproc)
    go_on = f"every finished epoch is saved. Continue with: recbole-adaptau train --resume={run.path}"
    try:
        return launch(nproc, _run_as_rank, *args, max_restarts=max_restarts, threads=threads, timeout=rank_timeout)
    except ProcessError as error:
        raise ProcessError(f"{error} E{go_on[1:]}" if run.last.is_file() else str(error)) from error
    except SignalException as stop:
        raise Stopped(stop.sigval, f"interrupted; {go_on if run.last.is_file() else 'nothing is saved yet.'}") from stop


def _new_or_resumed(config: Config) -> RunFolder:
    """The folder of a run that is to begin or to go on; refuses to begin where there is one already."""
    if not config["run_folder"]:
        raise OptionError("run_root and run_folder are both empty: name a place for what the run writes.")
    run = RunFolder(config["run_folder"])
    if not config["resume"]:
        run.refuse_if_used()
    return run


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
        data_path: For a run folder, where the datasets lie now, if they have moved since. The interactions are those
            that the run has kept; only runs of models that read more, and of version 0.2, need the files.
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
    if run.interactions.is_file():
        settings["stored_data"] = str(run.interactions)
    loaded = recbole.quick_start.load_data_and_model(str(run.best), settings)
    run.refuse_other_ids(loaded[2])
    return loaded


def resume(
    run_folder: str | Path,
    saved: bool = True,
    nproc: int | None = None,
    budget_minutes: "float | EllipsisType | None" = ...,
    max_restarts: int = 0,
    rank_timeout: float = TIMEOUT,
) -> dict[str, Any]:
    """Continue an interrupted run from its last whole epoch, as if it had not stopped.

    A run that is complete already is not trained again; its result is returned. One that its budget stopped goes on
    when it is given a larger one. Below torchrun only rank 0 needs the folder.

    Args:
        run_folder: The folder of the run.
        saved: Whether to save checkpoints.
        nproc: Processes on this machine; None for as many as the run had.
        budget_minutes: Of training, what was spent before included; None for no limit, `...` for what the run had.
        max_restarts, rank_timeout: As for `run_processes`.
    """
    changes = {} if isinstance(budget_minutes, EllipsisType) else {"budget_minutes": budget_minutes}
    RunSettings.read({**RunSettings.defaults(), **changes})
    rank = Rank.of_process(rank_timeout)
    if rank is not None:
        with rank.at_work(), shielded_argv():
            own = json.dumps(_to_resume(run_folder, changes)) if rank.rank == 0 else ""
            settings, result = json.loads(rank.text_of_first("resumed", own))
            if result is None:
                args = settings["model"], settings["dataset"], None, quoted(settings), saved
                result = _run_as_rank(rank, *args)
        return result
    settings, result = _to_resume(run_folder, changes)
    if result is not None:
        return result
    had, of_all = settings.pop("nproc", 1), settings.pop("world_size", 1)
    if nproc is None and had != of_all:
        raise OptionError(
            f"{run_folder} had {of_all} processes on several machines: start the same torchrun command there with "
            f"--resume={run_folder}, or give --nproc=N to go on with N processes here."
        )
    model, dataset = settings["model"], settings["dataset"]
    with shielded_argv():
        return run_processes(model, dataset, None, quoted(settings), saved, nproc or had, max_restarts, rank_timeout)


def _to_resume(run_folder: str | Path, changes: dict[str, Any]) -> tuple[dict[str, Any], dict[str, Any] | None]:
    """The settings to go on with, and the result of a run that has no need to."""
    run = RunFolder.existing(run_folder)
    settings = run.settings() | changes
    settings |= {"run_folder": str(run.path), "resume": True, "stored_settings": True}
    if settings.get("stored_data"):  # the folder may have moved
        settings["stored_data"] = str(run.interactions)
    if not run.is_complete or (changes and run.can_go_on(changes["budget_minutes"])):
        return settings, None
    result = run.read_result()
    kept = ("best_valid_score", "valid_score_bigger", "best_valid_result", "test_result")
    return settings, {**{key: result[key] for key in kept}, "run_folder": str(run.path)}
