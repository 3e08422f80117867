"""The losses and their gradients against naive float64 loops."""

import math

import pytest
import torch
import torch.nn.functional as F
from hypothesis import given, settings
from hypothesis import strategies as st

from recbole_adaptau.core import logsumexp
from recbole_adaptau.core.cosine import unit_rows
from recbole_adaptau.core.logsumexp import candidate_logsumexp, row_logsumexp
from recbole_adaptau.core.losses import softmax_loss


def naive_lse(users, candidates, tau, log_weight, left_out):
    rows = []
    for b in range(len(users)):
        terms = [
            torch.exp((users[b] @ candidates[j]) / tau[b]) * math.exp(log_weight[j])
            for j in range(len(candidates))
            if (b, j) not in left_out
        ]
        rows.append(torch.log(torch.stack(terms).sum()) if terms else torch.tensor(-math.inf).double())
    return torch.stack(rows)


def inputs(seed, rows=4, columns=7, d=3):
    generator = torch.Generator().manual_seed(seed)
    users = torch.randn(rows, d, generator=generator).double().requires_grad_()
    candidates = torch.randn(columns, d, generator=generator).double().requires_grad_()
    tau = (0.1 + torch.rand(rows, generator=generator)).double().requires_grad_()
    log_weight = torch.randn(columns, generator=generator).double()
    left_out = {(b, j) for b in range(rows) for j in range(columns) if (b * 3 + j * 5 + seed) % 4 == 0}
    return users, candidates, tau, log_weight, left_out


@settings(deadline=None, max_examples=25)
@given(
    st.integers(0, 1000),
    st.sampled_from([1 << 20, 9, 4, 1]),
    st.booleans(),
    st.booleans(),
    st.sampled_from([60, math.inf]),
)
def test_candidate_logsumexp_and_gradients_equal_the_naive_loop(seed, max_scores, weighted, masked, max_logit):
    users, candidates, tau, log_weight, left_out = inputs(seed)
    if not weighted:
        log_weight = torch.zeros_like(log_weight)
    left_out = left_out if masked else set()
    hits = tuple(torch.tensor(sorted(left_out)).T) if left_out else None
    got = candidate_logsumexp(users, candidates, tau, log_weight if weighted else None, hits, max_logit, max_scores)
    want = naive_lse(users, candidates, tau, log_weight, left_out)
    assert torch.allclose(got, want)
    weights = torch.arange(1.0, len(users) + 1).double()
    ours = torch.autograd.grad((got * weights).sum(), (users, candidates, tau))
    naive = torch.autograd.grad((want * weights).sum(), (users, candidates, tau))
    for a, b in zip(ours, naive, strict=True):
        assert torch.allclose(a, b)


@pytest.mark.parametrize("max_scores", [1 << 20, 3])
def test_a_row_without_negatives_is_minus_infinity_and_has_no_gradient(max_scores):
    users, candidates, tau, _, _ = inputs(0, rows=2, columns=3)
    hits = (torch.zeros(3, dtype=torch.long), torch.arange(3))
    got = candidate_logsumexp(users, candidates, tau, hits=hits, max_scores=max_scores)
    assert torch.isneginf(got[0]) and torch.isfinite(got[1])
    pos = (users * users).sum(1).detach()
    for inside in (True, False):
        loss = softmax_loss(pos / tau.detach(), got, inside)
        assert loss[0] == 0
        gradients = torch.autograd.grad(loss.sum(), (users, candidates, tau), retain_graph=True)
        assert all(torch.isfinite(g).all() for g in gradients)
        assert (gradients[0][0] == 0).all() and gradients[2][0] == 0


@pytest.mark.parametrize("max_scores", [1 << 20, 9])
def test_memory_kept_between_batches_mixes_no_two_of_them(max_scores):
    """Two losses before the first backward pass, and a graph gone through twice, as without the kept memory."""
    first, second = inputs(0), inputs(1, rows=6, columns=9)
    graphs = [candidate_logsumexp(*given[:3], max_scores=max_scores) for given in (first, second)]
    for _ in range(2):
        for (users, candidates, tau, *_), lse in zip((first, second), graphs, strict=True):
            naive = torch.logsumexp(users @ candidates.T / tau.unsqueeze(1), 1)
            assert torch.allclose(lse, naive)
            want = torch.autograd.grad(naive.sum(), (users, candidates, tau))
            got = torch.autograd.grad(lse.sum(), (users, candidates, tau), retain_graph=True)
            for a, b in zip(got, want, strict=True):
                assert torch.allclose(a, b)
        with torch.no_grad():  # writes over the memory that the backward passes have given back
            candidate_logsumexp(*inputs(2)[:3], max_scores=max_scores)


def test_softmax_loss_is_minus_log_softmax():
    torch.manual_seed(0)
    pos, neg, tau = torch.randn(5).double(), torch.randn(5, 9).double(), torch.rand(5).double() + 0.1
    logits = torch.cat([pos[:, None], neg], 1) / tau[:, None]
    assert torch.allclose(softmax_loss(pos / tau, row_logsumexp(neg, tau), True), -torch.log_softmax(logits, 1)[:, 0])
    outside = torch.log(torch.exp(neg / tau[:, None]).sum(1)) - pos / tau
    assert torch.allclose(softmax_loss(pos / tau, row_logsumexp(neg, tau), False), outside)


def test_positive_at_another_temperature_than_its_negatives():
    torch.manual_seed(1)
    pos, neg = torch.randn(3).double(), torch.randn(3, 4).double()
    tau_u, tau_0 = torch.rand(3).double() + 0.1, torch.full((3,), 0.3).double()
    want = -torch.log(torch.exp(pos / tau_0) / torch.exp(neg / tau_u[:, None]).sum(1))
    assert torch.allclose(softmax_loss(pos / tau_0, row_logsumexp(neg, tau_u), False), want)


@settings(deadline=None, max_examples=40)
@given(
    st.floats(0.01, 1.0),
    st.sampled_from([0.0, 1e-30, 1.0, 1e3]),
    st.sampled_from([torch.float32, torch.bfloat16]),
    st.booleans(),
)
def test_loss_and_gradients_are_finite_from_tau_001_up(tau, scale, dtype, inside):
    """Also for zero vectors, equal vectors and bfloat16."""
    torch.manual_seed(0)
    users = (torch.randn(6, 8) * scale).to(dtype)
    users[0] = users[1]
    users.requires_grad_()
    items = (torch.randn(10, 8) * scale).to(dtype).requires_grad_()
    u, i = unit_rows(users), unit_rows(items)
    temperature = torch.full((6,), tau, requires_grad=True)
    lse = candidate_logsumexp(u, i, temperature, max_logit=1.05 / tau)
    loss = softmax_loss((u * i[:6]).sum(1) / temperature, lse, inside).mean()
    loss.backward()
    assert torch.isfinite(loss)
    for tensor in (users, items, temperature):
        assert torch.isfinite(tensor.grad).all()


def test_autocast_keeps_the_sum_in_float32():
    torch.manual_seed(0)
    u = F.normalize(torch.randn(8, 16), dim=1)
    i = F.normalize(torch.randn(64, 16), dim=1)
    tau = torch.full((8,), 0.02)
    exact = candidate_logsumexp(u, i, tau)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        inside = candidate_logsumexp(u, i, tau)
    assert inside.dtype == torch.float32 and torch.allclose(exact, inside)


def test_memory_is_bounded_by_the_chunk():
    """A catalogue of 200,000 with at most 1,000,000 scores at once gives what all 12.8 million at once give."""
    torch.manual_seed(0)
    u = torch.randn(64, 4, dtype=torch.float64, requires_grad=True)
    i = torch.randn(200_000, 4, dtype=torch.float64, requires_grad=True)
    tau = torch.full((64,), 0.5, dtype=torch.float64)
    widths = []
    whole = candidate_logsumexp(u, i, tau)
    grads = torch.autograd.grad(whole.sum(), (u, i))
    original = torch.Tensor.amax

    def spy(self, *args, **kwargs):
        widths.append(self.numel())
        return original(self, *args, **kwargs)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(torch.Tensor, "amax", spy)
        parts = candidate_logsumexp(u, i, tau, max_scores=1_000_000)
    assert len(widths) == 13 and max(widths) <= 1_000_000
    chunked = torch.autograd.grad(parts.sum(), (u, i))
    assert torch.allclose(whole, parts)
    for a, b in zip(grads, chunked, strict=True):
        assert torch.allclose(a, b)


def test_unit_rows_and_its_gradient_are_those_of_normalize():
    torch.manual_seed(0)
    x = torch.randn(7, 5, dtype=torch.float64)
    x[1] = 0.0
    x[2] *= 1e-20
    x.requires_grad_()
    weights = torch.randn(7, 5, dtype=torch.float64)
    assert torch.allclose(unit_rows(x), F.normalize(x, dim=1))
    (ours,) = torch.autograd.grad((unit_rows(x) * weights).sum(), x)
    (theirs,) = torch.autograd.grad((F.normalize(x, dim=1) * weights).sum(), x)
    assert torch.allclose(ours, theirs)
    stacked = torch.randn(2, 3, 4, dtype=torch.float64, requires_grad=True)
    assert torch.allclose(unit_rows(stacked), F.normalize(stacked, dim=-1))
    assert torch.autograd.gradcheck(unit_rows, stacked)


@pytest.mark.parametrize("max_scores", [1 << 20, 3])
@pytest.mark.parametrize("weights", ["no candidates", "all weigh nothing"])
def test_nothing_to_sum_is_minus_infinity_and_has_no_gradient(weights, max_scores):
    """Logits of 200 besides: their exponentials overflow, and must not come back as NaN times a weight of 0."""
    users, candidates, tau = torch.ones(2, 3), torch.ones(5, 3), torch.full((2,), 0.015)
    log_weight = torch.full((5,), -math.inf)
    if weights == "no candidates":
        candidates, log_weight = candidates[:0], log_weight[:0]
    given = [tensor.requires_grad_() for tensor in (users, candidates, tau)]
    lse = candidate_logsumexp(*given, log_weight, max_scores=max_scores)
    assert torch.isneginf(lse).all()
    loss = softmax_loss(torch.ones(2) / tau, lse, False).sum()
    assert loss == 0
    if loss.requires_grad:
        found = torch.autograd.grad(loss, given, allow_unused=True)
        assert all(gradient is None or not gradient.any() for gradient in found)


@pytest.mark.parametrize("max_scores", [1 << 20, 9])
def test_memory_kept_in_inference_mode_does_not_break_training(max_scores, monkeypatch):
    monkeypatch.setattr(logsumexp, "_spare", [])
    users, candidates, tau, *_ = inputs(0)
    with torch.inference_mode():
        first = candidate_logsumexp(*(x.detach() for x in (users, candidates, tau)), max_scores=max_scores)
    assert len(logsumexp._spare) == 1 and not logsumexp._spare[0].is_inference()
    second = candidate_logsumexp(users, candidates, tau, max_scores=max_scores)
    second.sum().backward()
    assert torch.equal(first, second) and torch.isfinite(users.grad).all()


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32])
def test_unit_rows_of_zero_and_tiny_rows_in_every_precision(dtype):
    """A row of zeros stays zeros. A row too short to have a direction is only scaled: its gradient is not projected."""
    least = max(1e-12, torch.finfo(dtype).tiny)
    x = torch.tensor([[0.0, 0.0], [least / 4, 0.0], [3.0, 4.0]], dtype=dtype, requires_grad=True)
    unit = unit_rows(x)
    assert unit[0].tolist() == [0.0, 0.0] and unit[2].tolist() == pytest.approx([0.6, 0.8], rel=1e-2)
    assert unit[1].tolist() == pytest.approx([0.25, 0.0], rel=1e-2)
    (gradient,) = torch.autograd.grad(unit, x, torch.tensor([[least, 0.0], [least, 0.0], [1.0, 0.0]], dtype=dtype))
    assert gradient[:2].flatten().tolist() == pytest.approx([1.0, 0.0, 1.0, 0.0], rel=1e-2)
    assert gradient[2].tolist() == pytest.approx([(1 - 0.36) / 5, -0.48 / 5], rel=2e-2)


def test_many_candidates_just_below_the_largest_logit_do_not_overflow():
    """Each exponential fits into float32, their sum does not."""
    users, candidates = torch.ones(2, 1), torch.full((20_000, 1), 79.5)
    got = candidate_logsumexp(users, candidates, torch.ones(2), max_logit=79.5)
    assert got.tolist() == pytest.approx([79.5 + math.log(20_000)] * 2, rel=1e-6)


@pytest.mark.parametrize("max_scores", [1 << 20, 4])
@pytest.mark.parametrize(("tau", "reach"), [(1.0, 150.0), (0.01, 30.0)])
def test_weights_and_logits_far_apart_in_float32(max_scores, tau, reach):
    """Weights from e^-reach to e^reach and logits of ±1 / tau beside the naive sum in float64."""
    g = torch.Generator().manual_seed(0)
    users, candidates = (F.normalize(torch.randn(n, 3, generator=g), dim=1) for n in (3, 8))
    log_weight = torch.linspace(-reach, reach, 8)
    given = [tensor.requires_grad_() for tensor in (users, candidates, torch.full((3,), tau))]
    got = candidate_logsumexp(*given, log_weight, max_scores=max_scores)
    exact = [tensor.detach().double().requires_grad_() for tensor in given]
    want = torch.logsumexp(exact[0] @ exact[1].T / exact[2].unsqueeze(1) + log_weight.double(), 1)
    torch.testing.assert_close(got.double(), want, rtol=1e-5, atol=1e-4)
    for ours, naive in zip(torch.autograd.grad(got.sum(), given), torch.autograd.grad(want.sum(), exact), strict=True):
        torch.testing.assert_close(ours.double(), naive, rtol=1e-3, atol=1e-3)


def test_small_sums_have_their_gradient():
    """Logits far below zero, whose exponentials add up to less than 1, where nothing is taken off first."""
    users = torch.ones(1, 1, dtype=torch.float64, requires_grad=True)
    candidates = torch.tensor([[-5.0], [-6.0]], dtype=torch.float64)
    lse = candidate_logsumexp(users, candidates, torch.ones(1, dtype=torch.float64), max_logit=6.0)
    (gradient,) = torch.autograd.grad(lse.sum(), users)
    share = 1 / (1 + math.exp(-1))
    assert gradient.item() == pytest.approx(-5 * share - 6 * (1 - share))


@settings(max_examples=60)
@given(st.integers(0, 6), st.integers(1, 12), st.integers(1, 30))
def test_chunks_hold_no_more_scores_than_allowed_and_every_column_and_hit_once(rows, columns, most):
    hits = [(r, c) for r in range(rows) for c in range(columns) if (r + 2 * c) % 3 == 0]
    given = tuple(torch.tensor(hits, dtype=torch.long).view(-1, 2).T)
    chunks = logsumexp._chunks(rows, columns, most, given)
    ranges = [range(columns)[part] for part, _, _ in chunks]
    assert [c for part in ranges for c in part] == list(range(columns))
    assert (
        max(map(len, ranges))
        == len(ranges[0])
        == min(columns, max(most // max(rows, 1), 1))
        == logsumexp._width(chunks)
    )
    found = {
        (r, part.start + c) for part, who, what in chunks for r, c in zip(who.tolist(), what.tolist(), strict=True)
    }
    assert found == set(hits) and sum(len(who) for _, who, _ in chunks) == len(hits)
    assert all(who is None and what is None for _, who, what in logsumexp._chunks(rows, columns, most, None))


@pytest.mark.parametrize("max_scores", [1 << 20, 9])
def test_scores_of_every_batch_stand_in_the_same_memory(monkeypatch, max_scores):
    """Fresh memory would cost as much as the product. Without a gradient forward gives it back, with one backward."""
    spare: list = []
    monkeypatch.setattr(logsumexp, "_spare", spare)
    places, written = set(), []
    chunk_logits = logsumexp._chunk_logits

    def watched(*given):
        written.append(chunk_logits(*given))
        return written[-1]

    monkeypatch.setattr(logsumexp, "_chunk_logits", watched)
    users, candidates, tau, *_ = inputs(0)
    for _ in range(3):
        candidate_logsumexp(users.detach(), candidates.detach(), tau.detach(), max_scores=max_scores)
        places |= {memory.data_ptr() for memory in spare}
        assert len(spare) == 1
        lse = candidate_logsumexp(users, candidates, tau, max_scores=max_scores)
        assert len(spare) == (0 if max_scores > 9 else 1), "kept for the backward pass, where all scores fit"
        lse.sum().backward()
        assert len(spare) == 1
        places |= {memory.data_ptr() for memory in spare}
    assert len(places) == 1 and {logits.data_ptr() for logits in written} == places
    logsumexp._given_back(torch.empty(3))
    assert len(spare) == 1, "one is enough"
    small = logsumexp._borrowed(users, 10**6)
    assert len(small) == 10**6 and not spare, "too little of it is let go of"


def test_memory_of_another_type_is_not_reused(monkeypatch):
    monkeypatch.setattr(logsumexp, "_spare", [torch.empty(50)])
    assert logsumexp._borrowed(torch.ones(1, dtype=torch.float64), 20).dtype == torch.float64
