"""RecBole's own settings, whose wrong values would end in a traceback, some only after an epoch, or be passed over."""

import importlib.util
import re
import sys
from collections.abc import Callable, Collection
from typing import Annotated, Any

from pydantic import AfterValidator, BeforeValidator, Field, model_validator
from recbole.evaluator import metric_types
from recbole.evaluator.register import metrics_dict
from recbole.utils import EvaluatorType
from typing_extensions import Self

from ..core.settings import SettingsModel, setting
from ..errors import OptionError, did_you_mean

# What full-sort evaluation can compute, by RecBole's lower-case name.
RANKING = {name: metrics_dict[name].__name__ for name, kind in metric_types.items() if kind == EvaluatorType.RANKING}
LEARNERS = ("adam", "adamw", "sgd", "adagrad", "rmsprop", "row_adam")
LEVELS = ("debug", "info", "warning", "error", "critical")
_NUMBER = r"[-+]?(?:\d+\.?\d*|\.\d+|inf)"
_INTERVAL = rf"\s*[\[(]\s*{_NUMBER}\s*,\s*{_NUMBER}\s*[\])]\s*"
_INTERVALS = re.compile(rf"{_INTERVAL}(?:;{_INTERVAL})*")
_MODE = re.compile(r"full|labeled|(?:uni|pop)[1-9]\d*")
_INTERVAL_EXAMPLE = "intervals, as '[5,inf)' or '(1,3];[7,9]'"
_COLUMNS_EXAMPLE = "a mapping of files to lists of columns, as {'inter': ['user_id', 'item_id']}"


def _where(fits: Callable[[Any], Any]) -> AfterValidator:
    """Refuse a value for which `fits` is false; what is allowed is in the setting's `wanted`."""

    def check(value: Any) -> Any:
        if not fits(value):
            raise ValueError
        return value

    return AfterValidator(check)


def _among(key: str, allowed: Collection[str]) -> BeforeValidator:
    """One of some names; case does not matter, as RecBole has it."""

    def check(value: Any) -> Any:
        one_of(key, value, allowed)
        return value

    return BeforeValidator(check)


def one_of(key: str, value: Any, allowed: Collection[str]) -> None:
    if str(value).lower() not in [name.lower() for name in allowed]:
        near = did_you_mean(str(value), allowed)
        raise OptionError(f"{key} = {value!r} is not one of {', '.join(allowed)}.{near}")


def _is_real(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and abs(value) < float("inf")


def _is_whole(value: Any, least: int) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= least


def _is_intervals(text: Any) -> bool:
    return isinstance(text, str) and _INTERVALS.fullmatch(text) is not None


def _is_columns(value: Any) -> bool:
    return value == "*" or (isinstance(value, list) and all(isinstance(name, str) for name in value))


def _is_part(name: Any) -> bool:
    return isinstance(name, str) and name != "" and not set(name) & set("/\\\0")


def _is_clipping(clip: Any) -> bool:
    return not clip or (isinstance(clip, dict) and _is_real(clip.get("max_norm")) and clip["max_norm"] > 0)


Text = Annotated[str, Field(min_length=1)]
Count = Annotated[int, Field(ge=0, le=10**9)]
Intervals = Annotated[Any, _where(lambda text: text is None or _is_intervals(text))]
Columns = Annotated[
    Any, _where(lambda given: given is None or (isinstance(given, dict) and all(map(_is_columns, given.values()))))
]


def _theirs(meaning: str = "", **more: Any) -> Any:
    """A setting whose default is RecBole's."""
    return setting(..., meaning, **more)


def _count() -> Any:
    return _theirs(wanted="a whole number of at least 0")


class RecboleSettings(SettingsModel):
    """Of RecBole's settings those that are checked here; where a default is given, it is ours."""

    epochs: Count = _count()
    train_batch_size: int = _theirs(ge=1, le=2**31 - 1)
    eval_batch_size: int = setting(
        16_000_000, "RecBole counts users times items here: 64 MB of scores, used again for every batch.",
        ge=1, le=2**40, compared=True,
    )  # fmt: skip
    stopping_step: Count = _count()
    eval_step: Count = _count()
    seed: int = _theirs(ge=0, le=2**32 - 1)
    worker: int = _theirs(ge=0, le=1024, compared=False)
    loss_decimal_place: int = _theirs(ge=0, le=30)
    metric_decimal_place: int = setting(
        6, "RecBole rounds before it compares; four places make ties of different epochs.", ge=0, le=30
    )
    show_progress: bool = _theirs(compared=False)
    reproducibility: bool = _theirs()
    use_gpu: bool = _theirs()
    save_dataset: bool = _theirs(with_data=False)
    save_dataloaders: bool = _theirs(with_data=False)
    log_wandb: bool = _theirs(compared=False, with_data=False)
    shuffle: bool = _theirs()
    enable_amp: bool = _theirs()
    enable_scaler: bool = _theirs()
    repeatable: bool = _theirs()
    filter_inter_by_user_or_item: bool = _theirs()
    data_path: Text = _theirs(with_data=False)
    field_separator: Text = _theirs(wanted="text")
    seq_separator: Text = _theirs(wanted="text")
    USER_ID_FIELD: Text = _theirs(wanted="text")
    ITEM_ID_FIELD: Text = _theirs(wanted="text")
    learning_rate: float = _theirs(gt=0, le=100, wanted="a number above 0, at most 100")
    weight_decay: float = _theirs(ge=0, le=1000, wanted="a number from 0 to 1000")
    learner: Annotated[str, _among("learner", LEARNERS)] = _theirs(
        "How the tables are updated: row_adam (Adam at the cost of a batch's own rows), adam, or another of RecBole's."
    )
    state: Annotated[str, _among("state", LEVELS)] = _theirs(compared=False)
    clip_grad_norm: Annotated[Any, _where(_is_clipping)] = _theirs(wanted="a mapping, as {'max_norm': 5}")
    user_inter_num_interval: Intervals = _theirs(wanted=_INTERVAL_EXAMPLE)
    item_inter_num_interval: Intervals = _theirs(wanted=_INTERVAL_EXAMPLE)
    val_interval: Annotated[
        Any,
        _where(
            lambda given: (
                not given
                or (isinstance(given, dict) and all(isinstance(v, list) or _is_intervals(v) for v in given.values()))
            )
        ),
    ] = _theirs(wanted=f"a mapping of columns to {_INTERVAL_EXAMPLE}, or to lists of tokens")
    rm_dup_inter: Annotated[Any, _where(lambda which: which in (None, "first", "last"))] = _theirs(
        wanted="first, last or None"
    )
    load_col: Columns = _theirs(wanted=_COLUMNS_EXAMPLE)
    unload_col: Columns = _theirs(wanted=_COLUMNS_EXAMPLE)
    benchmark_filename: Annotated[
        Any,
        _where(lambda names: not names or (isinstance(names, list) and len(names) == 3 and all(map(_is_part, names)))),
    ] = _theirs(wanted="a list of three names, as ['train', 'valid', 'test']")
    eval_args: Any = _theirs()
    train_neg_sample_args: Any = setting(None, "RecBole's own sampled negatives; only with negatives: per_row.")
    metrics: Any = setting(["Recall", "NDCG", "MRR", "Hit", "Precision"], "Evaluation metrics.")
    topk: Any = setting([10, 20], "The k of the metrics.")
    valid_metric: Any = setting("NDCG@20", "The metric of early stopping.")
    checkpoint_dir: Any = _theirs(compared=False, with_data=False)
    dataset_save_path: Any = _theirs(with_data=False)
    dataloaders_save_path: Any = _theirs(with_data=False)
    gpu_id: Any = _theirs(compared=False)

    @model_validator(mode="after")
    def _whole_sense(self) -> Self:
        if self.log_wandb and "wandb" not in sys.modules and importlib.util.find_spec("wandb") is None:
            raise OptionError("log_wandb = True needs the package wandb: install it, or leave log_wandb out.")
        _check_split(self.eval_args)
        _check_sampling(self.train_neg_sample_args)
        _check_metrics(self.topk, self.metrics, self.valid_metric)
        return self


def _check_split(args: Any) -> None:
    """RecBole's eval_args, as far as a mistake in them would show up late or be read as something else."""
    known = ("split", "order", "group_by", "mode")
    if not isinstance(args, dict) or not set(args) <= set(known):
        raise OptionError(f"eval_args = {args!r}: must be a mapping with the keys {', '.join(known)}.")
    split = args.get("split", {"RS": [8, 1, 1]})
    if not isinstance(split, dict) or len(split) != 1:
        raise OptionError(f"eval_args: split = {split!r} must be a mapping with one key, as {{'RS': [0.8, 0.1, 0.1]}}.")
    ((way, shares),) = split.items()
    if way == "RS":
        fits = isinstance(shares, list | tuple) and len(shares) == 3 and all(_is_real(x) and x >= 0 for x in shares)
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
    one_of("eval_args: order", args.get("order", "RO"), ("RO", "TO"))
    one_of("eval_args: group_by", args.get("group_by") or "none", ("user", "none"))
    mode = args.get("mode", "full")
    for which in mode.values() if isinstance(mode, dict) else [mode]:
        if not isinstance(which, str) or not _MODE.fullmatch(which):
            raise OptionError(f"eval_args: mode = {mode!r} must be full, labeled, uni100 or pop100 (any number).")


def _check_sampling(args: Any) -> None:
    if args is None:
        return
    if not isinstance(args, dict):
        raise OptionError(
            f"train_neg_sample_args = {args!r}: must be a mapping, as {{'distribution': 'uniform', 'sample_num': 64}}."
        )
    distribution = args.get("distribution", "uniform")
    one_of("train_neg_sample_args: distribution", distribution, ("uniform", "popularity", "none"))
    number = args.get("sample_num", 1)
    if str(distribution).lower() != "none" and not _is_whole(number, 1):
        raise OptionError(f"train_neg_sample_args: sample_num = {number!r} must be a whole number of at least 1.")


def _check_metrics(topk: Any, metrics: Any, valid_metric: Any) -> None:
    ks = topk if isinstance(topk, list) else [topk]
    if not ks or not all(_is_whole(k, 1) for k in ks):
        raise OptionError(f"topk = {topk!r}: must be a list of whole numbers of at least 1, as [10, 20].")
    metrics = metrics if isinstance(metrics, list) else [metrics]
    for metric in metrics:
        if not isinstance(metric, str) or metric.lower() not in RANKING:
            raise OptionError(
                f"metrics = {metrics}: '{metric}' does not rank items. Those that do: {', '.join(RANKING.values())}."
                f"{did_you_mean(str(metric), RANKING.values())}"
            )
    name, at, k = str(valid_metric).partition("@")
    if name.lower() not in [str(metric).lower() for metric in metrics]:
        raise OptionError(f"valid_metric = {valid_metric}: {name} is not among metrics = {metrics}.")
    if name.lower() == "gauc":
        return
    if not at or not k.isdecimal() or int(k) not in ks:
        raise OptionError(f"valid_metric = {valid_metric}: {k or 'no k'} is not among topk = {ks}.")
