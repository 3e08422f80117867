"""What a row and a positive count, by how many its user has."""

import pytest
import torch

from tests.helpers import build


def test_the_weights_are_those_of_the_settings(board):
    settings = {**board, "recipe": "user_weighting", "loss_user_balance": 0.5, "tau_user_balance": 1.0}
    model = build("AdapTauMF", settings).model
    (part,) = model.parts
    assert torch.equal(part.row_weights(), model.interactions.user_weights(0.5))
    assert torch.equal(part.positive_weights(), model.interactions.user_weights(1.0))
    assert torch.equal(model.view().positive_weights, part.positive_weights())


def test_the_loss_weighs_users_as_it_says(board):
    """All users of the checkerboard have as many positives, so other weights are put in."""
    settings = {**board, "negatives": "full", "tau_strategy": "fixed", "train_batch_size": 100_000}
    plain = build("AdapTauMF", settings).model
    built = build("AdapTauMF", {**settings, "recipe": "user_weighting"})
    weighed, batch = built.model, next(iter(built.train))
    weights = weighed.parts[0].in_loss
    weights.copy_(torch.linspace(0.2, 2.0, weighed.n_users))
    plain.load_state_dict(weighed.state_dict())
    want = 0.0
    for user in batch["user_id"].unique():
        rows = torch.nonzero(batch["user_id"] == user).squeeze(1)
        want += weights[user].item() * plain.calculate_loss(batch[rows]).item() * len(rows) / len(batch)
    assert weighed.calculate_loss(batch).item() == pytest.approx(want, rel=1e-4)
