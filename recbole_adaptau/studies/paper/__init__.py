"""Every table and figure of the paper as an experiment, by name.

An experiment is a module of this package with an EXPERIMENT; a new file is found by itself.
"""

from importlib import import_module
from pkgutil import iter_modules

from .base import Asked, Experiment

HELPERS = ("base", "command", "summary")


def found() -> dict[str, Experiment]:
    """The EXPERIMENT of every module of this package."""
    names = [module.name for module in iter_modules(__path__) if module.name not in HELPERS]
    experiments = [import_module(f".{name}", __name__).EXPERIMENT for name in names]
    return {experiment.name: experiment for experiment in experiments}


EXPERIMENTS = found()

__all__ = ["EXPERIMENTS", "Asked", "Experiment"]
