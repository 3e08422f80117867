"""Adap-tau for RecBole: importing this package repairs RecBole for today's libraries and adds our models to it."""

from importlib import import_module

from . import compat

__version__ = "0.1.0"

# In this order: what the rest imports from RecBole must be repaired first.
compat.apply()
import_module(".registry", __name__).install()

run_recbole_adaptau, objective_function, load_data_and_model, resume = (
    getattr(import_module(".quick_start", __name__), name)
    for name in ("run_recbole_adaptau", "objective_function", "load_data_and_model", "resume")
)

__all__ = ["load_data_and_model", "objective_function", "resume", "run_recbole_adaptau"]
