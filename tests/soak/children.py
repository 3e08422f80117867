"""Runs in processes of their own that are forked from this one, so that nothing is imported twice.

This process itself never trains: PyTorch does not let a child of a process that did go through its autograd.
"""

import multiprocessing
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch._dynamo  # noqa: F401  PyTorch imports it with the first optimiser, seconds in every child

import recbole_adaptau
from recbole_adaptau.runs.folder import RunFolder
from tests.conftest import board_settings

FORK = multiprocessing.get_context("fork")


def start(folder: Path, model: str, settings: dict[str, Any], prepare: Callable[[], None] | None = None) -> Any:
    """Begin the run in `folder`, or go on with it where one has begun; `prepare` is called in its process first."""
    process = FORK.Process(target=_work, args=(folder, model, settings, prepare))
    process.start()
    return process


def _work(folder: Path, model: str, settings: dict[str, Any], prepare: Callable[[], None] | None) -> None:
    log = os.open(folder.with_name(folder.name + ".out"), os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    os.dup2(log, 1)
    os.dup2(log, 2)
    sys.argv = ["soak"]
    if prepare is not None:
        prepare()
    if RunFolder(folder).config.is_file():
        recbole_adaptau.resume(folder)
    else:
        given = {**board_settings(folder.parent), **settings, "run_folder": str(folder)}
        recbole_adaptau.run_recbole_adaptau(model, "board", None, given)


def failure(process: Any, folder: Path) -> str:
    """What a process that should have ended well said last, or nothing."""
    process.join()
    if process.exitcode == 0:
        return ""
    lines = folder.with_name(folder.name + ".out").read_text(encoding="utf-8").splitlines()
    return f"{folder.name}: exit code {process.exitcode}: {lines[-1] if lines else ''}"
