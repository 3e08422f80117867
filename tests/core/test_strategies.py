"""Each strategy against its formula, on embeddings made up for the purpose."""

import math

import numpy as np
import pytest
import torch
from scipy.optimize import brentq

from recbole_adaptau.core import epoch_view as view
from recbole_adaptau.core.epoch_view import EpochView
from recbole_adaptau.core.interactions import Interactions
from recbole_adaptau.core.strategies import STRATEGIES
from recbole_adaptau.errors import OptionError

N_USERS, N_ITEMS = 6, 40


def solve_w(x):
    """The principal branch of w exp(w) = x, by bisection."""
    return -1.0 if x <= -1 / math.e else brentq(lambda w: w * math.exp(w) - x, -1.0, 20.0, xtol=1e-14)


def make(name, **changes):
    strategy = STRATEGIES[name]
    return strategy(N_USERS, 16, strategy.Settings(**changes))


def planted(separation=3.0, cold_user=False):
    """Users 1..5 (5 has no positive if cold_user) near their own items; padding rows hold poison."""
    rng = np.random.default_rng(0)
    users, items = rng.normal(size=(N_USERS, 16)), rng.normal(size=(N_ITEMS, 16))
    pairs = [(u, 7 * (u - 1) + k + 1) for u in range(1, N_USERS - cold_user) for k in range(2 + u % 2)]
    for u, i in pairs:
        items[i] += separation * users[u]
    users /= np.linalg.norm(users, axis=1, keepdims=True)
    items /= np.linalg.norm(items, axis=1, keepdims=True)
    users[0], items[0] = 1e6, -1e6
    return torch.from_numpy(users), torch.from_numpy(items), pairs


def view_of(users, items, pairs, epoch=1, min_user_count=0, added=None):
    u, i = np.array(pairs).T
    return EpochView(epoch, lambda: (users, items), Interactions(u, i, N_USERS, N_ITEMS), min_user_count, added)


@pytest.mark.parametrize("cold_user", [False, True])
@pytest.mark.parametrize("form", ["simplified", "with_variances"])
def test_tau_0_equals_brute_force_over_all_pairs_without_padding(form, cold_user):
    users, items, pairs = planted(cold_user=cold_user)
    active = sorted({u for u, _ in pairs})
    everything = np.array([[float(users[u] @ items[i]) for i in range(1, N_ITEMS)] for u in active])
    positive = np.array([float(users[u] @ items[i]) for u, i in pairs])
    gap, d = positive.mean() - everything.mean(), positive.var() - everything.var()
    ratio = math.log(len(active) * (N_ITEMS - 1) / (2 * len(pairs)))
    want = gap / ratio if form == "simplified" else d / (-gap + math.sqrt(gap**2 + 2 * d * ratio))
    strategy = make("adaptive", tau_form=form)
    strategy.begin_epoch(view_of(users, items, pairs))
    assert strategy.tau_0.item() == pytest.approx(want, rel=1e-5)
    assert 0.02 < want < 1.0


def test_only_users_above_the_quantile_count_when_asked():
    users, items, pairs = planted()
    counted = {1, 3, 5}  # those with three positives; the others have two
    everything = [float(users[u] @ items[i]) for u in counted for i in range(1, N_ITEMS)]
    positive = [float(users[u] @ items[i]) for u, i in pairs if u in counted]
    strategy = make("adaptive", tau_user_quantile=0.2)
    least = strategy.min_user_count(view_of(users, items, pairs).interactions)
    assert least == 2 and make("fixed").min_user_count(view_of(users, items, pairs).interactions) == 0
    view = view_of(users, items, pairs, min_user_count=least)
    assert view.gap == pytest.approx(np.mean(positive) - np.mean(everything), rel=1e-5)
    assert view.log_ratio == pytest.approx(math.log(3 * (N_ITEMS - 1) / (2 * len(positive))), rel=1e-6)


def test_the_authors_first_tau_0_on_gowalla():
    """Their log has 0.10894 while they assume a gap of 0.7: n and D of the 22,490 users with more than 10 positives.

    Of all 29,858 users and 810,128 positives it would be 0.1056.
    """
    counts = np.repeat([10, 33, 34], [7368, 22490 * 34 - 746347, 746347 - 22490 * 33])
    users = np.repeat(np.arange(1, len(counts) + 1), counts)
    items = np.concatenate([np.arange(1, count + 1) for count in counts])
    data = Interactions(users, items, len(counts) + 1, 40982)
    view = EpochView(0, lambda: (torch.empty(0), torch.empty(0)), data, min_user_count=10)
    assert 0.7 / view.log_ratio == pytest.approx(0.10894, abs=5e-6)


def test_gradient_magnitude_equals_brute_force():
    users, items, pairs = planted()
    view = view_of(users, items, pairs)
    want = []
    for u in range(1, N_USERS):
        scores = np.array([float(users[u] @ items[i]) for i in range(1, N_ITEMS)]) / 0.3
        p = np.exp(scores) / np.exp(scores).sum()
        mass = sum(p[i - 1] for v, i in pairs if v == u)
        want.append(2 / ((N_ITEMS - 1) * 0.3) * mass * (1 - mass))
    got = view.gradient_magnitude(lambda ids, _: torch.full((len(ids),), 0.3))
    assert got == pytest.approx(np.mean(want), rel=1e-4)


@pytest.mark.parametrize("balance", [0.5, 1.0])
def test_users_can_count_more_alike_in_the_gap(balance):
    users, items, pairs = planted()
    data = Interactions(*np.array(pairs).T, N_USERS, N_ITEMS)
    view = EpochView(1, lambda: (users, items), data, positive_weights=data.user_weights(balance))
    counts = np.bincount([u for u, _ in pairs])
    scores = [(counts[u] ** -balance, float(users[u] @ items[i])) for u, i in pairs]
    positive = sum(w * f for w, f in scores) / sum(w for w, _ in scores)
    mu = np.mean([[float(users[u] @ items[i]) for i in range(1, N_ITEMS)] for u in range(1, N_USERS)])
    assert view.gap == pytest.approx(positive - mu, abs=1e-6)


@pytest.mark.parametrize("scale", [0.3, 100.0])
def test_a_prior_takes_its_part_of_the_ratio_but_no_more_than_half(scale):
    users, items, pairs = planted()
    prior = scale * torch.log(N_ITEMS + 1.0 - torch.arange(N_ITEMS))
    view = view_of(users, items, pairs, added=prior)
    gap = np.mean([prior[i] for _, i in pairs]) - prior[1:].mean().item()
    ratio = math.log(5 * 39 / (2 * 13))
    assert (gap < ratio / 2) == (scale < 1), "one case of each kind"
    strategy = make("adaptive")
    strategy.begin_epoch(view)
    assert strategy.tau_0.item() == pytest.approx(view.gap / max(ratio - gap, ratio / 2), rel=1e-5)


def test_startup_holds_the_assumed_gap_until_the_measured_one_has_passed():
    strategy = make("adaptive")
    ratio = math.log(5 * 39 / (2 * 13))
    users, items, pairs = planted(separation=0.0)
    strategy.begin_epoch(view_of(users, items, pairs, epoch=0))
    assert strategy.tau_0.item() == pytest.approx(0.7 / ratio, rel=1e-5)
    trained = view_of(*planted(3.0), epoch=1)
    strategy.begin_epoch(trained)
    assert strategy.tau_0.item() == pytest.approx(trained.gap / ratio, rel=1e-5)


def test_startup_epochs_hold_the_assumed_gap_at_least_so_long():
    strategy = make("adaptive", tau_startup_epochs=3)
    for epoch in range(5):
        view = view_of(*planted(3.0), epoch=epoch)
        strategy.begin_epoch(view)
        want = (0.7 if epoch < 3 else view.gap) / view.log_ratio
        assert strategy.tau_0.item() == pytest.approx(want, rel=1e-5)


def test_a_shrinking_gap_cannot_drag_tau_0_to_the_floor_unnoticed(caplog):
    strategy = make("adaptive")
    strategy.begin_epoch(view_of(*planted(3.0), epoch=1))
    assert "lower bound" not in caplog.text
    users, items, pairs = planted(3.0)
    items[1:] = items[1]  # every item alike: no gap at all
    strategy.begin_epoch(view_of(users, items, pairs, epoch=2))
    assert strategy.tau_0.item() == pytest.approx(0.02)
    assert "tau_0 is at its lower bound tau_min = 0.02" in caplog.text


def test_dense_data_gets_the_upper_bound_and_a_warning(caplog):
    users, items, _ = planted()
    pairs = [(u, i) for u in range(1, N_USERS) for i in range(1, 31)]
    strategy = make("adaptive", tau_max=0.8)
    strategy.begin_epoch(view_of(users, items, pairs, epoch=0))
    assert strategy.tau_0.item() == pytest.approx(0.8)
    assert "denser than one half" in caplog.text


def brute_losses(users, items, pairs, tau):
    """Each user's mean of -log softmax over the whole catalogue, pair by pair."""
    losses = {}
    for u, i in pairs:
        logits = np.array([float(users[u] @ items[j]) / tau for j in range(1, N_ITEMS)])
        losses.setdefault(u, []).append(np.log(np.exp(logits).sum()) - logits[i - 1])
    return np.array([np.mean(losses[u]) for u in sorted(losses)])


@pytest.mark.parametrize("threshold", ["mean", 0.9])
@pytest.mark.parametrize("common", [1.0, "tau_0"])
def test_tau_u_from_the_mean_loss_of_each_user(threshold, common):
    strategy = make("adaptive_user", user_threshold=threshold, user_beta=0.5, user_loss_tau=common)
    users, items, pairs = planted(cold_user=True)
    strategy.begin_epoch(view_of(users, items, pairs, epoch=0))
    tau_0 = strategy.tau_0.item()
    assert strategy.tau(torch.arange(1, 6), None).tolist() == pytest.approx([tau_0] * 5), "untrained: all alike"
    strategy.begin_epoch(view_of(users, items, pairs, epoch=1))
    losses = brute_losses(users, items, pairs, tau_0 if common == "tau_0" else common)
    m = losses.mean() if threshold == "mean" else np.quantile(losses, 0.9)
    arguments = np.maximum(-1 / math.e, (losses - m) / (2 * 0.5))
    want = [tau_0 * math.exp(solve_w(x)) for x in arguments]
    assert strategy.tau_u[1:5].numpy() == pytest.approx(np.clip(want, 0.02, 1), rel=1e-4)
    assert len(set(strategy.tau_u[1:5].tolist())) == 4
    assert strategy.tau_u[[0, 5]].tolist() == pytest.approx([tau_0] * 2), "padding and a user without positives"


def test_losses_from_a_part_of_the_catalogue_estimate_those_of_all(monkeypatch):
    torch.manual_seed(0)
    users, items, pairs = planted()
    monkeypatch.setattr(view, "LOSS_ITEMS", 13)
    draws = torch.stack([view_of(users, items, pairs).user_losses(1.0) for _ in range(300)])
    assert draws.std(0).min() > 0, "a new draw each time"
    assert draws.mean(0).numpy() == pytest.approx(brute_losses(users, items, pairs, 1.0), abs=0.03)


@pytest.mark.parametrize("balance", [0.0, 0.25, 1.0])
def test_user_weights_balance_users_and_keep_the_mean(balance):
    _, _, pairs = planted(cold_user=True)
    data = Interactions(*np.array(pairs).T, N_USERS, N_ITEMS)
    weights = data.user_weights(balance)
    of_positives = weights[data.users]
    assert of_positives.mean().item() == pytest.approx(1.0) and weights[[0, 5]].tolist() == [0.0, 0.0]
    assert (weights[2] / weights[1]).item() == pytest.approx((2 / 3) ** -balance), "two positives against three"


def test_none_and_fixed_never_change():
    for name, value in (("none", 1.0), ("fixed", 0.1)):
        strategy = make(name)
        strategy.begin_epoch(view_of(*planted()))
        assert strategy.tau(torch.tensor([1, 2]), None).tolist() == pytest.approx([value, value])
        assert not list(strategy.parameters())


def test_learned_tau_follows_its_gradient():
    strategy = make("learned", tau=0.3)
    tau = strategy.tau(torch.tensor([1, 2, 3]), None)
    assert tau.tolist() == pytest.approx([0.3] * 3)
    (gradient,) = torch.autograd.grad((tau * torch.tensor([1.0, 2.0, 3.0])).sum(), strategy.raw)
    assert gradient.item() == pytest.approx(6 * (0.3 - 0.02), rel=1e-5)
    strategy.begin_epoch(view_of(*planted()))
    assert not strategy.tau_0.requires_grad, "a buffer, not a part of the graph"
    torch.nn.init.constant_(strategy.raw, -50.0)
    assert strategy.tau(torch.tensor([1]), None).item() == pytest.approx(0.02), "never below tau_min"


def test_learned_user_tau_starts_equal_and_becomes_personal():
    torch.manual_seed(0)
    strategy = make("learned_user", tau=0.3)
    strategy.reset_parameters()
    embeddings = torch.randn(3, 16, requires_grad=True)
    tau = strategy.tau(torch.arange(3), embeddings)
    assert tau.tolist() == pytest.approx([0.3] * 3)
    (tau * torch.tensor([1.0, -1.0, 2.0])).sum().backward()
    assert strategy.net[2].weight.grad.abs().sum() > 0
    assert embeddings.grad is None, "the network reads embeddings but does not bend them"
    with torch.no_grad():
        strategy.net[2].weight.normal_()
        different = strategy.tau(torch.arange(3), embeddings)
        assert len(set(different.tolist())) == 3
        strategy.net[2].bias.fill_(1e9)
        assert torch.isfinite(strategy.tau(torch.arange(3), embeddings)).all()
    strategy.begin_epoch(view_of(*planted()))
    assert torch.isfinite(strategy.tau_u).all()


@pytest.mark.parametrize("name", list(STRATEGIES))
def test_state_survives_a_checkpoint_and_the_log_line_says_it(name):
    one, two = make(name), make(name)
    for epoch in range(2):
        one.begin_epoch(view_of(*planted(), epoch=epoch))
    two.load_state_dict(one.state_dict())
    embeddings = torch.ones(3, 16)
    users = torch.tensor([1, 2, 3])
    assert torch.equal(one.tau(users, embeddings), two.tau(users, embeddings))
    for strategy in (one, two):
        torch.manual_seed(0)  # as a resumed run has it: the items of the users' losses are drawn
        strategy.begin_epoch(view_of(*planted(), epoch=2))
    assert torch.equal(one.tau(users, embeddings), two.tau(users, embeddings))
    assert name in one.describe() and f"{one.tau_0.item():.4f}" in one.describe()


@pytest.mark.parametrize("name", ["adaptive", "adaptive_user", "calibrated", "calibrated_user"])
def test_a_resumed_run_knows_that_the_gap_has_passed_its_start(name):
    one, two = make(name), make(name)
    one.begin_epoch(view_of(*planted(3.0), epoch=1))
    two.load_state_dict(one.state_dict())
    shrunken = [view_of(*planted(0.1), epoch=2) for _ in range(2)]
    assert 0 < shrunken[0].gap < one.settings.tau_startup_min_gap
    for strategy, seen in zip((one, two), shrunken, strict=True):
        torch.manual_seed(0)
        strategy.begin_epoch(seen)
        assert strategy.tau_0.item() == pytest.approx(max(seen.gap / seen.log_ratio, 0.02), rel=1e-5)
    assert torch.equal(one.tau(torch.arange(1, 6), None), two.tau(torch.arange(1, 6), None))


def test_the_learned_temperatures_mean_is_over_users_with_a_positive():
    torch.manual_seed(0)
    strategy = make("learned_user")
    users, items, pairs = planted(cold_user=True)
    strategy.begin_epoch(view_of(users.float(), items.float(), pairs))
    with torch.no_grad():
        want = strategy.tau(torch.arange(1, 5), users[1:5].float())
    assert want.unique().numel() == 4
    assert strategy.tau_0.item() == pytest.approx(want.mean().item(), rel=1e-5)
    torch.testing.assert_close(strategy.tau_u[1:5], want)


def test_the_gap_at_its_bound_and_the_first_counted_epoch():
    """`tau_startup_min_gap` has to be passed, and `tau_startup_epochs` epochs to be over."""
    seen = view_of(*planted(3.0), epoch=2)
    for least, epochs, measured in ((seen.gap, 0, False), (seen.gap - 1e-6, 2, True), (0.0, 3, False)):
        strategy = make("adaptive", tau_startup_min_gap=least, tau_startup_epochs=epochs, tau_startup_gap=0.9)
        strategy.begin_epoch(seen)
        assert bool(strategy.released) == measured
        assert strategy.tau_0.item() == pytest.approx((seen.gap if measured else 0.9) / seen.log_ratio, rel=1e-5)


def test_where_all_users_have_as_many_positives_all_of_them_count():
    data = Interactions(np.repeat(np.arange(1, 5), 2), np.tile([1, 2], 4), N_USERS, N_ITEMS)
    assert make("adaptive", tau_user_quantile=0.9).min_user_count(data) == 0


@pytest.mark.parametrize("parts", [1, 3])
def test_users_losses_in_parts_and_the_gap_of_many_rows(monkeypatch, parts):
    """Sums over parts of the users and of the rows are those over all; weights and the padding stay in place."""
    users, items, pairs = planted(cold_user=True)
    whole = view_of(users, items, pairs, min_user_count=2)
    expected = whole.gap, brute_losses(users, items, pairs, 0.3)
    monkeypatch.setattr(view, "LOSS_USERS", parts)
    monkeypatch.setattr(view, "SUM_ROWS", parts)
    seen = view_of(users, items, pairs, min_user_count=2)
    assert seen.gap == pytest.approx(expected[0], rel=1e-6)
    assert seen.user_losses(0.3).numpy() == pytest.approx(expected[1], rel=1e-5)
    assert seen.variance_gap == pytest.approx(whole.variance_gap) and seen.variance_gap != pytest.approx(
        view_of(users, items, pairs).variance_gap
    ), "users below the least do not count"


@pytest.mark.parametrize("tau", [0.05, 0.5])
def test_the_share_of_the_positives_is_brute_force_also_with_added_logits(tau):
    users, items, pairs = planted()
    added = torch.linspace(-2.0, 2.0, N_ITEMS).double()
    chosen = torch.tensor([5, 2, 3])
    got = view_of(users, items, pairs, added=added).positive_mass(chosen, torch.tensor([tau, 0.3, 1.0]))
    for user, at, share in zip(chosen.tolist(), (tau, 0.3, 1.0), got.tolist(), strict=True):
        weights = np.array([math.exp(float(users[user] @ items[i]) / at + float(added[i])) for i in range(1, N_ITEMS)])
        assert share == pytest.approx(sum(weights[i - 1] for u, i in pairs if u == user) / weights.sum(), rel=1e-4)


def test_the_gradient_is_averaged_over_users_spread_evenly(monkeypatch):
    """Two of five: the first and the last."""
    users, items, pairs = planted()
    seen = view_of(users, items, pairs)
    asked = []

    def tau(ids, embeddings):
        asked.extend(ids.tolist())
        assert torch.equal(embeddings, users[ids].float())
        return torch.full((len(ids),), 0.3)

    whole = seen.gradient_magnitude(tau)
    assert asked == [1, 2, 3, 4, 5]
    monkeypatch.setattr(view, "GRADIENT_USERS", 2)
    asked.clear()
    part = seen.gradient_magnitude(tau)
    assert asked == [1, 5] and part != whole


def test_a_view_of_parameters_has_no_gradient():
    users, items, pairs = planted()
    tables = torch.nn.Parameter(users.float()), torch.nn.Parameter(items.float())
    seen = view_of(*tables, pairs)
    assert not any(table.requires_grad for table in seen.embeddings)
    assert not seen.positive_sums.requires_grad and not seen.user_losses(0.5).requires_grad


@pytest.mark.parametrize("tau", [0.05, 2.0])
def test_users_losses_of_long_embeddings_do_not_overflow(tau):
    """One long user and one long item: a bound from the shorter ones would let exponentials overflow."""
    users, items, pairs = planted()
    users[0], items[0] = 0.0, 0.0
    users[3] *= 30.0
    items[17] = 30.0 * users[3] / users[3].norm()
    want = []
    for user in range(1, N_USERS):
        logits = (items[1:] @ users[user] / tau).numpy()
        own = np.mean([logits[i - 1] for u, i in pairs if u == user])
        want.append(logits.max() + np.log(np.exp(logits - logits.max()).sum()) - own)
    assert view_of(users, items, pairs).user_losses(tau).numpy() == pytest.approx(want, rel=1e-4, abs=1e-3)


def test_added_logits_far_from_zero_are_not_rounded_away():
    users, items, pairs = planted()
    added = 1e4 + torch.linspace(0.0, 0.1, N_ITEMS)
    exact = added.double().numpy()
    want = np.mean([exact[i] for _, i in pairs]) - exact[1:].mean()
    assert view_of(users, items, pairs, added=added).added_gap == pytest.approx(want, abs=1e-7)


def test_a_share_of_scores_without_bound_is_at_most_one():
    """Logits of some 10^6, where float32 rounds by a tenth: the positive, far above the rest, has it all."""
    g = torch.Generator().manual_seed(0)
    users = 300 * torch.randn(51, 16, generator=g)
    items = torch.cat([torch.zeros(1, 16), users[1:] / 2])
    data = Interactions(np.arange(1, 51), np.arange(1, 51), 51, 51)
    shares = EpochView(0, lambda: (users, items), data).positive_mass(torch.arange(1, 51), torch.full((50,), 0.37))
    assert shares.max() == 1 and shares.median() > 0.5


VALUES = {
    "normalization": "auto", "test_score": "auto", "tau": 0.1, "tau_min": 0.02, "tau_max": 1.0, "positive_tau": "tau_u",
}  # fmt: skip


@pytest.mark.parametrize(
    ("name", "changes", "said"),
    [
        ("none", {"normalization": "N-N", "test_score": "inner_product"}, None),
        ("none", {"normalization": "Y-Y"}, "tau_strategy = none means no normalisation, but normalization = Y-Y"),
        ("none", {"test_score": "cosine"}, "test_score = cosine contradicts it"),
        ("fixed", {"normalization": "Y-N", "positive_tau": "tau_0", "tau": 0.02}, None),
        ("fixed", {"tau": 0.01}, "tau = 0.01 is below tau_min = 0.02"),
        ("learned", {}, None),
        ("learned", {"tau": 0.01}, "tau = 0.01 is below tau_min = 0.02"),
        ("learned_user", {"positive_tau": "tau_0"}, "learned_user learns one temperature"),
        ("adaptive", {"normalization": "Y-Y", "tau_max": 0.02, "positive_tau": "tau_0"}, None),
        ("adaptive", {"tau_max": 0.01}, "tau_min = 0.02 is above tau_max = 0.01"),
        ("adaptive_user", {"normalization": "Y-N"}, "needs normalization = Y-Y, not Y-N"),
        ("calibrated", {"normalization": "N-N"}, "needs normalization = Y-Y, not N-N"),
    ],
)
def test_settings_that_contradict_a_strategy_are_refused(name, changes, said):
    if said is None:
        STRATEGIES[name].refuse({**VALUES, **changes})
    else:
        with pytest.raises(OptionError, match=said):
            STRATEGIES[name].refuse({**VALUES, **changes})


def test_a_learned_temperature_starts_above_its_bound_and_cannot_overflow():
    assert make("learned", tau=0.02).tau(torch.arange(2), None).tolist() == pytest.approx([0.021] * 2, rel=1e-4)
    strategy = make("learned", tau=0.5)
    torch.nn.init.constant_(strategy.raw, 500.0)
    tau = strategy.tau(torch.arange(2), None)
    assert tau.tolist() == pytest.approx([1e4 + 0.02] * 2)
    (gradient,) = torch.autograd.grad(tau.sum(), strategy.raw)
    assert torch.isfinite(gradient)


def test_a_users_learned_part_is_within_e_to_the_third():
    torch.manual_seed(0)
    strategy = make("learned_user", tau=0.3)
    strategy.reset_parameters()
    assert not strategy.last_layer.weight.any() and not strategy.last_layer.bias.any()
    for bias, power in ((1e9, 3.0), (-1e9, -3.0), (math.atanh(0.5), 1.5)):
        torch.nn.init.constant_(strategy.last_layer.bias, bias)
        assert strategy.tau(torch.arange(2), torch.randn(2, 16)).tolist() == pytest.approx(
            [0.02 + 0.28 * math.exp(power)] * 2, rel=1e-5
        )


def test_warnings_are_said_once_and_where_they_belong(caplog):
    """Denser than one half: in the first epoch alone. At the lower bound: whenever it is met."""
    users, items, pairs = planted()
    dense = [(u, i) for u in range(1, N_USERS) for i in range(1, 31)]
    strategy = make("adaptive")
    for epoch in range(3):
        strategy.begin_epoch(view_of(users, items, dense, epoch=epoch))
    assert caplog.text.count("denser than one half") == 1 and "lower bound" not in caplog.text
    bounded = make("adaptive", tau_min=0.9)
    for epoch in (0, 1):
        bounded.begin_epoch(view_of(users, items, pairs, epoch=epoch))
    assert caplog.text.count("tau_0 is at its lower bound tau_min = 0.9") == 2


def test_losses_of_a_batchs_negatives_are_averaged_over_an_epoch():
    """A user that no batch had gets the loss of the average row; a row without negatives does not count."""
    strategy = make("adaptive_user", user_loss_items="batch", user_loss_tau=0.5)
    seen = []

    def losses_at(tau):
        seen.append(tau)
        return torch.tensor([1.0, 3.0, 4.0, -torch.inf])

    strategy.observe(torch.tensor([1, 1, 2, 3]), losses_at)
    strategy.observe(torch.tensor([1, 1, 2, 3]), lambda tau: torch.tensor([2.0, 2.0, 5.0, 7.0]))
    assert seen[0].tolist() == [0.5] * 4
    found = strategy.user_losses(view_of(*planted()), 0.5)
    assert found.tolist() == pytest.approx([2.0, 4.5, 7.0, 24 / 7, 24 / 7])
    assert not any(tally.any() for tally in strategy.tallies()) and len(strategy.tallies()) == 2
    plain = make("adaptive_user")
    plain.observe(torch.tensor([1]), losses_at)
    assert len(seen) == 1 and plain.tallies() == ()


def test_what_strategies_have_before_the_first_epoch():
    data = view_of(*planted()).interactions
    assert make("adaptive").tau_0.item() == pytest.approx(0.1) and make("fixed", tau=0.3).tau_0.item() == pytest.approx(
        0.3
    )
    assert make("fixed").tau_u is None and make("adaptive_user").tau_u.tolist() == pytest.approx([0.1] * N_USERS)
    assert make("fixed").trains_held_out(0, 5) and make("adaptive").min_user_count(data) == 0
    assert make("fixed").hold_out(data, 1) == (data, None)


def test_the_learned_temperature_of_an_epoch_is_that_of_its_parameter():
    strategy = make("learned", tau=0.3)
    torch.nn.init.constant_(strategy.raw, -1.0)
    strategy.begin_epoch(view_of(*planted()))
    assert strategy.tau_0.item() == pytest.approx(0.02 + math.exp(-1.0))


@pytest.mark.parametrize(("positives", "dense"), [(3, False), (4, True), (5, True)])
def test_exactly_one_half_counts_as_dense(caplog, positives, dense):
    """Two users, four items: log(nm / 2|D|) is 0 at four positives."""
    pairs = [(1, 1), (2, 2), (1, 3), (2, 4), (1, 2)][:positives]
    tables = torch.eye(5, 4)[:3], torch.eye(5, 4)
    seen = EpochView(0, lambda: tables, Interactions(*np.array(pairs).T, 3, 5))
    strategy = STRATEGIES["adaptive"](3, 4)
    strategy.begin_epoch(seen)
    assert ("denser than one half" in caplog.text) == dense and (seen.log_ratio <= 0) == dense
    assert not dense or strategy.tau_0.item() == 1.0


def test_a_part_of_the_catalogue_is_drawn_anew_for_each_measurement(monkeypatch):
    monkeypatch.setattr(view, "LOSS_ITEMS", 13)
    seen = view_of(*planted())
    torch.manual_seed(0)
    first, second = seen.user_losses(1.0), seen.user_losses(1.0)
    torch.manual_seed(0)
    assert torch.equal(seen.user_losses(1.0), first) and not torch.allclose(first, second)


def test_a_user_with_one_positive_has_a_weight():
    data = Interactions(np.array([1, 2, 2, 2, 2]), np.array([1, 1, 2, 3, 4]), 4, 5)
    assert data.user_weights(0.5).tolist() == pytest.approx([0.0, 5 / 3, 5 / 6, 0.0])
