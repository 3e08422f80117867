"""Positives that a strategy holds out are in no batch, no graph and no count until they return."""

import numpy as np
import pytest
import torch
from recbole.data.interaction import Interaction

from recbole_adaptau.data.positives import training_positives
from tests.conftest import checkerboard, write_inter
from tests.helpers import build, trainer_of

PER_ROW = {"negatives": "per_row", "train_neg_sample_args": {"distribution": "uniform", "sample_num": 3}}
# A fifth of the checkerboard's 480 positives is enough to measure on.
HOLDING = {"tau_strategy": "calibrated_user", "held_out_share": 0.2, "epochs": 4}


def keys(users, items):
    return set(zip(users.tolist(), items.tolist(), strict=True))


def held(model):
    return keys(model.held_out.users, model.held_out.items)


def seen_in_training(built, patch):
    """The pairs that reached the loss, epoch by epoch."""
    model, epochs = built.model, []
    begin, draw = model.begin_epoch, model.negatives.draw

    def begin_epoch(epoch):
        epochs.append(set())
        return begin(epoch)

    def drawn(users, positives, sampled=None):
        epochs[-1] |= keys(users, positives)
        assert sampled is None or sampled.shape == (len(users), 3)
        return draw(users, positives, sampled)

    patch.setattr(model, "begin_epoch", begin_epoch)
    patch.setattr(model.negatives, "draw", drawn)
    trainer_of(built).fit(built.train, built.valid, saved=False)
    return epochs


@pytest.mark.parametrize("name", ["AdapTauMF", "AdapTauLightGCN", "AdapTauNGCF"])
@pytest.mark.parametrize("negatives", [{"num_negatives": 20}, {"negatives": "in_batch"}, PER_ROW])
def test_their_rows_are_in_no_batch_before_they_return(board, monkeypatch, name, negatives):
    built = build(name, {**board, **HOLDING, **negatives})
    everything = keys(*(training_positives(built.train._dataset).get_buffer(x) for x in ("users", "items")))
    apart = held(built.model)
    assert len(apart) == 96 and apart < everything
    *before, last = seen_in_training(built, monkeypatch)
    assert before == [everything - apart] * 2 + [everything] and last == everything


def test_a_batch_of_nothing_else_trains_on_another_positive_of_its_user(board):
    model = build("AdapTauMF", {**board, **HOLDING}).model
    model.begin_epoch(0)
    first = torch.searchsorted(model.held_out.users, model.held_out.users.unique())[:5]
    users, items = model.held_out.users[first], model.held_out.items[first]
    assert model.held_out.contains(users, items).all() and len(users.unique()) == 5
    who, what, _ = model._trained_rows(users, items, None)
    assert who.tolist() == [users[0]] and keys(who, what) <= keys(model.interactions.users, model.interactions.items)
    batch = Interaction({"user_id": users, "item_id": items})
    assert torch.isfinite(model.calculate_loss(batch))


def test_nothing_is_built_from_them(board):
    parts = ["popularity_prior", "item_regression", "user_weighting"]
    settings = {**board, **HOLDING, "recipe": parts, "negative_distribution": "popularity", "num_negatives": 20}
    settings["n_layers"] = 1
    model = build("AdapTauLightGCN", settings).model
    whole = build("AdapTauLightGCN", {**settings, "tau_strategy": "adaptive_user"}).model.interactions
    data, apart = model.interactions, model.held_out
    assert len(data) == len(whole) - len(apart)
    for counts, ids in (("user_counts", apart.users), ("item_counts", apart.items)):
        want = getattr(whole, counts) - torch.bincount(ids, minlength=len(getattr(whole, counts)))
        assert torch.equal(getattr(data, counts), want)
    readers = [module.interactions for module in (model.negatives, *model.parts)]
    assert all(reader is data for reader in readers)
    assert all(part.held_out is apart for part in model.parts), "whoever is recommended to has them"
    user, before = int(apart.users[0]), model.encode()[1]
    with torch.no_grad():
        model.user_embedding.weight[user] += 1.0
    changed = (model.encode()[1] != before).any(1).nonzero().squeeze(1)
    assert changed.tolist() == data.items[data.users == user].tolist(), (
        "one layer reaches the user's items of the graph"
    )


def test_the_split_depends_on_the_seed_of_the_run_alone(board):
    torch.manual_seed(1)
    first = held(build("AdapTauMF", {**board, **HOLDING}).model)
    built = build("AdapTauMF", {**board, **HOLDING})
    torch.manual_seed(99)
    np.random.seed(99)
    assert held(type(built.model)(built.config, built.train._dataset)) == first
    assert held(build("AdapTauMF", {**board, **HOLDING, "seed": 7}).model) != first


def test_a_strategy_that_asks_for_none_trains_on_all(board):
    model = build("AdapTauMF", board).model
    assert model.held_out is None and len(model.interactions) == 480


def test_nothing_of_validation_or_test_sets_a_temperature(tmp_path, board):
    """Other validation and test positives, the same temperatures to the bit."""
    _, valid, test = checkerboard()
    poisoned = [(user, f"i{(int(item[1:]) + 1) % 48}") for user, item in valid + test]

    def temperatures():
        built = build("AdapTauMF", {**board, **HOLDING, "eval_step": 10})
        trainer_of(built).fit(built.train, built.valid, saved=False)
        return {name: value.clone() for name, value in built.model.strategy.named_buffers()}

    clean = temperatures()
    write_inter(tmp_path / "data", "board", poisoned[:48], "valid")
    write_inter(tmp_path / "data", "board", poisoned[48:], "test")
    assert clean["calibrated"][0] != 1, "it was measured"
    for name, value in temperatures().items():
        assert torch.equal(value, clean[name]), name
