"""The vectors behind the scores, and users who are folded in, against brute force."""

import numpy as np
import pytest
import scipy.sparse as sp
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from recbole.data.interaction import Interaction

from recbole_adaptau.serving import Embeddings, embeddings_of
from tests.helpers import build

ACTIVE = torch.arange(1, 49)


def full_scores(model) -> torch.Tensor:
    with torch.no_grad():
        return model.eval().full_sort_predict(Interaction({"user_id": ACTIVE})).view(48, -1)


def liking(liked: list[list[int]], n_items: int) -> sp.csr_array:
    """A row of 0 and 1 for each user."""
    matrix = np.zeros((len(liked), n_items), np.float32)
    for row, items in enumerate(liked):
        matrix[row, items] = 1
    return sp.csr_array(matrix)


@pytest.mark.parametrize(
    ("model", "changes"),
    [
        ("AdapTauMF", {}),
        ("AdapTauMF", {"recipe": "plus"}),
        ("AdapTauMF", {"recipe": "item_regression"}),
        ("AdapTauMF", {"tau_strategy": "none"}),
        ("AdapTauMF", {"recipe": "popularity_prior"}),
        ("AdapTauLightGCN", {}),
        ("BPR", {}),
        ("LightGCN", {"n_layers": 2, "reg_weight": 0, "require_pow": False}),
        ("NGCF", {"node_dropout": 0.0, "message_dropout": 0.0}),
    ],
)
def test_scores_are_inner_products_of_the_embeddings_and_what_a_recipe_adds(board, model, changes):
    built = build(model, {**board, **changes}).model
    if hasattr(built, "begin_epoch"):
        built.begin_epoch(0)
    found = embeddings_of(built.eval(), ACTIVE)
    scores = found.users[1:] @ found.items.T
    for part in found.added:
        part.pairs.add_to(scores, ACTIVE, part.scales[1:])
    torch.testing.assert_close(scores[:, 1:], full_scores(built)[:, 1:])
    recipe = changes.get("recipe")
    assert len(found.added) == (recipe in ("plus", "item_regression"))
    assert found.has_bias == (recipe in ("plus", "popularity_prior"))


@settings(max_examples=50, deadline=None)
@given(st.integers(0, 2**31), st.integers(1, 6), st.booleans(), st.floats(0.1, 20))
def test_fold_in_is_the_mean_direction_at_the_given_length(seed, liked, prior, length):
    items = torch.randn(9, 5, generator=torch.Generator().manual_seed(seed))
    ids = torch.randperm(8, generator=torch.Generator().manual_seed(seed))[:liked] + 1
    (user,) = Embeddings(torch.zeros(2, 5), items, prior, length).fold_in(liking([ids.tolist()], 9))
    vectors = items.double().numpy()[ids.numpy(), : 4 if prior else 5]
    mean = sum(vector / np.linalg.norm(vector) for vector in vectors) / liked
    expected = mean / np.linalg.norm(mean) * length
    assert user[: len(expected)].tolist() == pytest.approx(expected.tolist(), rel=1e-3, abs=1e-3)
    assert user[len(expected) :].tolist() == [1.0] * prior


def test_somebody_new_has_the_length_of_a_user_at_tau_0(board):
    model = build("AdapTauMF", {**board, "recipe": "plus"}).model
    model.begin_epoch(0)
    model.strategy.tau_u.uniform_(0.05, 0.5)
    found = embeddings_of(model, ACTIVE)
    assert found.user_length == pytest.approx(1 / model.strategy.tau_0.item(), rel=1e-5)
    assert found.added[0].new_scale == pytest.approx(0.5 / model.strategy.tau_0.item(), rel=1e-5)
    liked = [[1, 5, 9], [2]]
    rows, weights = found.fold_in(liking(liked, 49)), found.added[0].pairs.weights.toarray()
    for row, own in enumerate(liked):
        expected = found.items @ rows[row] + found.added[0].new_scale * torch.from_numpy(weights[:, own].sum(1))
        torch.testing.assert_close(found.scores_for(liking(liked, 49))[row], expected)
    plain = embeddings_of(build("AdapTauMF", {**board, "recipe": "item_regression"}).model, ACTIVE)
    assert plain.user_length == pytest.approx(1.0, rel=1e-5) and plain.added[0].new_scale == 0.5
