"""SL@K: the softmax with a weight on each positive by whether it ranks among its user's first K."""

import math
from typing import Any

import torch
from torch import Tensor

from ...errors import OptionError
from ..epoch_view import EpochView
from ..interactions import Interactions
from ..settings import setting
from .base import ScoredBatch, register_loss
from .softmax import SoftmaxLoss

# Scores held at once while quantiles are estimated: 4 M floats are 16 MB.
MAX_SCORES = 1 << 22


@register_loss("slatk")
class SoftmaxLossAtK(SoftmaxLoss):
    """`slatk`: sigmoid((f(u, i) − beta_u) / tau_w) times the softmax loss, beta_u the K-th largest score of the user.

    Yang et al., "Breaking the Top-K Barrier: Advancing Top-K Ranking Metrics Optimization in Recommender Systems",
    KDD 2025, SL@K; the authors' implementation was not read. beta_u is estimated when an epoch begins
    (`top_quantiles`); the authors do so every 5 or 20 epochs. The weight is a constant in the gradient: through it a
    positive would be pulled up less than its negatives are pushed down, and users and items drift to opposite sides
    (docs/method.md). The authors' scores are half a cosine: slatk_tau is twice their tau_w, which they search from 0.5
    to 3. Before the first epoch all weights are 1.
    """

    class Settings(SoftmaxLoss.Settings):
        slatk_k: int = setting(20, "SL@K: the K of the metric that is optimised.", ge=1, le=10**6)
        slatk_tau: float = setting(
            0.3, "SL@K: temperature of the weight, tau_w, in cosines: twice the authors'.", ge=1e-3, le=1e3
        )
        slatk_items: int = setting(
            2048, "SL@K: items drawn each epoch to estimate the K-th largest score.", ge=1, le=10**8
        )

    quantiles: Tensor

    def __init__(self, settings: Any = None):
        super().__init__(settings)
        # Computed anew when an epoch begins, and so no part of a checkpoint.
        self.register_buffer("quantiles", torch.empty(0), persistent=False)

    def begin_epoch(self, view: EpochView) -> None:
        data, settings = view.interactions, self.settings
        if settings.slatk_k >= data.n_real_items:
            raise OptionError(f"slatk_k = {settings.slatk_k}, but there are only {data.n_real_items} items.")
        drawn = torch.randperm(data.n_real_items, device=data.items.device)[: settings.slatk_items] + 1
        self.quantiles = top_quantiles(*view.embeddings, data, drawn, settings.slatk_k)

    def forward(self, batch: ScoredBatch) -> Tensor:
        losses = super().forward(batch)
        if not len(self.quantiles) or batch.users is None:
            return losses
        above = batch.positive - self.quantiles[batch.users].to(batch.positive.dtype)
        return torch.sigmoid(above / self.settings.slatk_tau).detach() * losses


@torch.no_grad()
def top_quantiles(users: Tensor, items: Tensor, data: Interactions, drawn: Tensor, k: int) -> Tensor:
    """Each user's K-th largest score over the catalogue, estimated from its training positives and some drawn items.

    A positive counts 1; a drawn item that is none of the user's positives counts for all such items, divided by the
    number that was drawn of them. The estimate is the largest score with at least K items at or above it. All items
    drawn, it is exact.

    Shape: users [n, d], items [m, d], drawn [N] item ids → [n]; `-inf` for users without a positive.
    """
    quantiles = users.new_full((len(users),), -torch.inf)
    column_of = torch.full((len(items),), -1, device=items.device)
    column_of[drawn] = torch.arange(len(drawn), device=items.device)
    candidates = items[drawn]
    for some in data.active_users.split(max(MAX_SCORES // len(drawn), 1)):
        rows, positives = data.positives_of(some)
        liked = (users[some[rows]] * items[positives]).sum(1)
        others = users[some] @ candidates.T
        columns = column_of[positives]
        found = columns >= 0
        others[rows[found], columns[found]] = -torch.inf
        counts = data.user_counts[some]
        left = len(drawn) - torch.bincount(rows[found], minlength=len(some))
        weight = (data.n_real_items - counts) / left.clamp_min(1)
        number = min(math.ceil(k / max(weight.min().item(), 1.0)), len(drawn))
        scores = torch.cat([_largest(liked, rows, counts, k), others.topk(number, dim=1).values], dim=1)
        weights = torch.cat([scores.new_ones(len(some), k), weight.unsqueeze(1).expand(-1, number).to(scores)], dim=1)
        scores, order = scores.sort(dim=1, descending=True)
        above = weights.gather(1, order).masked_fill(torch.isneginf(scores), 0.0).cumsum(1)
        place = (above < k - 1e-3).sum(1).clamp_max(scores.shape[1] - 1)
        quantiles[some] = scores.gather(1, place.unsqueeze(1)).squeeze(1)
    return quantiles


def _largest(values: Tensor, rows: Tensor, counts: Tensor, k: int) -> Tensor:
    """The k largest values of each row, `-inf` where it has fewer. Shape: values [P], rows [P], counts [B] → [B, k]."""
    values, order = values.sort(descending=True)
    by_row = rows[order].sort(stable=True)
    rank = torch.arange(len(values), device=values.device) - (counts.cumsum(0) - counts)[by_row.values]
    kept = rank < k
    table = values.new_full((len(counts), k), -torch.inf)
    table[by_row.values[kept], rank[kept]] = values[by_row.indices[kept]]
    return table
