"""False positives added to the training part: `noise_ratio` for all users alike, `noise_groups` for groups of users."""

from typing import Annotated, Any

import numpy as np
from numpy.typing import NDArray
from pydantic import Field, model_validator
from recbole.data.interaction import Interaction, cat_interactions
from recbole.utils import ModelType
from typing_extensions import Self

from ..core.settings import SettingsModel, setting
from ..errors import DataError, OptionError

Ints = NDArray[np.int64]


Share = Annotated[float, Field(ge=0, le=1)]


class NoiseSettings(SettingsModel):
    """Shares of false positives."""

    noise_ratio: Share | None = setting(
        0.0,
        "False positives added to the training part, as a share of each user's positives.",
        wanted="a number from 0 to 1, the share of false positives added",
    )
    noise_groups: Annotated[list[Share], Field(min_length=1)] | None = setting(
        None,
        "Such shares for as many random groups of users, e.g. [0.1, 0.2, 0.3, 0.4]; instead of noise_ratio.",
        wanted="a list of numbers from 0 to 1, as [0.1, 0.2, 0.3, 0.4]",
    )

    @model_validator(mode="after")
    def _one_of_both(self) -> Self:
        if self.noise_ratio and self.noise_groups:
            raise OptionError(
                f"noise_ratio = {self.noise_ratio} and noise_groups = {self.noise_groups}: give one share for all "
                "users, or one for each group."
            )
        return self


def check(config: Any) -> None:
    """Refuse shares that make no sense, before any data is loaded."""
    settings = NoiseSettings.read(config)
    if (settings.noise_ratio or settings.noise_groups) and config["MODEL_TYPE"] == ModelType.SEQUENTIAL:
        raise OptionError(f"noise_ratio and noise_groups are for sets of items; {config['model']} reads sequences.")


def user_groups(n_users: int, number: int, seed: int) -> Ints:
    """A random split of the users into groups whose sizes differ by at most one.

    Shape: [n_users] with 0 to number − 1, and −1 for the padding (id 0). The same seed gives the same split.
    """
    groups = np.full(n_users, -1, dtype=np.int64)
    groups[np.random.default_rng(seed).permutation(n_users - 1) + 1] = np.arange(n_users - 1) % number
    return groups


def noise_counts(positives: Ints, share: NDArray[np.float64]) -> Ints:
    """How many false positives each user gets: share · positives to the nearest whole number, halves up."""
    # The small term makes 0.15 · 10 the half it is on paper.
    return np.floor(share * positives + 0.5 + 1e-9).astype(np.int64)


def draw_absent(present: Ints, size: int, number: int, rng: np.random.Generator) -> Ints:
    """`number` different values of 1..size that are not in `present`, every choice equally likely.

    Args:
        present: Values of 1..size, ascending, without repetition.
    """
    ranks = rng.choice(size - len(present), number, replace=False)
    # present[j] has present[j] − 1 − j absent values before it: the r-th absent value lies behind those with at most r.
    return ranks + 1 + np.searchsorted(present - 1 - np.arange(len(present)), ranks, side="right")


def with_noise(parts: list[Any], config: Any) -> list[Any]:
    """The parts of a dataset, the first with false positives where the configuration asks for them.

    An added item is one the user has in no part: neither a true positive nor an item to be found in validation or
    test. An added row is a copy of one of the user's own with the item replaced, so that other fields stay plausible.
    The draw depends on `seed` alone, and the noise of a larger share is not that of a smaller one with more added.
    """
    if not config["noise_ratio"] and not config["noise_groups"]:
        return parts
    train, uid, iid = parts[0], parts[0].uid_field, parts[0].iid_field
    pairs = [
        part.inter_feat[uid].numpy().astype(np.int64) * train.item_num + part.inter_feat[iid].numpy() for part in parts
    ]
    known = np.unique(np.concatenate(pairs))
    starts = np.searchsorted(known, np.arange(train.user_num + 1) * train.item_num)
    positives = np.bincount(np.unique(pairs[0]) // train.item_num, minlength=train.user_num)
    counts = noise_counts(positives, _shares(train.user_num, config))
    free = train.item_num - 1 - np.diff(starts)
    short = np.flatnonzero(counts > free)
    if len(short):
        user = train.id2token(uid, short[0])
        raise DataError(
            f"user {user} should get {counts[short[0]]} false positives, but only {free[short[0]]} items are left that "
            f"are in no part of '{train.dataset_name}' ({len(short)} such users): lower noise_ratio or noise_groups."
        )
    rng = np.random.default_rng([config["seed"], 1])
    own = train.inter_feat[uid].numpy()
    order = np.argsort(own, kind="stable")
    firsts = np.searchsorted(own[order], np.arange(train.user_num + 1))
    rows, items = [], []
    for user in np.flatnonzero(counts):
        present = known[starts[user] : starts[user + 1]] % train.item_num
        items.append(draw_absent(present, train.item_num - 1, counts[user], rng))
        rows.append(order[rng.integers(firsts[user], firsts[user + 1], counts[user])])
    if not rows:
        return parts
    added = train.inter_feat[np.concatenate(rows)]
    added.update(Interaction({iid: np.concatenate(items)}))
    return [train.copy(cat_interactions([train.inter_feat, added])), *parts[1:]]


def _shares(n_users: int, config: Any) -> NDArray[np.float64]:
    """[n_users] each user's share; where groups are given, that of its group."""
    if not config["noise_groups"]:
        return np.full(n_users, float(config["noise_ratio"]))
    shares = np.array([*config["noise_groups"], 0.0])  # the last is the padding's
    return shares[user_groups(n_users, len(config["noise_groups"]), config["seed"])]
