"""The temperature that calibrates positives, against brute force and on planted data; which positives are held out."""

import math

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from scipy.optimize import minimize_scalar

from recbole_adaptau.core import calibration as module
from recbole_adaptau.core.calibration import (
    LEAST_POSITIVES,
    MAX_SCORES,
    MOST_ROWS,
    Calibration,
    HeldOut,
    calibration,
    newton_step,
    nll_derivatives,
    overfitting,
    rows_at_once,
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
        trained = (self.users[who] * self.items[self.trained]).sum(1)
        return calibration((self.users, self.items), (who, self.new), trained, self.added, start, steps)

    def brute_force(self, positives: torch.Tensor) -> float:
        scores = (self.users[1:] @ self.items[1:].T).double()
        added = 0 if self.added is None else self.added[1:].double()

        def nll(log_tau: float) -> float:
            return F.cross_entropy(scores / math.exp(log_tau) + added, positives - 1).item()

        return math.exp(minimize_scalar(nll, bounds=(-5, 3), method="bounded", options={"xatol": 1e-9}).x)


@pytest.mark.parametrize("tau", [0.08, 0.2, 0.7])
@pytest.mark.parametrize("start", [0.02, 1.0])
@pytest.mark.parametrize("added", [None, torch.linspace(-1, 1, ITEMS + 1)])
def test_it_is_the_brute_force_minimum(tau, start, added):
    planted = Planted(tau, added=added)
    found = planted.measured(start)
    assert found.new == pytest.approx(planted.brute_force(planted.new), rel=1e-4)
    assert found.new == pytest.approx(tau, rel=0.15)


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
    assert after.new > 1.5 * before.new
    assert after.margin == pytest.approx(math.sqrt(2)) and after.advised == pytest.approx(math.sqrt(2) * after.new)


def test_the_margin_is_the_root_of_the_quotient_of_median_scores():
    planted = Planted()
    planted.users[1:] = F.normalize(planted.users[1:] + 0.2 * planted.items[planted.trained], dim=1)
    f = (planted.users[1:].double() @ planted.items[1:].double().T).numpy()
    rows = np.arange(USERS)
    known, new = (f[rows, of.numpy() - 1] for of in (planted.trained, planted.new))
    quotient = np.median(known) / np.median(new)
    assert 1.1 < quotient < 1.9, "no bound decides"
    for steps in (1, 3):
        assert planted.measured(steps=steps).margin == pytest.approx(math.sqrt(quotient), rel=1e-2)


def test_false_positives_hardly_move_the_margin():
    """Means would: a fifth of the held-out positives at a score of about 0 make the quotient a quarter larger."""
    planted = Planted(0.08)
    planted.users[1:] = F.normalize(planted.users[1:] + 0.2 * planted.items[planted.trained], dim=1)
    clean = planted.measured()
    planted.new[: USERS // 5] = torch.randint(1, ITEMS + 1, (USERS // 5,), generator=planted.generator)
    assert planted.measured().overfitting == pytest.approx(clean.overfitting, rel=0.1)


@pytest.mark.parametrize(
    "trained, new, times",
    [(0.3, 0.2, 1.5), (0.2, 0.3, 1), (0.2, 0.2, 1), (0.5, 0.2, 2), (0.1, 0.0, 2), (0.1, -0.1, 2), (-0.1, -0.2, 2),
     (-0.2, -0.1, 1)],
)  # fmt: skip
def test_overfitting_has_bounds_and_is_known_for_scores_of_any_sign(trained, new, times):
    assert overfitting(trained, new) == pytest.approx(times)


def test_the_slope_of_held_out_losses():
    g = torch.Generator().manual_seed(0)
    x = torch.randn(5000, generator=g)
    assert transfer_slope(x, 0.4 * x + torch.randn(5000, generator=g)) == pytest.approx(0.4, abs=0.05)
    assert transfer_slope(x, -x) == 0.0
    assert transfer_slope(x, 2 * x) == 1.0
    assert transfer_slope(torch.ones(5), x[:5]) == 0.0
    x = x.double()
    assert transfer_slope(1e-3 * x + 5, 3e-4 * x + 7) == pytest.approx(0.3), "whatever the scale and the level"


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
    assert len(spread_places(np.repeat(np.arange(LEAST_POSITIVES), 2), 1000, seed=0)) == LEAST_POSITIVES


def test_which_users_come_first_is_chance():
    users = np.repeat(np.arange(1000), 2)
    chosen = [users[spread_places(users, 100, seed)] for seed in range(20)]
    assert np.concatenate(chosen).mean() == pytest.approx(500, abs=40), "100 of the first users would have 50"
    assert all(len(set(one)) == 100 for one in chosen)


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


def moments(scale, scores, target, added):
    """Mean and variance of the scores under softmax(scale · scores + added), and the target's score, in float64."""
    weights = np.exp(scale * scores + added)
    p = weights / weights.sum()
    mean = float(p @ scores)
    return mean - scores[target], float(p @ scores**2) - mean**2


@pytest.mark.parametrize("with_added", [False, True])
@pytest.mark.parametrize("steps", [1, 2])
def test_a_step_is_newtons_from_the_start(monkeypatch, with_added, steps):
    """Two rows at a time."""
    monkeypatch.setattr(module, "MOST_ROWS", 2)
    g = torch.Generator().manual_seed(2)
    users, items = torch.randn(8, 3, generator=g), torch.randn(13, 3, generator=g)
    f = (users.double() @ items.double().T).numpy()[:, 1:]
    liked = 1 + np.argsort(-f, axis=1)  # each user's items from the best score to the worst
    who = torch.tensor([3, 1, 7, 2, 6, 5, 4])
    what = torch.tensor([int(liked[u, 2 + u % 4]) for u in who.tolist()])
    added = torch.linspace(0.3, -0.4, 13) if with_added else None
    near = calibration((users, items), (who, what), torch.ones(7), added, 1.5, 20)
    start = near.new * 1.2  # no step is cut short
    found = calibration((users, items), (who, what), torch.ones(7), added, start, steps)
    extra = np.zeros(12) if added is None else added[1:].double().numpy()
    scale = 1 / start
    for _ in range(steps):
        of_rows = [moments(scale, f[u], i - 1, extra) for u, i in zip(who.tolist(), what.tolist(), strict=True)]
        after = scale - sum(d for d, _ in of_rows) / sum(v for _, v in of_rows)
        assert scale / 2 < after < 2 * scale
        scale = after
    assert found.new == pytest.approx(1 / scale, rel=1e-4)


def test_derivatives_of_the_nll_against_the_definitions():
    """With the same added logits for all, or a row's own; the scores stay as they were."""
    g = torch.Generator().manual_seed(0)
    scores, targets, added = torch.randn(3, 5, generator=g), torch.tensor([4, 0, 2]), torch.randn(3, 5, generator=g)
    before = scores.clone()
    for given in (None, added[0], added):
        rows = torch.zeros(3, 5) if given is None else given.expand(3, 5)
        of_rows = [
            moments(1.7, row.double().numpy(), int(target), extra.double().numpy())
            for row, target, extra in zip(scores, targets, rows, strict=True)
        ]
        want = np.sum(of_rows, axis=0)
        assert nll_derivatives(1.7, scores, targets, given).tolist() == pytest.approx(want.tolist(), rel=1e-5)
    assert torch.equal(scores, before)


def test_a_step_goes_no_further_than_a_factor_of_two():
    assert newton_step(2.0, torch.tensor([0.3, 0.5])) == pytest.approx(2.0 - 0.3 / 0.5, rel=1e-6)
    assert newton_step(2.0, torch.tensor([9.0, 1.0])) == 1.0 and newton_step(2.0, torch.tensor([-9.0, 1.0])) == 4.0
    assert newton_step(2.0, torch.tensor([-1.0, 0.0])) == 4.0, "no curvature"


def test_rows_at_once_fill_the_memory_and_are_at_least_one():
    assert rows_at_once(10) == MOST_ROWS and rows_at_once(MAX_SCORES // 5) == 5 and rows_at_once(2 * MAX_SCORES) == 1


def test_held_out_pairs_in_parts(monkeypatch):
    monkeypatch.setattr(module, "MOST_ROWS", 3)
    held = HeldOut(torch.arange(1, 8), torch.arange(11, 18), 30)
    assert [(who.tolist(), what.tolist()) for who, what in held.parts()] == [
        ([1, 2, 3], [11, 12, 13]), ([4, 5, 6], [14, 15, 16]), ([7], [17]),
    ]  # fmt: skip
    assert held.contains(torch.tensor([1, 2, 7, 7]), torch.tensor([11, 11, 17, 18])).tolist() == [
        True, False, True, False,
    ]  # fmt: skip
    assert not held.contains(torch.tensor([29]), torch.tensor([29])).any(), "behind the last key"
