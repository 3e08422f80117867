"""The strategies that measure tau_0 on held-out positives, on embeddings made up for the purpose."""

import logging
import math

import numpy as np
import pytest
import torch
import torch.nn.functional as F

from recbole_adaptau.core.calibration import HeldOut, calibration
from recbole_adaptau.core.epoch_view import EpochView
from recbole_adaptau.core.interactions import Interactions
from recbole_adaptau.core.strategies import STRATEGIES

USERS, ITEMS, SIZE, EACH = 400, 200, 8, 8
NAMES = ("calibrated", "calibrated_user")


def made(name: str, **changes):
    strategy = STRATEGIES[name]
    return strategy(USERS + 1, SIZE, strategy.Settings(held_out_share=0.1, **changes))


class Planted:
    """Users whose positives follow the softmax of their cosines at tau, some of them false; some held out.

    Args:
        overfit: How far each user is moved towards its training positives.
    """

    def __init__(self, tau=0.2, false=0.0, overfit=0.0):
        g = torch.Generator().manual_seed(0)
        users = F.normalize(torch.randn(USERS + 1, SIZE, generator=g), dim=1)
        items = F.normalize(torch.randn(ITEMS + 1, SIZE, generator=g), dim=1)
        chosen = torch.multinomial(torch.softmax(users[1:] @ items[1:].T / tau, 1), EACH, generator=g) + 1
        wrong = torch.rand(chosen.shape, generator=g) < false
        chosen[wrong] = torch.randint(1, ITEMS + 1, (int(wrong.sum()),), generator=g)
        who = np.repeat(np.arange(1, USERS + 1), EACH)
        data = Interactions(who, chosen.flatten().numpy(), USERS + 1, ITEMS + 1)
        self.rest, self.held_out = made("calibrated").hold_out(data, seed=5)
        sums = torch.zeros_like(users).index_add(0, self.rest.users, items[self.rest.items])
        self.users, self.items = F.normalize(users + overfit * sums, dim=1), items

    def view(self, epoch: int, held_out: HeldOut | None) -> EpochView:
        return EpochView(epoch, lambda: (self.users, self.items), self.rest, held_out=held_out)

    def settled(self, name: str, measured: bool = True, epochs: int = 30):
        torch.manual_seed(0)
        strategy = made(name)
        for epoch in range(epochs):
            strategy.begin_epoch(self.view(epoch, self.held_out if measured else None))
        return strategy


def test_it_settles_at_the_planted_temperature():
    """Embeddings that are not trained overfit nothing: the margin is about 1."""
    assert Planted(0.2).settled("calibrated").tau_0.item() == pytest.approx(0.2, rel=0.2)


@pytest.mark.parametrize("name", NAMES)
def test_overfitting_raises_it_above_the_closed_form(name):
    clean, overfitted = Planted(), Planted(overfit=3.0)
    tau, closed = overfitted.settled(name).tau_0, overfitted.settled(name, measured=False).tau_0
    assert tau > 1.3 * closed
    assert tau > 1.3 * clean.settled(name).tau_0


@pytest.mark.parametrize("name", NAMES)
def test_false_positives_raise_it_where_they_lower_the_closed_form(name):
    clean, noisy = Planted(), Planted(false=0.5)
    assert noisy.settled(name).tau_0 > 1.15 * clean.settled(name).tau_0
    assert noisy.settled(name, measured=False).tau_0 < clean.settled(name, measured=False).tau_0


@pytest.mark.parametrize("name", NAMES)
def test_an_epoch_is_the_geometric_mean_with_the_last(name):
    planted, strategy = Planted(), made(name)
    strategy.begin_epoch(planted.view(0, planted.held_out))
    first = strategy.tau_0.item()
    assert first == pytest.approx(0.7 / planted.view(0, None).log_ratio), "the closed form at the assumed gap"
    strategy.begin_epoch(planted.view(1, planted.held_out))
    new, times = strategy.calibrated.tolist()
    assert strategy.tau_0.item() == pytest.approx(math.sqrt(first * math.sqrt(times) * new), rel=1e-6)


@pytest.mark.parametrize("name", NAMES)
def test_it_stays_once_the_held_out_positives_are_trained_on(name):
    planted = Planted()
    strategy = planted.settled(name, epochs=5)
    before, rho = strategy.tau_0.clone(), getattr(strategy, "transfer", torch.zeros(())).clone()
    planted.held_out.returned = True
    planted.users = F.normalize(planted.users + 0.5, dim=1)
    strategy.begin_epoch(planted.view(5, planted.held_out))
    assert torch.equal(strategy.tau_0, before)
    assert torch.equal(getattr(strategy, "transfer", torch.zeros(())), rho)


def test_they_return_after_a_share_of_the_epochs():
    assert [made("calibrated").trains_held_out(epoch, 8) for epoch in range(8)] == [False] * 4 + [True] * 4
    assert not made("calibrated", held_out_until=1.0).trains_held_out(7, 8)


@pytest.mark.parametrize("name", NAMES)
def test_without_held_out_positives_it_is_the_closed_form_and_says_so(name, caplog):
    planted = Planted()
    with caplog.at_level(logging.WARNING):
        ours = planted.settled(name, measured=False)
    assert caplog.text.count("too few training positives to hold some out") == 1
    torch.manual_seed(0)
    paper = STRATEGIES[name.replace("calibrated", "adaptive")](USERS + 1, SIZE)
    for epoch in range(30):
        paper.begin_epoch(planted.view(epoch, None))
    everybody = torch.arange(USERS + 1)
    assert torch.equal(ours.tau(everybody, planted.users), paper.tau(everybody, planted.users))


def test_users_losses_are_shrunk_by_what_held_out_positives_confirm():
    """Without overfitting tau_u varies as the paper's; where users are moved to random items it hardly does."""
    planted = Planted(overfit=3.0)
    ours = planted.settled("calibrated_user")
    assert 0 <= ours.transfer.item() < 1
    torch.manual_seed(0)
    view = planted.view(30, planted.held_out)
    losses = view.user_losses(1.0)
    torch.manual_seed(0)
    shrunk = ours.user_losses(view, 1.0)
    assert shrunk.std().item() == pytest.approx(ours.transfer.item() * losses.std().item(), rel=1e-6)
    assert shrunk.mean().item() == pytest.approx(losses.mean().item())


@pytest.mark.parametrize("epoch", [1, 3, 4, 9])
def test_an_epochs_measurement_starts_from_the_last(epoch):
    """Two Newton steps while scores change fast, then one; training positives of the held-out ones' users."""
    planted, strategy = Planted(overfit=0.15), made("calibrated")
    strategy.begin_epoch(planted.view(0, planted.held_out))
    strategy.calibrated.copy_(torch.tensor([0.3, 1.25]))
    strategy.begin_epoch(planted.view(epoch, planted.held_out))
    pairs = planted.held_out.users, planted.held_out.items
    f = planted.users @ planted.items.T
    rest = planted.rest
    trained = torch.stack([f[u, rest.items[rest.users == u]].mean() for u in pairs[0].tolist()])
    want = calibration((planted.users, planted.items), pairs, trained, None, 0.3, 2 if epoch < 4 else 1)
    assert 1 < want.overfitting < 2, "no bound decides"
    assert strategy.calibrated.tolist() == pytest.approx(list(want), rel=1e-6)
    assert f"calibrated at {want.new:.4f}, margin {want.margin:.3f}" in strategy.describe()


def test_the_slope_is_that_of_held_out_losses_by_hand():
    """At 0.4, of the same users: a held-out positive's score in place of the mean of the training positives'.

    Half of the users have another's embedding, and so high losses of both kinds.
    """
    planted, strategy = Planted(overfit=0.2), made("calibrated_user")
    planted.users[1:200] = planted.users[1:200].flip(0)
    view = planted.view(2, planted.held_out)
    strategy.user_losses(view, 0.4)
    f = (planted.users.double() @ planted.items.double().T).numpy()
    who, what = planted.held_out.users.tolist(), planted.held_out.items.tolist()
    own = {u: planted.rest.items[planted.rest.users == u].tolist() for u in set(who)}
    everything = {u: np.log(np.exp(f[u, 1:] / 0.4).sum()) for u in own}
    x = np.array([everything[u] - np.mean(f[u, own[u]]) / 0.4 for u in who])
    y = np.array([everything[u] - f[u, i] / 0.4 for u, i in zip(who, what, strict=True)])
    slope = np.cov(x, y)[0, 1] / np.var(x, ddof=1)
    assert strategy.transfer.item() == pytest.approx(min(max(slope, 0), 1), abs=1e-3) and 0.05 < slope < 0.95
    assert f"rho = {slope:.2f}" in strategy.describe()


@pytest.mark.parametrize("name", NAMES)
def test_it_can_begin_with_a_later_epoch_and_warns_in_the_first(name, caplog):
    planted, strategy = Planted(), made(name)
    strategy.begin_epoch(planted.view(3, planted.held_out))
    assert 0.02 < strategy.tau_0.item() < 1 and torch.isfinite(strategy.calibrated).all()
    with caplog.at_level(logging.WARNING):
        made(name).begin_epoch(planted.view(0, None))
    assert "too few training positives to hold some out" in caplog.text


def test_an_untrained_model_starts_from_the_closed_form_with_all_differences_confirmed():
    planted, strategy = Planted(), made("calibrated_user")
    assert strategy.transfer.item() == 1.0
    strategy.begin_epoch(planted.view(0, planted.held_out))
    assert strategy.calibrated.tolist() == pytest.approx([strategy.tau_0.item(), 1.0])
    strategy.transfer.fill_(0.4)
    planted.held_out.returned = True
    torch.manual_seed(0)
    losses = planted.view(1, None).user_losses(1.0)
    torch.manual_seed(0)
    shrunk = strategy.user_losses(planted.view(1, planted.held_out), 1.0)
    torch.testing.assert_close(shrunk, losses.mean() + 0.4 * (losses - losses.mean()))


def test_held_out_positives_are_trained_from_the_given_share_of_the_epochs_on():
    strategy = made("calibrated", held_out_until=0.5)
    assert [strategy.trains_held_out(epoch, 10) for epoch in (0, 4, 5, 6)] == [False, False, True, True]
