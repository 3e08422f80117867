"""Every setting of our models once, for `train --help` and docs/configuration.md."""

from collections.abc import Iterator

from pydantic.fields import FieldInfo

from ..config.keys import GENERAL, groups, is_ours
from ..config.recbole_settings import RecboleSettings
from ..config.run_settings import RunSettings, TrainingSettings
from ..config.selection import SelectionSettings
from ..core.settings import SettingsModel
from ..data.noise import NoiseSettings
from ..model.base import AdapTauRecommender
from ..model.registry import MODELS

TITLES: dict[type[SettingsModel], str] = {
    AdapTauRecommender.Settings: "all our models",
    TrainingSettings: "training",
    SelectionSettings: "positives and split",
    NoiseSettings: "false positives",
    RunSettings: "every run",
    RecboleSettings: "RecBole's, with defaults of ours",
}


def documented() -> Iterator[tuple[str, list[tuple[str, FieldInfo]]]]:
    """A title and the settings declared under it, those of all our models first, each setting once."""
    ours = [model for model in MODELS.values() if is_ours(model)]
    found: list[tuple[type[SettingsModel], str]] = [(AdapTauRecommender.Settings, "")]
    found += [(group.settings, group.reader) for model in ours for group in groups(model)]
    seen: set[str] = set()
    for settings, reader in found:
        fields = [item for item in settings.model_fields.items() if item[1].description and item[0] not in seen]
        seen |= {name for name, _ in fields}
        if fields:
            yield TITLES.get(settings, reader), fields
    for model in MODELS.values():
        for group in groups(model) if not is_ours(model) else ():
            if group.settings not in GENERAL:
                yield group.reader, list(group.settings.model_fields.items())


def help_lines() -> str:
    """The keys with default and meaning, for `--help`."""
    lines = []
    for title, fields in documented():
        lines.append(f"  [{title}]")
        lines += [f"  --{name}={shown_default(field)}  {field.description}" for name, field in fields]
    return "\n".join(lines).replace("%", "%%")


def shown_default(field: FieldInfo) -> str:
    return "" if field.is_required() or field.default is None else str(field.default)
