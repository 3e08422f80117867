"""Makes our models known to RecBole itself: get_model, get_trainer, and the defaults in its Config.

After `install()`, RecBole's own run_recbole, objective_function, HyperTuning, load_data_and_model and case_study
take our models by name.
"""

import re
from functools import cache, wraps
from typing import Any, TypeVar

import recbole.trainer
import recbole.utils.utils
from recbole.config import Config
from recbole.data.dataset import Dataset
from recbole.model.abstract_recommender import AbstractRecommender
from recbole.trainer import Trainer

from ..config.loading import check_name, load_defaults, settle
from ..config.yaml_files import load_files
from ..data.noise import with_noise
from ..errors import OptionError, refusals_explained
from ..patches.lookup import recbole_model_names
from ..patches.patching import replace_everywhere
from ..runs.recorder import recording
from ..training.trainer import AdapTauTrainer
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


def _adapt_by_name(name: str) -> str:
    """Make AdapTauNGCF, or AdapTau[NGCF], known if RecBole has an NGCF; returns the first of the two names."""
    found = re.fullmatch(r"AdapTau(?:\[(\w+)\]|(\w+))", name)
    if found is None:
        return name
    base = found[1] or found[2]
    if f"AdapTau{base}" not in MODELS and (found[1] or base in recbole_model_names()):
        adapt(recbole.utils.utils.get_model(base))
    return f"AdapTau{base}"


@cache
def _adapting(trainer: type[Trainer]) -> type[Trainer]:
    """Our trainer on top of the base model's own, where it has one (NCL)."""
    if trainer is Trainer:
        return AdapTauTrainer
    return type(f"AdapTau{trainer.__name__}", (AdapTauTrainer, trainer), {"__module__": __name__})


def install() -> None:
    """Hook into RecBole; doing it again changes nothing."""
    if getattr(Config, "_knows_adaptau", False):
        return
    for model in (AdapTauMF, AdapTauLightGCN, SimGCL, XSimGCL):
        register(model)

    original_get_model = recbole.utils.utils.get_model

    @wraps(original_get_model)
    def get_model(model_name: str) -> Any:
        return original_get_model(_adapt_by_name(model_name))

    replace_everywhere(original_get_model, get_model)

    original_get_trainer = recbole.utils.utils.get_trainer

    @wraps(original_get_trainer)
    def get_trainer(model_type: Any, model_name: str) -> type:
        ours = MODELS.get(_adapt_by_name(model_name))
        if ours is not None and issubclass(ours, AdapTauRecommender):
            base = getattr(ours, "base_name", None)
            return recording(AdapTauTrainer if base is None else _adapting(original_get_trainer(model_type, base)))
        trainer = original_get_trainer(model_type, model_name)
        return recording(trainer) if issubclass(trainer, Trainer) else trainer

    replace_everywhere(original_get_trainer, get_trainer)

    load_internal, init, find = Config._load_internal_config_dict, Config.__init__, Config._get_model_and_dataset

    @wraps(find)
    def get_model_and_dataset(self: Config, model: Any, dataset: str | None) -> tuple[str, type, str]:
        _, model_class, dataset = find(self, model, dataset)
        return model_class.__name__, model_class, dataset  # the name, whichever way it was written

    @wraps(load_internal)
    def load_internal_config_dict(self: Config, model: str, model_class: type, dataset: str) -> None:
        check_name(dataset)
        load_internal(self, getattr(model_class, "base_name", model), model_class, dataset)
        load_defaults(self, model_class, model, dataset)

    @wraps(init)
    def initialise(self: Config, *args: Any, **kwargs: Any) -> None:
        with refusals_explained("the configuration cannot be used", OptionError):
            init(self, *args, **kwargs)
        settle(self)

    build = Dataset.build

    @wraps(build)
    def build_with_noise(self: Dataset) -> list[Any]:
        """RecBole chooses the class of a dataset by the model's name alone, so noise has no other way in."""
        return with_noise(build(self), self.config)

    Dataset.build = build_with_noise
    Config._load_config_files = lambda self, files: load_files(files)
    Config._get_model_and_dataset = get_model_and_dataset
    Config._load_internal_config_dict = load_internal_config_dict
    Config.__init__ = initialise
    Config._knows_adaptau = True
