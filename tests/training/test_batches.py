"""Our batches are RecBole's, row for row, epoch after epoch."""

import pytest
import torch

from recbole_adaptau.training.batches import Batches
from tests.helpers import build

PER_ROW = {"negatives": "per_row", "train_neg_sample_args": {"distribution": "uniform", "sample_num": 2}}


@pytest.mark.parametrize("shuffle", [True, False])
def test_same_batches_in_the_same_order_for_several_epochs(board, shuffle):
    theirs, ours = (build("AdapTauMF", {**board, "shuffle": shuffle}).train for _ in range(2))
    assert Batches.fits(ours)
    for _ in range(3):
        pairs = list(zip(theirs, Batches(ours), strict=True))
        assert len(pairs) == len(Batches(ours)) == 8
        for a, b in pairs:
            assert torch.equal(a["user_id"], b["user_id"]) and torch.equal(a["item_id"], b["item_id"])
        assert torch.equal(theirs.generator.get_state(), ours.generator.get_state())


def test_loaders_that_do_more_are_left_alone(board):
    assert not Batches.fits(build("AdapTauMF", {**board, **PER_ROW}).train)
    assert not Batches.fits(build("AdapTauMF", board).valid)
    assert not Batches.fits(build("BPR", {k: v for k, v in board.items() if k not in ("topk", "valid_metric")}).train)
