"""Top-k for users with and without test rows, against their scores by hand."""

import numpy as np
import pytest
import torch
from recbole.config import Config
from recbole.data import create_dataset, data_preparation
from recbole.model.general_recommender import BPR
from recbole.utils.case_study import full_sort_scores, full_sort_topk

from recbole_adaptau.errors import AdapTauError


@pytest.fixture
def trained(board, tmp_path):
    """The checkerboard with a test part of half of the users."""
    path = tmp_path / "data" / "board" / "board.test.inter"
    lines = path.read_text().splitlines()
    path.write_text("\n".join(lines[:9]) + "\n")
    config = Config("BPR", "board", config_dict=board)
    train, _, test = data_preparation(config, create_dataset(config))
    torch.manual_seed(0)
    return BPR(config, train._dataset), test


def test_every_user_has_scores_without_what_they_know(trained):
    model, test = trained
    users = list(range(1, test.dataset.user_num))
    with_rows = set(test.uid_list.tolist())
    assert 0 < len(with_rows) < len(users)
    scores = full_sort_scores(users, model, test)
    plain = (model.user_embedding.weight @ model.item_embedding.weight.T).detach()
    for row, user in enumerate(users):
        used = test._sampler.used_ids[user]
        held_out = set(test.uid2positive_item[user].tolist()) if user in with_rows else set()
        hidden = {0} | (used - held_out)
        for item in range(test.dataset.item_num):
            expected = -np.inf if item in hidden else plain[user, item].item()
            assert scores[row, item].item() == pytest.approx(expected, abs=1e-6)


def test_top_lists_hold_nothing_a_user_already_has(trained):
    model, test = trained
    user = next(u for u in range(1, test.dataset.user_num) if u not in set(test.uid_list.tolist()))
    values, items = full_sort_topk(np.array([user, 1]), model, test, k=3)
    assert items.shape == (2, 3) and torch.isfinite(values).all()
    assert not set(items[0].tolist()) & (test._sampler.used_ids[user] | {0})


def test_asking_again_gives_the_same(trained):
    model, test = trained
    users = [3, test.dataset.user_num - 1]
    assert torch.equal(full_sort_scores(users, model, test), full_sort_scores(users, model, test))


@pytest.mark.parametrize("wrong", [0, -1, 17, 1000])
def test_a_user_out_of_range_is_named(trained, wrong):
    model, test = trained
    with pytest.raises(AdapTauError, match=rf"user id {wrong} is out of range: ids go from 1 to 16"):
        full_sort_topk([1, wrong], model, test, k=2)


def test_a_users_name_is_not_an_id(trained):
    model, test = trained
    with pytest.raises(AdapTauError, match="token2id"):
        full_sort_scores(["u1"], model, test)
