"""Finding a model by name: this package's first, then RecBole's, and a plain answer when neither has it."""

import re
from pathlib import Path
from typing import Any

import recbole.model
import torch
from recbole.utils import utils

from ..errors import AdapTauError, did_you_mean
from .patching import replace_everywhere

_TREE_MODELS = {"LightGBM": "lightgbm", "XGBoost": "xgboost"}


def _registered() -> dict[str, type]:
    """This package's models by name; imported late, as they import RecBole themselves."""
    try:
        from ..model.registry import MODELS
    except ModuleNotFoundError as error:
        if error.name != "recbole_adaptau.model.registry":
            raise
        return {}
    return dict(MODELS)


def recbole_model_names() -> set[str]:
    """The class that each of RecBole's model files is named after, read without importing any of them."""
    names = set()
    for file in Path(recbole.model.__file__).parent.glob("*_recommender/*.py"):
        for name in re.findall(r"^class (\w+)", file.read_text(encoding="utf-8"), re.MULTILINE):
            if name.lower() == file.stem:
                names.add(name)
    return names


def find_models() -> None:
    """Consult `registry.MODELS` first and explain an unknown name (issues 489, 1975).

    RecBole looks for an unknown model in its LightGBM and XGBoost folder, whose import fails, so that a
    misspelt name ends in `ModuleNotFoundError: lightgbm`. And importing any of its sequential models imports SINE,
    which turns autograd's anomaly mode on for good: all training in the process then takes a multiple of its time.
    """
    original = utils.get_model

    def get_model(model_name: str) -> Any:
        registered = _registered()
        if model_name in registered:
            return registered[model_name]
        known = recbole_model_names()
        if model_name not in known:
            near = did_you_mean(model_name, [*registered, *known, *(f"AdapTau{name}" for name in known)])
            here = f" This package adds {', '.join(sorted(registered))}." if registered else ""
            raise AdapTauError(f"there is no model named '{model_name}'.{near}{here}")
        try:
            with torch.autograd.set_detect_anomaly(torch.is_anomaly_enabled()):  # put back afterwards
                return original(model_name)
        except ModuleNotFoundError as error:
            # RecBole imports both tree libraries for either model.
            needs = " ".join(_TREE_MODELS.values()) if model_name in _TREE_MODELS else error.name
            raise AdapTauError(
                f"the model '{model_name}' needs a package that is not installed ({error.name}): pip install {needs}"
            ) from error

    replace_everywhere(original, get_model)
