"""What every backbone keeps to; a model of ours that is registered is tested here by itself."""

import pytest
import torch
from recbole.data.interaction import Interaction

from recbole_adaptau.model.base import AdapTauRecommender
from recbole_adaptau.model.registry import MODELS
from tests.helpers import build

BACKBONES = [
    name for name, model in MODELS.items()
    if issubclass(model, AdapTauRecommender) and model.__module__.startswith("recbole_adaptau.model")
]  # fmt: skip


@pytest.mark.parametrize("name", BACKBONES)
class TestEveryBackbone:
    def test_it_encodes_all_users_and_items(self, name, board):
        model = build(name, board).model
        users, items = model.encode()
        assert len(users) == model.n_users and len(items) == model.n_items and users.shape[1] == items.shape[1]

    def test_the_padding_gets_no_gradient(self, name, board):
        built = build(name, board)
        built.model.begin_epoch(0)
        built.model.calculate_loss(next(iter(built.train))).backward()
        for table in (built.model.user_embedding, built.model.item_embedding):
            gradient = table.weight.grad.to_dense()
            assert not gradient[0].any() and gradient[1:].any()

    def test_predict_equals_full_sort_predict(self, name, board):
        model = build(name, board).model.eval()
        users = torch.arange(1, model.n_users)
        ranked = model.full_sort_predict(Interaction({"user_id": users})).view(len(users), -1)
        items = users % (model.n_items - 1) + 1
        pairs = model.predict(Interaction({"user_id": users, "item_id": items}))
        torch.testing.assert_close(pairs, ranked[torch.arange(len(users)), items])

    def test_its_default_is_the_papers_method(self, name, board):
        built = build(name, board)
        model = built.model
        assert len(model.parts) == 0 and built.config["recipe"] == "none"
        assert (model.strategy.name, model.loss.name) == ("adaptive_user", "softmax")
        users, items = model.test_embeddings()
        assert torch.allclose(users[1:].norm(dim=1), torch.ones(model.n_users - 1)), "ranks by cosines"
        assert torch.allclose(items[1:].norm(dim=1), torch.ones(model.n_items - 1))
