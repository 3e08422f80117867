"""Adap-tau on matrix factorisation."""

from torch import Tensor

from .base import AdapTauRecommender


class AdapTauMF(AdapTauRecommender):
    """The embeddings are the tables themselves."""

    def encode(self) -> tuple[Tensor, Tensor]:
        return self.user_embedding.weight, self.item_embedding.weight
