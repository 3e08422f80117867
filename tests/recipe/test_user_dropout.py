"""Dropout by what is known of a user."""

import pytest
import torch

from recbole_adaptau.recipe.user_dropout import VALUES, UserDropout
from tests.helpers import build, interactions


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


def test_nobody_loses_everything_whatever_the_count_says():
    """A share next to 1 leaves one value in 65,536, and what is kept is finite; a cold user counts as one positive."""
    matrix = torch.zeros(3, 4)
    matrix[0, 0] = matrix[1, :] = 1
    part = UserDropout(interactions(matrix.numpy()), UserDropout.Settings(user_dropout_count=1e6))
    assert part.steps.max() == VALUES - 1
    assert torch.isfinite(part.drop(torch.ones(50, 7), torch.ones(50, dtype=torch.long))).all()
    one = UserDropout(interactions(matrix.numpy()), UserDropout.Settings(user_dropout_count=1.0))
    assert one.steps.tolist() == [VALUES / 2, VALUES / 2, round(VALUES / 5), VALUES / 2]


@pytest.mark.parametrize("width", [1, 4, 6])
def test_every_entry_is_drawn_by_itself_and_scaled_to_keep_its_mean(width):
    matrix = torch.ones(1, 3)
    part = UserDropout(interactions(matrix.numpy()), UserDropout.Settings(user_dropout_count=3.0))
    torch.manual_seed(0)
    dropped = part.drop(torch.full((20_000, width), 2.0), torch.ones(20_000, dtype=torch.long))
    assert set(dropped.unique().tolist()) == {0.0, 4.0}, "half of them, times two"
    kept = (dropped > 0).float()
    assert kept.mean(0).tolist() == pytest.approx([0.5] * width, abs=0.02)
    if width > 1:
        together = torch.corrcoef(kept.T) - torch.eye(width)
        assert together.abs().max() < 0.04


def test_a_share_that_rounds_to_nothing_drops_nothing():
    part = UserDropout(interactions(torch.ones(1, 3).numpy()), UserDropout.Settings(user_dropout_count=1e-9))
    torch.manual_seed(0)
    assert part.drop(torch.ones(20_000, 100), torch.ones(20_000, dtype=torch.long)).eq(1).all()
