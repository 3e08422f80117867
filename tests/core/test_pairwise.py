"""Sums over differences in chunks and blocks, against one float64 sum over all pairs."""

import pytest
import torch
from hypothesis import example, given, settings
from hypothesis import strategies as st

from recbole_adaptau.core import logsumexp, pairwise
from recbole_adaptau.core.pairwise import candidate_pair_means

ROWS, COLUMNS = 5, 7


class Cubes:
    """φ(d) = d³ / tau, which writes down the shape of every block that it is given."""

    def __init__(self):
        self.blocks: list[tuple[int, int]] = []

    def __call__(self, d, tau):
        self.blocks.append(tuple(d.shape))
        assert tau.shape == (len(d), 1)
        derivatives = 3 * d**2
        return d.pow_(3) / tau, derivatives  # d may be overwritten


def naive(users, candidates, positive, tau, log_weight, hits):
    """The means and log Σ w of all pairs at once; 0 for a row of which nothing is left."""
    weight = torch.ones(len(users), len(candidates), dtype=torch.float64)
    weight = weight if log_weight is None else weight * log_weight.double().exp()
    left = torch.ones_like(weight)
    if hits is not None:
        left[hits[0], hits[1]] = 0.0
    weight = weight * left
    values = (users @ candidates.T - positive[:, None]) ** 3 / tau[:, None]
    return (weight * values).sum(1) / weight.sum(1).clamp_min(1e-300), weight.sum(1).log()


def inputs(seed: int, dtype=torch.float64) -> list[torch.Tensor]:
    """Users, candidates, positives and temperatures."""
    draw = torch.Generator().manual_seed(seed)
    shapes = (ROWS, 3), (COLUMNS, 3), (ROWS,)
    made = [torch.randn(shape, generator=draw, dtype=dtype).requires_grad_() for shape in shapes]
    return [*made, 0.1 + torch.rand(ROWS, generator=draw, dtype=dtype)]


NOTHING = frozenset()
FIRST = frozenset((row, 0) for row in range(ROWS))


@pytest.fixture(autouse=True)
def no_kept_memory(monkeypatch):
    monkeypatch.setattr(logsumexp, "_spare", [])


@settings(max_examples=25)
@given(
    st.integers(0, 100),
    st.sampled_from([1 << 20, 20, 10, 1]),  # all at once, two chunks, four and seven
    st.sampled_from([1 << 16, 14, 2, 1]),
    st.frozensets(st.tuples(st.integers(0, ROWS - 1), st.integers(0, COLUMNS - 1))),
    st.none() | st.lists(st.floats(-3, 3), min_size=COLUMNS, max_size=COLUMNS),
)
@example(0, 20, 14, NOTHING, None)
@example(0, 1 << 20, 1 << 16, FIRST, [3.0, *[-3.0] * 6])  # what is left weighs less than what is left out
@example(0, 1 << 20, 2, frozenset((1, column) for column in range(COLUMNS)) | {(0, 6), (2, 1)}, None)
def test_chunks_and_blocks_give_the_sums_over_all_pairs(seed, max_scores, block, left_out, log_weight):
    """Values and gradients, also of a graph gone through twice; hits in any order."""
    users, candidates, positive, tau = inputs(seed)
    hits = torch.tensor(sorted(left_out, key=lambda hit: (hit[0] * 3 + hit[1] * 5) % 11)).T if left_out else None
    weight = None if log_weight is None else torch.tensor(log_weight).double()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(pairwise, "BLOCK", block)
        means, log_total = candidate_pair_means(
            users, candidates, positive, tau, Cubes(), weight, hits, max_scores=max_scores
        )
        want, log_want = naive(users, candidates, positive, tau, weight, hits)
        torch.testing.assert_close(means, want)
        torch.testing.assert_close(log_total, log_want)
        given = users, candidates, positive
        expected = torch.autograd.grad(want.square().sum(), given, retain_graph=True)
        for _ in range(2):
            got = torch.autograd.grad(means.square().sum(), given, retain_graph=True)
            for a, b in zip(got, expected, strict=True):
                torch.testing.assert_close(a, b)


@pytest.mark.parametrize(("max_scores", "width"), [(1 << 20, 7), (20, 4), (5, 1)])
@pytest.mark.parametrize(
    ("block", "heights"), [(14, {7: 2, 4: 3, 1: 5}), (2, {7: 1, 4: 1, 1: 2}), (1, {7: 1, 4: 1, 1: 1})]
)
@pytest.mark.filterwarnings("error")  # PyTorch warns where it has to make an output larger
def test_the_function_gets_no_more_than_a_block_at_once_and_nothing_twice(
    max_scores, width, block, heights, monkeypatch
):
    """If all scores fit, what the forward pass found is kept for one backward pass; else they are computed again."""
    monkeypatch.setattr(pairwise, "BLOCK", block)
    users, candidates, positive, tau = inputs(0)
    cubes = Cubes()
    means, _ = candidate_pair_means(users, candidates.detach(), positive.detach(), tau, cubes, max_scores=max_scores)
    forward = list(cubes.blocks)
    assert sum(height * wide for height, wide in forward) == ROWS * COLUMNS
    assert forward[0] == (heights[width], width)
    for passes in (1, 2):
        means.sum().backward(retain_graph=True)
        assert cubes.blocks == forward * (passes if width == COLUMNS else passes + 1)


@pytest.mark.parametrize("max_scores", [1 << 20, 20])
def test_memory_is_kept_and_two_graphs_never_share_it(max_scores):
    first, second = inputs(0), inputs(1)
    want = [torch.autograd.grad(naive(*tensors, None, None)[0].sum(), tensors[:3]) for tensors in (first, second)]
    means = [candidate_pair_means(*tensors, Cubes(), max_scores=max_scores)[0] for tensors in (first, second)]
    for _ in range(2):
        for place, tensors in enumerate((first, second)):
            got = torch.autograd.grad(means[place].sum(), tensors[:3], retain_graph=True)
            for a, b in zip(got, want[place], strict=True):
                torch.testing.assert_close(a, b)
        (kept,) = logsumexp._spare
        candidate_pair_means(*(x.detach() for x in inputs(2)), Cubes(), max_scores=max_scores)
        assert logsumexp._spare[0] is kept, "used again, and given back without a backward pass"
    means = candidate_pair_means(*first, Cubes(), max_scores=max_scores)[0]
    means.sum().backward(retain_graph=True)
    assert logsumexp._spare[0] is kept, "and after one"
    logsumexp._spare.clear()
    means.sum().backward()
    assert len(logsumexp._spare[0]) == kept.numel(), "as much of it is taken anew"


def test_weights_that_no_float32_can_hold():
    """exp(±200) is neither in float32; the sum is that of float64."""
    log_weight = torch.tensor([-200.0, -100.0, 0.0, 100.0, 199.0, 200.0, -150.0])
    given = inputs(0, torch.float32)
    means, log_total = candidate_pair_means(*given, Cubes(), log_weight)
    want, log_want = naive(*(x.double() for x in given), log_weight, None)
    torch.testing.assert_close(means.double(), want, rtol=1e-4, atol=1e-4)
    torch.testing.assert_close(log_total.double(), log_want)


def test_half_precision_around_it_changes_nothing():
    given = inputs(0, torch.float32)
    plain = candidate_pair_means(*given, Cubes())[0]
    with torch.autocast("cpu", dtype=torch.bfloat16):
        assert torch.equal(candidate_pair_means(*given, Cubes())[0], plain)
    half = [given[0].bfloat16(), *given[1:]]
    means = candidate_pair_means(*half, Cubes())[0]
    assert means.dtype == torch.float32
    means.sum().backward()
    want = naive(*(x.double() for x in half), None, None)[0]
    torch.testing.assert_close(means.double(), want, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("max_scores", [1 << 20, 3])
@pytest.mark.parametrize("weights", ["no candidates", "all weigh nothing"])
def test_means_of_nothing_are_zero_without_a_gradient(weights, max_scores):
    users, candidates = torch.ones(2, 3), torch.ones(5, 3)
    log_weight = torch.full((5,), -torch.inf)
    if weights == "no candidates":
        candidates, log_weight = candidates[:0], log_weight[:0]
    given = [tensor.requires_grad_() for tensor in (users, candidates, torch.ones(2))]
    means, sums = candidate_pair_means(*given, torch.ones(2), Cubes(), log_weight, max_scores=max_scores)
    assert not means.any() and torch.isneginf(sums).all()
    if means.requires_grad:
        assert not any(gradient.any() for gradient in torch.autograd.grad(means.sum(), given))


def test_after_inference_mode_there_is_a_gradient():
    users, candidates = torch.ones(2, 3, requires_grad=True), torch.ones(5, 3)

    def means(users):
        return candidate_pair_means(users, candidates, torch.zeros(2), torch.ones(2), Cubes())[0]

    with torch.inference_mode():
        first = means(users.detach())
    assert len(logsumexp._spare) == 1, "kept, and used again"
    second = means(users)
    second.sum().backward()
    assert torch.equal(first, second) and torch.isfinite(users.grad).all()
