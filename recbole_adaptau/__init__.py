"""Adap-tau for RecBole: with this package imported, RecBole is repaired for today's libraries and knows our models.

Neither RecBole nor PyTorch is imported before it is needed; see `_setup`.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from . import _setup

if TYPE_CHECKING:
    from .model.registry import adapt, register
    from .runs.quick_start import load_data_and_model, objective_function, resume, run_processes, run_recbole_adaptau

__version__ = "0.1.0"

__all__ = [
    "adapt",
    "load_data_and_model",
    "objective_function",
    "register",
    "resume",
    "run_processes",
    "run_recbole_adaptau",
]


def __getattr__(name: str) -> Any:
    """The public functions, imported when they are first asked for."""
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    source = ".model.registry" if name in ("adapt", "register") else ".runs.quick_start"
    found = getattr(import_module(source, __name__), name)
    globals()[name] = found
    return found


_setup.wait_for_recbole()
