"""Our defaults and checks inside RecBole's Config; the patches hook these functions into it."""

import hashlib
import os
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from recbole.config import Config

from ..data import noise
from ..errors import DataError, OptionError, did_you_mean
from ..recipe import PARTS
from . import keys
from .recbole_settings import RecboleSettings
from .recipes import open_recipe
from .selection import select
from .yaml_files import PROPERTIES, read_yaml


def load_defaults(config: Config, model_class: Any, model: str, dataset: str) -> None:
    """Lay our defaults over RecBole's and below what the user gave.

    In this order: the declared settings of the model and of all it can be made of; properties/model/MODEL.yaml (of our
    models without a file of their own AdapTau.yaml); the recipe; the preset; the file that lies with a dataset.
    """
    values, given = config.internal_config_dict, config.external_config_dict
    ours = keys.is_ours(model_class)
    if hasattr(model_class, "Settings"):
        declared = keys.defaults(model_class)
        general = {name for settings in keys.GENERAL for name in settings.model_fields}
        values.update({name: value for name, value in declared.items() if ours or name not in general})
    if not ours and given.get("record_run"):
        values.update(run_root="runs", topk=list(RecboleSettings.defaults()["topk"]))  # as ours report
    own = PROPERTIES / "model" / f"{model}.yaml"
    if ours or own.is_file():
        values.update(read_yaml(own if own.is_file() else PROPERTIES / "model" / "AdapTau.yaml"))
    if ours:
        parts, settings = open_recipe(given.get("recipe", "none"))
        values.update(settings, recipe_parts=[name for name in parts if fits(name, model_class, given["recipe"])])
    if given.get("preset"):
        values.update(_preset(str(given["preset"]), model, dataset, given))
    data_path = given.get("data_path", values["data_path"])
    if not isinstance(data_path, str | Path):
        raise OptionError(f"data_path = {data_path!r}: must be the path of the folder that holds the datasets.")
    beside = Path(data_path) / dataset / f"{dataset}.yaml"
    if beside.is_file():
        with_data = read_yaml(beside)
        if refused := sorted(with_data.keys() & keys.not_with_data()):
            raise DataError(
                f"{beside} sets {', '.join(refused)}: a file that comes with data has no say "
                "in where a run reads and writes or what may run. Remove it; if you want it, give it with the command."
            )
        values.update(with_data)
    if ours:
        RecboleSettings.read({**values, **given})


def fits(part: str, model_class: Any, recipe: Any) -> bool:
    """Whether a part of a recipe is for a model; one that was asked for by name and is not is an error."""
    if not PARTS[part].needs_own_tables or model_class.makes_tables:
        return True
    if recipe == "plus":
        return False
    raise OptionError(f"recipe: {part} is for models that make their own tables, unlike {model_class.__name__}.")


def check_name(dataset: Any) -> None:
    """A dataset is named, not pointed at: its name becomes part of paths."""
    is_name = isinstance(dataset, str) and dataset.isprintable() and Path(dataset).name == dataset != ""
    if not is_name or dataset.startswith("."):
        raise DataError(f"dataset = {dataset!r} is not a name: set data_path to the folder that holds it.")


def settle(config: Config) -> None:
    """Check a complete Config, before any data is loaded, and fill in what follows from it."""
    keys.check_settings(config)
    _set_split(config)
    select(config)
    noise.check(config)
    for key in keys.INTERNAL:
        config.final_config_dict.pop(key, None)
    if config["run_root"] and not config["run_folder"]:
        settings = sorted(config.final_config_dict.items(), key=lambda item: item[0])
        config["run_folder"] = str(new_run_folder(config["run_root"], config["dataset"], config["model"], settings))
    if config["run_folder"]:
        config["checkpoint_dir"] = config["run_folder"]


def _preset(name: str, model: str, dataset: str, given: Mapping[str, Any]) -> dict[str, Any]:
    """A preset's settings: the common ones, then those for the model, then for the model on the dataset.

    A preset that has settings for datasets is refused for others, unless all that they set for each is given.
    """
    known = {path.stem: path for path in (PROPERTIES / "preset").glob("*.yaml")}
    path = known.get(name, Path(name))
    if not path.is_file():
        raise OptionError(
            f"preset = {name!r} is neither one of {', '.join(sorted(known))} nor a file.{did_you_mean(name, known)}"
        )
    settings = read_yaml(path)
    if "recipe" in settings:
        raise OptionError(f"{path} sets recipe: a preset is about the paper's method; give --recipe with the command.")
    special = settings.pop("by_run", {})
    if not isinstance(special, dict) or not all(isinstance(part, dict) for part in special.values()):
        raise OptionError(f"{path}: by_run must hold, for each model or model/dataset, settings of its own.")
    by_dataset = {run: own for run, own in special.items() if "/" in run}
    if by_dataset and f"{model}/{dataset}" not in by_dataset:
        needed = sorted(set.intersection(*(set(own) for own in by_dataset.values())))
        missing = [key for key in needed if key not in given]
        if missing:
            raise OptionError(
                f"preset = {name} has settings for {', '.join(sorted(by_dataset))}, and none for {model}/{dataset}: "
                f"use --preset=paper, or give {' and '.join('--' + key for key in missing)} yourself."
            )
    return settings | special.get(model, {}) | by_dataset.get(f"{model}/{dataset}", {})


def _set_split(config: Config) -> None:
    protocol, splits = config["protocol"] or "honest", config["given_split"]
    if splits:
        if "benchmark_filename" not in config.external_config_dict:
            config["benchmark_filename"] = list(splits[protocol])
    elif protocol == "paper":
        raise OptionError(
            f"protocol = paper (validation = test) needs data with a given split, and '{config['dataset']}' has none: "
            "convert train.txt and test.txt with `recbole-adaptau data convert`, or leave protocol out."
        )


def new_run_folder(root: str | Path, dataset: str, model: str, settings: Any) -> Path:
    """root/dataset/model/time-hash: new for every run and sorted by time."""
    # The process and the nanosecond are in it too: many runs of the same settings may start in the same second.
    told = f"{settings!r}{os.getpid()} {time.time_ns()}"
    name = f"{time.strftime('%Y%m%d-%H%M%S')}-{hashlib.sha256(told.encode()).hexdigest()[:6]}"
    parent = Path(root) / dataset / model
    folder, number = parent / name, 1
    while folder.exists():
        number += 1
        folder = parent / f"{name}-{number}"
    return folder
