"""Adap-tau on LightGCN."""

from typing import Any, Literal

import torch
from torch import Tensor

from ..core.propagation import Propagation, mean_of
from ..core.settings import setting
from .base import AdapTauRecommender


class AdapTauLightGCN(AdapTauRecommender):
    """The tables, propagated over the training graph and averaged over the layers."""

    class Settings(AdapTauRecommender.Settings):
        n_layers: int = setting(2, "Layers of propagation.", ge=0)
        message_dropout: float = setting(0.0, "Dropout on each layer's output.", ge=0.0, lt=1.0)
        edge_dropout: float = setting(0.0, "Share of the graph's edges dropped anew for each batch.", ge=0.0, lt=1.0)
        reg_layers: Literal["first", "all"] = setting(
            "first", "The layers whose rows count in L2: the first (the tables), or all (the authors' code)."
        )

    def __init__(self, config: Any, dataset: Any):
        super().__init__(config, dataset)
        s = self.settings
        self.propagation = Propagation(self.interactions, s.n_layers, s.message_dropout, s.edge_dropout)
        self._layers: list[Tensor] = []

    def encode(self) -> tuple[Tensor, Tensor]:
        tables = torch.cat([self.user_embedding.weight, self.item_embedding.weight])
        if self.training and self.settings.reg_weight and self.settings.reg_layers == "all":
            self._layers = self.propagation.layers(tables)
            mean = mean_of(self._layers)
        else:
            self._layers = []
            mean = self.propagation(tables)
        users, items = mean.split([self.n_users, self.n_items])
        return users, items

    def ego_embeddings(self, users: Tensor, items: Tensor) -> tuple[Tensor, Tensor]:
        if self.settings.reg_layers == "first":
            return super().ego_embeddings(users, items)
        layers = self._layers or self.propagation.layers(
            torch.cat([self.user_embedding.weight, self.item_embedding.weight])
        )
        of_users, of_items = zip(*((layer[users], layer[items + self.n_users]) for layer in layers), strict=True)
        return torch.cat(of_users, 1), torch.cat(of_items, 1)
