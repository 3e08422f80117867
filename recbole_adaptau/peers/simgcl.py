"""SimGCL: contrast between two noisy views of every node (Yu et al., SIGIR 2022)."""

from typing import Any

import torch
import torch.nn.functional as F
from recbole.model.abstract_recommender import GeneralRecommender
from recbole.model.init import xavier_uniform_initialization
from recbole.model.loss import BPRLoss, EmbLoss
from recbole.utils import InputType
from torch import Tensor, nn

from ..core.component import versions
from ..core.propagation import Propagation
from ..core.settings import SettingsModel, setting
from ..data.positives import training_positives


class SimGCL(GeneralRecommender):
    """BPR on LightGCN without its layer 0, and InfoNCE between two views with noise of length eps in every layer.

    E = (1 / L) Σ_{k=1..L} A^k X. A view adds to each layer eps · sign(layer) ⊙ n / |n|, n uniform in [0, 1), and the
    noise travels on through the layers above. L = BPR + reg_weight · L2 + cl_weight · (InfoNCE of the batch's users +
    InfoNCE of its positive items), each a mean over different nodes, as the authors have it. The defaults are the
    authors' for Yelp2018 (SELFRec's leaderboard), but two layers as RecBole-GNN has them.
    """

    input_type = InputType.PAIRWISE

    class Settings(SettingsModel):
        embedding_size: int = setting(64, "The embedding size of users and items.", ge=1, le=1 << 16)
        n_layers: int = setting(2, "Layers of propagation; layer 0 does not count in the mean.", ge=1)
        reg_weight: float = setting(
            1e-4, "L2 on the batch's embeddings: weight * sum of squares / (2 * batch size).", ge=0.0
        )
        cl_weight: float = setting(
            0.5, "Weight of the contrast, a mean over the batch's nodes (RecBole-GNN's `lambda` weighs a sum).", ge=0.0
        )
        eps: float = setting(0.1, "Length of the noise in each layer of a view.", ge=0.0)
        temperature: float = setting(0.2, "Temperature of the contrast.", gt=0.0)

    def __init__(self, config: Any, dataset: Any):
        super().__init__(config, dataset)
        s: Any = self.Settings.read(config)
        self.n_layers, self.reg_weight, self.cl_weight = s.n_layers, s.reg_weight, s.cl_weight
        self.eps, self.temperature = s.eps, s.temperature
        # Σ_{k=1..L} A^k X / L is A times the mean of the layers 0 to L − 1.
        self.propagation = Propagation(training_positives(dataset), self.n_layers - 1)
        self.user_embedding = nn.Embedding(self.n_users, s.embedding_size)
        self.item_embedding = nn.Embedding(self.n_items, s.embedding_size)
        self.bpr, self.l2 = BPRLoss(), EmbLoss()
        self._scored: tuple[Any, tuple[Tensor, Tensor]] | None = None
        self.apply(xavier_uniform_initialization)

    def forward(self) -> tuple[Tensor, Tensor]:
        """Shape: users [n_users, d], items [n_items, d], without noise."""
        return self._split(self.propagation.product(self.propagation(self._tables())))

    def calculate_loss(self, interaction: Any) -> Tensor:
        """Shape: []."""
        clean = torch.cat(self.forward())
        first, second = (self._split(clean + self._noise(clean)) for _ in range(2))
        loss = self._ranking_loss(interaction, *self._split(clean))
        return loss + self.cl_weight * self._contrast(interaction, first, second)

    @torch.no_grad()
    def _noise(self, clean: Tensor) -> Tensor:
        """What a view adds to the clean embeddings.

        The noise depends on the layers only through their signs, so it is a constant to the gradient: both views
        share the backward pass of the clean embeddings.
        """
        layer = self._tables()
        total = -self.n_layers * clean
        for _ in range(self.n_layers):
            layer = self._perturbed(self.propagation.product(layer))
            total += layer
        return total / self.n_layers

    def _perturbed(self, layer: Tensor) -> Tensor:
        return layer + self.eps * torch.sign(layer) * F.normalize(torch.rand_like(layer), dim=1)

    def _ranking_loss(self, interaction: Any, users: Tensor, items: Tensor) -> Tensor:
        user, positive = interaction[self.USER_ID], interaction[self.ITEM_ID]
        negative = interaction[self.NEG_ITEM_ID]
        u = users[user]
        loss = self.bpr((u * items[positive]).sum(1), (u * items[negative]).sum(1))
        rows = self.user_embedding(user), self.item_embedding(positive), self.item_embedding(negative)
        return loss + self.reg_weight * self.l2(*rows, require_pow=True).squeeze()

    def _contrast(self, interaction: Any, one: tuple[Tensor, Tensor], other: tuple[Tensor, Tensor]) -> Tensor:
        ids = interaction[self.USER_ID].unique(), interaction[self.ITEM_ID].unique()
        parts = [info_nce(a[i], b[i], self.temperature) for a, b, i in zip(one, other, ids, strict=True)]
        return parts[0] + parts[1]

    def predict(self, interaction: Any) -> Tensor:
        """Shape: [B] scores of the given pairs."""
        users, items = self._test_embeddings()
        return (users[interaction[self.USER_ID]] * items[interaction[self.ITEM_ID]]).sum(1)

    def full_sort_predict(self, interaction: Any) -> Tensor:
        """Shape: [B · n_items] scores of all items for the given users."""
        users, items = self._test_embeddings()
        return (users[interaction[self.USER_ID]] @ items.T).view(-1)

    def train(self, mode: bool = True) -> "SimGCL":
        """Also the moment to forget the embeddings kept for prediction: every evaluation starts with `eval()`."""
        self._scored = None
        return super().train(mode)

    @torch.no_grad()
    def _test_embeddings(self) -> tuple[Tensor, Tensor]:
        version = versions(self)
        if self.training or self._scored is None or self._scored[0] != version:
            self._scored = version, self.forward()
        return self._scored[1]

    def _tables(self) -> Tensor:
        return torch.cat([self.user_embedding.weight, self.item_embedding.weight])

    def _split(self, nodes: Tensor) -> tuple[Tensor, Tensor]:
        users, items = nodes.split([self.n_users, self.n_items])
        return users, items


def info_nce(one: Tensor, other: Tensor, temperature: float) -> Tensor:
    """Mean of -log softmax of each row's own counterpart among all counterparts. Shape: [N, d], [N, d] → []."""
    logits = F.normalize(one, dim=1) @ F.normalize(other, dim=1).T / temperature
    return (torch.logsumexp(logits, dim=1) - logits.diagonal()).mean()
