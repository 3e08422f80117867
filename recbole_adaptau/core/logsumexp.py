"""The log-sum-exp of a row's negatives at its temperature, which every softmax loss needs, in bounded memory."""

import math
from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

# Scores held at once by `candidate_logsumexp`: 16 M floats are 64 MB. Beyond that it works in chunks.
MAX_SCORES = 1 << 24

# exp of this is far from float32's largest number, exp(88.7), and its inverse far from the smallest.
MAX_EXPONENT = 80.0

# exp(x) is computed as exp2(x · log2 e): a power of two is two thirds of the work.
LOG2_E = math.log2(math.e)


def row_logsumexp(neg: Tensor, tau: Tensor, log_weight: Tensor | None = None) -> Tensor:
    """log Σ_j w_j exp(neg_j / tau) where each row has negatives of its own.

    Shape: neg [B, M], tau [B], log_weight [B, M] → [B].
    """
    logits = neg / tau.unsqueeze(1)
    return torch.logsumexp(logits if log_weight is None else logits + log_weight, dim=1)


def candidate_logsumexp(
    users: Tensor,
    candidates: Tensor,
    tau: Tensor,
    log_weight: Tensor | None = None,
    hits: tuple[Tensor, Tensor] | None = None,
    max_logit: float = math.inf,
    max_scores: int = MAX_SCORES,
) -> Tensor:
    """log Σ_j w_j exp(u·c_j / tau) where all rows share the candidates, as matrix products.

    Forward and backward hold at most `max_scores` scores at a time, so memory does not grow with the catalogue.

    Args:
        users: [B, d].
        candidates: [M, d].
        tau: [B], one temperature per row; gradients flow to it.
        log_weight: [M], log w_j (popularity, repeated draws, log-probability correction); None for w = 1. Weights
            multiply exponentials: where the largest logit has a weight 10^30 times below the largest, it underflows.
        hits: (rows [H], columns [H]), the scores to leave out.
        max_logit: What |u·c| / tau cannot exceed, where that is known: if its exponentials cannot overflow, no
            row's largest logit need be found and taken off first.
        max_scores: Bound on the scores held at once.

    Returns:
        [B]; `-inf` where all were left out, or weigh nothing, or none were given.
    """
    if not len(candidates):
        return torch.full_like(tau, -torch.inf)
    shifted = not max_logit + math.log(len(candidates)) < MAX_EXPONENT
    lse: Tensor = _CandidateLogSumExp.apply(users, candidates, tau, log_weight, hits, shifted, max_scores)
    return lse


class _CandidateLogSumExp(torch.autograd.Function):
    """One matrix product forward, two backward, and one exponential; weights multiply vectors, never the scores.

    d lse / d u = Σ p_j c_j / tau, d lse / d c_j = p_j u / tau, d lse / d tau = −(u · Σ p_j c_j) / tau².
    If all scores fit, exp(scores) is kept for the first backward pass; else each chunk is computed again.
    """

    @staticmethod
    def forward(
        ctx: Any,
        users: Tensor,
        candidates: Tensor,
        tau: Tensor,
        log_weight: Tensor | None,
        hits: tuple[Tensor, Tensor] | None,
        shifted: bool,
        max_scores: int,
    ) -> Tensor:
        ctx.dtypes = users.dtype, candidates.dtype, tau.dtype
        wide = torch.promote_types(torch.promote_types(users.dtype, tau.dtype), torch.float32)
        with torch.autocast(users.device.type, enabled=False):
            users, candidates, tau = users.to(wide), candidates.to(wide), tau.to(wide)
            ctx.chunks = _chunks(len(users), len(candidates), max_scores, hits)
            largest: Tensor | float = 0.0
            weight = candidates.new_ones(len(candidates))
            if log_weight is not None:
                largest = log_weight.to(wide).max().nan_to_num(neginf=0.0)  # all may weigh nothing
                weight = torch.exp(log_weight.to(wide) - largest)
            running = _RunningLogSumExp(users, shifted)
            scores = _borrowed(users, len(users) * _width(ctx.chunks))
            scaled = users * (LOG2_E / tau).unsqueeze(1)  # 2048 × 64 products are cheaper than 2048 × 1024
            for chunk in ctx.chunks:
                kept = running.add(_chunk_logits(scaled, candidates, chunk, scores), weight[chunk[0]])
            lse = running.value()
        ctx.kept = None
        if len(ctx.chunks) == 1 and any(ctx.needs_input_grad):
            ctx.kept = kept, scores
        else:
            _given_back(scores)
        ctx.save_for_backward(users, candidates, tau, weight, lse, running.total)
        return lse + largest

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        users, candidates, tau, weight, lse, total = ctx.saved_tensors
        weight = weight.unsqueeze(1)
        weighted = candidates * weight
        factor = grad / tau
        if ctx.kept is not None:
            exponentials, scores = ctx.kept
            factor = torch.where(total > 0, factor / total, 0.0)
            summed = exponentials @ weighted
            grad_candidates = _transposed_product(exponentials, users * factor.unsqueeze(1))
            ctx.kept = None  # the memory goes to the next batch; a second backward pass computes the scores again
        else:
            # exp2 of -inf is 0: a row without any negative has no gradient.
            offset = torch.where(torch.isneginf(lse), torch.inf, lse).mul(LOG2_E).unsqueeze(1)
            scaled, factored = users * (LOG2_E / tau).unsqueeze(1), users * factor.unsqueeze(1)
            summed = torch.zeros_like(users)
            grad_candidates = torch.empty_like(candidates)
            scores = _borrowed(users, len(users) * _width(ctx.chunks))
            for chunk in ctx.chunks:
                p = _chunk_logits(scaled, candidates, chunk, scores).sub_(offset).exp2_()
                summed += p @ weighted[chunk[0]]
                grad_candidates[chunk[0]] = _transposed_product(p, factored)
        _given_back(scores)
        grad_users = summed.mul_(factor.unsqueeze(1))
        grad_tau = -(grad_users * users).sum(1) / tau
        grads = (grad_users, grad_candidates.mul_(weight), grad_tau)
        return (*(g.to(dtype) for g, dtype in zip(grads, ctx.dtypes, strict=True)), None, None, None, None)


Chunk = tuple[slice, Tensor | None, Tensor | None]


def _chunks(rows: int, columns: int, max_scores: int, hits: tuple[Tensor, Tensor] | None) -> list[Chunk]:
    """Ranges of columns with the hits that fall into each (columns counted from the range's start)."""
    width = min(columns, max(max_scores // max(rows, 1), 1))
    chunks: list[Chunk] = []
    for start in range(0, columns, width):
        stop = min(start + width, columns)
        if hits is None:
            chunks.append((slice(start, stop), None, None))
        elif width == columns:
            chunks.append((slice(start, stop), *hits))
        else:
            inside = (hits[1] >= start) & (hits[1] < stop)
            chunks.append((slice(start, stop), hits[0][inside], hits[1][inside] - start))
    return chunks


def _width(chunks: list[Chunk]) -> int:
    """The columns of the widest chunk, which is the first."""
    return chunks[0][0].stop


def _chunk_logits(scaled_users: Tensor, candidates: Tensor, chunk: Chunk, memory: Tensor) -> Tensor:
    """log2 e · u·c / tau for one chunk, `-inf` at its hits.

    Shape: scaled_users [B, d] (log2 e · u / tau), memory [at least B · width] to write to → [B, width].
    """
    columns, hit_rows, hit_columns = chunk
    part = candidates[columns]
    shape = len(scaled_users), len(part)
    logits = torch.mm(scaled_users, part.T, out=memory[: shape[0] * shape[1]].view(shape))
    if hit_rows is not None:
        logits[hit_rows, hit_columns] = -torch.inf
    return logits


def _transposed_product(matrix: Tensor, rows: Tensor) -> Tensor:
    """matrixᵀ @ rows; as (rowsᵀ @ matrix)ᵀ, because a CPU reads the large one faster in its own order.

    Shape: matrix [B, M], rows [B, d] → [M, d].
    """
    return (rows.T.contiguous() @ matrix).T.contiguous() if matrix.is_cpu else matrix.T @ rows


# What the last batch's scores stood in. Fresh memory for every batch's would cost a CPU as much in page faults as the
# product that fills it; CUDA's allocator keeps memory by itself.
_spare: list[Tensor] = []


def _borrowed(like: Tensor, number: int) -> Tensor:
    """Memory for so many scores, whatever it holds. Shape: [number or more]."""
    if like.is_cpu and _spare:
        memory = _spare.pop()  # nobody else has it now
        if memory.dtype == like.dtype and len(memory) >= number:
            return memory
    with torch.inference_mode(False):  # memory made in that mode could not be written to outside of it
        return like.new_empty(number)


def _given_back(memory: Tensor) -> None:
    if memory.is_cpu and not _spare:
        _spare.append(memory)


class _RunningLogSumExp:
    """log Σ w exp over chunks of columns; `shifted` by the largest logit so far, so that nothing overflows."""

    def __init__(self, users: Tensor, shifted: bool):
        self.shift = users.new_full((len(users),), -torch.inf) if shifted else None
        self.total = users.new_zeros(len(users))

    def add(self, logits: Tensor, weight: Tensor) -> Tensor:
        """Take in one chunk; `logits` [B, width], times log2 e, is overwritten with its exponentials and returned."""
        if self.shift is None:
            exponentials = logits.exp2_()
        else:
            shift = torch.maximum(self.shift, logits.amax(1))
            finite = torch.where(torch.isneginf(shift), 0.0, shift)
            exponentials = logits.sub_(finite.unsqueeze(1)).exp2_()
            self.total = self.total * torch.exp2(self.shift - finite)
            self.shift = shift
        self.total = torch.addmv(self.total, exponentials, weight)
        return exponentials

    def value(self) -> Tensor:
        lse = torch.log(self.total)
        return lse if self.shift is None else lse + torch.where(torch.isneginf(self.shift), 0.0, self.shift) / LOG2_E
