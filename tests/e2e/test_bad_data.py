"""Odd data through the whole pipeline: a clear error, or the documented behaviour, never a NaN or a deep traceback."""

import math
from types import SimpleNamespace

import pytest
import torch

import recbole_adaptau
from recbole_adaptau.data.positives import training_positives
from recbole_adaptau.errors import DataError
from tests.conftest import checkerboard, write_inter
from tests.helpers import build

MODELS = ["AdapTauMF", "AdapTauLightGCN"]
STRATEGIES = ["none", "fixed", "learned", "learned_user", "adaptive", "adaptive_user", "calibrated", "calibrated_user"]


def written(tmp_path, train, valid, test):
    for part, pairs in zip(("train", "valid", "test"), (train, valid, test), strict=True):
        write_inter(tmp_path / "data", "odd", pairs, part)


def trained(board, model="AdapTauMF", **changes):
    settings = {**board, "epochs": 2, "topk": [1], "valid_metric": "NDCG@1", **changes}
    return recbole_adaptau.run_recbole_adaptau(model, "odd", None, settings, saved=False)


def all_finite(result) -> bool:
    return all(math.isfinite(value) for value in result["test_result"].values())


def test_single_item(board, tmp_path):
    written(tmp_path, [("a", "x"), ("b", "x")], [("c", "x")], [("d", "x")])
    with pytest.raises(DataError, match="4 of the 4 users of 'odd' have interacted with all of its 1 items"):
        trained(board)
    with pytest.raises(DataError, match="has 1 item: a softmax over items needs at least two"):
        training_positives(SimpleNamespace(
            inter_feat={"user_id": [1, 2], "item_id": [1, 1]}, uid_field="user_id", iid_field="item_id",
            dataset_name="odd", user_num=3, item_num=2,
        ))  # fmt: skip


def test_empty_train_part(board, tmp_path):
    written(tmp_path, [], [("a", "x")], [("a", "y")])
    with pytest.raises(DataError, match=r"(?is)train.*empty"):
        trained(board)


def test_single_user(board, tmp_path):
    """A lone user has, by necessity, interacted with every item there is: nothing is left to rank."""
    written(tmp_path, [("a", f"i{k}") for k in range(3)], [("a", "i8")], [("a", "i9")])
    with pytest.raises(DataError, match=r"1 of the 1 users of 'odd' have interacted with all of its 5 items.*user a"):
        trained(board)


@pytest.mark.parametrize("model", MODELS)
@pytest.mark.parametrize("strategy", STRATEGIES)
def test_user_and_item_without_training_interaction(board, tmp_path, model, strategy):
    """A cold user has tau_0 and counts nowhere; a cold item stands in the softmax and ranks by its start value."""
    train, valid, test = checkerboard(12, 12, 3)
    written(tmp_path, train, valid, [*test, ("cold user", "i0"), ("u0", "cold item")])
    result = trained(board, model, tau_strategy=strategy)
    assert all_finite(result)
    built = build(model, {**board, "tau_strategy": strategy}, "odd")
    state = built.model.begin_epoch(0)
    assert all(math.isfinite(value) for value in state.values())
    cold = built.dataset.token2id("user_id", "cold user")
    assert cold not in built.model.interactions.active_users.tolist()
    assert torch.isfinite(built.model.user_temperatures()).all()


@pytest.mark.parametrize("model", MODELS)
@pytest.mark.parametrize("strategy", ["adaptive", "adaptive_user"])
def test_data_denser_than_one_half(board, tmp_path, model, strategy):
    def items(user, places):
        return [(f"u{user}", f"i{(user + place) % 10}") for place in places]

    parts = ([pair for user in range(10) for pair in items(user, places)] for places in (range(6), [6], [7]))
    written(tmp_path, *parts)
    built = build(model, {**board, "tau_strategy": strategy}, "odd")
    assert len(built.model.interactions) / 100 > 0.5
    assert built.model.begin_epoch(0)["tau_0"] == pytest.approx(1.0), "the documented upper bound tau_max"
    assert all_finite(trained(board, model, tau_strategy=strategy))


def test_fewer_items_than_topk(board, tmp_path):
    written(tmp_path, *checkerboard(12, 12, 3))
    with pytest.raises(DataError, match=r"topk = \[10, 20\], but 'odd' has only 12 items"):
        trained(board, topk=[10, 20], valid_metric="NDCG@20")


def test_users_with_equally_many_positives_all_count_for_tau_0(board, tmp_path):
    written(tmp_path, *checkerboard(12, 12, 3))
    assert all_finite(trained(board, tau_user_quantile=0.2))


def test_items_only_in_test_are_reported_not_fatal(board, tmp_path):
    train, valid, test = checkerboard(12, 12, 3)
    written(tmp_path, train, valid, [*test, ("u1", "new one"), ("u2", "new two")])
    assert all_finite(trained(board))
