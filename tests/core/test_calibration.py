"""The temperature that calibrates positives, against brute force and on planted data; which positives are held out."""

import math

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from scipy.optimize import minimize_scalar

from recbole_adaptau.core.calibration import (
    LEAST_POSITIVES,
    Calibration,
    HeldOut,
    calibration,
    spread_places,
    transfer_slope,
)
from recbole_adaptau.core.interactions import Interactions

USERS, ITEMS, SIZE = 1500, 300, 8


class Planted:
    """Unit embeddings; each user's new and training positives are drawn from the softmax at tau."""

    def __init__(self, tau: float = 0.2, seed: int = 0, added: torch.Tensor | None = None):
        self.generator = torch.Generator().manual_seed(seed)
        users = F.normalize(torch.randn(USERS + 1, SIZE, generator=self.generator), dim=1)
        items = F.normalize(torch.randn(ITEMS + 1, SIZE, generator=self.generator), dim=1)
        users[0], items[0] = 50.0, -50.0  # the padding must count nowhere
        self.users, self.items, self.added = users, items, added
        self.new, self.trained = self.drawn(tau), self.drawn(tau)

    def drawn(self, tau: float) -> torch.Tensor:
        logits = self.users[1:] @ self.items[1:].T / tau + (0 if self.added is None else self.added[1:])
        return torch.multinomial(torch.softmax(logits, 1), 1, generator=self.generator).squeeze(1) + 1

    def measured(self, start: float = 0.5, steps: int = 30) -> Calibration:
        who = torch.arange(1, USERS + 1)
        data = Interactions(who.numpy(), self.trained.numpy(), USERS + 1, ITEMS + 1)
        begin = Calibration(start, start)
        return calibration((self.users, self.items), data, (who, self.new), self.added, begin, steps, seed=0)

    def brute_force(self, positives: torch.Tensor, rows: torch.Tensor | slice = slice(None)) -> float:
        scores = (self.users[1:] @ self.items[1:].T).double()[rows]
        added = 0 if self.added is None else self.added[1:].double()

        def nll(log_tau: float) -> float:
            return F.cross_entropy(scores / math.exp(log_tau) + added, positives[rows] - 1).item()

        return math.exp(minimize_scalar(nll, bounds=(-5, 3), method="bounded", options={"xatol": 1e-9}).x)


@pytest.mark.parametrize("tau", [0.08, 0.2, 0.7])
@pytest.mark.parametrize("start", [0.02, 1.0])
@pytest.mark.parametrize("added", [None, torch.linspace(-1, 1, ITEMS + 1)])
def test_it_is_the_brute_force_minimum(tau, start, added):
    planted = Planted(tau, added=added)
    found = planted.measured(start)
    assert found.new == pytest.approx(planted.brute_force(planted.new), rel=1e-4)
    assert found.new == pytest.approx(tau, rel=0.15)


def test_training_positives_are_measured_on_every_second_part():
    """A user has one training positive here, so that the draw has no choice."""
    planted = Planted(0.2)
    planted.trained = planted.drawn(0.1)
    halves = torch.arange(USERS).div(64, rounding_mode="floor") % 2 == 0
    assert planted.measured().trained == pytest.approx(planted.brute_force(planted.trained, halves), rel=1e-4)


def test_fewer_rows_at_a_time_change_nothing(monkeypatch):
    whole = Planted().measured()
    monkeypatch.setattr("recbole_adaptau.core.calibration.MAX_SCORES", 10 * ITEMS)
    assert Planted().measured().new == pytest.approx(whole.new, rel=1e-5)


def test_false_positives_raise_the_temperature():
    planted = Planted()
    clean = planted.measured().new
    planted.new[: USERS // 3] = torch.randint(1, ITEMS + 1, (USERS // 3,), generator=planted.generator)
    assert planted.measured().new > 1.2 * clean


def test_overfitting_raises_the_temperature_and_the_margin():
    """Users are moved towards their training positives, which the new ones know nothing of."""
    planted = Planted()
    before = planted.measured()
    planted.users[1:] = F.normalize(planted.users[1:] + 2 * planted.items[planted.trained], dim=1)
    after = planted.measured()
    assert before.margin == pytest.approx(1, abs=0.1)
    assert after.new > 1.5 * before.new and after.trained < 0.8 * before.trained
    assert after.margin == pytest.approx(math.sqrt(2)) and after.advised == pytest.approx(math.sqrt(2) * after.new)


def test_the_margin_has_bounds():
    assert Calibration(0.1, 0.1).margin == Calibration(0.1, 0.2).margin == 1.0
    assert Calibration(0.15, 0.1).margin == pytest.approx(math.sqrt(1.5))
    assert Calibration(0.1, 0.001).margin == pytest.approx(math.sqrt(2))


def test_the_slope_of_held_out_losses():
    g = torch.Generator().manual_seed(0)
    x = torch.randn(5000, generator=g)
    assert transfer_slope(x, 0.4 * x + torch.randn(5000, generator=g)) == pytest.approx(0.4, abs=0.05)
    assert transfer_slope(x, -x) == 0.0
    assert transfer_slope(x, 2 * x) == 1.0
    assert transfer_slope(torch.ones(5), x[:5]) == 0.0


def test_places_are_spread_over_users():
    users = np.repeat(np.arange(1, 101), np.arange(1, 101))
    places = spread_places(users, 150, seed=7)
    assert len(places) == 150 and (np.diff(places) > 0).all()
    assert np.array_equal(places, spread_places(users, 150, seed=7))
    assert not np.array_equal(places, spread_places(users, 150, seed=8))
    held = np.bincount(users[places], minlength=101)[1:]
    assert held[0] == 0 and held[1:].min() == 1 and held.max() == 2, "whoever has one pair keeps it"
    everybody = np.bincount(users[spread_places(users, 100, seed=7, kept=0)], minlength=101)[1:]
    assert (everybody == 1).all()


@pytest.mark.parametrize("users", [np.repeat(np.arange(LEAST_POSITIVES - 1), 2), np.arange(5000)])
def test_too_few_pairs_give_none(users):
    assert len(spread_places(users, 1000, seed=0)) == 0


def test_a_split_loses_no_pair():
    rng = np.random.default_rng(0)
    data = Interactions(rng.integers(1, 80, 4000), rng.integers(1, 200, 4000), 80, 200)
    rest, held = HeldOut.split(data, 0.03, 1024, seed=3)
    assert held is not None and len(held) == int(0.03 * len(data)) and len(rest) + len(held) == len(data)
    assert (rest.n_users, rest.n_items) == (80, 200) and torch.equal(rest.active_users, data.active_users)
    assert held.contains(held.users, held.items).all() and not held.contains(rest.users, rest.items).any()
    assert len(HeldOut.split(data, 0.5, 70, seed=3)[1]) == 70
    unsplit, nothing = HeldOut.split(data, 0.01, 1024, seed=3)
    assert unsplit is data and nothing is None
