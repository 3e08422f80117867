"""Settings inside RecBole's Config: our defaults and checks, and nothing in a setting or a file is run."""

import ast
from typing import Any

from ..config.loading import check_name, load_defaults, settle
from ..config.yaml_files import YamlLoader, load_files
from ..errors import OptionError, did_you_mean, refusals_explained


def init(original: Any, self: Any, *args: Any, **kwargs: Any) -> None:
    with refusals_explained("the configuration cannot be used", OptionError):
        original(self, *args, **kwargs)
    settle(self)


def get_model_and_dataset(original: Any, self: Any, model: Any, dataset: str | None) -> tuple[str, type, str]:
    _, model_class, dataset = original(self, model, dataset)
    return model_class.__name__, model_class, dataset  # the name, whichever way it was written


def load_internal_config_dict(original: Any, self: Any, model: str, model_class: type, dataset: str) -> None:
    check_name(dataset)
    original(self, getattr(model_class, "base_name", model), model_class, dataset)
    load_defaults(self, model_class, model, dataset)


def load_config_files(original: Any, self: Any, files: Any) -> dict[str, Any]:
    return load_files(files)


def build_yaml_loader(original: Any, self: Any) -> type[YamlLoader]:
    return YamlLoader


def literal(original: Any, text: str) -> Any:
    """In place of eval(); text that is no literal stays text, as in RecBole where eval() finds no such name."""
    try:
        return ast.literal_eval(text)
    except (ValueError, MemoryError, RecursionError) as error:
        raise NameError(f"{text!r} is not a number, text, list, tuple, dict, True, False or None") from error


def teacher(original: Any, name: str) -> type:
    from recbole.model.context_aware_recommender import kd_dagfm

    known: dict[str, type] = {word: getattr(kd_dagfm, word) for word in ("CrossNet", "CIN", "CINComp", "DAGFM")}
    if name not in known:
        raise OptionError(f"teacher = {name!r} is not one of {', '.join(known)}.{did_you_mean(name, known)}")
    return known[name]


def load_array(original: Any, path: str, allow_pickle: bool = False) -> Any:
    return original(path, allow_pickle=False)
