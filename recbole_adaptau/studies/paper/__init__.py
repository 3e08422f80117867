"""Every table and figure of the paper as an experiment, by name.

An experiment is a module of this package with an EXPERIMENT; a new file is found by itself.
"""

from importlib import import_module
from pkgutil import iter_modules

from .base import Asked, Experiment

HELPERS = ("base", "command", "summary")
_found = [import_module(f".{module.name}", __name__) for module in iter_modules(__path__) if module.name not in HELPERS]
EXPERIMENTS: dict[str, Experiment] = {module.EXPERIMENT.name: module.EXPERIMENT for module in _found}

__all__ = ["EXPERIMENTS", "Asked", "Experiment"]
