"""The models that RecBole finds by name beside its own; `patches.models` has it look here first."""

from importlib import import_module
from inspect import isabstract
from pkgutil import iter_modules
from typing import Any, TypeVar

from recbole.model.abstract_recommender import AbstractRecommender, GeneralRecommender

from ..errors import OptionError
from .adapted import Adapted, adapted_class
from .base import AdapTauRecommender
from .families import FAMILIES

MODELS: dict[str, type[AbstractRecommender]] = {}
Model = TypeVar("Model", bound=type[AbstractRecommender])


def register(model: Model) -> Model:
    """Make a model of ours (or a user's own) known by its class name; usable as a decorator."""
    MODELS[model.__name__] = model
    return model


def adapt(base: type, name: str | None = None) -> type[AdapTauRecommender]:
    """The Adap-tau version of a RecBole general recommender that yields user and item embeddings.

    The base's embeddings, dropout, graphs, auxiliary losses, trainer and properties stay; its ranking loss and its
    scores become ours. From the command line `--model=AdapTauNGCF` does the same for any model of RecBole's.

    Args:
        base: The model class; a class of one's own can have `encode()` and `auxiliary_losses(users, positives)`.
        name: By which RecBole will know it; "AdapTau" and the base's name if None.

    Raises:
        OptionError: the base cannot be adapted, and why; or the name is taken.
    """
    model = adapted_class(base, FAMILIES, name)
    taken = MODELS.get(model.__name__)
    if taken is not None and not issubclass(taken, Adapted):
        raise OptionError(
            f"the name {model.__name__} is taken by {taken.__module__}: give another, adapt({base.__name__}, name=…)."
        )
    return register(model)


def _find_models() -> None:
    """Register every model that a file of model/ or peers/ defines."""
    for package in (__package__, f"{__package__.rpartition('.')[0]}.peers"):
        for found in iter_modules(import_module(package).__path__, f"{package}."):
            for value in list(vars(import_module(found.name)).values()):
                if getattr(value, "__module__", None) == found.name and _is_model(value):
                    register(value)


def _is_model(value: Any) -> bool:
    return (
        isinstance(value, type)
        and issubclass(value, GeneralRecommender)
        and not isabstract(value)
        and (not issubclass(value, Adapted))
    )


_find_models()
