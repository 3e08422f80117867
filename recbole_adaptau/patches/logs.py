"""Logs that every run in a process gets, in the run's own folder when it has one."""

import hashlib
import logging
import os
import sys
import time
from importlib.util import find_spec
from typing import Any

import colorama
import colorlog
from colorama.ansitowin32 import StreamWrapper
from recbole.utils import logger as recbole_logger
from recbole.utils import utils

from ..config.keys import method_line, part_lines
from ..distributed import ranks
from ..training.log import is_shown, say

_LEVELS = {
    "debug": logging.DEBUG,
    "error": logging.ERROR,
    "warning": logging.WARNING,
    "critical": logging.CRITICAL,
}

# The handlers of the run before this one. The root logger may hold others (pytest's, the host program's).
_installed: list[logging.Handler] = []


def _is_recorded(config: Any) -> bool:
    """Whether the configuration is one of a run with a folder, or of a model that is loaded from one."""
    return "run_root" in config.final_config_dict


def _log_file(config: Any) -> str | None:
    """`<run_folder>/run.log`, none for a saved model that is loaded, or where RecBole puts it; the folder is made."""
    if isinstance(config["run_folder"], str):
        os.makedirs(config["run_folder"], exist_ok=True)
        return os.path.join(config["run_folder"], "run.log")
    if _is_recorded(config):
        return None
    folder = os.path.join("./log/", config["model"])
    os.makedirs(folder, exist_ok=True)
    # The process and the moment are in it too: many runs of the same settings may start in the same second.
    told = [*config.final_config_dict.values(), os.getpid(), time.time_ns()]
    digest = hashlib.md5("".join(map(str, told)).encode()).hexdigest()[:6]
    stem = f"{config['model']}-{config['dataset']}-{utils.get_local_time()}-{digest}"
    return os.path.join(folder, f"{stem}.log")


def init_logger(original: Any, config: Any) -> None:
    """Only the handlers of the run before are taken down. Of several processes only the first has a file."""
    # Each further init would wrap the wrapped stream once more.
    if not isinstance(sys.stdout, StreamWrapper):
        colorama.init(autoreset=True)
    root = logging.getLogger()
    while _installed:
        handler = _installed.pop()
        root.removeHandler(handler)
        handler.close()

    level = _LEVELS.get((config["state"] or "info").lower(), logging.INFO)
    handlers: list[logging.Handler] = [_console(quiet=_is_recorded(config) and not config["verbose"])]
    path = _log_file(config) if ranks.is_first() else None
    if path is not None:
        file = logging.FileHandler(path, encoding="utf-8")
        file.setFormatter(logging.Formatter("%(asctime)-15s %(levelname)s  %(message)s", "%a %d %b %Y %H:%M:%S"))
        file.addFilter(recbole_logger.RemoveColorFilter())
        if isinstance(config["run_folder"], str):
            vars(file)["run_folder"] = config["run_folder"]
        handlers.append(file)
    for handler in handlers:
        handler.setLevel(level)
        root.addHandler(handler)
        _installed.append(handler)
    # Never above what it was: that would silence whatever else logs in this process. The handlers have their level.
    root.setLevel(min(root.level, level))
    say(method_line(config))
    for line in part_lines(config):
        root.info(line)


def _console(quiet: bool) -> "logging.StreamHandler[Any]":  # as text: Python 3.10 knows no such type
    """Standard error: RecBole's whole log with date and level, or only what is meant to be shown."""
    console = logging.StreamHandler()
    form, date = "%(log_color)s%(asctime)-15s %(levelname)s  %(message)s", "%d %b %H:%M"
    if quiet:
        form = "%(log_color)s%(message)s"
        console.addFilter(is_shown)
    console.setFormatter(colorlog.ColoredFormatter(form, date, log_colors=recbole_logger.log_colors_config))
    return console


class _Nowhere:
    """A TensorBoard writer of a process that writes nothing."""

    def __getattr__(self, name: str) -> Any:
        return lambda *args, **kwargs: None


def get_tensorboard(original: Any, logger: logging.Logger) -> Any:
    if not ranks.is_first():
        return _Nowhere()
    for handler in logging.getLogger().handlers:
        if hasattr(handler, "run_folder"):
            # It is opened again and again, also after the program has changed its folder.
            return summary_writer(None, os.path.abspath(os.path.join(handler.run_folder, "tensorboard")))
    return original(logger)


def summary_writer(original: Any, folder: str) -> Any:
    """TensorBoard's, or one that writes nothing where TensorBoard is not installed."""
    if find_spec("tensorboard") is None:
        logging.getLogger().info("TensorBoard's events are not written: pip install 'recbole_adaptau[tensorboard]'")
        return _Nowhere()
    from torch.utils.tensorboard import SummaryWriter

    return SummaryWriter(folder)


def progress(original: Any, *args: Any, **options: Any) -> Any:
    """A bar that vanishes when it is full; none where the output is no terminal."""
    return original(*args, **{**options, "leave": False, "disable": None})
