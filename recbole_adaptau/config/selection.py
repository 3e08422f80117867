"""Which interactions are positives, and which of them validate and test: plain settings for RecBole's longer ones."""

import re
from collections.abc import Mapping
from decimal import Decimal
from typing import Annotated, Any, Literal

from pydantic import Field, model_validator
from recbole.config import Config
from recbole.utils import ModelType
from typing_extensions import Self

from ..core.settings import SettingsModel, setting
from ..errors import OptionError

Share = Annotated[float, Field(ge=0, lt=1)]
# RecBole's labels mean nothing to these: every interaction of theirs is a positive.
WITHOUT_LABELS = (ModelType.GENERAL, ModelType.SEQUENTIAL, ModelType.KNOWLEDGE)


class SelectionSettings(SettingsModel):
    """For every model, also RecBole's."""

    split: Literal["random", "time", "leave-one-out"] | None = setting(
        None,
        "How each user's interactions are split: random, time (the latest test), leave-one-out (the last one tests, "
        "the one before validates). Sets RecBole's eval_args, whose default is random.",
    )
    valid: Share | None = setting(
        None,
        "The share of each user's interactions that validates (RecBole's default: 0.1).",
        wanted="a number from 0 to below 1, the share of each user's interactions",
    )
    test: Share | None = setting(
        None,
        "The share that tests (RecBole's default: 0.1); the rest trains.",
        wanted="a number from 0 to below 1, the share of each user's interactions",
    )
    kcore: Annotated[int, Field(ge=1)] | None = setting(
        None,
        "Keep only users and items with at least so many interactions with each other.",
        wanted="a whole number of at least 1",
    )
    min_rating: float | None = setting(
        None,
        "Only interactions with at least this rating are positives; the others only count as seen.",
        wanted="a number",
    )

    @model_validator(mode="after")
    def _whole_sense(self) -> Self:
        if self.split == "leave-one-out" and (self.valid is not None or self.test is not None):
            raise OptionError("split = leave-one-out has no shares: leave out valid and test.")
        if (self.valid or 0) + (self.test or 0) >= 1:
            raise OptionError(f"valid = {self.valid} and test = {self.test} leave nothing to train on.")
        return self


def select(config: Config) -> None:
    """Write the plain settings as RecBole's own, in a complete Config; refuses what contradicts itself."""
    chosen = SelectionSettings.read(config)
    given = {key: value for key, value in chosen.model_dump().items() if value is not None}
    threshold = config["threshold"] if config["MODEL_TYPE"] in WITHOUT_LABELS and not _labelled(config) else None
    if threshold:
        given["threshold"] = threshold
    if given and config["benchmark_filename"]:
        raise OptionError(
            f"{', '.join(given)}: '{config['dataset']}' has a given split ({', '.join(config['benchmark_filename'])}), "
            "which RecBole neither filters nor splits again: leave it out, or filter before converting."
        )
    if chosen.split or chosen.valid is not None or chosen.test is not None:
        _set_split(config, chosen)
    if chosen.kcore:
        for key in ("user_inter_num_interval", "item_inter_num_interval"):
            _set(config, key, _from(chosen.kcore), f"kcore = {chosen.kcore}")
    if chosen.min_rating is not None:
        _keep_from(config, config["RATING_FIELD"], chosen.min_rating, f"min_rating = {chosen.min_rating}")
    if threshold:
        _set_threshold(config, threshold)


def rating_bound(config: Config) -> tuple[str, str] | None:
    """The column of the lowest rating that is a positive and its interval, as RecBole has it; None without one."""
    field = config["RATING_FIELD"]
    interval = (config["val_interval"] or {}).get(field)
    return (field, interval) if interval else None


def lowest_rating(settings: Mapping[str, Any]) -> float | None:
    """The rating from which on a run's interactions are positives; None where every one is.

    Raises:
        OptionError: Its ratings are bounded in another way.
    """
    interval = (settings.get("val_interval") or {}).get(settings.get("RATING_FIELD"))
    if not interval:
        return None
    least = re.fullmatch(r"\[([-\d.]+),inf\)", str(interval).replace(" ", ""))
    if least is None:
        raise OptionError(f"the positives of the run are those with a rating in {interval}, not from a rating on.")
    return float(least[1])


def _labelled(config: Config) -> bool:
    return "labeled" in config["eval_args"]["mode"].values()


def _set_split(config: Config, chosen: SelectionSettings) -> None:
    way = chosen.split or "random"
    valid = 0.1 if chosen.valid is None else chosen.valid
    test = 0.1 if chosen.test is None else chosen.test
    shares = {"RS": [round(1 - valid - test, 10), valid, test]}
    wanted = {
        "split": {"LS": "valid_and_test"} if way == "leave-one-out" else shares,
        "order": "RO" if way == "random" else "TO",
        "group_by": "user",
    }
    named = config.external_config_dict.get("eval_args") or {}
    for key, value in wanted.items():
        if key in named and named[key] != value:
            raise OptionError(
                f"split = {way} means eval_args with {key} = {value}, but eval_args has {named[key]}: give one of both."
            )
    config["eval_args"] = {**config["eval_args"], **wanted}
    if way != "random":
        _load(config, config["TIME_FIELD"])


def _set_threshold(config: Config, threshold: Any) -> None:
    """For models that know no labels, interactions below the threshold are left out, which RecBole forgets to do."""
    if not isinstance(threshold, dict) or len(threshold) != 1 or not _is_number(next(iter(threshold.values()))):
        raise OptionError(f"threshold = {threshold!r}: must name one column and a number, as {{'rating': 4}}.")
    ((field, least),) = threshold.items()
    _keep_from(config, str(field), least, f"threshold = {threshold}")
    config["threshold"] = None


def _keep_from(config: Config, field: str, least: float, by: str) -> None:
    intervals, wanted = config["val_interval"] or {}, _from(least)
    if intervals.get(field, wanted) != wanted:
        raise OptionError(f"{by} and val_interval = {intervals} are about the same column: give one of both.")
    config["val_interval"] = {**intervals, field: wanted}
    _load(config, field)


def _load(config: Config, field: str) -> None:
    """Have a column of the interactions loaded where load_col leaves it out."""
    columns = (config["load_col"] or {}).get("inter")
    if isinstance(columns, list) and field not in columns:
        config["load_col"] = {**config["load_col"], "inter": [*columns, field]}


def _set(config: Config, key: str, value: Any, by: str) -> None:
    named = config.external_config_dict.get(key)
    if named is not None and named != value:
        raise OptionError(f"{by} means {key} = {value}, but {key} is {named}: give one of both.")
    config[key] = value


def _from(least: float) -> str:
    return f"[{Decimal(repr(least)).normalize():f},inf)"


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and abs(value) < float("inf")
