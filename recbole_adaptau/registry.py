"""Makes our models known to RecBole itself: get_model, get_trainer, and the defaults in its Config.

After `install()`, RecBole's own run_recbole, objective_function, HyperTuning, load_data_and_model and case_study
take our models by name.
"""

from functools import cache, wraps
from typing import Any

import recbole.trainer
import recbole.utils.utils
from recbole.config import Config
from recbole.data.dataset import Dataset
from recbole.model.abstract_recommender import AbstractRecommender
from recbole.trainer import Trainer

from .compat.patching import replace_everywhere
from .config import load_defaults, settle
from .data.noise import with_noise
from .model import AdapTauLightGCN, AdapTauMF, AdapTauRecommender
from .trainer import AdapTauTrainer, RunRecorder

MODELS: dict[str, type[AbstractRecommender]] = {}


def register(model: type[AdapTauRecommender]) -> type[AdapTauRecommender]:
    """Make a model of ours (or a user's own backbone) known by its class name; usable as a decorator."""
    MODELS[model.__name__] = model
    return model


@cache
def _recording(trainer: type[Trainer]) -> type[Trainer]:
    """RecBole's trainer that also fills a run folder, where the configuration names one."""
    return type(trainer.__name__, (RunRecorder, trainer), {"__module__": trainer.__module__})


def install() -> None:
    """Hook into RecBole; doing it again changes nothing."""
    if getattr(Config, "_knows_adaptau", False):
        return
    for model in (AdapTauMF, AdapTauLightGCN):
        register(model)

    original_get_trainer = recbole.utils.utils.get_trainer

    @wraps(original_get_trainer)
    def get_trainer(model_type: Any, model_name: str) -> type:
        if model_name in MODELS:
            return AdapTauTrainer
        trainer = original_get_trainer(model_type, model_name)
        return _recording(trainer) if issubclass(trainer, Trainer) else trainer

    replace_everywhere(original_get_trainer, get_trainer)

    load_internal, init = Config._load_internal_config_dict, Config.__init__

    @wraps(load_internal)
    def load_internal_config_dict(self: Config, model: str, model_class: type, dataset: str) -> None:
        load_internal(self, model, model_class, dataset)
        load_defaults(self, model, dataset, issubclass(model_class, AdapTauRecommender))

    @wraps(init)
    def initialise(self: Config, *args: Any, **kwargs: Any) -> None:
        init(self, *args, **kwargs)
        settle(self, issubclass(self.model_class, AdapTauRecommender))

    build = Dataset.build

    @wraps(build)
    def build_with_noise(self: Dataset) -> list[Any]:
        """RecBole chooses the class of a dataset by the model's name alone, so noise has no other way in."""
        return with_noise(build(self), self.config)

    Dataset.build = build_with_noise
    Config._load_internal_config_dict = load_internal_config_dict
    Config.__init__ = initialise
    Config._knows_adaptau = True
