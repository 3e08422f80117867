"""What goes beyond the paper: parts that stand side by side, each in a file of its own, all off by default.

A recipe is a list of parts; `plus` is the one in properties/recipe/plus.yaml.
"""

import pkgutil
from collections.abc import Sequence
from importlib import import_module

from .base import PARTS, PairScores, RecipePart, register_part

__all__ = ["PARTS", "PairScores", "RecipePart", "method_name", "register_part"]

for _module in pkgutil.iter_modules(__path__):
    import_module(f".{_module.name}", __name__)


def method_name(model: str, recipe: str | Sequence[str] | None) -> str:
    """How tables call a model with a recipe: `AdapTauMF`, `AdapTauMF+` (plus), `AdapTauMF+popularity_prior`."""
    if not recipe or recipe == "none":
        return model
    if recipe == "plus":
        return f"{model}+"
    return "+".join([model, recipe] if isinstance(recipe, str) else [model, *recipe])
