"""Sampling: each user's items gathered at once, popularity from training alone, clear errors where nothing is left."""

from itertools import pairwise
from typing import Any

import numpy as np

from ..errors import DataError


def get_used_ids(original: Any, self: Any) -> dict[str, Any]:
    """By sorting, once for all samplers of a split; RecBole walks over every interaction for each sampler."""
    known = getattr(self.datasets[0], "_used_ids", None)
    if known is not None and known[0] == [id(part.inter_feat) for part in self.datasets]:
        return known[1]
    used: dict[str, Any] = {}
    users = items = np.empty(0, dtype=np.int64)
    for phase, part in zip(self.phases, self.datasets, strict=True):
        users = np.concatenate([users, part.inter_feat[self.uid_field].numpy()])
        items = np.concatenate([items, part.inter_feat[self.iid_field].numpy()])
        order = np.argsort(users, kind="stable")
        bounds = np.searchsorted(users[order], np.arange(self.user_num + 1))
        listed = items[order].tolist()
        used[phase] = np.array([set(listed[a:b]) for a, b in pairwise(bounds)])
    full = [user for user, own in enumerate(used[self.phases[-1]]) if len(own) + 1 == self.item_num]
    if full:
        data = self.datasets[0]
        raise DataError(
            f"{len(full)} of the {self.user_num - 1} users of '{data.dataset_name}' have interacted with all of "
            f"its {self.item_num - 1} items in training, validation and test together (for example user "
            f"{data.id2token(self.uid_field, full[0])}): nothing is left to rank for them. Leave them out with "
            "user_inter_num_interval, or check USER_ID_FIELD and ITEM_ID_FIELD."
        )
    # Keyed by the parts themselves, which live as long as the dataset that remembers this.
    self.datasets[0]._used_ids = ([id(part.inter_feat) for part in self.datasets], used)
    return used


def get_candidates_list(original: Any, self: Any) -> list[int]:
    seen = [
        dataset
        for phase, dataset in zip(self.phases, self.datasets, strict=True)
        if phase == "train" or "train" not in self.phases
    ]
    return [item for dataset in seen for item in dataset.inter_feat[self.iid_field].tolist()]


def set_phase(original: Any, self: Any, phase: str) -> Any:
    """With candidates from training alone, RecBole's own check for users who have everything is not enough."""
    sampler = original(self, phase)
    if sampler.distribution == "popularity":
        candidates = set(sampler.prob)
        for user, items in enumerate(sampler.used_ids):
            if len(items) >= len(candidates) and candidates <= items:
                raise DataError(
                    f"user {user} has interacted with every item of the training part, so popularity sampling "
                    f"has no negative to offer in the {sampler.phase} part. Set user_inter_num_interval to leave "
                    "such users out, or sample uniformly."
                )
    return sampler


def create_sampler(original: Any, dataset: Any, built_datasets: list[Any], *args: Any, **kwargs: Any) -> Any:
    # `dataset`, the whole, serves only the RepeatableSampler, which counts popularity in it.
    return original(built_datasets[0], built_datasets, *args, **kwargs)
