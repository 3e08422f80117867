"""The training batches of a RecBole loader, in its own order, without its detour over Python lists."""

from collections.abc import Iterator
from typing import Any

import torch
from recbole.data.dataloader import TrainDataLoader
from recbole.data.interaction import Interaction
from recbole.data.transform import Equal

from ..distributed.ranks import RankSampler


class Batches:
    """Iterates a TrainDataLoader that hands out plain positives: one permutation, then slices of tensors.

    RecBole turns every batch's indices into a list of Python numbers and back. The batches here are the same, in the
    same order, and the loader's generator moves on as it would have; everything else is asked of the loader.
    """

    def __init__(self, loader: TrainDataLoader):
        self.loader = loader

    @staticmethod
    def fits(loader: Any) -> bool:
        """Whether the loader does nothing but hand out rows of its dataset, without workers."""
        return (
            type(loader) is TrainDataLoader
            and loader.neg_sample_args["distribution"] == "none"
            and isinstance(loader.transform, Equal)
            and loader.num_workers == 0
            and loader._dataset.user_feat is None
            and loader._dataset.item_feat is None
        )

    def __getattr__(self, name: str) -> Any:
        return getattr(self.loader, name)

    def __len__(self) -> int:
        return len(self.loader)

    def __iter__(self) -> Iterator[Interaction]:
        rows = self.loader._dataset.inter_feat.interaction
        number = len(self.loader._dataset)
        generator = self.loader.generator
        torch.empty((), dtype=torch.int64).random_(generator=generator)  # PyTorch draws a seed for workers here
        order = None
        if isinstance(self.loader.sampler, RankSampler):
            order = self.loader.sampler.draw()
            number = len(order)
        elif self.loader.shuffle:
            order = torch.randperm(number, generator=generator)
            # RandomSampler draws once more for the rest of a last, partial round, which is always empty here.
            torch.randperm(number, generator=generator)
        if order is not None:
            rows = {name: values[order] for name, values in rows.items()}
        for start in range(0, number, self.loader.step):
            yield Interaction({name: values[start : start + self.loader.step] for name, values in rows.items()})
