"""What several processes do together: share rows, agree on state, hand files and figures around.

A process is a rank of a group. Everything here also works without a group, where it does nothing. Nothing received is
unpickled: tensors and bytes go over the wire, and checkpoints are read from bytes as from any file.
"""

import io
import itertools
import tempfile
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.distributed.algorithms.ddp_comm_hooks.default_hooks import allreduce_hook
from torch.futures import Future
from torch.utils.data import Sampler

from ..errors import DataError, OptionError


def is_active() -> bool:
    """Whether this process is one of a group."""
    return dist.is_available() and dist.is_initialized()


def rank() -> int:
    return dist.get_rank() if is_active() else 0


def world_size() -> int:
    return dist.get_world_size() if is_active() else 1


def is_first() -> bool:
    """Whether this process is the one that writes: rank 0, or the only one."""
    return rank() == 0


class RankSampler(Sampler[int]):
    """One rank's rows of a loader, in place of DistributedSampler, which repeats rows and ignores the seed.

    Training: every rank draws the one permutation that a single process would draw (the loaders' generators are seeded
    alike) and takes every world_size-th row of it. So the ranks' batches together are one process's batches, row for
    row, and none is dropped or repeated. Where fewer rows are left for the last batch than there are ranks, a rank
    without any takes the first row of the epoch once more, with a weight of 0 (`weight`).

    Evaluation: a contiguous part, so that the ranks' figures one after another are in a single process's order.

    Args:
        number: The loader's rows, over all ranks.
        step: Rows in a batch of one rank.
        generator: The loader's, for a shuffled order; None for the given one.
        contiguous: Whether this is for evaluation.
    """

    def __init__(self, number: int, step: int, generator: torch.Generator | None, contiguous: bool):
        if 0 < number < world_size():
            raise DataError(f"{world_size()} processes cannot share {number} rows: give a smaller --nproc.")
        self.number, self.step, self.generator, self.contiguous = number, step, generator, contiguous
        self.rank, self.world_size = rank(), world_size()

    @property
    def part(self) -> slice:
        """Where a contiguous part lies."""
        return slice(self.number * self.rank // self.world_size, self.number * (self.rank + 1) // self.world_size)

    def draw(self) -> Tensor:
        """This rank's rows of one round, in order; moves the generator on as PyTorch's RandomSampler does."""
        if self.contiguous:
            return torch.arange(self.number)[self.part]
        order = torch.arange(self.number)
        if self.generator is not None:
            order = torch.randperm(self.number, generator=self.generator)
            torch.randperm(self.number, generator=self.generator)
        own = order[self.rank :: self.world_size]
        return torch.cat([own, order[:1]]) if len(own) < len(self) else own

    def weight(self, batch: int) -> float:
        """What this rank's mean over its rows of a batch counts, so that the ranks' mean is the mean over all rows."""
        start = batch * self.step * self.world_size
        rows = min(self.step * self.world_size, self.number - start)
        return len(range(self.rank, rows, self.world_size)) * self.world_size / rows

    def set_epoch(self, epoch: int) -> None:
        """RecBole asks for it; here the generator moves on by itself."""

    def __len__(self) -> int:
        if self.contiguous:
            return self.part.stop - self.part.start
        own, most = len(range(self.rank, self.number, self.world_size)), -(-self.number // self.world_size)
        # Every rank has as many batches as rank 0.
        return own + (-(-own // self.step) < -(-most // self.step))

    def __iter__(self) -> Iterator[int]:
        yield from self.draw().tolist()


def weighted_loss(loss_func: Callable[[Any], Any], sampler: RankSampler, model: nn.Module) -> Callable[[Any], Any]:
    """A model's loss, times the weight of this rank in each batch of an epoch.

    DistributedDataParallel averages gradients over ranks as if all had as many rows. A rank without rows contributes a
    zero; its loss is not computed, but where a layer waits for the other ranks to compute theirs.
    """
    batches = itertools.count()
    waits = any(isinstance(module, nn.SyncBatchNorm) for module in model.modules())
    device = next(model.parameters()).device
    parts = None

    def weighted(interaction: Any) -> Any:
        nonlocal parts
        weight = sampler.weight(next(batches))
        if weight == 0 and not waits:
            nothing = torch.zeros((), device=device)
            return nothing if parts is None else (nothing,) * parts
        losses = loss_func(interaction)
        parts = len(losses) if isinstance(losses, tuple) else None
        if weight == 1:
            return losses
        return tuple(loss * weight for loss in losses) if isinstance(losses, tuple) else losses * weight

    return weighted


def zero_of_all(model: nn.Module) -> Any:
    """A zero that every parameter has a part in, as DistributedDataParallel needs it.

    RecBole sums whole tables, which makes every gradient dense; one with row-wise gradients takes part by its padding.
    """
    tables = [module for module in model.modules() if isinstance(module, nn.Embedding) and module.sparse]
    row_wise = {id(table.weight) for table in tables}
    sums = [parameter.sum() for parameter in model.parameters() if id(parameter) not in row_wise]
    sums += [table(torch.zeros(1, dtype=torch.int64, device=table.weight.device)).sum() for table in tables]
    return sum(sums) * 0


def mean_gradient(group: dist.ProcessGroup, bucket: dist.GradBucket) -> Future[Tensor]:
    """The ranks' mean of a gradient, as DistributedDataParallel asks for it; a row-wise one is every rank's rows.

    Gloo's own all-reduce of row-wise gradients breaks its thread's heap now and then: a rank in some ten starts died of
    it, in the coalescing of what it had received (kin to PyTorch's issue 87497, where a rank has no row).
    """
    gradient = bucket.buffer()
    if not gradient.is_sparse:
        return allreduce_hook(group, bucket)
    rows = torch.cat(gathered(gradient._indices()[0], gradient.device))
    values = torch.cat(gathered(gradient._values(), gradient.device)) / world_size()
    mean: Future[Tensor] = Future()
    mean.set_result(torch.sparse_coo_tensor(rows[None], values, gradient.shape, check_invariants=False))
    return mean


def check_row_updates(model: str, encoded: Iterable[Tensor]) -> None:
    """Refuse row-wise gradients that cannot be averaged: only gloo does, and only of tables used as they are."""
    if is_active() and not (dist.get_backend() == "gloo" and all(table.is_leaf for table in encoded)):
        raise OptionError(
            f"learner = row_adam with several processes needs the CPU and a model whose tables are used as they "
            f"are, unlike {model} here: use learner=adam, or --nproc=1."
        )


def averaged(losses: Any, device: torch.device) -> Any:
    """A number, or a tuple of numbers, averaged over the ranks."""
    if losses is None or not is_active():
        return losses
    values = torch.tensor(losses, dtype=torch.float64, device=device)
    dist.all_reduce(values)
    mean = (values / world_size()).tolist()
    return tuple(mean) if isinstance(losses, tuple) else mean


def add_up(tensors: Iterable[Tensor]) -> None:
    """Overwrite tensors, in place, with their sums over the ranks."""
    if is_active():
        for tensor in tensors:
            dist.all_reduce(tensor)


def share(tensors: Iterable[Tensor]) -> None:
    """Overwrite tensors, in place, with rank 0's."""
    if is_active():
        for tensor in tensors:
            dist.broadcast(tensor, 0)


def gathered(tensor: Tensor, device: torch.device) -> list[Tensor]:
    """Every rank's tensor, on the CPU; the lengths along the first dimension may differ. Shape: [N_r, …] → ranks."""
    if not is_active():
        return [tensor.cpu()]
    lengths = [torch.zeros(1, dtype=torch.int64, device=device) for _ in range(world_size())]
    dist.all_gather(lengths, torch.tensor([len(tensor)], device=device))
    padded = tensor.new_zeros((int(max(lengths)), *tensor.shape[1:]), device=device)
    padded[: len(tensor)] = tensor.to(device)
    everyone = [torch.empty_like(padded) for _ in lengths]
    dist.all_gather(everyone, padded)
    return [part[: int(length)].cpu() for part, length in zip(everyone, lengths, strict=True)]


def gathered_states(state: dict[str, Any], device: torch.device) -> list[dict[str, Any]]:
    """Every rank's plain data, as a checkpoint holds it."""
    if not is_active():
        return [state]
    content = io.BytesIO()
    torch.save(state, content)
    sent = torch.frombuffer(bytearray(content.getvalue()), dtype=torch.uint8)
    received = gathered(sent, device)
    return [torch.load(io.BytesIO(part.numpy().tobytes()), weights_only=True) for part in received]


@contextmanager
def file_of_first(path: str | Path, device: torch.device) -> Iterator[Path]:
    """Rank 0's file: for rank 0 the file itself, elsewhere a copy for as long as it is needed.

    The other ranks may be on machines that have no such file, or have an older one. Where rank 0 has none, the path
    given back names no file on any rank.
    """
    path = Path(path)
    if not is_active():
        yield path
        return
    content = np.fromfile(path, np.uint8) if is_first() and path.is_file() else np.empty(0, np.uint8)
    size = torch.tensor([len(content)], device=device)
    share([size])
    data = torch.from_numpy(content).to(device)
    if not is_first():
        data = data.new_empty(int(size))
    share([data])
    with tempfile.TemporaryDirectory() as folder:
        copy = Path(folder) / path.name
        if len(data) and not is_first():
            data.cpu().numpy().tofile(copy)
        yield path if is_first() else copy
