"""log(1 + training count) of the item in every logit: embeddings need not learn how popular an item is."""

from typing import Any

import torch
from torch import Tensor

from ..core.interactions import Interactions
from .base import RecipePart, register_part


@register_part("popularity_prior")
class PopularityPrior(RecipePart):
    """`popularity_prior`: the logit of an item is f / tau + log(1 + its training positives), also in ranking."""

    meaning = "log(1 + training count) of the item is added to every logit"
    prior: Tensor

    def __init__(self, interactions: Interactions, settings: Any = None):
        super().__init__(interactions, settings)
        self.register_buffer("prior", torch.log1p(interactions.item_counts.float()), persistent=False)

    def item_logits(self) -> Tensor:
        return self.prior
