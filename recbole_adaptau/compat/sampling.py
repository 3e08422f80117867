"""Popularity sampling that sees the training part alone."""

from typing import Any

from recbole.data import utils as data_utils
from recbole.sampler import sampler as samplers

from recbole_adaptau.compat.patching import replace_everywhere
from recbole_adaptau.errors import DataError


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
