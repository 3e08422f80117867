"""Every closed form against a float64 brute force over all pairs, or against solving its equation numerically."""

import math

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import brentq, minimize_scalar

from recbole_adaptau.core.closed_form import (
    all_pair_moments,
    expected_gradient,
    global_tau,
    log_odds,
    positive_moments,
    positive_sums,
    quantile,
    user_taus,
)


def unit_rows(rng, n, d):
    x = rng.normal(size=(n, d)) + 0.3
    return torch.from_numpy(x / np.linalg.norm(x, axis=1, keepdims=True))


@settings(deadline=None, max_examples=30)
@given(st.integers(1, 12), st.integers(1, 12), st.integers(1, 6), st.integers(0, 2**32 - 1))
def test_moments_equal_brute_force_over_all_pairs(n, m, d, seed):
    rng = np.random.default_rng(seed)
    users, items = unit_rows(rng, n, d), unit_rows(rng, m, d)
    scores = [float(u @ i) for u in users for i in items]
    mu, variance = all_pair_moments(users, items)
    assert mu == pytest.approx(np.mean(scores), abs=1e-12)
    assert variance == pytest.approx(np.var(scores), abs=1e-12)
    pairs = np.unique(rng.integers(0, [n, m], size=(9, 2)), axis=0)
    positive = [float(users[u] @ items[i]) for u, i in pairs]
    u, i = torch.from_numpy(pairs).T
    mu_plus, variance_plus = positive_moments(users, items, u, i, chunk=4)
    assert mu_plus == pytest.approx(np.mean(positive), abs=1e-12)
    assert variance_plus == pytest.approx(np.var(positive), abs=1e-12)
    indptr = torch.from_numpy(np.searchsorted(pairs[:, 0], np.arange(n + 1)))
    sums = positive_sums(users, items, indptr, i)
    assert positive_sums(users.float(), items.float(), indptr, i).dtype == torch.float64
    for user in range(n):
        own = [score for (u, _), score in zip(pairs, positive, strict=True) if u == user]
        assert sums[user].item() == pytest.approx(sum(own), abs=1e-12)


@pytest.mark.parametrize(
    ("n", "m", "positives", "variance_gap", "full", "simple"),
    [
        # The paper's appendix table: sigma+² - sigma², tau_0 by the full form, tau_0 by the simplified one.
        (31668, 38048, 1237259, -0.004362, 0.095602, 0.099263),
        (52643, 91599, 2380730, -0.001356, 0.078836, 0.079994),
        (29858, 40981, 810128, -0.001148, 0.094281, 0.095187),
    ],
    ids=["yelp2018", "amazon-book", "gowalla"],
)
def test_both_forms_give_the_papers_table(n, m, positives, variance_gap, full, simple):
    log_ratio = log_odds(n, m, positives)
    gap = simple * log_ratio
    assert global_tau(gap, log_ratio, 0.01, 1.0) == pytest.approx(simple)
    assert global_tau(gap, log_ratio, 0.01, 1.0, variance_gap) == pytest.approx(full, rel=0.002)


def test_the_papers_movielens_row_belongs_to_another_density():
    """Its two tau_0 agree at log(nm / 2|D|) = 6.91, not at ML-1M's 2.44, so it cannot check anything of ours."""
    simple, full, variance_gap = 0.156905, 0.148159, -0.017910
    log_ratio = brentq(lambda x: global_tau(simple * x, x, 0.01, 1.0, variance_gap) - full, 3.0, 20.0)
    assert log_ratio == pytest.approx(6.91, abs=0.01)
    assert log_odds(6022, 3043, 796244) == pytest.approx(2.44, abs=0.01)


def test_full_form_is_the_papers_quotient():
    gap, log_ratio, d = 0.6, 6.2, -0.004
    quotient = d / (-gap + math.sqrt(gap**2 + 2 * d * log_ratio))
    assert global_tau(gap, log_ratio, 1e-6, 10.0, d) == pytest.approx(quotient, rel=1e-9)


@settings(deadline=None)
@given(st.floats(0.05, 1.5), st.floats(0.1, 10), st.floats(-0.2, 0.2))
def test_full_form_solves_its_equation_or_comes_closest(gap, log_ratio, d):
    """gap x + d x² / 2 = log_ratio with x = 1 / tau; the first positive root, else the vertex."""
    tau = global_tau(gap, log_ratio, 1e-9, 1e9, d)

    def excess(x):
        return gap * x + d * x * x / 2 - log_ratio

    if gap**2 + 2 * d * log_ratio > 1e-9:
        assert abs(excess(1 / tau)) < 1e-6 * (1 + log_ratio + gap / tau)
        assert all(excess(x) < 1e-9 for x in np.linspace(0, 0.999 / tau, 20))
    elif gap**2 + 2 * d * log_ratio < 0:
        best = minimize_scalar(lambda x: -excess(x), bounds=(0, 100 * gap / -d), method="bounded").x
        assert 1 / tau == pytest.approx(best, rel=1e-3)


def test_lemma_3_holds_where_its_approximation_does():
    """On Gaussian scores, at tau_0 the positives weigh half as much as E[b_u] ~ m exp(mu / tau + sigma² / 2 tau²)."""
    rng = np.random.default_rng(1)
    n, m, positives_each = 300, 4000, 20
    scores = rng.normal(0.0, 0.03, size=(n, m))
    scores[:, :positives_each] += rng.normal(0.6, 0.05, size=(n, positives_each))
    positive, rest = scores[:, :positives_each], scores[:, positives_each:]
    gap, variance_gap = positive.mean() - rest.mean(), positive.var() - rest.var()
    tau = global_tau(gap, log_odds(n, m, n * positives_each), 0.01, 1.0, variance_gap)
    share = np.exp(positive / tau).sum(1).mean() / (m * np.exp(rest / tau).mean())
    assert share == pytest.approx(0.5, rel=0.02)


def test_bounds_and_dense_data():
    assert global_tau(0.5, 0.0, 0.02, 0.9) == 0.9, "denser than one half: the upper bound"
    assert global_tau(0.5, -1.0, 0.02, 0.9) == 0.9
    assert global_tau(-0.1, 3.0, 0.02, 0.9) == 0.02, "no gap: the lower bound"
    assert global_tau(1e-6, 3.0, 0.02, 0.9) == 0.02
    assert global_tau(5.0, 1.0, 0.02, 0.9) == 0.9


@settings(deadline=None, max_examples=60)
@given(st.floats(0.02, 1.0), st.floats(-5, 8), st.floats(0.1, 4))
def test_user_tau_minimises_the_superloss(tau_0, excess, beta):
    """J(tau_u) = tau_0 (L - m) / tau_u + beta (log tau_u - log tau_0)², solved numerically in x = log(tau_u / tau_0).

    That is the paper's superloss with its first term in units of tau_0, which its closed form leaves out.
    """
    tau = user_taus(tau_0, np.array([excess]), 0.0, beta, 1e-9, 1e9)[0]
    x = math.log(tau / tau_0)
    if excess / (2 * beta) >= -1 / math.e:
        slope = -excess * math.exp(-x) + 2 * beta * x
        assert abs(slope) < 1e-6 * (1 + abs(excess) * math.exp(-x))
        if excess > 0:
            found = minimize_scalar(lambda y: excess * math.exp(-y) + beta * y * y, bounds=(-1, 10), method="bounded")
            assert x == pytest.approx(found.x, abs=1e-4)
    else:
        assert tau == pytest.approx(tau_0 / math.e, rel=1e-6), "clamped at the branch point of W"


@settings(deadline=None, max_examples=60)
@given(st.lists(st.floats(-1e6, 1e6), min_size=1, max_size=20), st.floats(0.02, 1), st.floats(1e-3, 1e3))
def test_user_taus_are_finite_bounded_and_rise_with_the_loss(losses, tau_0, beta):
    losses = np.sort(np.array(losses))
    tau = user_taus(tau_0, losses, float(losses.mean()), beta, 0.02, 1.0)
    assert np.isfinite(tau).all() and (tau >= 0.02).all() and (tau <= 1.0).all()
    assert (np.diff(tau) >= -1e-12).all()


def test_equal_losses_give_everybody_tau_0():
    assert user_taus(0.13, np.full(7, 3.3), 3.3, 1.0, 0.02, 1.0) == pytest.approx(np.full(7, 0.13))


def test_branch_point_itself_is_minus_one():
    tau = user_taus(0.5, np.array([-2 / math.e, -2 / math.e - 1e-12, -2 / math.e + 1e-12]), 0.0, 1.0, 0.02, 1.0)
    assert tau == pytest.approx(np.full(3, 0.5 / math.e), rel=1e-4)


def test_expected_gradient_equals_the_derivative():
    """Against autograd of the paper's loss, -sum over positives of p (no log), averaged over items."""
    torch.manual_seed(0)
    scores = torch.randn(3, 11, dtype=torch.float64, requires_grad=True)
    positive = torch.rand(3, 11) < 0.3
    positive[:, 0] = True
    tau = torch.tensor([0.2, 0.5, 1.0], dtype=torch.float64)
    loss = -(torch.softmax(scores / tau[:, None], 1) * positive).sum()
    (gradient,) = torch.autograd.grad(loss, scores)
    mass = (torch.softmax(scores.detach() / tau[:, None], 1) * positive).sum(1)
    assert torch.allclose(expected_gradient(mass, tau, 11), gradient.abs().mean(1))


def test_quantiles_of_more_values_than_torch_takes():
    values = torch.zeros(2**24 + 1, dtype=torch.uint8)
    values[-(2**23) :] = 1
    assert quantile(values, 0.25) == 0 and quantile(values, 0.75) == 1
    few = torch.tensor([3, 1, 2, 10])
    assert quantile(few, 0.3) == pytest.approx(torch.quantile(few.double(), 0.3).item())


def test_a_small_variance_beside_a_large_mean_is_not_rounded_away():
    """Scores of float32 about 100, added up and squared in float64."""
    items = 100 + 0.05 * torch.randn(5000, 1, generator=torch.Generator().manual_seed(0))
    users, every = torch.ones(1, 1), torch.arange(5000)
    scores = items.double().numpy()
    mean, variance = positive_moments(users, items, torch.zeros(5000, dtype=torch.long), every)
    assert (mean, variance) == pytest.approx((scores.mean(), scores.var()), rel=1e-6)
    assert all_pair_moments(users, items) == pytest.approx((scores.mean(), scores.var()), rel=1e-6)


def test_no_gap_at_all_gives_the_lower_bound_in_both_forms():
    assert global_tau(0.0, 2.0, 0.03, 1.0) == global_tau(0.0, 2.0, 0.03, 1.0, variance_gap=0.1) == 0.03
