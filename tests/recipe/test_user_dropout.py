"""Dropout by what is known of a user."""

import pytest
import torch

from tests.helpers import build


def test_a_users_dropout_falls_with_what_is_known_of_it(board):
    """The share of zeros is c / (c + count), the mean is kept, and evaluation drops nothing."""
    model = build("AdapTauMF", {**board, "recipe": "user_dropout", "user_dropout_count": 3.0}).model
    counts = model.interactions.user_counts
    few, many = counts.clamp_min(1).argmin(), counts.argmax()
    rows = torch.tensor([few, many]).repeat_interleave(4000)
    torch.manual_seed(0)
    dropped = model.train()._dropped(torch.ones(8000, 15), rows)
    for user, part in zip((few, many), dropped.split(4000), strict=True):
        share = 3.0 / (3.0 + max(counts[user].item(), 1))
        assert (part == 0).float().mean().item() == pytest.approx(share, abs=0.01)
        assert part.mean().item() == pytest.approx(1.0, abs=0.05)
    assert torch.equal(model.eval()._dropped(torch.ones(8000, 15), rows), torch.ones(8000, 15))
