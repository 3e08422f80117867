"""Every setting, collected from where it is declared: defaults, help, checks, and who reads what."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import recbole
import torch
from pydantic.fields import FieldInfo
from recbole.config import Config

from ..core.component import Component, Registry
from ..core.losses import LOSSES
from ..core.negatives import NEGATIVES
from ..core.settings import SettingsModel, about
from ..core.strategies import STRATEGIES
from ..data.noise import NoiseSettings
from ..errors import OptionError, did_you_mean
from ..recipe import PARTS, method_name
from .recbole_settings import RecboleSettings
from .recipes import open_recipe
from .run_settings import RunSettings, TrainingSettings
from .selection import SelectionSettings
from .yaml_files import read_yaml

CHOSEN_BY: tuple[Registry[Any], ...] = (STRATEGIES, LOSSES, NEGATIVES)
# What the paper has or compares with; anything else is said to go beyond it.
OF_THE_PAPER = frozenset(
    ("none", "fixed", "learned", "learned_user", "adaptive", "adaptive_user", "softmax", "shared", "in_batch", "full",
     "per_row")
)  # fmt: skip
# Of every run, whatever its model.
GENERAL = (RunSettings, SelectionSettings, NoiseSettings)
# Read by RecBole or by us, but listed in none of RecBole's property files.
UNLISTED = frozenset(
    ("model", "dataset", "config_files", "nproc", "world_size", "ip", "port", "offset", "local_rank", "device",
     "tail_ratio", "encoding", "fast_propagation", "recipe_parts")
)  # fmt: skip
# Words of the commands about settings, no settings themselves: which keys the command line gave for this run alone, and
# whether all are those of a saved run.
INTERNAL = ("strict_keys", "stored_settings")
# Settings of version 0.1 that are called otherwise now.
GONE = {
    "user_loss_average": "it is replaced by --user_loss_items=batch, L(u) averaged over an epoch's batches",
    "popularity_prior": "it is a part of a recipe now: --recipe=[popularity_prior], or --recipe=plus for all parts",
    "initial_embeddings": "a spectral start is a part of a recipe now: --recipe=[spectral_start]",
    "neighbour_weight": "it is called regression_weight now, of the recipe part item_regression",
}


@dataclass(frozen=True)
class Group:
    """Settings that are declared together.

    Attributes:
        reader: Who reads them, for help and messages; "" for all models.
        settings: Their declaration.
    """

    reader: str
    settings: type[SettingsModel]


def groups(model_class: Any) -> Iterator[Group]:
    """All settings that a model's run can have, chosen or not, without those declared again by inheritance."""
    for settings in GENERAL:
        yield Group("", settings)
    if hasattr(model_class, "Settings"):
        yield Group(model_class.__name__, model_class.Settings)
    if not is_ours(model_class):
        return
    yield Group("", RecboleSettings)
    yield Group("", TrainingSettings)
    for registry in (*CHOSEN_BY, PARTS):
        for name, component in registry.items():
            label = f"recipe part {name}" if registry is PARTS else f"{registry.key} {name}"
            yield Group(label, component.Settings)


def is_ours(model_class: Any) -> bool:
    """Whether a model has a temperature of ours: those that are made of components."""
    return "tau_strategy" in getattr(getattr(model_class, "Settings", None), "model_fields", {})


def declared(model_class: Any) -> dict[str, tuple[FieldInfo, list[str]]]:
    """Every setting with its declaration and the names of those who read it."""
    found: dict[str, tuple[FieldInfo, list[str]]] = {}
    for group in groups(model_class):
        for name, field in group.settings.model_fields.items():
            known = found.setdefault(name, (field, []))
            if known[0].default != field.default:
                raise TypeError(
                    f"the setting {name} is declared twice, with the defaults {known[0].default} and {field.default}."
                )
            known[1].append(group.reader)
    return found


def defaults(model_class: Any) -> dict[str, Any]:
    """The default of every setting that has one."""
    return {name: field.default for name, (field, _) in declared(model_class).items() if not field.is_required()}


def not_compared() -> frozenset[str]:
    """Where a run writes and what it prints: no figure depends on these."""
    return _with("compared")


def not_with_data() -> frozenset[str]:
    """What no file that lies with a dataset may set."""
    return _with("with_data") | {"recipe", "recipe_parts", *INTERNAL}


@cache
def _with(mark: str) -> frozenset[str]:
    """The settings for which a mark of `setting` is False."""
    fields = (item for settings in (*GENERAL, RecboleSettings) for item in settings.model_fields.items())
    return frozenset(name for name, field in fields if about(field, mark) is False)


def components(values: Any) -> list[type[Component]]:
    """What a run of ours is made of, by its settings."""
    chosen = [registry[values[registry.key]] for registry in CHOSEN_BY]
    return [*chosen, *(PARTS[name] for name in values["recipe_parts"])]


def check_settings(config: Config) -> None:
    """Refuse what makes no sense, before any data is loaded: values, combinations, and keys that nobody reads."""
    model_class = config.model_class
    for settings in GENERAL:
        settings.read(config)
    if hasattr(model_class, "Settings"):
        model_class.Settings.read(config)
    if is_ours(model_class):
        _check_values(config)
        model_class.refuse(config)
        for component in components(config):
            component.refuse(config)
    explicit = config.external_config_dict.get("strict_keys") or ()
    for key, complaint in _complaints(config).items():
        # RecBole reads the host program's arguments too, which may be for somebody else.
        anywhere = complaint.refused == "always" and key not in config.cmd_config_dict
        if anywhere or (complaint.refused == "explicit" and key in explicit):
            raise OptionError(complaint.text)


def notes(config: Config) -> list[str]:
    """What the user gave that changes nothing and was let through, as other runs of the same file may read it."""
    return [complaint.text for complaint in _complaints(config).values()]


def _check_values(config: Config) -> None:
    """Also of what is not chosen: a value that is wrong is wrong, whoever reads it."""
    given = config.external_config_dict
    chosen = {component.Settings for component in components(config)}
    for group in groups(config.model_class):
        if group.settings is RecboleSettings:
            continue  # looked at before RecBole has read them
        fields = group.settings.model_fields
        if not group.reader or group.reader == config.model_class.__name__ or group.settings in chosen:
            group.settings.read(config)
        elif given.keys() & fields.keys():
            group.settings.read({**group.settings.defaults(), **{key: given[key] for key in fields if key in given}})


def method_line(config: Config) -> str:
    """Which method a configuration is, in a line for the log."""
    if not is_ours(config.model_class):
        return f"method: {config['model']}"
    chosen = {registry.key: config[registry.key] for registry in CHOSEN_BY}
    shown = [f"{key} = {name}" for key, name in chosen.items()]
    beyond = [told for told, name in zip(shown, chosen.values(), strict=True) if name not in OF_THE_PAPER]
    beyond += config["recipe_parts"]
    name = method_name(config["model"], config["recipe"])
    return f"method: {name}: {', '.join(shown)}; beyond the paper: {', '.join(beyond) or 'nothing'}"


def part_lines(config: Config) -> list[str]:
    """What each part of a configuration's recipe does, a line each for the whole log."""
    parts = config["recipe_parts"] if is_ours(config.model_class) else []
    return [f"recipe part {name}: {PARTS[name].meaning}" for name in parts]


@dataclass(frozen=True)
class Complaint:
    """About a key that has no effect.

    Attributes:
        refused: `always`; `explicit`, where the command line gives the key for this run alone; or `never`.
    """

    text: str
    refused: str


def _complaints(config: Config) -> dict[str, Complaint]:
    model_class, found = config.model_class, {}
    if config.external_config_dict.get("stored_settings"):
        return {}
    listed = (
        {key for keys in config.parameters.values() for key in keys}
        | set(config.internal_config_dict)
        | UNLISTED
        | set(INTERNAL)
    )
    readers = declared(model_class)
    idle: dict[str, str] = {}
    if is_ours(model_class):
        for component in components(config):
            idle |= component.unread(config)
    for key, value in sorted(config.external_config_dict.items()):
        if (no_device := _no_such_device(key, value)) is not None:
            found[key] = no_device
        elif key in GONE and is_ours(model_class) and key not in readers:
            found[key] = Complaint(f"{key} = {value!r}: {GONE[key]}.", "always")
        elif key in readers:
            if is_ours(model_class) and (why := _unread(key, readers[key][1], idle, config)):
                found[key] = Complaint(f"{key} = {value!r} has no effect with {why}.", "explicit")
        elif key not in listed:
            found[key] = _unknown(key, model_class, listed | readers.keys())
    return found


def _no_such_device(key: str, value: Any) -> Complaint | None:
    """About a GPU that was asked for and is not there: RecBole would train on the CPU without a word."""
    if key == "device":
        return Complaint(f"device = {value!r}: nothing reads it; choose GPUs with gpu_id, as --gpu_id=0.", "always")
    wanted = "" if key != "gpu_id" or value is None else str(value).strip()
    if wanted and not torch.cuda.is_available():
        return Complaint(
            f"gpu_id = {value}: PyTorch finds no GPU on this machine; leave it out to run on the CPU.", "explicit"
        )
    return None


def idle_keys(config: Config) -> frozenset[str]:
    """Settings that nothing reads in such a run, whatever their values."""
    if not is_ours(config.model_class):
        return frozenset()
    idle = {key: why for component in components(config) for key, why in component.unread(config).items()}
    readers = declared(config.model_class)
    return frozenset(key for key, (_, names) in readers.items() if _unread(key, names, idle, config))


def _unread(key: str, readers: list[str], idle: Mapping[str, str], config: Config) -> str:
    """Which choice leaves a key without a reader; "" if it has one."""
    if key in idle:
        return idle[key]
    names = {f"{registry.key} {config[registry.key]}" for registry in CHOSEN_BY}
    names |= {f"recipe part {name}" for name in config["recipe_parts"]} | {"", config.model_class.__name__}
    if names & set(readers):
        return ""
    key_of = readers[0].rpartition(" ")[0]
    if key_of == "recipe part":
        part = readers[0].rpartition(" ")[2]
        also = ", or plus" if part in open_recipe("plus")[0] else ""
        return f"recipe = {config['recipe']}: it is read by the part {part} (--recipe=[{part}]{also})"
    wanted = ", ".join(reader.rpartition(" ")[2] for reader in readers)
    return f"{key_of} = {config[key_of]}: it is read by {key_of} {wanted}"


def _unknown(key: str, model_class: Any, known: set[str]) -> Complaint:
    if key in _keys_of_recboles_models() or key in _every_declared_key():
        text = f"{model_class.__name__} does not read the option '{key}', which another model does."
        return Complaint(text, "explicit")
    base = getattr(model_class, "base_class", model_class)
    somebodys = not hasattr(base, "Settings") and not base.__module__.startswith("recbole.")
    return Complaint(
        f"No part of this program reads the option '{key}'.{did_you_mean(key, known)}",
        "never" if somebodys else "always",
    )


def _every_declared_key() -> set[str]:
    """Of all parts of the program that declare settings, also of models other than a run's."""
    classes: list[type[SettingsModel]] = [SettingsModel]
    found: set[str] = set()
    while classes:
        settings = classes.pop()
        classes += settings.__subclasses__()
        found |= settings.model_fields.keys()
    return found


@cache
def _keys_of_recboles_models() -> frozenset[str]:
    folder = Path(recbole.__file__).parent / "properties" / "model"
    return frozenset(key for path in folder.glob("*.yaml") for key in read_yaml(path))
