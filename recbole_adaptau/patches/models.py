"""Models and trainers by name: this package's first, then RecBole's, and a plain answer when neither has it."""

import re
from functools import cache
from pathlib import Path
from typing import Any

import recbole.model
import torch
from recbole.trainer import Trainer
from recbole.utils import utils

from ..errors import AdapTauError, did_you_mean
from ..model import AdapTauRecommender
from ..model.registry import MODELS, adapt
from ..runs.recorder import recording
from ..training.trainer import AdapTauTrainer

_TREE_MODELS = {"LightGBM": "lightgbm", "XGBoost": "xgboost"}


@cache
def recbole_model_names() -> frozenset[str]:
    """The class that each of RecBole's model files is named after, read without importing any of them."""
    names = set()
    for file in Path(recbole.model.__file__).parent.glob("*_recommender/*.py"):
        for name in re.findall(r"^class (\w+)", file.read_text(encoding="utf-8"), re.MULTILINE):
            if name.lower() == file.stem:
                names.add(name)
    return frozenset(names)


def _adapt_by_name(name: str) -> str:
    """Make AdapTauNGCF, or AdapTau[NGCF], known if RecBole has an NGCF; returns the first of the two names."""
    found = re.fullmatch(r"AdapTau(?:\[(\w+)\]|(\w+))", name)
    if found is None:
        return name
    base = found[1] or found[2]
    if f"AdapTau{base}" not in MODELS and (found[1] or base in recbole_model_names()):
        adapt(utils.get_model(base))
    return f"AdapTau{base}"


def get_model(original: Any, model_name: str) -> Any:
    model_name = _adapt_by_name(model_name)
    if model_name in MODELS:
        return MODELS[model_name]
    known = recbole_model_names()
    if model_name not in known:
        near = did_you_mean(model_name, [*MODELS, *known, *(f"AdapTau{name}" for name in known)])
        raise AdapTauError(
            f"there is no model named '{model_name}'.{near} This package adds {', '.join(sorted(MODELS))}."
        )
    try:
        with torch.autograd.set_detect_anomaly(torch.is_anomaly_enabled()):  # put back afterwards
            return original(model_name)
    except ModuleNotFoundError as error:
        # RecBole imports both tree libraries for either model.
        needs = " ".join(_TREE_MODELS.values()) if model_name in _TREE_MODELS else error.name
        raise AdapTauError(
            f"the model '{model_name}' needs a package that is not installed ({error.name}): pip install {needs}"
        ) from error


def get_trainer(original: Any, model_type: Any, model_name: str) -> Any:
    ours = MODELS.get(_adapt_by_name(model_name))
    if ours is not None and issubclass(ours, AdapTauRecommender):
        base = getattr(ours, "base_name", None)
        trainer: Any = _adapting(Trainer if base is None else original(model_type, base))
    else:
        trainer = original(model_type, model_name)
    return recording(trainer) if issubclass(trainer, Trainer) else trainer


@cache
def _adapting(trainer: type[Trainer]) -> type[Trainer]:
    """Our trainer on top of the base model's own, where it has one (NCL)."""
    if trainer is Trainer:
        return AdapTauTrainer
    return type(f"AdapTau{trainer.__name__}", (AdapTauTrainer, trainer), {"__module__": __name__})
