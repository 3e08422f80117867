"""A model's scores as they are served: without dropout, nobody's memory twice, and of use outside of inference mode."""

import pytest
import torch

from recbole_adaptau.serving.scoring import Scorer
from tests.helpers import build
from tests.serving.test_kept_embeddings import ACTIVE, ITEMS, USERS, Kept


@pytest.mark.parametrize(
    ("model", "changes"), [("NGCF", {"message_dropout": 0.5, "node_dropout": 0.5}), ("ENMF", {"dropout_prob": 0.7})]
)
def test_a_model_in_training_is_served_without_dropout(board, model, changes):
    made = build(model, {**board, **changes}).model.train()
    with torch.no_grad():  # a model that is not trained has hardly any scores
        for parameter in made.parameters():
            parameter.normal_(generator=torch.Generator().manual_seed(1))
    users = torch.arange(1, 9)
    scorer = Scorer(made, ACTIVE)
    first, again = (scorer.scores(users, None).clone() for _ in range(2))
    assert torch.equal(first, again) and not made.training
    with torch.no_grad():
        want = made.eval().full_sort_predict({"user_id": users}).view(len(users), -1)
    torch.testing.assert_close(first, want)


class Lent(Kept):
    """A model whose scores are no products, and which hands out its own memory."""

    def __init__(self):
        super().__init__()
        self.table = torch.rand(USERS, ITEMS, generator=torch.Generator().manual_seed(2))

    def full_sort_predict(self, interaction):
        users = interaction["user_id"]
        return self.table[int(users[0]) : int(users[-1]) + 1].view(-1)


def test_what_is_left_out_of_a_ranking_is_not_left_out_of_the_model():
    scorer = Scorer(Lent(), ACTIVE)
    before = scorer.model.table.clone()
    with torch.inference_mode():  # as a ranking is made
        scorer.scores(torch.arange(3, 7), None).fill_(-torch.inf)
    assert torch.equal(scorer.model.table, before)


def test_vectors_kept_in_inference_mode_can_be_computed_with_outside_of_it(board):
    model = build("LightGCN", {**board, "n_layers": 1, "reg_weight": 0, "require_pow": False}).model
    with torch.inference_mode():
        kept = Scorer(model, torch.arange(1, 9)).embeddings
    weight = torch.ones(kept.users.shape[1], requires_grad=True)
    ((kept.users * weight) @ kept.items.T).sum().backward()
    assert torch.isfinite(weight.grad).all()
