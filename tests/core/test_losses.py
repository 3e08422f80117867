"""BSL, PSL, SL@K and BPR against naive float64 loops over their papers' formulas."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from recbole.config import Config

from recbole_adaptau.core.cosine import unit_rows
from recbole_adaptau.core.epoch_view import EpochView
from recbole_adaptau.core.losses import (
    BilateralSoftmaxLoss,
    BPRLoss,
    PairwiseSoftmaxLoss,
    ScoredBatch,
    SoftmaxLossAtK,
)
from recbole_adaptau.core.losses.slatk import top_quantiles
from recbole_adaptau.core.negatives import Candidates, RowNegatives
from recbole_adaptau.core.pairwise import candidate_pair_means
from recbole_adaptau.errors import OptionError
from tests.helpers import interactions

SURROGATES = {
    "relu": lambda y: torch.relu(y + 1),
    "tanh": lambda y: torch.tanh(y) + 1,
    "atan": lambda y: torch.atan(y) + 1,
}


class Planted:
    """A batch with shared candidates, weights, left-out scores and an added logit, all in float64."""

    def __init__(self, seed: int, shared: bool = True, learned: bool = False, rows: int = 4, columns: int = 7):
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
            pairs = negatives.pair_means(u, n, self.added)
            scores, added = n, self.added
        else:
            self.left_out = set()
            negatives, pairs = RowNegatives(torch.arange(columns).repeat(rows, 1)), None
            scores, added = n.repeat(rows, 1), self.added.repeat(rows, 1)
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


@pytest.fixture(params=[{}, {"seed": 1}, {"shared": False}, {"learned": True}], ids=str)
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


def test_bpr_is_the_loop_over_its_formula(planted):
    def row(positive, logit, others, tau):
        weights = [torch.exp(b) for _, b in others]
        terms = [-torch.log(torch.sigmoid((positive - f) / tau + logit)) for f, _ in others]
        return sum(w * t for w, t in zip(weights, terms, strict=True)) / sum(weights)

    planted.agrees(BPRLoss()(planted.batch), planted.loop(row))


def test_slatk_is_the_loop_over_its_formula_and_differentiates_the_weight(planted):
    loss = SoftmaxLossAtK(SoftmaxLossAtK.Settings(slatk_tau=0.4))
    loss.quantiles = torch.tensor([0.3, -0.2, 0.1, 0.9]).double()

    def row(positive, logit, others, tau):
        top = torch.exp(positive / tau + logit)
        return -torch.log(top / (top + sum(torch.exp(f / tau + b) for f, b in others)))

    above = planted.cosines()[0] - loss.quantiles
    planted.agrees(loss(planted.batch), planted.loop(row) / (1 + torch.exp(-above / 0.4)))


@settings(deadline=None, max_examples=20)
@given(st.integers(0, 100), st.sampled_from([1 << 20, 9, 4, 1]), st.booleans())
def test_pair_means_in_chunks_are_those_at_once(seed, max_scores, weighted):
    """Values and gradients, also of a graph gone through twice, and 0 for a row without candidates."""
    planted = Planted(seed)
    hits = torch.tensor(sorted({*planted.left_out, *((0, j) for j in range(7))})).T
    log_weight = planted.added if weighted else None

    def cubes(d, tau):
        return d**3 / tau, 3 * d**2

    inputs = planted.users, planted.items, planted.batch.positive.detach().requires_grad_()
    means, log_total = candidate_pair_means(
        *inputs, planted.tau, cubes, log_weight, (hits[0], hits[1]), max_scores=max_scores
    )
    weight = torch.ones(4, 7).double() if log_weight is None else log_weight.exp().expand(4, 7).clone()
    weight[hits[0], hits[1]] = 0.0
    values = (inputs[0] @ inputs[1].T - inputs[2][:, None]) ** 3 / planted.tau[:, None]
    want = (weight * values).sum(1) / weight.sum(1).clamp_min(1e-300)
    torch.testing.assert_close(means, want)
    torch.testing.assert_close(log_total, weight.sum(1).log())
    for _ in range(2):
        got = torch.autograd.grad(means.square().sum(), inputs, retain_graph=True)
        for a, b in zip(got, torch.autograd.grad(want.square().sum(), inputs, retain_graph=True), strict=True):
            torch.testing.assert_close(a, b)


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


@pytest.mark.parametrize("max_scores", [1 << 20, 3])
@pytest.mark.parametrize("weights", ["no candidates", "all weigh nothing"])
def test_pair_means_of_nothing_are_zero_without_a_gradient(weights, max_scores):
    users, candidates = torch.ones(2, 3), torch.ones(5, 3)
    log_weight = torch.full((5,), -torch.inf)
    if weights == "no candidates":
        candidates, log_weight = candidates[:0], log_weight[:0]
    given = [tensor.requires_grad_() for tensor in (users, candidates, torch.ones(2))]

    def square(d, tau):
        return d.square(), 2 * d * tau

    means, sums = candidate_pair_means(*given, torch.ones(2), square, log_weight, max_scores=max_scores)
    assert not means.any() and torch.isneginf(sums).all()
    if means.requires_grad:
        assert not any(gradient.any() for gradient in torch.autograd.grad(means.sum(), given))


def test_pair_means_after_inference_mode_have_a_gradient():
    users, candidates = torch.ones(2, 3, requires_grad=True), torch.ones(5, 3)

    def means():
        return candidate_pair_means(users, candidates, torch.ones(2), torch.ones(2), lambda d, t: (d * 1, d * 0 + t))[0]

    with torch.inference_mode():
        first = means()
    second = means()
    second.sum().backward()
    assert torch.equal(first, second) and torch.isfinite(users.grad).all()
