"""Sampling: popularity from the training part alone, and plain words for users nothing can be sampled for."""

from typing import Any

import numpy as np
from recbole.data import utils as data_utils
from recbole.sampler import sampler as samplers

from ..errors import DataError
from .patching import replace_everywhere


def _refuse_endless_sampling(sampler: Any) -> None:
    """Raise when some user has every candidate already: RecBole would draw for ever."""
    candidates = set(sampler.prob)
    for user, items in enumerate(sampler.used_ids):
        if len(items) >= len(candidates) and candidates <= items:
            raise DataError(
                f"user {user} has interacted with every item of the training part, so popularity sampling "
                f"has no negative to offer in the {sampler.phase} part. Set user_inter_num_interval to leave "
                "such users out, or sample uniformly."
            )


def name_users_with_everything() -> None:
    """Say which users have interacted with every item, in words for whoever owns the data.

    RecBole refuses such data with a bare ValueError; a dataset with one user or one item always ends there.
    """
    original = samplers.Sampler.get_used_ids

    def get_used_ids(self: Any) -> dict[str, Any]:
        try:
            return original(self)
        except ValueError as error:
            data = self.datasets[0]
            users, items = (
                np.concatenate([part.inter_feat[field].numpy() for part in self.datasets])
                for field in (self.uid_field, self.iid_field)
            )
            pairs = np.unique(np.stack([users, items]), axis=1)
            full = np.flatnonzero(np.bincount(pairs[0]) == self.item_num - 1)
            raise DataError(
                f"{len(full)} of the {self.user_num - 1} users of '{data.dataset_name}' have interacted with all of "
                f"its {self.item_num - 1} items in training, validation and test together (for example user "
                f"{data.id2token(self.uid_field, full[0])}): nothing is left to rank for them. Leave them out with "
                "user_inter_num_interval, or check USER_ID_FIELD and ITEM_ID_FIELD."
            ) from error

    samplers.Sampler.get_used_ids = get_used_ids


def count_popularity_in_training_only() -> None:
    """Draw negatives by how often an item occurs in training.

    RecBole counts validation and test interactions as well, which tells the model what it is tested on.
    """
    set_phase = samplers.Sampler.set_phase
    create = data_utils._create_sampler

    def _get_candidates_list(self: Any) -> list[int]:
        seen = [
            dataset
            for phase, dataset in zip(self.phases, self.datasets, strict=True)
            if phase == "train" or "train" not in self.phases
        ]
        return [item for dataset in seen for item in dataset.inter_feat[self.iid_field].tolist()]

    def set_phase_checked(self: Any, phase: str) -> Any:
        sampler = set_phase(self, phase)
        # With fewer candidates than RecBole had, its own check for users who have everything is not enough.
        if sampler.distribution == "popularity":
            _refuse_endless_sampling(sampler)
        return sampler

    def _create_sampler(dataset: Any, built_datasets: list[Any], *args: Any, **kwargs: Any) -> Any:
        # `dataset`, the whole, serves only the RepeatableSampler, which counts popularity in it.
        return create(built_datasets[0], built_datasets, *args, **kwargs)

    samplers.Sampler._get_candidates_list = _get_candidates_list
    samplers.Sampler.set_phase = set_phase_checked
    replace_everywhere(create, _create_sampler)
