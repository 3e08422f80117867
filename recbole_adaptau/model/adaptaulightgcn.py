"""Adap-tau on LightGCN."""

from typing import Any

import torch
from torch import Tensor

from ..config.options import Options, check_dropout, check_whole
from ..core.propagation import Propagation
from .base import AdapTauRecommender


class AdapTauLightGCN(AdapTauRecommender):
    """The tables, propagated over the training graph and averaged over the layers."""

    @classmethod
    def check(cls, config: Any) -> Options:
        check_whole(config, "n_layers", 0)
        check_dropout(config, "message_dropout")
        check_dropout(config, "edge_dropout")
        return super().check(config)

    def __init__(self, config: Any, dataset: Any):
        super().__init__(config, dataset)
        self.propagation = Propagation(
            self.interactions, config["n_layers"], config["message_dropout"], config["edge_dropout"]
        )

    def encode(self) -> tuple[Tensor, Tensor]:
        tables = torch.cat([self.user_embedding.weight, self.item_embedding.weight])
        users, items = self.propagation(tables).split([self.n_users, self.n_items])
        return users, items
