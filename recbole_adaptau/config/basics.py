"""RecBole's own settings, whose wrong values would end in a traceback, some only after an epoch, or be passed over."""

import importlib.util
import math
import re
import sys
from collections.abc import Callable, Collection, Mapping
from numbers import Real
from typing import Any

from recbole.evaluator import metric_types
from recbole.evaluator.register import metrics_dict
from recbole.utils import EvaluatorType

from ..errors import OptionError, did_you_mean

# What full-sort evaluation can compute, by RecBole's lower-case name.
RANKING = {name: metrics_dict[name].__name__ for name, kind in metric_types.items() if kind == EvaluatorType.RANKING}
LEARNERS = ("adam", "adamw", "sgd", "adagrad", "rmsprop", "row_adam")
LEVELS = ("debug", "info", "warning", "error", "critical")
# The least and the most of whole numbers; beyond them PyTorch or NumPy overflows.
WHOLE = {
    "epochs": (0, 10**9),
    "train_batch_size": (1, 2**31 - 1),
    "eval_batch_size": (1, 2**40),
    "stopping_step": (0, 10**9),
    "eval_step": (0, 10**9),
    "seed": (0, 2**32 - 1),
    "worker": (0, 1024),
    "loss_decimal_place": (0, 30),
    "metric_decimal_place": (0, 30),
}
FLAGS = (
    "show_progress", "reproducibility", "use_gpu", "save_dataset", "save_dataloaders", "log_wandb", "shuffle",
    "enable_amp", "enable_scaler", "repeatable", "filter_inter_by_user_or_item", "record_groups",
)  # fmt: skip
TEXTS = ("data_path", "field_separator", "seq_separator", "USER_ID_FIELD", "ITEM_ID_FIELD")
_NUMBER = r"[-+]?(?:\d+\.?\d*|\.\d+|inf)"
_INTERVAL = rf"\s*[\[(]\s*{_NUMBER}\s*,\s*{_NUMBER}\s*[\])]\s*"
_INTERVALS = re.compile(rf"{_INTERVAL}(?:;{_INTERVAL})*")
_MODE = re.compile(r"full|labeled|(?:uni|pop)[1-9]\d*")


def check_basics(values: Mapping[str, Any]) -> None:
    """Refuse the first setting of RecBole's that makes no sense, with its value and what is allowed."""
    for key, (least, most) in WHOLE.items():
        if not _whole(values[key], least) or values[key] > most:
            limit = "" if most == 10**9 else f" and at most {most}"
            raise OptionError(f"{key} = {values[key]!r}: must be a whole number of at least {least}{limit}.")
    for key in FLAGS:
        _demand(values, key, lambda value: isinstance(value, bool), "True or False")
    for key in TEXTS:
        _demand(values, key, lambda value: isinstance(value, str) and value != "", "text")
    for key in ("run_folder", "run_root"):
        _demand(values, key, lambda value: value is None or isinstance(value, str), "a path")
    _demand(values, "learning_rate", lambda rate: is_real(rate) and 0 < rate <= 100, "a number above 0, at most 100")
    _demand(values, "weight_decay", lambda decay: is_real(decay) and 0 <= decay <= 1000, "a number from 0 to 1000")
    _one_of(values, "learner", LEARNERS)
    _one_of(values, "state", LEVELS)
    if values["log_wandb"] and "wandb" not in sys.modules and importlib.util.find_spec("wandb") is None:
        raise OptionError("log_wandb = True needs the package wandb: install it, or leave log_wandb out.")
    _demand(
        values,
        "clip_grad_norm",
        lambda clip: not clip or (isinstance(clip, dict) and is_real(clip.get("max_norm")) and clip["max_norm"] > 0),
        "a mapping, as {'max_norm': 5}",
    )
    _check_data(values)
    _check_split(values)
    _check_sampling(values)
    _check_metrics(values)


def _check_data(values: Mapping[str, Any]) -> None:
    example = "intervals, as '[5,inf)' or '(1,3];[7,9]'"
    for key in ("user_inter_num_interval", "item_inter_num_interval"):
        _demand(values, key, lambda text: text is None or _is_intervals(text), example)
    _demand(
        values,
        "val_interval",
        lambda given: not given or (isinstance(given, dict) and all(map(_is_choice, given.values()))),
        f"a mapping of columns to {example}, or to lists of tokens",
    )
    _demand(values, "rm_dup_inter", lambda which: which in (None, "first", "last"), "first, last or None")
    for key in ("load_col", "unload_col"):
        _demand(
            values,
            key,
            lambda given: given is None or (isinstance(given, dict) and all(map(_is_columns, given.values()))),
            "a mapping of files to lists of columns, as {'inter': ['user_id', 'item_id']}",
        )
    _demand(
        values,
        "benchmark_filename",
        lambda names: not names or (isinstance(names, list) and len(names) == 3 and all(map(_is_part, names))),
        "a list of three names, as ['train', 'valid', 'test']",
    )


def _check_split(values: Mapping[str, Any]) -> None:
    """RecBole's eval_args, as far as a mistake in them would show up late or be read as something else."""
    args = values["eval_args"]
    known = ("split", "order", "group_by", "mode")
    if not isinstance(args, dict) or not set(args) <= set(known):
        raise OptionError(f"eval_args = {args!r}: must be a mapping with the keys {', '.join(known)}.")
    split = args.get("split", {"RS": [8, 1, 1]})
    if not isinstance(split, dict) or len(split) != 1:
        raise OptionError(f"eval_args: split = {split!r} must be a mapping with one key, as {{'RS': [0.8, 0.1, 0.1]}}.")
    ((way, shares),) = split.items()
    if way == "RS":
        fits = isinstance(shares, list | tuple) and len(shares) == 3 and all(is_real(x) and x >= 0 for x in shares)
        if not fits or not shares[0] > 0:
            raise OptionError(
                f"eval_args: RS = {shares!r} must be three numbers, the shares of training (above 0), validation and "
                "test, as [0.8, 0.1, 0.1]."
            )
    elif way != "LS" or shares not in ("valid_and_test", "valid_only", "test_only"):
        raise OptionError(
            f"eval_args: split = {split!r} must be RS with three shares, or LS with valid_and_test, valid_only or "
            "test_only."
        )
    _one_of({"eval_args: order": args.get("order", "RO")}, "eval_args: order", ("RO", "TO"))
    _one_of({"eval_args: group_by": args.get("group_by") or "none"}, "eval_args: group_by", ("user", "none"))
    mode = args.get("mode", "full")
    for which in mode.values() if isinstance(mode, dict) else [mode]:
        if not isinstance(which, str) or not _MODE.fullmatch(which):
            raise OptionError(f"eval_args: mode = {mode!r} must be full, labeled, uni100 or pop100 (any number).")


def _check_sampling(values: Mapping[str, Any]) -> None:
    args = values["train_neg_sample_args"]
    if args is None:
        return
    if not isinstance(args, dict):
        raise OptionError(
            f"train_neg_sample_args = {args!r}: must be a mapping, as {{'distribution': 'uniform', 'sample_num': 64}}."
        )
    distribution = args.get("distribution", "uniform")
    allowed = ("uniform", "popularity", "none")
    _one_of({"train_neg_sample_args: distribution": distribution}, "train_neg_sample_args: distribution", allowed)
    number = args.get("sample_num", 1)
    if str(distribution).lower() != "none" and not _whole(number, 1):
        raise OptionError(f"train_neg_sample_args: sample_num = {number!r} must be a whole number of at least 1.")


def _check_metrics(values: Mapping[str, Any]) -> None:
    topk = values["topk"] if isinstance(values["topk"], list) else [values["topk"]]
    if not topk or not all(_whole(k, 1) for k in topk):
        raise OptionError(f"topk = {values['topk']!r}: must be a list of whole numbers of at least 1, as [10, 20].")
    metrics = values["metrics"] if isinstance(values["metrics"], list) else [values["metrics"]]
    for metric in metrics:
        if not isinstance(metric, str) or metric.lower() not in RANKING:
            raise OptionError(
                f"metrics = {metrics}: '{metric}' does not rank items. Those that do: {', '.join(RANKING.values())}."
                f"{did_you_mean(str(metric), RANKING.values())}"
            )
    name, at, k = str(values["valid_metric"]).partition("@")
    if name.lower() not in [str(metric).lower() for metric in metrics]:
        raise OptionError(f"valid_metric = {values['valid_metric']}: {name} is not among metrics = {metrics}.")
    if name.lower() == "gauc":
        return
    if not at or not k.isdecimal() or int(k) not in topk:
        raise OptionError(f"valid_metric = {values['valid_metric']}: {k or 'no k'} is not among topk = {topk}.")


def _demand(values: Mapping[str, Any], key: str, fits: Callable[[Any], Any], what: str) -> None:
    if not fits(values[key]):
        raise OptionError(f"{key} = {values[key]!r}: must be {what}.")


def _one_of(values: Mapping[str, Any], key: str, allowed: Collection[str]) -> None:
    """Case does not matter, as RecBole has it."""
    if str(values[key]).lower() not in [name.lower() for name in allowed]:
        near = did_you_mean(values[key], allowed)
        raise OptionError(f"{key} = {values[key]!r} is not one of {', '.join(allowed)}.{near}")


def _whole(value: Any, least: int) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= least


def is_real(value: Any) -> bool:
    """A number that float holds and that is neither infinite nor NaN."""
    if isinstance(value, bool) or not isinstance(value, Real):
        return False
    try:
        return math.isfinite(value)
    except OverflowError:
        return False


def _is_intervals(text: Any) -> bool:
    return isinstance(text, str) and _INTERVALS.fullmatch(text) is not None


def _is_choice(value: Any) -> bool:
    return isinstance(value, list) or _is_intervals(value)


def _is_columns(value: Any) -> bool:
    return value == "*" or (isinstance(value, list) and all(isinstance(name, str) for name in value))


def _is_part(name: Any) -> bool:
    return isinstance(name, str) and name != "" and not set(name) & set("/\\\0")
