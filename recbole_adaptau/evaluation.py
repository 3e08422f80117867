"""RecBole's full-sort evaluation with the same figures and less work around the scores."""

from collections.abc import Iterator
from typing import Any

import torch
from recbole.data.dataloader import FullSortEvalDataLoader
from recbole.evaluator import Collector
from torch import Tensor


class EvalBatches(FullSortEvalDataLoader):
    """A full-sort loader whose history and positives lie ready, instead of being put together user by user each time.

    It shares all of the given loader's state; only the batches are made differently.
    """

    def __init__(self, loader: FullSortEvalDataLoader):
        # No DataLoader is built: this is another view of one that exists.
        self.__dict__.update(loader.__dict__)
        self._history_counts, self._history = _concatenated(loader.uid2history_item[loader.uid_list.numpy()])
        self._positive_counts, self._positives = _concatenated(loader.uid2positive_item[loader.uid_list.numpy()])

    @staticmethod
    def fits(loader: Any) -> bool:
        """Whether the loader hands out its users in order, in this process."""
        return (
            type(loader) is FullSortEvalDataLoader
            and not loader.is_sequential
            and loader.num_workers == 0
            and loader.config["single_spec"]
            and len(loader.uid_list) > 0
        )

    def __iter__(self) -> Iterator[Any]:
        history = self._history.split(_totals(self._history_counts, self.step))
        positives = self._positives.split(_totals(self._positive_counts, self.step))
        for batch, start in enumerate(range(0, len(self.uid_list), self.step)):
            part = slice(start, start + self.step)
            yield (
                self.user_df[part],
                (_rows(self._history_counts[part]), history[batch]),
                _rows(self._positive_counts[part]),
                positives[batch],
            )


class TopkCollector(Collector):
    """Collects the top k of a batch once, and looks hits up instead of filling a users × items matrix."""

    def eval_batch_collect(
        self, scores_tensor: Tensor, interaction: Any, positive_u: Tensor, positive_i: Tensor
    ) -> None:
        if any(self.register.need(key) for key in ("rec.meanrank", "rec.score", "data.label")):
            super().eval_batch_collect(scores_tensor, interaction, positive_u, positive_i)
            return
        users, items = scores_tensor.shape
        top = torch.topk(scores_tensor, max(self.topk), dim=-1).indices
        if self.register.need("rec.items"):
            self.data_struct.update_tensor("rec.items", top)
        if self.register.need("rec.topk"):
            row = torch.arange(users, device=top.device).unsqueeze(1)
            positive_u, positive_i = positive_u.to(top.device), positive_i.to(top.device)
            positives = torch.sort(positive_u * items + positive_i).values
            wanted = row * items + top
            place = torch.searchsorted(positives, wanted).clamp_max(len(positives) - 1)
            hit = (positives[place] == wanted).long()
            counts = torch.bincount(positive_u, minlength=users).unsqueeze(1)
            self.data_struct.update_tensor("rec.topk", torch.cat((hit, counts), dim=1))


def _concatenated(per_user: Any) -> tuple[Tensor, Tensor]:
    """An array of tensors as their lengths and one long tensor."""
    tensors = list(per_user)
    return torch.tensor([len(tensor) for tensor in tensors]), torch.cat(tensors)


def _totals(counts: Tensor, step: int) -> list[int]:
    """The sum of each run of `step` counts."""
    return [int(part.sum()) for part in counts.split(step)]


def _rows(counts: Tensor) -> Tensor:
    """[2, 0, 1] → [0, 0, 2]: which row of the batch each entry belongs to."""
    return torch.repeat_interleave(torch.arange(len(counts)), counts)
