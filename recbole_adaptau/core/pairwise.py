"""Sums over a row's negatives of a function of score differences, in bounded memory."""

from collections.abc import Callable
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from .logsumexp import MAX_SCORES, Chunk, _borrowed, _chunks, _given_back, _transposed_product, _width

# Scores that a function is given at once: 128 K floats are 512 KB, which stay in a core's cache.
BLOCK = 1 << 17
# (d [B, M], tau [B, 1]) → φ(d) and tau · dφ/dd, both [B, M]; d may be overwritten.
PairFunction = Callable[[Tensor, Tensor], tuple[Tensor, Tensor]]
# (positive [B], tau [B], φ) → the mean of φ over a row's negatives [B] and log Σ w [B]; see `candidate_pair_means`.
PairMeans = Callable[[Tensor, Tensor, PairFunction], tuple[Tensor, Tensor]]


def candidate_pair_means(
    users: Tensor,
    candidates: Tensor,
    positive: Tensor,
    tau: Tensor,
    function: PairFunction,
    log_weight: Tensor | None = None,
    hits: tuple[Tensor, Tensor] | None = None,
    max_scores: int = MAX_SCORES,
) -> tuple[Tensor, Tensor]:
    """Mean of φ(u·c_j − positive) over the row's candidates j, each weighing w_j, and log Σ_j w_j.

    Forward and backward hold at most a few times `max_scores` numbers, so memory does not grow with the catalogue.

    Args:
        users: [B, d], candidates: [M, d], positive: [B].
        tau: [B], handed to the function; no gradient flows to it.
        log_weight: [M], log w_j; None for w = 1.
        hits: (rows [H], columns [H]), the scores to leave out.
        max_scores: Bound on the scores held at once.

    Returns:
        [B], [B]; 0 and `-inf` where all were left out, or weigh nothing, or none were given.
    """
    if not len(candidates):
        return torch.zeros_like(tau), torch.full_like(tau, -torch.inf)
    wide = torch.promote_types(torch.promote_types(users.dtype, tau.dtype), torch.float32)
    users, candidates, positive, tau = (x.to(wide) for x in (users, candidates, positive, tau))
    log_weight = users.new_zeros(len(candidates)) if log_weight is None else log_weight.to(wide)
    largest = log_weight.max().nan_to_num(neginf=0.0)  # all may weigh nothing
    weight = torch.exp(log_weight - largest)
    total = weight.sum().expand(len(users))
    if hits is not None:
        order = torch.argsort(hits[0], stable=True)
        hits = hits[0][order], hits[1][order]
        left_out = torch.zeros_like(tau).index_add(0, hits[0], weight[hits[1]])
        alone = torch.bincount(hits[0], minlength=len(users)) == len(candidates)
        total = torch.where(alone, 0.0, total - left_out)
    means: Tensor = _PairMeans.apply(users, candidates, positive, tau, function, weight, total, hits, max_scores)
    return means, torch.log(total) + largest


class _PairMeans(torch.autograd.Function):
    """One matrix product forward, two backward; d mean / d c_j = w_j φ'(d_j) u / Σ w, and likewise for u.

    If all scores fit, tau · φ' is kept for the first backward pass; else each chunk is computed again.
    """

    @staticmethod
    def forward(
        ctx: Any,
        users: Tensor,
        candidates: Tensor,
        positive: Tensor,
        tau: Tensor,
        function: PairFunction,
        weight: Tensor,
        total: Tensor,
        hits: tuple[Tensor, Tensor] | None,
        max_scores: int,
    ) -> Tensor:
        ctx.function, ctx.kept = function, None
        ctx.chunks = _chunks(len(users), len(candidates), max_scores, hits)
        with torch.autocast(users.device.type, enabled=False):
            sums = torch.zeros_like(positive)
            memory = _borrowed(users, len(users) * _width(ctx.chunks))
            for chunk in ctx.chunks:
                found = _chunk_sums(function, users, candidates, positive, tau, weight, chunk, memory)
                sums += found.values
        if len(ctx.chunks) == 1 and any(ctx.needs_input_grad):
            ctx.kept = found, memory
        else:
            _given_back(memory)
        ctx.save_for_backward(users, candidates, positive, tau, weight, total)
        return torch.where(total > 0, sums / total, 0.0)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        users, candidates, positive, tau, weight, total = ctx.saved_tensors
        factor = torch.where(total > 0, grad / (total * tau), 0.0).unsqueeze(1)
        scaled, weighted = users * factor, candidates * weight.unsqueeze(1)
        grad_users, grad_positive = torch.zeros_like(users), users.new_zeros(len(users))
        grad_candidates = torch.empty_like(candidates)
        memory = ctx.kept[1] if ctx.kept else _borrowed(users, len(users) * _width(ctx.chunks))
        for chunk in ctx.chunks:
            found = (
                ctx.kept[0]
                if ctx.kept
                else _chunk_sums(ctx.function, users, candidates, positive, tau, weight, chunk, memory)
            )
            grad_users += found.slopes @ weighted[chunk[0]]
            grad_positive -= found.summed_slopes
            grad_candidates[chunk[0]] = _transposed_product(found.slopes, scaled)
        ctx.kept = None  # the memory goes to the next batch; a second backward pass computes the scores again
        _given_back(memory)
        grads = grad_users.mul_(factor), grad_candidates.mul_(weight.unsqueeze(1)), grad_positive * factor.squeeze(1)
        return (*grads, *[None] * 6)


class _ChunkSums(NamedTuple):
    """Of one chunk of columns: Σ_j w_j φ [B], tau · φ' [B, width] and Σ_j w_j tau · φ' [B], without its hits."""

    values: Tensor
    slopes: Tensor
    summed_slopes: Tensor


def _chunk_sums(
    function: PairFunction,
    users: Tensor,
    candidates: Tensor,
    positive: Tensor,
    tau: Tensor,
    weight: Tensor,
    chunk: Chunk,
    memory: Tensor,
) -> _ChunkSums:
    """A few rows at a time, all of whose numbers stay in the cache; the slopes stand in `memory`."""
    columns, hit_rows, hit_columns = chunk
    part, share = candidates[columns], weight[columns]
    made = _ChunkSums(
        torch.empty_like(positive),
        memory[: len(users) * len(part)].view(len(users), len(part)),
        torch.empty_like(positive),
    )
    height = max(BLOCK // max(len(part), 1), 1)
    starts = range(0, len(users), height)
    hits = (
        None
        if hit_rows is None
        else torch.searchsorted(hit_rows, torch.arange(0, len(users) + height, height, device=users.device))
    )
    for number, start in enumerate(starts):
        rows = slice(start, start + height)
        block = torch.mm(users[rows], part.T, out=made.slopes[rows])
        values, derivatives = function(block.sub_(positive[rows].unsqueeze(1)), tau[rows].unsqueeze(1))
        if hits is not None and hit_rows is not None and hit_columns is not None:
            inside = slice(int(hits[number]), int(hits[number + 1]))
            places = hit_rows[inside] - start, hit_columns[inside]
            values[places] = derivatives[places] = 0.0
        torch.mv(values, share, out=made.values[rows])
        torch.mv(derivatives, share, out=made.summed_slopes[rows])
        made.slopes[rows].copy_(derivatives)
    return made
