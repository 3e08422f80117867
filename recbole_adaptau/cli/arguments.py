"""Arguments that several verbs take, and settings as --key=value."""

import argparse
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import yaml

from ..config.yaml_files import parse_yaml, read_yaml
from ..errors import OptionError

# Settings that a verb over several runs makes itself, and what to use instead.
TAKEN = {
    "model": "--model",
    "dataset": "--dataset",
    "protocol": "--protocol",
    "data_path": "--data-path",
    "seed": "--seeds",
    "run_folder": "--output",
    "run_root": "--output",
    "resume": "the same command again, which goes on by itself",
}
STOPPABLE = (
    "Any configuration key can be added as --key=value and goes to every run, as in recbole-adaptau train.\n"
    "Ctrl-C at any time: the same command goes on where it stopped, and complete runs are not made again."
)


def add_data_arguments(command: argparse.ArgumentParser, output: str, parallel: int = 0) -> None:
    """What every verb over several runs takes; `parallel` is the default number of processes."""
    command.add_argument(
        "--protocol",
        choices=("honest", "paper"),
        default="honest",
        help="honest: a part of train validates; paper: the test set does (default: %(default)s)",
    )
    command.add_argument(
        "--data-path", "--data_path", default="dataset", help="folder of all datasets (default: %(default)s)"
    )
    command.add_argument(
        "--parallel",
        "--nproc",
        type=int,
        default=parallel,
        metavar="N",
        help="make N runs at a time, each in a process of its own, more than one through Ray; 0: one by one in this "
        "process (default: %(default)s)",
    )
    command.add_argument(
        "--ray-address", metavar="HOST:PORT", help="make them on this Ray cluster (default: on this machine)"
    )
    command.add_argument("--config_files", default="", help='YAML files with settings, e.g. "a.yaml b.yaml"')
    command.add_argument("--output", type=Path, help=f"folder of reports and runs (default: {output})")


def add_run_arguments(command: argparse.ArgumentParser) -> None:
    """What every verb that loads a saved run takes."""
    command.add_argument(
        "run_folder", metavar="RUN_FOLDER", help="what a run has left, e.g. runs/ml-100k/AdapTauMF/RUN"
    )
    command.add_argument(
        "--data-path", "--data_path", metavar="DIR", help="folder of all datasets, if it has moved since training"
    )


def given_settings(config_files: str, rest: Sequence[str], taken: Mapping[str, str]) -> dict[str, Any]:
    """Further settings for every run: those of the YAML files, and over them --key=value.

    Args:
        taken: Keys that the command sets itself, and what to use instead.
    """
    from ..training.checkpoint import quoted  # not for --help: it imports PyTorch

    settings: dict[str, Any] = {}
    for file in existing(config_files):
        settings |= quoted(read_yaml(Path(file)))
    settings |= parse_settings(rest)
    for key in settings:
        if key in taken:
            raise OptionError(f"{key} is set for each run by this command: use {taken[key]}.")
    return settings


def existing(config_files: str) -> list[str]:
    """The files of --config_files."""
    for file in config_files.split():
        if not Path(file).is_file():
            raise OptionError(f"--config_files: there is no file {Path(file).absolute()}.")
    return config_files.split()


def parse_settings(words: Sequence[str]) -> dict[str, Any]:
    """`--key=value` and `--key value` as settings, `-` in a key being `_`; values are YAML, and None as in Python."""
    from ..training.checkpoint import quoted

    settings: dict[str, Any] = {}
    left = list(words)
    while left:
        word = left.pop(0)
        key, equals, value = word[2:].partition("=")
        key = key.replace("-", "_")
        if not word.startswith("--") or not key.isidentifier():
            raise OptionError(f"cannot read '{word}': options are written --key=value.")
        if not equals:
            if not left or left[0].startswith("--"):
                raise OptionError(f"--{key} has no value: write --{key}=value.")
            value = left.pop(0)
        if key in settings:
            raise OptionError(f"--{key} is given twice.")
        settings[key] = _value(value)
    return quoted(settings)


def _value(text: str) -> Any:
    if text in ("None", ""):
        return None
    try:
        return parse_yaml(text)
    except yaml.YAMLError:
        return text


def refuse_twice(option: str, values: Sequence[Any]) -> None:
    for value in values:
        if list(values).count(value) > 1:
            raise OptionError(f"{option}: {value} is given twice.")
