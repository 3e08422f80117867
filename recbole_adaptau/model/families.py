"""RecBole's models whose embeddings or auxiliary losses lie elsewhere than `Adapted` looks for them."""

from typing import Any

import torch
from recbole.model.general_recommender.dgcf import sample_cor_samples
from torch import Tensor

from .adapted import Adapted


class AdaptedENMF(Adapted):
    """ENMF scores by Σ_k h_k u_k i_k: h goes to the users. Its dropout on users is kept."""

    def encode(self) -> tuple[Tensor, Tensor]:
        users = self.base.dropout(self.base.user_embedding.weight)
        return users * self.base.H_i.weight, self.base.item_embedding.weight


class AdaptedSimpleX(Adapted):
    """SimpleX's user is a mixture of its table and of the items in the user's history, with dropout."""

    tables = ("user_emb", "item_emb")

    def encode(self) -> tuple[Tensor, Tensor]:
        history = self.base.item_emb(self.base.history_item_id)
        users = self.base.get_UI_aggregation(self.base.user_emb.weight, history, self.base.history_item_len)
        return self.base.dropout(users), self.base.item_emb.weight


class AdaptedDGCF(Adapted):
    """DGCF keeps its intents apart by a distance correlation of some users and items drawn for each batch."""

    def encode(self) -> tuple[Tensor, Tensor]:
        self._encoded = super().encode()
        return self._encoded

    def auxiliary_losses(self, users: Tensor, positives: Tensor) -> tuple[Tensor, ...]:
        base = self.base
        if base.n_factors <= 1 or base.cor_weight <= 1e-9:
            return ()
        drawn = sample_cor_samples(self.n_users, self.n_items, base.cor_batch_size)
        parts = [
            table[torch.as_tensor(rows, device=table.device)] for table, rows in zip(self._encoded, drawn, strict=True)
        ]
        del self._encoded
        return (base.cor_weight * base.create_cor_loss(*parts),)


class AdaptedSGL(Adapted):
    """SGL contrasts two graphs, drawn anew by `train()` at the start of each epoch.

    SGL adds a sum over the batch of its contrastive loss to a sum of its ranking loss; ours is a mean, so both are.
    """

    def encode(self) -> tuple[Tensor, Tensor]:
        return self._embeddings(self.base.forward(self.base.train_graph))

    def auxiliary_losses(self, users: Tensor, positives: Tensor) -> tuple[Tensor, ...]:
        (user_1, item_1), (user_2, item_2) = map(self.base.forward, (self.base.sub_graph1, self.base.sub_graph2))
        loss = self.base.calc_ssl_loss(users, positives, user_1, user_2, item_1, item_2)
        return (loss / len(users),)


class AdaptedNCL(Adapted):
    """NCL contrasts each node with its neighbours two hops away and with the centre of its cluster.

    RecBole's NCLTrainer calls `e_step` for the clusters and leaves the last loss out while NCL warms up. The clusters
    are part of the checkpoint: with `m_step` above 1 a resumed run needs those it had.
    """

    CLUSTERS = ("user_centroids", "user_2cluster", "item_centroids", "item_2cluster")

    def encode(self) -> tuple[Tensor, Tensor]:
        users, items, self._layers = self.base.forward()
        return users, items

    def e_step(self) -> None:
        self.base.e_step()

    def auxiliary_losses(self, users: Tensor, positives: Tensor) -> tuple[Tensor, ...]:
        centre, context = self._layers[0], self._layers[self.base.hyper_layers * 2]
        del self._layers
        return (
            self.base.ssl_layer_loss(context, centre, users, positives),
            self.base.ProtoNCE_loss(centre, users, positives),
        )

    def other_parameter(self) -> dict[str, Any]:
        return {name: getattr(self.base, name) for name in self.CLUSTERS}

    def load_other_parameter(self, para: dict[str, Any] | None) -> None:
        self.base.load_other_parameter(para)


FAMILIES: dict[str, type[Adapted]] = {
    "DGCF": AdaptedDGCF,
    "ENMF": AdaptedENMF,
    "NCL": AdaptedNCL,
    "SGL": AdaptedSGL,
    "SimpleX": AdaptedSimpleX,
}
