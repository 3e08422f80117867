"""The validated view of the configuration: read once, refused at once where it makes no sense."""

import sys
from dataclasses import dataclass, fields
from typing import Any

from recbole.config import Config

from ..core.negatives import DISTRIBUTIONS, MODES
from ..errors import OptionError, did_you_mean
from .basics import is_real

STRATEGY_NAMES = ("none", "fixed", "learned", "learned_user", "adaptive", "adaptive_user")
TAU_FORMS = ("simplified", "with_variances")
NORMALIZATIONS = ("Y-Y", "Y-N", "N-Y", "N-N")
TEST_SCORES = ("auto", "cosine", "inner_product")
TAU_LEAST, TAU_MOST = 1e-4, 1e4
PER_USER_KEYS = ("user_beta", "user_threshold", "user_loss_tau")
# What tau_strategy = none has no use for: set to anything but its default, it is refused.
NOT_FOR_NONE = ("tau", *PER_USER_KEYS)


@dataclass(frozen=True)
class Options:
    """What our models read from the configuration. The YAML files under `properties/` explain each key."""

    tau_strategy: str
    tau: float
    tau_min: float
    tau_max: float
    tau_form: str
    tau_startup_gap: float
    tau_startup_min_gap: float
    tau_startup_epochs: int
    tau_user_quantile: float
    tau_user_balance: float
    user_beta: float
    user_threshold: str | float
    user_loss_tau: str | float
    user_loss_average: bool
    positive_tau: str
    positive_in_denominator: bool
    normalization: str
    test_score: str
    popularity_prior: bool
    item_neighbours: int
    neighbour_weight: float
    negatives: str
    num_negatives: int
    negative_distribution: str
    negative_alpha: float
    mask_hits: bool
    logq_correction: bool
    embedding_size: int
    initial_embeddings: str
    reg_weight: float
    reg_negatives: bool
    embedding_dropout: float
    user_dropout_count: float
    loss_user_balance: float
    lr_schedule: str

    @classmethod
    def from_config(cls, config: Config) -> "Options":
        """Read and check every key; the first that makes no sense is named with its value and what is allowed."""
        values: dict[str, Any] = {field.name: config[field.name] for field in fields(cls)}
        for name, value in values.items():
            if value is None:
                raise OptionError(f"{name} = None: it needs a value; leave it out for the default.")
        _check_values(values)
        if values["normalization"] == "auto":
            values["normalization"] = "N-N" if values["tau_strategy"] == "none" else "Y-Y"
        options = cls(**values)
        _check_combinations(options, config)
        return options

    @property
    def normalize_users(self) -> bool:
        return self.normalization[0] == "Y"

    @property
    def normalize_items(self) -> bool:
        return self.normalization[2] == "Y"

    @property
    def user_threshold_quantile(self) -> float | None:
        """The quantile m_u is taken at, or None for the mean."""
        return None if self.user_threshold == "mean" else float(self.user_threshold)


def unused_settings(o: Options, config: Config) -> list[str]:
    """Sentences on options that were changed from their defaults but have no effect beside the others."""
    adaptive = o.tau_strategy.startswith("adaptive")
    drawn = o.negatives == "shared"
    unequal = o.negatives == "in_batch" or (drawn and o.negative_distribution == "popularity")
    strategy, negatives = f"tau_strategy = {o.tau_strategy}", f"negatives = {o.negatives}"
    read_by = {
        ("tau",): (o.tau_strategy in ("fixed", "learned", "learned_user"), strategy),
        ("tau_form", "tau_startup_gap", "tau_startup_min_gap", "tau_startup_epochs"): (adaptive, strategy),
        ("tau_user_quantile", "tau_user_balance", "tau_max"): (adaptive, strategy),
        (*PER_USER_KEYS, "user_loss_average"): (o.tau_strategy == "adaptive_user", strategy),
        ("num_negatives", "negative_distribution"): (drawn, negatives),
        ("negative_alpha",): (drawn and o.negative_distribution == "popularity", "uniform negatives"),
        ("mask_hits",): (o.negatives != "per_row", negatives),
        ("logq_correction",): (unequal, "uniform negatives"),
        ("neighbour_weight",): (o.item_neighbours > 0, "item_neighbours = 0"),
    }
    return [
        f"{key} = {config[key]!r} has no effect with {why}."
        for keys, (is_read, why) in read_by.items()
        for key in keys
        if not is_read and config[key] != config.internal_config_dict[key]
    ]


def check_whole(config: Config, key: str, least: int) -> None:
    """Check a backbone's own whole number like the shared options."""
    _whole({key: config[key]}, key, least)


def check_number(config: Config, key: str, above: float | None = None, least: float | None = None) -> None:
    """Check a model's own number like the shared options."""
    _number({key: config[key]}, key, above=above, least=least)


def check_dropout(config: Config, key: str) -> None:
    """Check a backbone's own dropout share, which lies in [0, 1)."""
    _number({key: config[key]}, key, least=0.0, below=1.0)


def _check_values(values: dict[str, Any]) -> None:
    _one_of(values, "tau_strategy", STRATEGY_NAMES)
    _one_of(values, "tau_form", TAU_FORMS)
    _one_of(values, "positive_tau", ("tau_u", "tau_0"))
    _one_of(values, "normalization", ("auto", *NORMALIZATIONS))
    _one_of(values, "test_score", TEST_SCORES)
    _one_of(values, "negatives", MODES)
    _one_of(values, "negative_distribution", DISTRIBUTIONS)
    _one_of(values, "initial_embeddings", ("spectral", "xavier"))
    _one_of(values, "lr_schedule", ("constant", "linear", "cosine"))
    # The bounds keep every logit, loss and gradient finite in float32, and are far from what anybody would want.
    for key in ("tau", "tau_min", "tau_max", "tau_startup_gap"):
        _number(values, key, least=TAU_LEAST, most=TAU_MOST)
    _number(values, "user_beta", least=1e-6, most=1e6)
    _number(values, "tau_startup_min_gap", least=0.0)
    _number(values, "reg_weight", least=0.0, most=1e6)
    _number(values, "negative_alpha", least=0.0, most=10.0)
    _number(values, "tau_user_quantile", least=0.0, below=1.0)
    _number(values, "tau_user_balance", least=0.0, most=10.0)
    _number(values, "loss_user_balance", least=0.0, most=10.0)
    _number(values, "embedding_dropout", least=0.0, below=1.0)
    _number(values, "user_dropout_count", least=0.0, most=1e6)
    _number(values, "neighbour_weight", least=0.0, most=1e6)
    _whole(values, "item_neighbours", 0, 1 << 16)
    _whole(values, "num_negatives", 1, 10**8)
    _whole(values, "embedding_size", 1, 1 << 16)
    _whole(values, "tau_startup_epochs", 0)
    if values["user_threshold"] != "mean":
        _number(values, "user_threshold", above=0.0, below=1.0, also="'mean'")
    if values["user_loss_tau"] != "tau_0":
        _number(values, "user_loss_tau", least=TAU_LEAST, most=TAU_MOST, also="'tau_0'")
    for key in (
        "user_loss_average", "positive_in_denominator", "mask_hits", "logq_correction", "reg_negatives",
        "popularity_prior",
    ):  # fmt: skip
        if not isinstance(values[key], bool):
            raise OptionError(f"{key} = {values[key]!r}: must be True or False.")


def _check_combinations(o: Options, config: Config) -> None:
    if o.tau_min > o.tau_max:
        raise OptionError(f"tau_min = {o.tau_min} is above tau_max = {o.tau_max}.")
    if o.tau_strategy in ("fixed", "learned", "learned_user") and o.tau < o.tau_min:
        raise OptionError(
            f"tau = {o.tau} is below tau_min = {o.tau_min}, the lower bound of every temperature: "
            "raise tau or lower tau_min."
        )
    if o.tau_strategy == "none":
        if o.normalization != "N-N":
            raise OptionError(
                f"tau_strategy = none means no normalisation, but normalization = {o.normalization}: "
                "use tau_strategy=fixed to normalise at a fixed temperature."
            )
        if o.test_score == "cosine":
            raise OptionError("tau_strategy = none ranks by inner product: test_score = cosine contradicts it.")
        for key in NOT_FOR_NONE:
            if config[key] != config.internal_config_dict[key]:
                raise OptionError(
                    f"tau_strategy = none has no temperature, but {key} = {config[key]!r} is set: remove {key}, "
                    "or choose tau_strategy fixed (one temperature) or adaptive_user (one per user)."
                )
    if o.tau_strategy.startswith("learned") and o.positive_tau == "tau_0":
        raise OptionError(
            f"tau_strategy = {o.tau_strategy} learns one temperature for positive and negatives alike: "
            "positive_tau = tau_0 goes with fixed, adaptive and adaptive_user only."
        )
    if o.tau_strategy.startswith("adaptive") and o.normalization != "Y-Y":
        raise OptionError(
            f"tau_strategy = {o.tau_strategy} computes the temperature from cosines and needs normalization = "
            f"Y-Y, not {o.normalization}: use tau_strategy=fixed or learned with {o.normalization}."
        )
    sampled = config["train_neg_sample_args"]["distribution"] != "none"
    if o.negatives == "per_row" and not sampled:
        raise OptionError(
            "negatives = per_row takes RecBole's sampled negatives, but train_neg_sample_args is None: set e.g. "
            "--train_neg_sample_args=\"{'distribution': 'uniform', 'sample_num': 64}\"."
        )
    if o.negatives != "per_row" and sampled:
        raise OptionError(
            f"negatives = {o.negatives} draws its own negatives, but train_neg_sample_args = "
            f"{config['train_neg_sample_args']} is set: remove it, or choose negatives=per_row."
        )
    if str(config["learner"]).lower() == "row_adam":
        if config["weight_decay"]:
            raise OptionError(
                f"weight_decay = {config['weight_decay']} shrinks all rows in every batch, but learner = row_adam "
                "updates only a batch's own: use reg_weight, or learner=adam."
            )
        if config["clip_grad_norm"]:
            raise OptionError("clip_grad_norm needs gradients of whole tables: set learner=adam with it.")
    if o.negatives == "in_batch" and config["train_batch_size"] < 2:
        raise OptionError("negatives = in_batch needs train_batch_size of at least 2: a lone row has no negatives.")


def _one_of(values: dict[str, Any], key: str, allowed: tuple[str, ...]) -> None:
    value = values[key]
    if value not in allowed:
        hint = did_you_mean(value, allowed) if isinstance(value, str) else ""
        raise OptionError(f"{key} = {value!r} is not one of {', '.join(allowed)}.{hint}")


def _number(
    values: dict[str, Any],
    key: str,
    above: float | None = None,
    least: float | None = None,
    below: float | None = None,
    most: float | None = None,
    also: str = "",
) -> None:
    value = values[key]
    fits = is_real(value) and not (
        (above is not None and value <= above)
        or (least is not None and value < least)
        or (below is not None and value >= below)
        or (most is not None and value > most)
    )
    if not fits:
        bounds = [f"above {above}"] if above is not None else []
        bounds += [f"at least {least}"] if least is not None else []
        bounds += [f"below {below}"] if below is not None else []
        bounds += [f"at most {most}"] if most is not None else []
        raise OptionError(
            f"{key} = {value!r}: must be a number {' and '.join(bounds)}{f', or {also}' if also else ''}."
        )
    values[key] = float(value)


def _whole(values: dict[str, Any], key: str, least: int, most: int = sys.maxsize) -> None:
    value = values[key]
    if isinstance(value, bool) or not isinstance(value, int) or not least <= value <= most:
        limit = "" if most == sys.maxsize else f" and at most {most}"
        raise OptionError(f"{key} = {value!r}: must be a whole number of at least {least}{limit}.")
