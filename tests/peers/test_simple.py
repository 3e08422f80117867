"""The models that are computed, not trained: EASE, ItemRegression and IALS."""

from importlib.util import find_spec
from types import SimpleNamespace

import numpy as np
import psutil
import pytest
import torch
from recbole.config import Config
from recbole.data.interaction import Interaction
from recbole.model.general_recommender import EASE as RecboleEASE

from recbole_adaptau.errors import DataError, OptionError
from recbole_adaptau.peers import ease
from recbole_adaptau.recipe.item_regression import neighbour_weights
from tests.helpers import build, trainer_of

needs_implicit = pytest.mark.skipif(find_spec("implicit") is None, reason="the extra ials is not installed")
MODELS = ["EASE", "ItemRegression", pytest.param("IALS", marks=needs_implicit)]


def everybody(built) -> Interaction:
    return Interaction({"user_id": torch.arange(1, built.model.n_users)})


@pytest.mark.parametrize("model", MODELS)
def test_a_held_out_item_of_the_checkerboard_ranks_among_the_first(model, board):
    built = build(model, board)
    assert trainer_of(built).fit(built.train, built.valid, saved=False)[0] > 0.3
    scores = built.model.full_sort_predict(everybody(built)).view(-1, built.model.n_items)
    pairs = Interaction({"user_id": torch.tensor([3, 3, 7]), "item_id": torch.tensor([5, 6, 1])})
    torch.testing.assert_close(built.model.predict(pairs), scores[[2, 2, 6], [5, 6, 1]])


def test_ease_has_recboles_scores(board, monkeypatch):
    monkeypatch.setattr(ease, "ROWS_AT_ONCE", 20)  # several parts of 49 items
    built = build("EASE", {**board, "reg_weight": 3.0})
    theirs = RecboleEASE(built.config, built.train._dataset)
    torch.testing.assert_close(
        built.model.full_sort_predict(everybody(built)),
        torch.as_tensor(np.asarray(theirs.full_sort_predict(everybody(built))).reshape(-1)),
        rtol=1e-4,
        atol=1e-5,
    )


def test_ease_says_what_memory_it_needs_before_it_takes_it(board, monkeypatch):
    monkeypatch.setattr(psutil, "virtual_memory", lambda: SimpleNamespace(available=1000))
    with pytest.raises(DataError, match=r"49 items need .* GB"):
        build("EASE", board)


def test_item_regression_is_the_sum_of_its_weights_over_the_users_items(board):
    built = build("ItemRegression", {**board, "item_neighbours": 7})
    data = built.model.interactions
    want = data.matrix().toarray() @ neighbour_weights(data, 7).toarray().T
    got = built.model.full_sort_predict(everybody(built)).view(-1, built.model.n_items)
    torch.testing.assert_close(got, torch.from_numpy(want[1:]))


def test_ials_without_implicit_is_refused_with_the_line_that_installs_it(board, monkeypatch):
    monkeypatch.setattr("recbole_adaptau.peers.ials.find_spec", lambda name: None)
    with pytest.raises(OptionError, match=r"pip install 'recbole_adaptau\[ials\]'"):
        Config("IALS", "board", config_dict=board)
