"""Adap-tau for RecBole.

Importing this package imports neither RecBole nor PyTorch. It has RecBole patched, now or when it is imported, so that
RecBole's own functions know our models too.
"""

import sys
from importlib import import_module
from typing import TYPE_CHECKING, Any

if sys.hexversion < 0x030A0000:
    raise ImportError(f"recbole_adaptau needs Python 3.10 to 3.14, and this is {sys.version.split()[0]}: take another.")

from . import _moved
from .patches import environment, hook

if TYPE_CHECKING:
    from .model.registry import adapt, register
    from .runs.quick_start import load_data_and_model, objective_function, resume, run_processes, run_recbole_adaptau
    from .serving.recommender import Recommender

__version__ = "0.6.0"

__all__ = [
    "Recommender",
    "adapt",
    "load_data_and_model",
    "objective_function",
    "register",
    "resume",
    "run_processes",
    "run_recbole_adaptau",
]


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    homes = {"Recommender": ".serving.recommender", "adapt": ".model.registry", "register": ".model.registry"}
    home = homes.get(name, ".runs.quick_start")
    return getattr(import_module(home, __name__), name)


def __dir__() -> list[str]:
    return [*globals(), *__all__]


environment.check()
_moved.install()
hook.install()
