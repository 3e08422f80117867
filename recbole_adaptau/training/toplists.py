"""The top k of every user in a full-sort loader, and what they come to: per user, and by popularity of the items."""

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from ..distributed.ranks import gathered
from .evaluation import top_items

GROUPS = 10
Floats = NDArray[np.float64]


def popularity_groups(counts: Tensor, number: int = GROUPS) -> Tensor:
    """Items in groups of (nearly) equally many interactions, from the least popular (0) to the most (number − 1).

    As in SGL, which the paper follows: items are ordered by their training interactions, equal ones by id, and cut
    where each group holds the same share of all interactions; so the last group has few items and the first most. An
    item belongs where the middle of its interactions falls. Items without any are in the first group. An item with
    more than a group's share can leave a group empty.

    Shape: counts [n_items], the first being the padding's → [n_items], the padding's −1.
    """
    groups = torch.full_like(counts, -1)
    order = torch.sort(counts[1:], stable=True).indices + 1
    sizes = counts[order].double()
    middle = torch.cumsum(sizes, 0) - sizes / 2
    groups[order] = (middle * number / sizes.sum()).long().clamp_max(number - 1)
    return groups


@dataclass(frozen=True)
class TopLists:
    """What was recommended to the users of a loader.

    Attributes:
        users: [U] ids.
        items: [U, k] the best items, best first.
        hits: [U, k] whether each is one of the user's positives in the loader.
        positives: [U] how many the user has there.
    """

    users: Tensor
    items: Tensor
    hits: Tensor
    positives: Tensor

    def recall(self) -> Floats:
        """Each user's recall@k."""
        return (self.hits.sum(1) / self.positives).double().numpy()

    def ndcg(self) -> Floats:
        """Each user's NDCG@k."""
        k = self.hits.shape[1]
        discounts = 1.0 / torch.log2(torch.arange(2, k + 2, dtype=torch.float64))
        ideal = torch.cumsum(discounts, 0)[self.positives.clamp_max(k) - 1]
        return ((self.hits * discounts).sum(1) / ideal).numpy()

    def recall_by_group(self, groups: Tensor, number: int = GROUPS) -> Floats:
        """The part of recall@k that comes from each group of items: the sum over groups is recall@k itself.

        Shape: groups [n_items] → [number].
        """
        parts = (self.hits.double() / self.positives.unsqueeze(1) / len(self.users)).flatten()
        mine = groups[self.items].flatten().clamp_min(0)  # a hit is never the padding
        return torch.zeros(number, dtype=torch.float64).index_add(0, mine, parts).numpy()


@torch.no_grad()
def top_lists(model: Any, loader: Any, k: int) -> TopLists:
    """Score all items for the loader's users, leave out what they have had, and keep the best k.

    Of several processes, each scores its part of the users, and all get all.
    """
    users, tops, hits, counts = [], [], [], []
    for interaction, history, positive_u, positive_i in loader:
        scores = model.full_sort_predict(interaction.to(model.device)).view(len(interaction), -1).cpu()
        scores[:, 0] = -torch.inf
        scores[history] = -torch.inf
        top = top_items(scores, k)
        wanted = torch.zeros(scores.shape, dtype=torch.bool)
        wanted[positive_u, positive_i] = True
        users.append(interaction[model.USER_ID].cpu())
        tops.append(top)
        hits.append(wanted.gather(1, top))
        counts.append(torch.bincount(positive_u, minlength=len(scores)))
    parts = (torch.cat(part) for part in (users, tops, hits, counts))
    return TopLists(*(torch.cat(gathered(part, model.device)) for part in parts))


@torch.no_grad()
def group_norms(items: Tensor, groups: Tensor, number: int = GROUPS) -> Floats:
    """The mean length of the items' embeddings in each group; NaN where a group is empty.

    Shape: items [n_items, d], groups [n_items] → [number].
    """
    norms, groups = items[1:].norm(dim=1).double().cpu(), groups[1:].cpu()
    sums = torch.zeros(number, dtype=torch.float64).index_add(0, groups, norms)
    return (sums / torch.bincount(groups, minlength=number)).numpy()


@torch.no_grad()
def group_statistics(model: Any, loader: Any, k: int) -> dict[str, Any]:
    """What `record_groups` adds to an epoch's record, from the model as it stands.

    `norms` and `recall` by popularity group (None for the norm of an empty one), and `positive_score`, the mean logit
    of a training positive: its score divided by its user's temperature.
    """
    groups = popularity_groups(model.interactions.item_counts.cpu())
    _, raw = model.encode()
    view = model.view()
    tau = model.strategy.tau(torch.arange(model.n_users, device=raw.device), view.embeddings[0]).double()
    norms = group_norms(raw, groups)
    return {
        "norms": [None if np.isnan(norm) else float(norm) for norm in norms],
        "recall": top_lists(model, loader, k).recall_by_group(groups).tolist(),
        "positive_score": ((view.positive_sums / tau).sum() / len(model.interactions)).item(),
    }
