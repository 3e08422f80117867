"""Adap-tau for RecBole: importing this package repairs RecBole for today's libraries and adds our models to it."""

from . import _setup as _setup
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
