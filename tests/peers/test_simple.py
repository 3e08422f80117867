"""The models that are computed, not trained: EASE, ItemRegression and IALS."""

import tracemalloc
from importlib.util import find_spec
from types import SimpleNamespace

import numpy as np
import psutil
import pytest
import scipy.sparse as sp
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
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
    best = int(scores[4].argmax())
    pairs = Interaction({"user_id": torch.tensor([3, 5, 7]), "item_id": torch.tensor([5, best, 1])})
    torch.testing.assert_close(built.model.predict(pairs), scores[[2, 4, 6], [5, best, 1]])
    assert scores[4, best] > 0.01


def test_nothing_is_trained_in_the_regression(board):
    """RecBole's trainer wants a parameter and a loss: one of each, and both are zero."""
    model = build("ItemRegression", board).model
    (parameter,) = model.parameters()
    assert parameter.shape == (1,) and model.calculate_loss(None).item() == 0.0


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


@settings(max_examples=20)
@given(st.integers(0, 10**6), st.integers(1, 30), st.sampled_from([0.5, 3.0, 100.0]), st.integers(1, 12))
def test_ease_weights_are_those_of_the_formula_whatever_the_parts(seed, items, reg_weight, rows):
    """B = −P / diag(P) with a diagonal of 0, P the inverse of XᵀX + reg_weight, in float64; no item is empty."""
    x = (np.random.default_rng(seed).random((25, items)) < 0.3).astype(np.float32)
    x[0] = 1.0
    inverse = np.linalg.inv(x.T.astype(np.float64) @ x + reg_weight * np.eye(items))
    want = -inverse / np.diag(inverse)
    np.fill_diagonal(want, 0.0)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(ease, "ROWS_AT_ONCE", rows)
        got = ease._similarity(sp.csr_matrix(x), reg_weight)
    np.testing.assert_allclose(got, want, rtol=1e-3, atol=1e-4)


def test_ease_keeps_one_matrix_of_items_times_items(monkeypatch):
    monkeypatch.setattr(ease, "ROWS_AT_ONCE", 16)
    matrix = sp.random(50, 600, 0.01, format="csr", dtype=np.float32, random_state=0)
    tracemalloc.start()
    try:
        ease._similarity(matrix, 10.0)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert 1.0 < peak / (4 * 600**2) < 1.6


def test_ease_is_refused_from_the_first_byte_that_is_missing(monkeypatch):
    """Float32 of the matrix itself and of eight parts of it, which is what a part takes while it is filled."""
    needed = 4 * 1000 * (1000 + 8 * ease.ROWS_AT_ONCE)
    monkeypatch.setattr(psutil, "virtual_memory", lambda: SimpleNamespace(available=needed))
    ease._refuse_if_too_large(1000)
    monkeypatch.setattr(psutil, "virtual_memory", lambda: SimpleNamespace(available=needed - 1))
    with pytest.raises(DataError, match=r"1,000 items need 0\.0 GB"):
        ease._refuse_if_too_large(1000)


def test_ease_without_regularisation_says_that_the_matrix_has_no_inverse(board):
    with pytest.raises(DataError, match=r"XᵀX \+ 0.0 cannot be inverted: raise reg_weight"):
        build("EASE", {**board, "reg_weight": 0.0})


@pytest.mark.parametrize("model", ["EASE", pytest.param("IALS", marks=needs_implicit)])
def test_a_computed_model_has_one_parameter_and_a_loss_of_zero(model, board):
    built = build(model, board).model
    assert [parameter.tolist() for parameter in built.parameters()] == [[0.0]]
    assert built.calculate_loss(None).item() == 0.0


@needs_implicit
def test_ials_minimises_its_loss_with_the_given_settings(board):
    """The gradient of the loss in float64: that of the items, computed last, is 0; that of the users falls to 0."""
    alpha, regularization = 5.0, 2.0
    given = {**board, "embedding_size": 4, "ials_alpha": alpha, "ials_regularization": regularization}
    sizes = {}
    for iterations in (1, 60):
        built = build("IALS", {**given, "ials_iterations": iterations})
        x = torch.zeros(49, 49, dtype=torch.float64)
        data = built.train._dataset.inter_feat
        x[data["user_id"], data["item_id"]] = 1.0
        users, items = (
            factors.double().requires_grad_() for factors in (built.model.user_factors, built.model.item_factors)
        )
        assert users.shape == items.shape == (49, 4)
        error = torch.where(x > 0, alpha, 1.0) * (x - users @ items.T).square()
        (error.sum() + regularization * (users.square().sum() + items.square().sum())).backward()
        assert items.grad.abs().max() < 1e-3
        sizes[iterations] = users.grad.abs().max().item()
    assert sizes[60] < 1e-3 and sizes[1] > 1e-2, sizes


@needs_implicit
def test_ials_follows_the_seed_and_writes_nothing(board, capsys):
    first, again, other = (build("IALS", {**board, "seed": seed}).model.user_factors for seed in (1, 1, 2))
    assert torch.equal(first, again) and not torch.equal(first, other)
    assert capsys.readouterr().err == ""


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
