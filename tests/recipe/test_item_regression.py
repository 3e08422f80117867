"""What items say of each other, against a dense regression of every item on all others, and on planted data."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from recbole_adaptau.core.calibration import HeldOut
from recbole_adaptau.core.epoch_view import EpochView
from recbole_adaptau.errors import OptionError
from recbole_adaptau.recipe import item_regression
from recbole_adaptau.recipe.item_regression import RegressionScores, neighbour_weights
from tests.helpers import build, interactions, trainer_of


def random_matrix(seed: int = 3, users: int = 30, items: int = 12, density: float = 0.4) -> np.ndarray:
    return (np.random.default_rng(seed).random((users, items)) < density).astype(float)


def regressed(matrix: np.ndarray, number: int) -> np.ndarray:
    """Row i: the least squares of item i's column on those of its neighbours, the penalty as further observations."""
    root = np.maximum(matrix.sum(1), 1)[:, None] ** -0.25
    columns = matrix * root
    squares = (columns**2).sum(0)
    weights = np.zeros((matrix.shape[1],) * 2)
    for item in range(matrix.shape[1]):
        cosines = columns.T @ columns[:, item] / np.sqrt(squares * squares[item])
        cosines[item] = -1
        near = [other for other in np.argsort(-cosines)[:number] if other != item and cosines[other] > 0]
        inputs = np.vstack([columns[:, near], np.sqrt(squares.mean()) * np.eye(len(near))])
        target = np.append(columns[:, item], np.zeros(len(near)))
        weights[item, near] = np.linalg.lstsq(inputs, target, rcond=None)[0]
    return weights


@pytest.mark.parametrize("number", [1, 4, 11, 100])
@pytest.mark.parametrize("table_items", [item_regression.TABLE_ITEMS, 0])
def test_weights_are_those_of_least_squares(monkeypatch, number, table_items):
    monkeypatch.setattr(item_regression, "TABLE_ITEMS", table_items)
    monkeypatch.setattr(item_regression, "ITEMS_AT_ONCE", 5)
    matrix = random_matrix()
    weights = neighbour_weights(interactions(matrix), number).toarray()
    assert not weights[0].any() and not weights[:, 0].any()  # padding
    np.testing.assert_allclose(weights[1:, 1:], regressed(matrix, number), atol=1e-6)
    assert (np.count_nonzero(weights[1:], axis=1) <= number).all()


def test_an_item_nobody_or_only_one_has_says_nothing_wrong():
    """Item 3 is nobody's, item 4 is the only one of its user: neither has neighbours."""
    matrix = np.array([[1, 1, 0, 0], [1, 1, 0, 0], [1, 0, 0, 0], [0, 0, 0, 1]])
    weights = neighbour_weights(interactions(matrix), 5).toarray()
    assert np.count_nonzero(weights) == 2 and weights[1, 2] > 0 and weights[2, 1] > 0


@settings(max_examples=50, deadline=None)
@given(st.integers(0, 2**31), st.integers(1, 8), st.integers(2, 8), st.floats(0.05, 1.0), st.integers(1, 9))
def test_any_data_gives_finite_weights_that_the_order_of_items_does_not_change(seed, users, items, density, number):
    matrix = random_matrix(seed, users, items, density)
    matrix[0, 0] = 1
    weights = neighbour_weights(interactions(matrix), number).toarray()
    assert np.isfinite(weights).all() and not np.diag(weights).any()
    assert (np.count_nonzero(weights, axis=1) <= number).all()
    if number >= items - 1:  # with fewer, those equally like it are chosen by their order
        turned = neighbour_weights(interactions(matrix[:, ::-1]), number).toarray()
        np.testing.assert_allclose(turned[1:, 1:][::-1, ::-1], weights[1:, 1:], atol=1e-6)


def test_ranking_adds_the_regression_of_all_positives_those_held_out_among_them():
    matrix = random_matrix()
    free = [(user, int(np.flatnonzero(matrix[user] == 0)[0])) for user in (3, 3 + 4, 20)]
    whole = matrix.copy()
    whole[tuple(np.array(free).T)] = 1
    part = item_regression.ItemRegression(
        interactions(matrix), item_regression.ItemRegression.Settings(item_neighbours=4)
    )
    part.held_out = HeldOut(*(torch.tensor(free).T + 1), 13)
    weight, found = part.pair_scores()
    users, scales = torch.tensor([4, 8, 21, 1]), torch.tensor([2.0, 1.0, 0.5, -1.0])
    scores = torch.zeros(4, 13)
    found.add_to(scores, users, scales)
    expected = scales.double().unsqueeze(1) * torch.from_numpy(whole @ regressed(whole, 4).T)[users - 1]
    torch.testing.assert_close(scores[:, 1:].double(), expected, atol=1e-5, rtol=0)
    assert weight == 0.5 and part.interactions.matrix().sum() == matrix.sum()


@pytest.mark.parametrize("table_pairs", [item_regression.TABLE_PAIRS, 0])
def test_all_ways_to_ask_agree(monkeypatch, table_pairs):
    monkeypatch.setattr(item_regression, "TABLE_PAIRS", table_pairs)
    monkeypatch.setattr(item_regression, "USERS_AT_ONCE", 3)
    matrix = random_matrix()
    found = RegressionScores(interactions(matrix), 4)
    truth = matrix @ regressed(matrix, 4).T
    users, scales = torch.tensor([7, 1, 7, 30]), torch.tensor([2.0, 1.0, 0.5, -1.0])
    scores = torch.ones(4, 13)
    found.add_to(scores, users, scales)
    expected = 1 + scales.double().unsqueeze(1) * torch.from_numpy(truth)[users - 1]
    torch.testing.assert_close(scores[:, 1:].double(), expected, atol=1e-5, rtol=0)
    assert scores[:, 0].tolist() == [1.0] * 4
    items = torch.tensor([1, 5, 12, 3])
    torch.testing.assert_close(found.of_pairs(users, items).double(), torch.from_numpy(truth)[users - 1, items - 1])


@pytest.mark.parametrize("model", ["AdapTauMF", "AdapTauLightGCN"])
def test_neighbours_alone_find_the_held_out_items(board, model):
    """On the checkerboard, with embeddings that know nothing: each user misses two items of its colour."""
    recall = {}
    for recipe in ("item_regression", "none"):
        weight = {} if recipe == "none" else {"item_neighbours": 10, "regression_weight": 100.0}
        built = build(model, {**board, "recipe": recipe, **weight})
        trainer = trainer_of(built)
        trainer.eval_collector.data_collect(built.train)
        recall[recipe] = trainer.evaluate(built.valid, load_best_model=False)["recall@2"]
    assert recall["item_regression"] == 1 and recall["none"] < 0.9


def test_training_does_not_see_them(board):
    """They belong to ranking: the loss of a batch is the same with and without."""
    losses = []
    for recipe in ("none", "item_regression"):
        built = build("AdapTauMF", {**board, "recipe": recipe})
        built.model.begin_epoch(0)
        torch.manual_seed(1)
        losses.append(built.model.calculate_loss(next(iter(built.train))).item())
        assert all("scores" not in vars(part) for part in built.model.parts), "not computed while training"
    assert losses[0] == losses[1]


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"item_neighbours": 0}, "item_neighbours = 0: must be a whole number of at least 1"),
        ({"item_neighbours": 2.5}, "item_neighbours = 2.5: must be a whole number"),
        ({"regression_weight": -0.5}, "regression_weight = -0.5: must be a number at least 0.0"),
    ],
)
def test_wrong_settings_are_named(board, wrong, message):
    with pytest.raises(OptionError, match=message):
        build("AdapTauMF", {**board, "recipe": "item_regression", **wrong})


def calibrated(board, **changes):
    settings = {**board, "recipe": ["item_regression", "popularity_prior"], "epochs": 8, **changes}
    built = build("AdapTauMF", {"tau_strategy": "calibrated", "held_out_share": 0.2, "learning_rate": 0.02, **settings})
    trainer_of(built).fit(built.train, built.valid, saved=False)
    return built.model


def test_the_weight_is_the_setting_without_held_out_positives_and_stays_once_they_are_trained_on(board):
    assert calibrated(board, held_out_share=0.02).parts[0].weight == 0.5
    model = calibrated(board)
    weight = model.parts[0].weight.item()
    assert weight > 0.5, "the blocks of the board are exactly what the regression predicts"
    model.begin_epoch(7)
    assert model.parts[0].weight.item() == weight
    assert calibrated(board, regression_weight=0.0).parts[0].weight == 0.0


def by_hand(matrix, tables, pairs, prior, tau):
    """The weight that `calibrate` must choose, by counting in float64 each user's better items."""
    h = matrix @ regressed(matrix, 4).T
    f = (tables[0].double() @ tables[1].double().T).numpy()[1:, 1:]
    gains = {}
    for weight in (0.0, 0.125, 0.25, 0.5, 1.0, 2.0, 4.0):
        scores = (f + weight * h) / tau + prior.double().numpy()[1:]
        above = [sum(scores[u, j] > scores[u, i] for j in np.flatnonzero(matrix[u] == 0)) for u, i in pairs]
        gains[weight] = 1 / np.log2(2 + np.array(above))
    best = max(gains, key=lambda weight: gains[weight].mean())
    lead = gains[best] - gains[0.5]
    return best if lead.mean() > lead.std() / len(pairs) ** 0.5 else 0.5


@pytest.mark.parametrize("seed", range(12))
def test_the_weight_is_the_one_that_ranks_held_out_positives_best_if_surely(seed):
    """Positives that h likes and f does not, or the reverse, in shares from 0 to 1: against counting by hand."""
    matrix = random_matrix()
    data = interactions(matrix)
    part = item_regression.ItemRegression(data, item_regression.ItemRegression.Settings(item_neighbours=4))
    g = torch.Generator().manual_seed(seed)
    tables = torch.randn(31, 3, generator=g) / 2, torch.randn(13, 3, generator=g) / 2
    h = matrix @ regressed(matrix, 4).T
    free = []
    for user in range(30):
        unseen = np.flatnonzero(matrix[user] == 0)
        liked = h[user] if user < 30 * seed / 11 else (tables[0] @ tables[1].T).numpy()[user + 1, 1:]
        free.append((user, int(unseen[liked[unseen].argmax()])))
    who, what = torch.tensor(free).T + 1
    prior = torch.linspace(0, 1, 13)
    held = HeldOut(who, what, 13)
    want = by_hand(matrix, tables, free, prior, 0.8)
    for epoch in range(10):
        part.weight.fill_(7.0)
        part.calibrate(EpochView(epoch, lambda: tables, data, item_logits=prior, held_out=held), 0.8)
        assert part.weight.item() == (want if epoch % 4 == 1 else 7.0), "every fourth epoch"
    assert 0 < seed < 11 or (want > 0.5) == (seed == 11)
    part.weight.fill_(7.0)
    held.returned = True
    part.calibrate(EpochView(1, lambda: tables, data, item_logits=prior, held_out=held), 0.8)
    part.calibrate(EpochView(1, lambda: tables, data, item_logits=prior), 0.8)
    assert part.weight.item() == 7.0, "neither once they are trained on nor without any"
    assert "_without_held_out" not in vars(part), "a regression that nobody asks for any more takes no memory"


@pytest.mark.parametrize("start", [0, 20, 40])
def test_the_weight_is_chosen_as_if_nobody_had_the_positives_held_out(start):
    """The regression of the other positives alone ranks them, and the training positives are no rivals: as by hand."""
    chosen = set()
    for seed in range(start, start + 20):
        g = np.random.default_rng(seed)
        matrix = (g.random((30, 12)) < g.random((30, 1)) * 0.8).astype(float)
        matrix[:, g.integers(12)] = 0  # nobody has everything
        matrix[g.integers(30), :] = 0
        matrix[np.arange(12), np.arange(12)] = 1
        data = interactions(matrix)
        h = matrix @ regressed(matrix, 4).T
        tables = tuple(torch.from_numpy(g.normal(size=(rows, 3)) / 2) for rows in (31, 13))
        free = []
        for user in range(30):
            unseen = np.flatnonzero(matrix[user] == 0)
            order = unseen[np.argsort(-h[user][unseen] - g.normal(size=len(unseen)) * 0.1)]
            free.append((user, int(order[0] if g.random() < 0.5 else g.choice(unseen))))
        held = HeldOut(*(torch.tensor(free).T + 1), 13)
        part = item_regression.ItemRegression(data, item_regression.ItemRegression.Settings(item_neighbours=4))
        part.held_out = held
        part.calibrate(EpochView(1, lambda t=tables: t, data, held_out=held), 0.8)
        chosen.add(part.weight.item())
        assert part.weight.item() == by_hand(matrix, tables, free, torch.zeros(13), 0.8), seed
    assert len(chosen) > 1


def test_the_gain_of_a_rank_is_its_discount_and_ties_are_in_the_targets_favour():
    scores = torch.tensor([[3.0, 1.0, 2.0, 0.0], [1.0, 1.0, 0.0, 1.0], [0.0, 5.0, 5.0, 7.0]])
    gains = item_regression._gains(scores, torch.tensor([1, 3, 0]))
    assert gains.dtype == torch.float64
    assert gains.tolist() == [1 / np.log2(4), 1.0, 1 / np.log2(5)]


def test_a_weight_moves_only_by_more_than_a_standard_error():
    """Gains of 0 and d beside the default: of the differences' standard error over the square root of their number."""
    surest = item_regression.surest
    zeros = torch.zeros(2, dtype=torch.float64)
    for low, high, moved in ((-0.2, 1.8, True), (-0.35, 1.65, False), (1.0, 1.0, True)):  # errors .707, .707, 0
        differences = torch.tensor([low, high], dtype=torch.float64)
        assert surest(torch.stack([zeros, differences]), 0) == int(moved)
    assert surest(torch.ones(5, 7), 3) == 3, "all alike"
    assert surest(torch.tensor([[0.1], [0.2], [0.0]]), 0) == 1, "one positive has no spread"


def test_neighbours_are_chosen_by_cosine_also_among_rare_items():
    """Items of one or two very active users have columns shorter than 1."""
    matrix = np.zeros((6, 30))
    matrix[0, :] = 1
    matrix[1, 1:] = matrix[2, :25] = 1
    matrix[3, [0, 2]] = matrix[4, [0, 2, 3]] = matrix[5, [0, 2, 5, 7]] = 1
    columns = matrix / np.maximum(matrix.sum(1), 1)[:, None] ** 0.25
    squares = (columns**2).sum(0)
    assert squares.min() < 1 < squares.max()
    weights = neighbour_weights(interactions(matrix), 3).toarray()[1:, 1:]
    cosines = columns.T @ columns / np.sqrt(np.outer(squares, squares))
    np.fill_diagonal(cosines, -1)
    for item in range(30):
        least = np.sort(cosines[item])[-3]
        chosen = np.flatnonzero(weights[item])
        assert len(chosen) == 3 and cosines[item, chosen].min() >= least - 1e-9


def test_the_table_of_all_pairs_is_kept_up_to_its_bound(monkeypatch):
    data = interactions(random_matrix())
    for bound, kept in ((31 * 13, True), (31 * 13 - 1, False)):
        monkeypatch.setattr(item_regression, "TABLE_PAIRS", bound)
        assert (RegressionScores(data, 4)._table is not None) == kept


@pytest.mark.parametrize("seen", [True, False])
def test_a_bar_is_shown_only_where_somebody_looks_and_only_for_long_work(monkeypatch, seen):
    monkeypatch.setattr("sys.stderr.isatty", lambda: seen, raising=False)
    made = []
    monkeypatch.setattr(item_regression, "tqdm", lambda *given, **named: made.append((given, named)) or given[0])
    items = [1, 2, 3]
    assert item_regression._with_bar(items, 3) == items
    assert made == ([((items, "neighbours", 3), {"unit": " items", "delay": 2, "leave": False})] if seen else [])
