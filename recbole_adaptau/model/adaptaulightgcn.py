"""Adap-tau on LightGCN."""

from typing import Any

import torch
from torch import Tensor

from ..core.propagation import Propagation
from ..core.settings import setting
from .base import AdapTauRecommender


class AdapTauLightGCN(AdapTauRecommender):
    """The tables, propagated over the training graph and averaged over the layers."""

    class Settings(AdapTauRecommender.Settings):
        n_layers: int = setting(3, "Layers of propagation.", ge=0)
        message_dropout: float = setting(0.0, "Dropout on each layer's output.", ge=0.0, lt=1.0)
        edge_dropout: float = setting(0.0, "Share of the graph's edges dropped anew for each batch.", ge=0.0, lt=1.0)

    def __init__(self, config: Any, dataset: Any):
        super().__init__(config, dataset)
        s = self.settings
        self.propagation = Propagation(self.interactions, s.n_layers, s.message_dropout, s.edge_dropout)

    def encode(self) -> tuple[Tensor, Tensor]:
        tables = torch.cat([self.user_embedding.weight, self.item_embedding.weight])
        users, items = self.propagation(tables).split([self.n_users, self.n_items])
        return users, items
