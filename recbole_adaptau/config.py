"""Our defaults and checks inside RecBole's Config: `registry.install` hooks both functions here into it."""

import hashlib
import re
import time
from pathlib import Path
from typing import Any

import yaml
from recbole.config import Config
from recbole.evaluator import metric_types
from recbole.evaluator.register import metrics_dict
from recbole.utils import EvaluatorType

from .data import noise
from .errors import DataError, OptionError, did_you_mean
from .options import unused_settings

_PACKAGE = Path(__file__).resolve().parent
# Inside the wheel the properties lie in the package, in a checkout beside it.
PROPERTIES = _PACKAGE / "properties" if (_PACKAGE / "properties").is_dir() else _PACKAGE.parent / "properties"


# What full-sort evaluation can compute, by RecBole's lower-case name.
RANKING = {name: metrics_dict[name].__name__ for name, kind in metric_types.items() if kind == EvaluatorType.RANKING}


class YamlLoader(yaml.SafeLoader):
    """Safe YAML that reads 1e-5 as a number, as RecBole's own loader does."""


YamlLoader.add_implicit_resolver(
    "tag:yaml.org,2002:float",
    re.compile(r"^[-+]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)[eE][-+]?[0-9]+$"),
    list("-+0123456789."),
)


def read_yaml(path: Path) -> dict[str, Any]:
    """A YAML file that must hold a mapping (or nothing)."""
    try:
        content = yaml.load(path.read_text(encoding="utf-8"), Loader=YamlLoader)
    except yaml.YAMLError as error:
        raise OptionError(f"{path} is not valid YAML: {error}") from None
    if not isinstance(content, dict | None):
        raise OptionError(f"{path} must hold 'key: value' lines, not a {type(content).__name__}.")
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


def load_defaults(config: Config, model: str, dataset: str, ours: bool) -> None:
    """Lay our properties over RecBole's defaults and below what the user gave.

    For our models: properties/overall.yaml, then properties/model/MODEL.yaml, or AdapTau.yaml if it has no file of its
    own. For every model: the preset asked for, then the file NAME.yaml that lies with a converted dataset.
    """
    defaults, given = config.internal_config_dict, config.external_config_dict
    if ours:
        defaults.update(read_yaml(PROPERTIES / "overall.yaml"))
        own = PROPERTIES / "model" / f"{model}.yaml"
        defaults.update(read_yaml(own if own.is_file() else PROPERTIES / "model" / "AdapTau.yaml"))
    elif given.get("record_run"):
        defaults["run_root"] = "runs"
    if given.get("preset"):
        defaults.update(_preset(str(given["preset"]), model, dataset))
    if Path(dataset).name != dataset or dataset.startswith("."):
        raise DataError(f"dataset = {dataset!r} is not a name: set data_path to the folder that holds it.")
    if ours:
        _check_basics({**defaults, **given})
    beside = Path(given.get("data_path", defaults["data_path"])) / dataset / f"{dataset}.yaml"
    if beside.is_file():
        defaults.update(read_yaml(beside))


def settle(config: Config, ours: bool) -> None:
    """Check a complete Config, before any data is loaded, and fill in what follows from it."""
    _set_split(config)
    noise.check(config)
    if ours:
        config.model_class.check(config)
    if config["run_root"] and not config["run_folder"]:
        config["run_folder"] = str(_new_run_folder(config))
    if config["run_folder"]:
        config["checkpoint_dir"] = config["run_folder"]


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
    return settings | special.get(model, {}) | special.get(f"{model}/{dataset}", {})


def _set_split(config: Config) -> None:
    protocol, splits = config["protocol"] or "honest", config["given_split"]
    if protocol not in ("honest", "paper"):
        raise OptionError(
            f"protocol = {protocol!r} is not one of honest, paper.{did_you_mean(protocol, ['honest', 'paper'])}"
        )
    if splits:
        if "benchmark_filename" not in config.external_config_dict:
            config["benchmark_filename"] = list(splits[protocol])
    elif protocol == "paper":
        raise OptionError(
            f"protocol = paper (validation = test) needs data with a given split, and '{config['dataset']}' has none: "
            "convert train.txt and test.txt with `python -m recbole_adaptau.data convert`, or leave protocol out."
        )


def _check_basics(values: dict[str, Any]) -> None:
    """RecBole's own settings, whose wrong values would end in a traceback, some only after an epoch."""
    for key, least in (("epochs", 0), ("train_batch_size", 1), ("eval_batch_size", 1), ("stopping_step", 0)):
        if not _whole(values[key], least):
            raise OptionError(f"{key} = {values[key]!r}: must be a whole number of at least {least}.")
    if not _whole(values["seed"], 0):
        raise OptionError(f"seed = {values['seed']!r}: must be a whole number of at least 0.")
    rate = values["learning_rate"]
    if isinstance(rate, bool) or not isinstance(rate, int | float) or not rate > 0:
        raise OptionError(f"learning_rate = {rate!r}: must be a number above 0.")
    learners = ("adam", "adamw", "sgd", "adagrad", "rmsprop", "row_adam")
    if str(values["learner"]).lower() not in learners:
        near = did_you_mean(values["learner"], learners)
        raise OptionError(f"learner = {values['learner']!r} is not one of {', '.join(learners)}.{near}")
    if not isinstance(values["record_groups"], bool):
        raise OptionError(f"record_groups = {values['record_groups']!r}: must be True or False.")
    for key in ("run_folder", "run_root"):
        if values[key] is not None and not isinstance(values[key], str):
            raise OptionError(f"{key} = {values[key]!r}: must be a path.")
    topk = values["topk"] if isinstance(values["topk"], list) else [values["topk"]]
    if not topk or not all(_whole(k, 1) for k in topk):
        raise OptionError(f"topk = {values['topk']!r}: must be a list of whole numbers of at least 1, as [10, 20].")
    metrics = values["metrics"] if isinstance(values["metrics"], list) else [values["metrics"]]
    for metric in metrics:
        if str(metric).lower() not in RANKING:
            raise OptionError(
                f"metrics = {metrics}: '{metric}' does not rank items. Those that do: {', '.join(RANKING.values())}."
                f"{did_you_mean(str(metric), RANKING.values())}"
            )
    name, at, k = str(values["valid_metric"]).partition("@")
    if name.lower() not in [str(metric).lower() for metric in metrics]:
        raise OptionError(f"valid_metric = {values['valid_metric']}: {name} is not among metrics = {metrics}.")
    if name.lower() == "gauc":
        return
    if not at or not k.isdigit() or int(k) not in topk:
        raise OptionError(f"valid_metric = {values['valid_metric']}: {k or 'no k'} is not among topk = {topk}.")


def _whole(value: Any, least: int) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= least


def known_keys(config: Config) -> set[str]:
    """Every key that RecBole or our properties define."""
    from_recbole = {key for keys in config.parameters.values() for key in keys}
    plumbing = {
        "model",
        "dataset",
        "config_files",
        "record_run",
        "nproc",
        "world_size",
        "ip",
        "port",
        "offset",
        "noise_ratio",
        "noise_groups",
    }
    derived = {"local_rank", "benchmark_filename", "given_split", "tail_ratio", "encoding", "device"}
    return from_recbole | set(config.internal_config_dict) | plumbing | derived


def notes(config: Config) -> list[str]:
    """What the user gave that changes nothing: options nobody reads, and options that others overrule."""
    known = known_keys(config)
    unknown = [key for key in sorted(config.external_config_dict) if key not in known]
    found = [f"No part of this program reads the option '{key}'.{did_you_mean(key, known)}" for key in unknown]
    if hasattr(config.model_class, "check"):
        found += unused_settings(config.model_class.check(config), config)
    return found


def _new_run_folder(config: Config) -> Path:
    """run_root/dataset/model/time-hash: new for every run, sorted by time, telling settings apart."""
    settings = repr(sorted(config.final_config_dict.items(), key=lambda item: item[0]))
    name = f"{time.strftime('%Y%m%d-%H%M%S')}-{hashlib.sha256(settings.encode()).hexdigest()[:6]}"
    parent = Path(config["run_root"]) / config["dataset"] / config["model"]
    folder, number = parent / name, 1
    while folder.exists():
        number += 1
        folder = parent / f"{name}-{number}"
    return folder
