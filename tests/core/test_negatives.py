"""Which items become negatives, how often, and which scores are left out."""

import math

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from recbole_adaptau.core.candidates import rows_of_negatives
from recbole_adaptau.core.interactions import Interactions
from recbole_adaptau.core.negatives import NEGATIVES
from recbole_adaptau.errors import OptionError

N_USERS, N_ITEMS = 6, 9  # the padding included


def make(data, mode, number=4, distribution="uniform", alpha=1.0, mask_hits=False, correct=False, **more):
    """A mode with those of the settings that it reads."""
    values = dict(
        num_negatives=number, negative_distribution=distribution, negative_alpha=alpha, mask_hits=mask_hits,
        logq_correction=correct, **more,
    )  # fmt: skip
    settings = NEGATIVES[mode].Settings
    return NEGATIVES[mode](data, settings.read({**settings.defaults(), **values}))


def planted(seed=0):
    rng = np.random.default_rng(seed)
    pairs = {(int(rng.integers(1, N_USERS)), int(rng.integers(1, N_ITEMS))) for _ in range(14)}
    users, items = np.array(sorted(pairs)).T
    return Interactions(users, items, N_USERS, N_ITEMS), pairs


def test_interactions_drop_duplicates_and_group_by_user():
    data = Interactions(np.array([2, 1, 2, 2]), np.array([3, 1, 3, 1]), 4, 5)
    assert list(zip(data.users.tolist(), data.items.tolist(), strict=True)) == [(1, 1), (2, 1), (2, 3)]
    assert data.user_counts.tolist() == [0, 1, 2, 0]
    assert data.item_counts.tolist() == [0, 2, 0, 1, 0]
    assert data.active_users.tolist() == [1, 2] and data.n_active_users == 2 and data.n_real_items == 4
    assert data.indptr.tolist() == [0, 0, 1, 3, 3] and len(data) == 3
    assert data.matrix().toarray().tolist() == [[0] * 5, [0, 1, 0, 0, 0], [0, 1, 0, 1, 0], [0] * 5]
    rows, items = data.positives_of(torch.tensor([2, 3, 1, 2]))
    assert list(zip(rows.tolist(), items.tolist(), strict=True)) == [(0, 1), (0, 3), (2, 1), (3, 1), (3, 3)]


@settings(deadline=None, max_examples=40)
@given(
    st.integers(0, 10_000),
    st.sampled_from(["shared", "in_batch", "full"]),
    st.sampled_from(["uniform", "popularity"]),
    st.booleans(),
)
def test_hits_are_exactly_the_scores_to_leave_out(seed, mode, distribution, mask_hits):
    data, pairs = planted(seed)
    torch.manual_seed(seed)
    negatives = make(data, mode, 4, distribution, mask_hits=mask_hits)
    order = torch.randperm(len(data))[:5]
    users, positives = data.users[order], data.items[order]
    drawn = negatives.draw(users, positives)
    items = drawn.items.tolist()
    assert len(set(items)) == len(items) and 0 not in items and max(items) < N_ITEMS
    want = {
        (row, column)
        for row, user in enumerate(users.tolist())
        for column, item in enumerate(items)
        if item == positives[row] or (mask_hits and (user, item) in pairs)
    }
    assert set(zip(*(part.tolist() for part in drawn.hits), strict=True)) == want
    if mode == "full":
        assert items == list(range(1, N_ITEMS))
    if mode == "in_batch":
        assert items == sorted(set(positives.tolist()))
        repeats = torch.exp(drawn.log_weight).round().long().tolist()
        assert dict(zip(items, repeats, strict=True)) == {i: positives.tolist().count(i) for i in items}


def test_uniform_draw_has_no_repeats_and_reaches_every_item():
    data, _ = planted()
    negatives = make(data, "shared", 3)
    torch.manual_seed(0)
    draws = torch.cat([negatives.draw(data.users[:1], data.items[:1]).items for _ in range(1500)])
    counts = torch.bincount(draws, minlength=N_ITEMS)
    assert counts[0] == 0
    assert counts[1:] / 1500 == pytest.approx(np.full(8, 3 / 8), abs=0.05)


def test_popularity_follows_training_counts_to_the_power_alpha():
    data = Interactions(np.array([1, 2, 3, 4, 1, 2]), np.array([1, 1, 1, 1, 2, 3]), 5, 6)
    negatives = make(data, "shared", 4, "popularity", alpha=0.5)
    torch.manual_seed(0)
    totals = torch.zeros(6)
    for _ in range(1500):
        drawn = negatives.draw(data.users[:1], data.items[:1])
        totals[drawn.items] += torch.exp(drawn.log_weight)
    assert totals / totals.sum() == pytest.approx([0, 0.5, 0.25, 0.25, 0, 0], abs=0.03)


@pytest.mark.parametrize("mode", ["shared", "in_batch"])
def test_correction_makes_the_expected_sum_uniform(mode):
    """E[Σ w_j g(j)] over draws, with w from the correction, is proportional to Σ_j g(j) over the drawable items."""
    data = Interactions(np.array([1, 2, 3, 4, 1, 2]), np.array([1, 1, 1, 1, 2, 3]), 5, 4)
    negatives = make(data, mode, 2, "popularity", correct=True)
    torch.manual_seed(0)
    weights = torch.zeros(4)
    for _ in range(1500):
        order = torch.randint(len(data), (3,))
        drawn = negatives.draw(data.users[order], data.items[order])
        weights[drawn.items] += torch.exp(drawn.log_weight)
    assert weights[1:] / weights.sum() == pytest.approx(np.full(3, 1 / 3), abs=0.05)


def test_a_catalogue_no_larger_than_the_draw_is_taken_whole():
    data, _ = planted()
    drawn = make(data, "shared", 1024, correct=True).draw(data.users[:2], data.items[:2])
    assert drawn.items.tolist() == list(range(1, N_ITEMS)) and drawn.log_weight is None


def test_popularity_is_drawn_and_corrected_on_a_small_catalogue_too():
    """More draws than items: repeats weigh more, items without a training positive are never drawn."""
    data = Interactions(np.array([1, 2, 3, 1]), np.array([1, 1, 1, 2]), 4, 6)
    negatives = make(data, "shared", 100, "popularity", correct=True)
    drawn = negatives.draw(data.users[:1], data.items[:1])
    assert set(drawn.items.tolist()) <= {1, 2}
    assert (drawn.log_weight < 10).all()


def test_a_batch_of_one_in_batch_has_no_negatives():
    data, _ = planted()
    drawn = make(data, "in_batch", 5).draw(data.users[:1], data.items[:1])
    assert drawn.hits[0].tolist() == [0] and drawn.hits[1].tolist() == [0] and len(drawn.items) == 1


def test_recboles_sample_major_negatives_become_rows():
    # Rows a, b, c with two negatives each: RecBole hands out a1 b1 c1 a2 b2 c2.
    assert rows_of_negatives(torch.tensor([1, 2, 3, 11, 12, 13]), 3).tolist() == [[1, 11], [2, 12], [3, 13]]


@pytest.mark.parametrize("point", [0.0, 1.0 - 2**-53])
def test_no_point_of_a_popularity_draw_is_the_padding_or_an_item_without_positives(monkeypatch, point):
    """Chance gives 0 itself once in 2^53 draws, and rounding may leave the last sum of shares below the point."""
    data = Interactions(np.array([1, 2, 3, 1]), np.array([2, 2, 2, 4]), 4, 7)
    negatives = make(data, "shared", 3, "popularity", alpha=0.3)
    monkeypatch.setattr(torch, "rand", lambda number, **how: torch.full((number,), point, **how))
    items, repeats = negatives.candidates(data.items[:1])
    assert items.tolist() == [2 if point == 0 else 4] and repeats.tolist() == [3]


@pytest.mark.parametrize(("mode", "alpha"), [("shared", 0.5), ("in_batch", 1.0)])
def test_the_correction_is_minus_the_log_of_q_times_the_number_of_items(mode, alpha):
    """So that items drawn alike are not corrected at all: the padding is not one of them."""
    data = Interactions(np.array([1, 2, 3, 4, 1, 2]), np.array([1, 1, 1, 1, 2, 3]), 5, 6)
    negatives = make(data, mode, 40, "popularity", alpha=alpha, correct=True)
    torch.manual_seed(0)
    drawn = negatives.draw(data.users, data.items)
    plain = make(data, mode, 40, "popularity", alpha=alpha)
    torch.manual_seed(0)
    without = plain.draw(data.users, data.items)
    assert drawn.items.tolist() == without.items.tolist() == [1, 2, 3]
    q = np.array([4.0, 1.0, 1.0]) ** alpha
    q /= q.sum()
    assert (drawn.log_weight - without.log_weight).tolist() == pytest.approx(-np.log(q * 5), rel=1e-5)


@pytest.mark.parametrize("mask_hits", [False, True])
def test_a_draw_leaves_nothing_behind_for_the_next(mask_hits):
    data = Interactions(np.array([1, 1, 2, 2]), np.array([1, 2, 3, 4]), 3, 9)
    negatives = make(data, "in_batch", mask_hits=mask_hits)
    negatives.draw(data.users[:2], data.items[:2])
    drawn = negatives.draw(data.users[2:], data.items[2:])
    want = {(0, 0), (0, 1), (1, 0), (1, 1)} if mask_hits else {(0, 0), (1, 1)}
    assert set(zip(*(part.tolist() for part in drawn.hits), strict=True)) == want
    again = negatives.draw(data.users[:1], data.items[2:3])  # user 1 with an item that it does not have
    assert again.hits[0].tolist() == ([] if mask_hits else [0])


def test_a_uniform_draw_deals_the_catalogue_out_and_begins_anew_with_an_epoch():
    data, _ = planted()
    negatives = make(data, "shared", 3)  # of eight: two draws to a shuffle
    torch.manual_seed(0)
    first, second = (negatives.candidates(data.items[:1])[0].tolist() for _ in range(2))
    assert not set(first) & set(second)
    torch.manual_seed(1)
    third = negatives.candidates(data.items[:1])[0].tolist()
    negatives.begin_epoch()
    torch.manual_seed(1)
    assert negatives.candidates(data.items[:1])[0].tolist() == third, "a new shuffle, whatever was left of the old"
    exact = make(data, "shared", 4)
    for seed in range(4):
        torch.manual_seed(seed)
        both = torch.cat([exact.candidates(data.items[:1])[0] for _ in range(2)])
        assert sorted(both.tolist()) == list(range(1, 9))


@pytest.mark.parametrize("correct", [False, True])
@pytest.mark.parametrize("mode", ["shared", "in_batch"])
def test_own_positives_count_alike_in_the_sum_and_in_the_scores(mode, correct):
    """In the batch as often as other rows have them, in a draw as often as they were drawn; with added logits."""
    data, _ = planted()
    torch.manual_seed(0)
    users, positives = data.users[[0, 3, 5, 7]], data.items[[0, 3, 0, 7]]
    negatives = make(data, mode, 30, "popularity", correct=correct, own_positive=True)
    drawn = negatives.draw(users, positives)
    times = dict(zip(drawn.items.tolist(), negatives.candidates(positives)[1].tolist(), strict=True))
    if mode == "shared":  # drawn anew by the line above
        times = torch.exp(drawn.log_weight - (negatives.log_correction[drawn.items] if correct else 0)).round()
        times = dict(zip(drawn.items.tolist(), times.long().tolist(), strict=True))
    u, every = (torch.randn(n, 3, dtype=torch.float64) for n in (4, N_ITEMS))
    tau, added = torch.tensor([0.5, 1.0, 2.0, 0.7]).double(), torch.linspace(-1, 1, N_ITEMS).double()
    q = negatives.probabilities() * (N_ITEMS - 1) if correct else torch.ones(N_ITEMS)
    for extra in (None, added):
        given = u, every[drawn.items], None if extra is None else extra[drawn.items]
        want = [
            sum(
                (count - (mode == "in_batch" and item == positives[row].item()))
                / q[item].item()
                * np.exp((u[row] @ every[item] / tau[row]).item() + (0.0 if extra is None else extra[item].item()))
                for item, count in times.items()
            )
            for row in range(4)
        ]
        assert torch.exp(drawn.logsumexp(*given)(tau)).tolist() == pytest.approx(want, rel=1e-5)
        scores, weight = drawn.scores(*given)
        assert torch.exp(scores / tau.unsqueeze(1) + weight).sum(1).tolist() == pytest.approx(want, rel=1e-5)


def test_an_item_without_a_training_positive_is_corrected_like_the_rarest():
    """It may be a positive that was held out and is trained on again."""
    data = Interactions(np.array([1, 2, 3, 1]), np.array([1, 1, 1, 2]), 4, 5)
    drawn = make(data, "in_batch", correct=True).draw(torch.tensor([1, 2, 3]), torch.tensor([1, 2, 4]))
    assert drawn.items.tolist() == [1, 2, 4]
    assert drawn.log_weight.tolist() == pytest.approx([-np.log(0.75 * 4), 0.0, 0.0], abs=1e-6)


def test_with_a_power_of_zero_items_with_a_positive_are_drawn_alike():
    data = Interactions(np.array([1, 2, 3, 1]), np.array([1, 1, 1, 3]), 4, 6)
    assert make(data, "shared", 9, "popularity", alpha=0.0).probabilities().tolist() == [0, 0.5, 0, 0.5, 0, 0]


VALUES = {
    "train_batch_size": 2,
    "train_neg_sample_args": {"distribution": "none"},
    "mask_hits": False,
    "own_positive": False,
}
SAMPLED = {"train_neg_sample_args": {"distribution": "uniform", "sample_num": 2}}


@pytest.mark.parametrize(
    ("mode", "changes", "said"),
    [
        ("shared", {}, None),
        ("shared", SAMPLED, "negatives = shared draws its own negatives"),
        ("full", {"mask_hits": True}, None),
        ("full", {"own_positive": True}, None),
        ("full", {"mask_hits": True, "own_positive": True}, "set one of them to False"),
        ("in_batch", {}, None),
        ("in_batch", {"train_batch_size": 1}, "train_batch_size of at least 2"),
        ("in_batch", SAMPLED, "negatives = in_batch draws its own negatives"),
        ("per_row", {}, "train_neg_sample_args is None"),
        ("per_row", SAMPLED, None),
    ],
)
def test_settings_that_contradict_a_mode_are_refused(mode, changes, said):
    if said is None:
        NEGATIVES[mode].refuse({**VALUES, **changes})
    else:
        with pytest.raises(OptionError, match=said):
            NEGATIVES[mode].refuse({**VALUES, **changes})


def test_what_a_uniform_draw_does_not_read():
    shared = NEGATIVES["shared"]
    assert shared.unread({"negative_distribution": "popularity"}) == {}
    assert set(shared.unread({"negative_distribution": "uniform"})) == {"negative_alpha", "logq_correction"}
    assert NEGATIVES["full"].unread({}) == {}


def test_a_positive_that_was_not_drawn_is_no_hit_from_the_first_draw_on():
    data = Interactions(np.array([1, 2]), np.array([1, 2]), 3, 9)
    negatives = make(data, "shared", 2)
    for seed in range(6):
        negatives.begin_epoch()
        torch.manual_seed(seed)
        drawn = negatives.draw(data.users, data.items)
        want = [(row, column) for row in (0, 1) for column, item in enumerate(drawn.items.tolist()) if item == row + 1]
        assert sorted(zip(*(part.tolist() for part in drawn.hits), strict=True)) == want


def test_a_draw_as_large_as_the_catalogue_is_the_catalogue_in_its_order():
    data, _ = planted()
    for number in (N_ITEMS - 1, N_ITEMS):
        assert make(data, "shared", number).candidates(data.items[:1])[0].tolist() == list(range(1, N_ITEMS))


def test_shares_that_round_to_less_than_one_draw_no_item_behind_the_last(monkeypatch):
    data = Interactions(np.array([1, 2, 3]), np.array([1, 2, 2]), 4, 3)
    negatives = make(data, "shared", 3, "popularity")
    negatives.cumulative *= 1 - 1e-9
    monkeypatch.setattr(torch, "rand", lambda number, **how: torch.full((number,), 1 - 1e-12, **how))
    assert negatives.candidates(data.items[:1])[0].tolist() == [2]


def test_by_default_a_positive_of_other_rows_too_does_not_count_again():
    data = Interactions(np.array([1, 2, 3]), np.array([1, 1, 2]), 4, 5)
    assert make(data, "in_batch").draw(data.users, data.items).again is None
    assert make(data, "in_batch", own_positive=True).draw(data.users, data.items).again is not None


@settings(deadline=None, max_examples=30)
@given(st.integers(0, 10_000), st.integers(1, 12), st.sampled_from(["uniform", "popularity"]))
def test_groups_of_rows_have_draws_of_their_own(seed, groups, distribution):
    """What `shared` would draw for each group alone, in their order, and no more groups than rows."""
    data, _ = planted(seed)
    order = torch.randperm(len(data), generator=torch.Generator().manual_seed(seed))[:7]
    users, positives = data.users[order], data.items[order]
    torch.manual_seed(seed)
    drawn = make(data, "shared", 3, distribution, negative_groups=groups).draw(users, positives)
    rows = [len(part) for part in users.split(math.ceil(7 / groups))]
    assert drawn.draws == len(rows) <= groups
    torch.manual_seed(seed)
    alone = make(data, "shared", 3, distribution)
    parts = [alone.draw(*part) for part in zip(users.split(rows), positives.split(rows), strict=True)]
    assert torch.equal(drawn.items, torch.cat([part.items for part in parts]))
    u, items, tau = torch.randn(7, 4), torch.randn(N_ITEMS, 4), torch.rand(7) + 0.2
    want = [
        part.logsumexp(of_users, items[part.items], None)(of_tau)
        for part, of_users, of_tau in zip(parts, u.split(rows), tau.split(rows), strict=True)
    ]
    assert torch.equal(drawn.logsumexp(u, items[drawn.items], None)(tau), torch.cat(want))


def test_sums_and_gradients_through_groups_are_those_of_the_scores():
    data, _ = planted()
    torch.manual_seed(1)
    drawn = make(data, "shared", 3, negative_groups=3).draw(data.users[:7], data.items[:7])
    u, items = torch.randn(7, 4, requires_grad=True), torch.randn(len(drawn.items), 4, requires_grad=True)
    tau = torch.rand(7) + 0.2
    scores, weight = drawn.scores(u, items, None)
    assert scores.shape == weight.shape == (7, 3)
    naive = torch.logsumexp(scores / tau[:, None] + weight, 1).sum()
    got = drawn.logsumexp(u, items, None)(tau).sum()
    torch.testing.assert_close(got, naive)
    for one, other in zip(torch.autograd.grad(got, (u, items)), torch.autograd.grad(naive, (u, items)), strict=True):
        torch.testing.assert_close(one, other, rtol=1e-4, atol=1e-5)
