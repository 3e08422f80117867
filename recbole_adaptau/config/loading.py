"""Our defaults and checks inside RecBole's Config: `registry.install` hooks both functions here into it."""

import hashlib
import os
import re
import time
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import yaml
from recbole.config import Config

from ..data import noise
from ..errors import DataError, OptionError, did_you_mean
from .basics import check_basics
from .options import Options, unused_settings

_PACKAGE = Path(__file__).resolve().parents[1]
# Inside the wheel the properties lie in the package, in a checkout beside it.
PROPERTIES = _PACKAGE / "properties" if (_PACKAGE / "properties").is_dir() else _PACKAGE.parent / "properties"


# What no file that lies with a dataset may set.
NOT_FOR_DATA = frozenset(
    {
        *("allow_pickle", "checkpoint_dir", "data_path", "dataloaders_save_path", "dataset_save_path", "log_wandb"),
        *("preset", "record_run", "resume", "run_folder", "run_root", "save_dataloaders", "save_dataset"),
    }
)


class YamlLoader(yaml.SafeLoader):
    """Safe YAML that reads 1e-5 as a number, as RecBole's own loader does."""


YamlLoader.add_implicit_resolver(
    "tag:yaml.org,2002:float",
    re.compile(r"^[-+]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)[eE][-+]?[0-9]+$"),
    list("-+0123456789."),
)


def _mapping(loader: YamlLoader, node: yaml.MappingNode) -> dict[Any, Any]:
    """A mapping in which no key stands twice: plain YAML lets the last one win without a word."""
    keys = [loader.construct_object(key, deep=True) for key, _ in node.value if key.tag != "tag:yaml.org,2002:merge"]
    mapping = loader.construct_mapping(node, deep=True)
    for key, times in Counter(keys).items():
        if times > 1:
            raise yaml.constructor.ConstructorError(None, None, f"'{key}' stands there {times} times", node.start_mark)
    return mapping


YamlLoader.add_constructor("tag:yaml.org,2002:map", _mapping)


def parse_yaml(text: str) -> Any:
    """What a YAML text says; whatever is wrong with it is a YAMLError."""
    try:
        return yaml.load(text, Loader=YamlLoader)
    except (ValueError, OverflowError, RecursionError, TypeError) as error:
        # From inside the parser: a date with a thirteenth month, brackets nested a thousand deep, a list as a key.
        raise yaml.YAMLError(str(error) or type(error).__name__) from None


def read_yaml(path: Path) -> dict[str, Any]:
    """A YAML file that must hold a mapping (or nothing)."""
    try:
        content = parse_yaml(path.read_text(encoding="utf-8-sig"))
    except yaml.YAMLError as error:
        raise OptionError(f"{path} is not valid YAML: {error}") from None
    except UnicodeError:
        raise OptionError(f"{path} is not UTF-8 text; save it as UTF-8.") from None
    except (OSError, ValueError) as error:
        raise OptionError(f"{path} cannot be read: {getattr(error, 'strerror', None) or error}.") from None
    if not isinstance(content, dict | None):
        raise OptionError(f"{path} must hold 'key: value' lines, not a {type(content).__name__}.")
    for key in content or {}:
        if not isinstance(key, str):
            raise OptionError(f"{path}: the key {key!r} is not a name; write 'key: value' lines.")
    return content or {}


def documented_keys(path: Path) -> list[tuple[str, str, str, str]]:
    """Section, key, default and meaning of every line `key: default  # meaning` of a property file."""
    found, section = [], ""
    for line in path.read_text(encoding="utf-8").splitlines():
        if key := re.match(r"(\w+): *(.*?) +# (.*)$", line):
            found.append((section, key[1], "" if key[2] == "~" else key[2], key[3]))
        elif heading := re.fullmatch(r"# (\w+)", line):
            section = heading[1]
    return found


def load_files(files: Sequence[str | Path] | None) -> dict[str, Any]:
    """The user's settings files, the later ones winning; in place of RecBole's reader, which fails without a word."""
    return {key: value for file in files or [] for key, value in read_yaml(Path(file)).items()}


def load_defaults(config: Config, model: str, dataset: str, ours: bool) -> None:
    """Lay our properties over RecBole's defaults and below what the user gave.

    For models with a temperature of ours: properties/overall.yaml, then properties/model/MODEL.yaml, or AdapTau.yaml if
    it has no file of its own. For every other model: properties/model/MODEL.yaml, if there is one. For all: the preset
    asked for, then the file NAME.yaml that lies with a converted dataset.
    """
    defaults, given = config.internal_config_dict, config.external_config_dict
    if ours:
        defaults.update(read_yaml(PROPERTIES / "overall.yaml"))
    elif given.get("record_run"):
        defaults["run_root"] = "runs"
    own = PROPERTIES / "model" / f"{model}.yaml"
    if ours or own.is_file():
        defaults.update(read_yaml(own if own.is_file() else PROPERTIES / "model" / "AdapTau.yaml"))
    if given.get("preset"):
        defaults.update(_preset(str(given["preset"]), model, dataset))
    data_path = given.get("data_path", defaults["data_path"])
    if not isinstance(data_path, str | Path):
        raise OptionError(f"data_path = {data_path!r}: must be the path of the folder that holds the datasets.")
    beside = Path(data_path) / dataset / f"{dataset}.yaml"
    if beside.is_file():
        with_data = read_yaml(beside)
        if refused := sorted(with_data.keys() & NOT_FOR_DATA):
            raise DataError(
                f"{beside} sets {', '.join(refused)}: a file that comes with data has no say "
                "in where a run reads and writes or what may run. Remove it; if you want it, give it with the command."
            )
        defaults.update(with_data)
    if ours:
        check_basics({**defaults, **given})


def check_name(dataset: Any) -> None:
    """A dataset is named, not pointed at: its name becomes part of paths."""
    is_name = isinstance(dataset, str) and dataset.isprintable() and Path(dataset).name == dataset != ""
    if not is_name or dataset.startswith("."):
        raise DataError(f"dataset = {dataset!r} is not a name: set data_path to the folder that holds it.")


def settle(config: Config) -> None:
    """Check a complete Config, before any data is loaded, and fill in what follows from it."""
    _set_split(config)
    noise.check(config)
    check_budget(config["budget_minutes"])
    if hasattr(config.model_class, "check"):
        config.model_class.check(config)
    if config["run_root"] and not config["run_folder"]:
        config["run_folder"] = str(_new_run_folder(config))
    if config["run_folder"]:
        config["checkpoint_dir"] = config["run_folder"]


def check_budget(budget: Any) -> None:
    if budget is not None and (isinstance(budget, bool) or not isinstance(budget, int | float) or not budget > 0):
        raise OptionError(f"budget_minutes = {budget!r}: must be a number above 0; leave it out for no limit.")


def _preset(name: str, model: str, dataset: str) -> dict[str, Any]:
    """A preset's settings: the common ones, then those for the model, then for the model on the dataset."""
    known = {path.stem: path for path in (PROPERTIES / "preset").glob("*.yaml")}
    path = known.get(name, Path(name))
    if not path.is_file():
        raise OptionError(
            f"preset = {name!r} is neither one of {', '.join(sorted(known))} nor a file.{did_you_mean(name, known)}"
        )
    settings = read_yaml(path)
    special = settings.pop("by_run", {})
    if not isinstance(special, dict) or not all(isinstance(part, dict) for part in special.values()):
        raise OptionError(f"{path}: by_run must hold, for each model or model/dataset, settings of its own.")
    return settings | special.get(model, {}) | special.get(f"{model}/{dataset}", {})


def _set_split(config: Config) -> None:
    protocol, splits = config["protocol"] or "honest", config["given_split"]
    if protocol not in ("honest", "paper"):
        raise OptionError(
            f"protocol = {protocol!r} is not one of honest, paper.{did_you_mean(protocol, ['honest', 'paper'])}"
        )
    if splits:
        if not isinstance(splits, dict) or not all(_three_names(splits.get(name)) for name in ("honest", "paper")):
            raise OptionError(
                f"given_split = {splits!r}: must name three parts for each protocol, as {{paper: [train, test, test], "
                "honest: [fit, valid, test]}."
            )
        if "benchmark_filename" not in config.external_config_dict:
            config["benchmark_filename"] = list(splits[protocol])
    elif protocol == "paper":
        raise OptionError(
            f"protocol = paper (validation = test) needs data with a given split, and '{config['dataset']}' has none: "
            "convert train.txt and test.txt with `recbole-adaptau data convert`, or leave protocol out."
        )


def _three_names(parts: Any) -> bool:
    return isinstance(parts, list) and len(parts) == 3 and all(isinstance(part, str) and part for part in parts)


def known_keys(config: Config) -> set[str]:
    """Every key that RecBole or our properties define."""
    from_recbole = {key for keys in config.parameters.values() for key in keys}
    plumbing = {
        "model",
        "dataset",
        "config_files",
        "record_run",
        "allow_pickle",
        "run_folder",
        "run_root",
        "resume",
        "nproc",
        "world_size",
        "ip",
        "port",
        "offset",
        "noise_ratio",
        "noise_groups",
    }
    derived = {
        "budget_minutes",
        "fast_propagation",
        "protocol",
        "local_rank",
        "benchmark_filename",
        "given_split",
        "tail_ratio",
        "encoding",
        "device",
    }
    return from_recbole | set(config.internal_config_dict) | plumbing | derived


def notes(config: Config) -> list[str]:
    """What the user gave that changes nothing: options nobody reads, and options that others overrule."""
    known = known_keys(config)
    unknown = [key for key in sorted(config.external_config_dict) if key not in known]
    found = [f"No part of this program reads the option '{key}'.{did_you_mean(key, known)}" for key in unknown]
    options = config.model_class.check(config) if hasattr(config.model_class, "check") else None
    if isinstance(options, Options):
        found += unused_settings(options, config)
    return found


def _new_run_folder(config: Config) -> Path:
    """run_root/dataset/model/time-hash: new for every run and sorted by time."""
    settings = repr(sorted(config.final_config_dict.items(), key=lambda item: item[0]))
    # The process and the nanosecond are in it too: many runs of the same settings may start in the same second.
    settings += f"{os.getpid()} {time.time_ns()}"
    name = f"{time.strftime('%Y%m%d-%H%M%S')}-{hashlib.sha256(settings.encode()).hexdigest()[:6]}"
    parent = Path(config["run_root"]) / config["dataset"] / config["model"]
    folder, number = parent / name, 1
    while folder.exists():
        number += 1
        folder = parent / f"{name}-{number}"
    return folder
