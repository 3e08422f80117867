"""The spectral start against a dense decomposition, and what it must know before any training."""

import numpy as np
import pytest
import torch
from scipy.linalg import block_diag

from recbole_adaptau.recipe.spectral_start import CHANCE, _unit_rows, spectral_rows, start_from
from tests.helpers import build, interactions, trainer_of


def dense_rows(matrix, size):
    """The same from NumPy's whole decomposition of the matrix with its first pair subtracted."""
    users, items = matrix.sum(1), matrix.sum(0)
    normalised = matrix / np.sqrt(np.outer(users, items)) - np.sqrt(np.outer(users, items)) / matrix.sum()
    left, values, right = np.linalg.svd(normalised)
    rows = [vectors[:, :size] * np.sqrt(values[:size]) for vectors in (left, right.T)]
    return np.concatenate([part / np.linalg.norm(part, axis=1, keepdims=True) for part in rows])


@pytest.mark.parametrize("parts", [1, 2])
def test_rows_are_those_of_the_dense_decomposition(parts):
    """Up to a rotation, which no cosine sees; also where the graph falls apart and first vectors come mixed."""
    generator = np.random.default_rng(3)
    blocks = [(generator.random((20, 15)) < 0.4).astype(float) for _ in range(parts)]
    for block in blocks:
        block[:, 0] = block[0] = 1  # so that each hangs together
    matrix = block_diag(*blocks)
    rows = [part.numpy() for part in spectral_rows(interactions(matrix), 6, seed=1)]
    assert not rows[0][0].any() and not rows[1][0].any()  # padding
    ours, truth = np.concatenate([part[1:] for part in rows]), dense_rows(matrix, 6)
    np.testing.assert_allclose(ours @ ours.T, truth @ truth.T, atol=1e-2)


def test_more_columns_than_the_data_has_directions_stay_empty():
    users, items = spectral_rows(interactions(np.array([[1, 1, 0], [0, 1, 1], [1, 0, 1]])), 8, seed=1)
    assert users.shape == (4, 8) and items.shape == (4, 8)
    torch.testing.assert_close(users[1:].norm(dim=1), torch.ones(3))
    assert (users[1:].abs() > 1e-5).any(dim=0).sum() == 2


def test_who_has_no_positive_keeps_the_random_start():
    matrix = np.array([[1, 1, 0, 0], [0, 1, 1, 0], [1, 0, 1, 0], [0, 0, 0, 0]])
    rows, _ = spectral_rows(interactions(matrix), 2, seed=1)
    table = torch.randn(5, 2)
    before = table.clone()
    start_from(table, rows)
    assert torch.equal(table[4], before[4])
    length = before[1:4].norm(dim=1).mean()
    torch.testing.assert_close(table[1:4], CHANCE * before[1:4] + length * rows[1:4])


def test_data_without_any_direction_starts_at_random():
    """Everybody has everything: nothing is left once activity and popularity are taken out."""
    users, items = spectral_rows(interactions(np.ones((5, 4))), 3, seed=1)
    table = torch.randn(6, 3)
    before = table.clone()
    start_from(table, users)
    assert torch.equal(table, before) and not items.any()


@pytest.mark.parametrize("model", ["AdapTauMF", "AdapTauLightGCN"])
def test_held_out_items_rank_first_before_any_training(board, model):
    """On the checkerboard: four colours are three directions, and each user misses two items of its colour."""
    recall = {}
    for start in ("spectral_start", "none"):
        built = build(model, {**board, "recipe": start, "embedding_size": 3})
        trainer = trainer_of(built)
        trainer.eval_collector.data_collect(built.train)
        recall[start] = trainer.evaluate(built.valid, load_best_model=False)["recall@2"]
    assert recall["spectral_start"] == 1 and recall["none"] < 0.9


def test_users_and_items_with_one_positive_count_it_once():
    matrix = np.array([[1, 0, 0, 0, 0], [1, 1, 0, 0, 1], [0, 1, 1, 0, 0], [0, 1, 1, 1, 0], [1, 0, 0, 1, 0]], float)
    rows = np.concatenate([part.numpy()[1:] for part in spectral_rows(interactions(matrix), 2, seed=1)])
    truth = dense_rows(matrix, 2)
    np.testing.assert_allclose(rows @ rows.T, truth @ truth.T, atol=1e-4)


def test_the_seed_decides():
    data = interactions((np.random.default_rng(1).random((80, 60)) < 0.2).astype(float))
    first, again, other = (spectral_rows(data, 6, seed)[0] for seed in (1, 1, 2))
    assert torch.equal(first, again) and not torch.equal(first, other)


def test_a_direction_may_have_a_zero_in_it():
    table = torch.ones(2, 2)
    start_from(table, torch.tensor([[0.0, 1.0], [0.0, 0.0]]))
    torch.testing.assert_close(table, torch.tensor([[CHANCE, CHANCE + 2**0.5], [1.0, 1.0]]))


@pytest.mark.parametrize("factor", [1e-4, 1.0, 1e4])
def test_what_is_rounding_is_told_by_the_longest_row(factor):
    vectors = np.array([[3.0, 4.0], [0.0, 1e-4], [0.0, 1e-6]])
    rows = _unit_rows(vectors * factor, 3)
    torch.testing.assert_close(rows, torch.tensor([[0.6, 0.8, 0.0], [0.0, 1.0, 0.0], [0.0, 0.0, 0.0]]))
