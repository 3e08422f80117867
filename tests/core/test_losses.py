"""BSL, PSL, SL@K and BPR against naive float64 loops over their papers' formulas."""

import dataclasses

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from recbole.config import Config

from recbole_adaptau.core.candidates import Candidates, RowNegatives
from recbole_adaptau.core.cosine import unit_rows
from recbole_adaptau.core.epoch_view import EpochView
from recbole_adaptau.core.losses import (
    BilateralSoftmaxLoss,
    BPRLoss,
    PairwiseSoftmaxLoss,
    ScoredBatch,
    SoftmaxLoss,
    SoftmaxLossAtK,
)
from recbole_adaptau.core.losses.bpr import _log_sigmoids
from recbole_adaptau.core.losses.slatk import top_quantiles
from recbole_adaptau.errors import OptionError
from tests.helpers import interactions

SURROGATES = {
    "relu": lambda y: torch.relu(y + 1),
    "tanh": lambda y: torch.tanh(y) + 1,
    "atan": lambda y: torch.atan(y) + 1,
}


def test_slatk_weighs_nothing_before_the_first_epoch_or_without_users():
    planted = Planted(0)
    want = SoftmaxLoss()(planted.batch)
    loss = SoftmaxLossAtK()
    assert torch.equal(loss(planted.batch), want)
    loss.quantiles = torch.zeros(4).double()
    assert not torch.equal(loss(planted.batch), want)
    assert torch.equal(loss(dataclasses.replace(planted.batch, users=None)), want)


class Planted:
    """A batch with shared candidates, weights, left-out scores and an added logit, all in float64."""

    def __init__(
        self,
        seed: int,
        shared: bool = True,
        learned: bool = False,
        weighted: bool = True,
        rows: int = 4,
        columns: int = 7,
    ):
        draw = torch.Generator().manual_seed(seed)
        self.users, self.positives, self.items = (
            torch.randn(n, 3, generator=draw, dtype=torch.float64).requires_grad_() for n in (rows, rows, columns)
        )
        self.tau = 0.1 + torch.rand(rows, generator=draw, dtype=torch.float64)
        self.tau.requires_grad_(learned)
        self.added = torch.randn(columns, generator=draw, dtype=torch.float64)
        self.positive_logit = torch.randn(rows, generator=draw, dtype=torch.float64)
        self.left_out = {(b, j) for b in range(rows) for j in range(columns) if (b * 3 + j * 5 + seed) % 4 == 0}
        u, n = unit_rows(self.users), unit_rows(self.items)
        if shared:
            hits = torch.tensor(sorted(self.left_out)).T
            negatives = Candidates(torch.arange(columns), None, (hits[0], hits[1]))
            scores, added = n, self.added if weighted else None
            pairs = negatives.pair_means(u, n, added)
        else:
            self.left_out = set()
            negatives, pairs = RowNegatives(torch.arange(columns).repeat(rows, 1)), None
            scores, added = n.repeat(rows, 1), self.added.repeat(rows, 1) if weighted else None
        if not weighted:
            self.added = torch.zeros(columns, dtype=torch.float64)
        self.batch = ScoredBatch(
            positive=(u * unit_rows(self.positives)).sum(1),
            positive_logit=self.positive_logit,
            tau=self.tau,
            tau_0=torch.tensor(0.2).double(),
            logsumexp=negatives.logsumexp(u, scores, added),
            scores=lambda: negatives.scores(u, scores, added),
            users=torch.arange(rows),
            pair_means=pairs,
        )

    def cosines(self) -> tuple[torch.Tensor, torch.Tensor]:
        u, i, j = (torch.nn.functional.normalize(x, dim=1) for x in (self.users, self.positives, self.items))
        return (u * i).sum(1), u @ j.T

    def loop(self, row_loss) -> torch.Tensor:
        """row_loss(f_i, b_i, [(f_j, b_j), …], tau) for each row."""
        positive, negatives = self.cosines()
        rows = []
        for b in range(len(positive)):
            others = [(negatives[b, j], self.added[j]) for j in range(len(self.items)) if (b, j) not in self.left_out]
            rows.append(row_loss(positive[b], self.positive_logit[b], others, self.tau[b]))
        return torch.stack(rows)

    def agrees(self, got: torch.Tensor, want: torch.Tensor) -> None:
        torch.testing.assert_close(got, want)
        inputs = [self.users, self.positives, self.items] + [self.tau] * self.tau.requires_grad
        weights = torch.arange(1.0, len(got) + 1).double()
        for a, b in zip(*(torch.autograd.grad((x * weights).sum(), inputs) for x in (got, want)), strict=True):
            torch.testing.assert_close(a, b)


@pytest.fixture(
    params=[
        {},
        {"seed": 1},
        {"shared": False},
        {"learned": True},
        {"weighted": False},
        {"shared": False, "weighted": False},
    ],
    ids=str,
)
def planted(request) -> Planted:
    return Planted(**{"seed": 0, **request.param})


def test_bsl_is_the_loop_over_its_formula(planted):
    def row(positive, logit, others, tau):
        return torch.log(sum(torch.exp(f / tau + b) for f, b in others)) - positive / (1.5 * tau) - logit

    loss = BilateralSoftmaxLoss(BilateralSoftmaxLoss.Settings(bsl_ratio=1.5))
    planted.agrees(loss(planted.batch), planted.loop(row))


@pytest.mark.parametrize("inside", [True, False])
@pytest.mark.parametrize("name", SURROGATES)
def test_psl_is_the_loop_over_its_formula(planted, name, inside):
    def row(positive, logit, others, tau):
        terms = [SURROGATES[name]((f - positive) / 2) ** (2 / tau) * torch.exp(b - logit) for f, b in others]
        return torch.log(sum(terms) + inside)

    given = PairwiseSoftmaxLoss.Settings(psl_activation=name, positive_in_denominator=inside)
    planted.agrees(PairwiseSoftmaxLoss(given)(planted.batch), planted.loop(row))


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_softplus_and_sigmoid_of_any_size(dtype):
    logits = torch.tensor([[-1e30, -800.0, -100, -20, -1, 0, 1, 20, 86, 90, 170, 800, 1e30]], dtype=dtype)
    tau = torch.full((1, 1), 0.5, dtype=dtype)
    softplus, derivative = _log_sigmoids(logits * tau, tau)
    torch.testing.assert_close(softplus.double(), F.softplus(logits.double()), rtol=1e-6, atol=2e-7)
    torch.testing.assert_close(derivative.double(), torch.sigmoid(logits.double()), rtol=1e-6, atol=2e-7)


def test_bpr_is_the_loop_over_its_formula(planted):
    def row(positive, logit, others, tau):
        weights = [torch.exp(b) for _, b in others]
        terms = [-torch.log(torch.sigmoid((positive - f) / tau + logit)) for f, _ in others]
        return sum(w * t for w, t in zip(weights, terms, strict=True)) / sum(weights)

    planted.agrees(BPRLoss()(planted.batch), planted.loop(row))


def test_slatk_is_the_loop_over_its_formula_with_weights_that_are_constants_in_the_gradient(planted):
    loss = SoftmaxLossAtK(SoftmaxLossAtK.Settings(slatk_tau=0.4))
    loss.quantiles = torch.tensor([0.3, -0.2, 0.1, 0.9]).double()

    def row(positive, logit, others, tau):
        top = torch.exp(positive / tau + logit)
        return -torch.log(top / (top + sum(torch.exp(f / tau + b) for f, b in others)))

    above = (planted.cosines()[0] - loss.quantiles).detach()
    planted.agrees(loss(planted.batch), planted.loop(row) / (1 + torch.exp(-above / 0.4)))


def table(seed: int, users: int = 30, items: int = 40):
    rng = np.random.default_rng(seed)
    matrix = rng.random((users, items)) < rng.random((users, 1)) * 0.7
    matrix[:, 0] = True
    data = interactions(matrix)
    vectors = [torch.from_numpy(rng.standard_normal((n + 1, 4))) for n in (users, items)]
    return data, unit_rows(vectors[0]), unit_rows(vectors[1])


@pytest.mark.parametrize("k", [1, 7, 39])
def test_with_all_items_drawn_the_quantile_is_the_kth_largest_score(k, monkeypatch):
    monkeypatch.setattr("recbole_adaptau.core.losses.slatk.MAX_SCORES", 200)  # several parts
    data, users, items = table(0)
    found = top_quantiles(users, items, data, torch.randperm(40) + 1, k)
    want = (users @ items[1:].T).sort(dim=1, descending=True).values[:, k - 1]
    torch.testing.assert_close(found[1:], want[1:])
    assert found[0] == -torch.inf


def naive_quantile(user, items, liked, drawn, k):
    """The largest score with at least k items at or above it, a drawn item counting for all that are like it."""
    others = [item for item in drawn if item not in liked]
    share = (len(items) - 1 - len(liked)) / max(len(others), 1)
    scores = [(float(user @ items[item]), 1.0) for item in liked] + [(float(user @ items[j]), share) for j in others]
    above = 0.0
    for score, weight in sorted(scores, reverse=True):
        above += weight
        if above >= k - 1e-6:
            return score
    return -np.inf


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize(("number", "k"), [(1, 5), (1, 12), (3, 2), (6, 9), (12, 8), (17, 17)])
def test_the_quantile_is_that_of_a_loop_over_users(seed, number, k):
    """Also where all, or all but one, of the drawn items are a user's positives, and for one who has all items."""
    rng = np.random.default_rng(seed)
    matrix = rng.random((9, 18)) < 0.3
    drawn = rng.permutation(18)[:number] + 1
    matrix[0, :2] = True
    matrix[1] = True
    matrix[2], matrix[2, drawn - 1] = False, True
    matrix[8], matrix[8, next(place for place in range(18) if place + 1 not in drawn)] = False, True  # none drawn
    data = interactions(matrix)
    users, items = (unit_rows(torch.from_numpy(rng.standard_normal((n, 4)))) for n in (10, 19))
    found = top_quantiles(users, items, data, torch.from_numpy(drawn), k)
    for user in range(1, 10):
        liked = [int(item) + 1 for item in np.flatnonzero(matrix[user - 1])]
        assert float(found[user]) == pytest.approx(naive_quantile(users[user], items, liked, drawn.tolist(), k))


@pytest.mark.parametrize(("most", "together"), [(200, 5), (10, 1)])
def test_quantiles_are_estimated_in_parts_of_bounded_size(most, together, monkeypatch):
    monkeypatch.setattr("recbole_adaptau.core.losses.slatk.MAX_SCORES", most)
    data, users, items = table(0)
    asked = []
    positives_of = type(data).positives_of
    monkeypatch.setattr(
        type(data), "positives_of", lambda self, some: (asked.append(len(some)), positives_of(self, some))[1]
    )
    top_quantiles(users, items, data, torch.arange(1, 41), 5)
    assert asked == [together] * (30 // together)


def test_with_some_items_drawn_the_quantile_has_k_items_above_it_on_average():
    data, users, items = table(1, users=40, items=2000)
    ranks = []
    for seed in range(20):
        drawn = torch.randperm(2000, generator=torch.Generator().manual_seed(seed))[:400] + 1
        found = top_quantiles(users, items, data, drawn, 100)
        ranks.append((users @ items[1:].T >= found[:, None]).sum(1)[1:].double().mean())
    assert abs(np.mean(ranks) - 100) < 3


def test_slatk_estimates_quantiles_when_an_epoch_begins():
    data, users, items = table(2)
    loss = SoftmaxLossAtK(SoftmaxLossAtK.Settings(slatk_k=5))
    loss.begin_epoch(EpochView(0, lambda: (users, items), data))
    want = (users @ items[1:].T).float().sort(dim=1, descending=True).values[:, 4]
    torch.testing.assert_close(loss.quantiles[1:], want[1:])
    assert "quantiles" not in loss.state_dict()
    few = SoftmaxLossAtK(SoftmaxLossAtK.Settings(slatk_k=5, slatk_items=12))
    torch.manual_seed(3)
    few.begin_epoch(EpochView(0, lambda: (users, items), data))
    torch.manual_seed(3)
    drawn = torch.randperm(40)[:12] + 1
    view = EpochView(0, lambda: (users, items), data)
    assert torch.equal(few.quantiles, top_quantiles(*view.embeddings, data, drawn, 5))
    with pytest.raises(OptionError, match="only 40 items"):
        SoftmaxLossAtK(SoftmaxLossAtK.Settings(slatk_k=40)).begin_epoch(EpochView(0, lambda: (users, items), data))


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ({"loss": "psl", "tau_strategy": "none"}, "cosines"),
        ({"loss": "psl", "normalization": "Y-N"}, "cosines"),
        ({"loss": "psl", "tau_min": 0.01}, "overflows"),
        ({"loss": "bpr"}, "follows from the softmax"),
        ({"loss": "bpr", "tau_strategy": "calibrated_user"}, "follows from the softmax"),
    ],
)
def test_what_makes_no_sense_is_refused(given, told, board):
    with pytest.raises(OptionError, match=told):
        Config("AdapTauMF", "board", config_dict={**board, **given})


@pytest.mark.parametrize("tau", [0.02, 0.1, 10.0])
@pytest.mark.parametrize("name", SURROGATES)
def test_psl_is_finite_in_float32_at_every_temperature_it_takes(tau, name):
    """Also for equal and for opposite vectors, where ReLU(1 + d / 2) is 0, and a row without negatives."""
    u = unit_rows(torch.randn(6, 4)).requires_grad_()
    items = torch.cat([u, -u, unit_rows(torch.randn(9, 4))]).detach().requires_grad_()
    hits = torch.tensor([(row, row) for row in range(5)] + [(5, item) for item in range(21)]).T
    negatives = Candidates(torch.arange(21), None, (hits[0], hits[1]))
    batch = ScoredBatch(
        positive=(u * items[:6]).sum(1),
        positive_logit=None,
        tau=torch.full((6,), tau),
        tau_0=torch.tensor(tau),
        logsumexp=negatives.logsumexp(u, items, None),
        scores=lambda: negatives.scores(u, items, None),
        pair_means=negatives.pair_means(u, items, None),
    )
    loss = PairwiseSoftmaxLoss(PairwiseSoftmaxLoss.Settings(psl_activation=name))(batch)
    loss.sum().backward()
    assert (
        loss[5] == 0
        and torch.isfinite(loss).all()
        and torch.isfinite(u.grad).all()
        and torch.isfinite(items.grad).all()
    )


@pytest.mark.parametrize("inside", [True, False])
def test_psl_of_one_opposite_negative_is_finite(inside):
    """ReLU(1 + d / 2) ^ (2 / tau) is zero in float32: its logarithm must not reach the gradient."""
    u = unit_rows(torch.ones(1, 4)).requires_grad_()
    items = -u.detach().clone().requires_grad_()
    negatives = Candidates(torch.arange(1), None, None)
    batch = ScoredBatch(
        positive=(u * u.detach()).sum(1),
        positive_logit=None,
        tau=torch.tensor([0.02]),
        tau_0=torch.tensor(0.02),
        logsumexp=negatives.logsumexp(u, items, None),
        scores=lambda: negatives.scores(u, items, None),
        pair_means=negatives.pair_means(u, items, None),
    )
    loss = PairwiseSoftmaxLoss(PairwiseSoftmaxLoss.Settings(psl_activation="relu", positive_in_denominator=inside))
    (gradient,) = torch.autograd.grad(loss(batch).sum(), u)
    assert torch.isfinite(gradient).all()
