"""The numerical search for tau and the paired test, against brute force."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from recbole_adaptau.core.epoch_view import EpochView
from recbole_adaptau.core.interactions import Interactions
from recbole_adaptau.errors import DataError
from recbole_adaptau.reporting import best_tau, half_mass_tau
from recbole_adaptau.reporting import gradient as gradient_module
from recbole_adaptau.reporting.analysis import rank_correlation
from recbole_adaptau.reporting.figures import tenths
from recbole_adaptau.reporting.gradient import chosen_users, gradient, masses, sampled_gradient, score_deviations
from recbole_adaptau.runs.significance import compare


def planted(seed, users=30, items=60, each=2):
    """Unit embeddings in which a user's positives lie nearer than the rest."""
    rng = np.random.default_rng(seed)
    item = rng.normal(size=(items + 1, 16))
    rows, columns, user = [], [], np.zeros((users + 1, 16))
    for u in range(1, users + 1):
        own = rng.choice(np.arange(1, items + 1), each, replace=False)
        rows += [u] * each
        columns += own.tolist()
        user[u] = item[own].mean(0) + rng.normal(size=16) * 0.1
    unit = [torch.nn.functional.normalize(torch.tensor(side, dtype=torch.float32)) for side in (user, item)]
    data = Interactions(np.array(rows), np.array(columns), users + 1, items + 1)
    return EpochView(0, lambda: (unit[0], unit[1]), data)


def brute_masses(view, tau):
    users, items = (side.double().numpy() for side in view.embeddings)
    found = []
    for user in view.interactions.active_users.tolist():
        weights = np.exp(items[1:] @ users[user] / tau)
        own = view.interactions.items[view.interactions.users == user].numpy()
        found.append(weights[own - 1].sum() / weights.sum())
    return np.array(found)


@settings(max_examples=15, deadline=None)
@given(st.integers(0, 1000), st.floats(0.03, 1.5))
def test_masses_gradient_and_bound(seed, tau):
    view = planted(seed)
    expected = brute_masses(view, tau)
    users = chosen_users(view)
    assert masses(view, users, tau).numpy() == pytest.approx(expected, rel=1e-3, abs=1e-6)
    found = gradient(view, tau, users)
    m = view.interactions.n_real_items
    assert found["exact"] == pytest.approx((2 / (m * tau) * expected * (1 - expected)).mean(), rel=1e-3, abs=1e-7)
    assert found["exact"] <= found["bound"] * (1 + 1e-6) + 1e-12  # Jensen


@settings(max_examples=15, deadline=None)
@given(st.integers(0, 1000), st.floats(0.02, 1.5), st.sampled_from([3, 7, 1024]))
def test_the_gradient_of_a_row_of_training(seed, tau, drawn):
    view = planted(seed)
    users, items = (side.double() for side in view.embeddings)
    data, chosen = view.interactions, chosen_users(view)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(gradient_module, "SAMPLED", drawn)
        found = sampled_gradient(view, tau, chosen)
    generator = torch.Generator().manual_seed(0)
    shares = torch.rand(len(chosen), generator=generator)
    others = (torch.randperm(data.n_real_items, generator=generator)[:drawn] + 1).tolist()
    expected = []
    for user, share in zip(chosen.tolist(), shares.tolist(), strict=True):
        own = data.items[data.users == user].tolist()
        positive = own[int(share * len(own))]
        row = [positive, *(item for item in others if item != positive)]
        weights = np.exp((items[row] @ users[user]).numpy() / tau)
        expected.append(weights[0] / weights.sum())
    mass = np.array(expected)
    assert found["sampled_mass"] == pytest.approx(mass.mean(), rel=1e-3)
    assert found["sampled"] == pytest.approx((2 / ((1 + len(others)) * tau) * mass * (1 - mass)).mean(), rel=1e-3)


def test_deviations_of_scores():
    view = planted(5)
    users, items = (side.double() for side in view.embeddings)
    data = view.interactions
    scores = users[1:] @ items[1:].T
    found = score_deviations(view)
    assert found["sigma"] == pytest.approx(scores[data.active_users - 1].std(correction=0).item(), rel=1e-6)
    positive = (users[data.users] * items[data.items]).sum(1)
    assert found["sigma_positive"] == pytest.approx(positive.std(correction=0).item(), rel=1e-5)


@settings(max_examples=4, deadline=None)
@given(st.integers(0, 1000))
def test_half_mass_and_peak_are_what_they_say(seed):
    view = planted(seed)
    tau = half_mass_tau(view)
    assert tau is not None and brute_masses(view, tau).mean() == pytest.approx(0.5, abs=1e-3)
    for larger in np.geomspace(1.02 * tau, 2.0, 20):  # the largest such tau
        assert brute_masses(view, larger).mean() < 0.5
    best = best_tau(view)
    m, at_best = view.interactions.n_real_items, brute_masses(view, best)
    peak = (2 / (m * best) * at_best * (1 - at_best)).mean()
    for other in np.geomspace(0.01, 2.0, 60):
        mass = brute_masses(view, other)
        assert (2 / (m * other) * mass * (1 - mass)).mean() <= peak * 1.002


def test_data_without_a_half_mass_temperature():
    view = planted(3, users=5, items=6, each=5)  # five of six items: always more than half
    assert half_mass_tau(view) is None


def test_only_some_users_are_chosen_and_they_are_spread():
    view = planted(1)
    assert chosen_users(view, 3).tolist() == [1, 15, 30] and len(chosen_users(view)) == 30


def test_tenths_are_equally_many_in_order():
    values = np.arange(25)[::-1]
    places, parts = tenths(values, values / 100)
    assert len(parts) == 10 and {len(part) for part in parts} == {2, 3}
    assert np.sort(np.concatenate(parts)).tolist() == (np.arange(25) / 100).tolist() and float(places[0]) == 1.0


@settings(max_examples=30, deadline=None)
@given(st.integers(0, 10**6), st.integers(5, 300), st.floats(-1, 1))
def test_a_paired_test_is_antisymmetric_and_its_interval_agrees_with_it(seed, number, shift):
    apart = np.random.default_rng(seed).normal(size=number) + shift
    there, back = compare(apart, "m"), compare(-apart, "m")
    assert there.difference == pytest.approx(-back.difference) and there.low == pytest.approx(-back.high)
    assert there.p == pytest.approx(back.p) and there.p_wilcoxon == pytest.approx(back.p_wilcoxon)
    assert (there.better, there.worse) == (back.worse, back.better)
    assert (there.low > 0 or there.high < 0) == (there.p < 0.05)


def test_a_random_sign_flip_agrees_with_the_p_value():
    rng = np.random.default_rng(5)
    apart = rng.normal(size=60) + 0.2
    flipped = np.abs((rng.choice([-1, 1], size=(20000, 60)) * apart).mean(1))
    assert compare(apart, "m").p == pytest.approx((flipped >= abs(apart.mean())).mean(), abs=0.01)


def test_extreme_pairs():
    same = compare(np.zeros(3), "m")
    assert (same.p, same.p_wilcoxon, same.difference, same.better) == (1, 1, 0, 0)
    with pytest.raises(DataError, match="at least two users in common; there are 1"):
        compare(np.ones(1), "m")


def test_a_rank_correlation_with_something_constant_is_none():
    rising = np.arange(5.0)
    assert rank_correlation(rising, rising**3) == pytest.approx(1) and rank_correlation(rising, np.ones(5)) is None
