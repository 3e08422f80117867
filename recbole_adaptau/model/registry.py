"""The models that RecBole finds by name beside its own; `patches.models` has it look here first."""

from typing import TypeVar

from recbole.model.abstract_recommender import AbstractRecommender

from ..errors import OptionError
from . import AdapTauLightGCN, AdapTauMF, AdapTauRecommender, Adapted, SimGCL, XSimGCL
from .adapted import adapted_class
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


for _model in (AdapTauMF, AdapTauLightGCN, SimGCL, XSimGCL):
    register(_model)
