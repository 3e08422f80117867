"""What ranks do together, in real groups, against plain arithmetic in one process."""

import itertools
import pickle
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch
import torch.distributed as dist
from torch import nn
from torch.utils.data import BatchSampler

from recbole_adaptau.distributed import ranks
from recbole_adaptau.errors import OptionError

from .group import in_group

CPU = torch.device("cpu")


def test_ranks_exchange_tensors_numbers_states_and_files(tmp_path):
    """Three ranks with tensors of different lengths, one of them empty."""
    parts = [torch.arange(6.0).view(3, 2), torch.empty(0, 2), torch.tensor([[7.5, -1.0]])]
    states = [{"rank": rank, "state": torch.full((rank + 1,), rank, dtype=torch.uint8)} for rank in range(3)]
    file = tmp_path / "file.bin"

    def work(rank):
        total, shared = [torch.tensor([1.0, 10.0]) * (rank + 1), torch.tensor(rank)], torch.tensor([rank, 5 + rank])
        ranks.add_up(total)
        ranks.share([shared])
        gathered = [part.tolist() for part in ranks.gathered(parts[rank], CPU)]
        found = [(state["rank"], state["state"].tolist()) for state in ranks.gathered_states(states[rank], CPU)]
        means = ranks.averaged(rank / 7, CPU), ranks.averaged((rank * 1.0, 2.0), CPU), ranks.averaged(None, CPU)
        if rank == 0:
            file.write_bytes(b"of rank 0")
        texts = []
        for name in (file, tmp_path / "missing"):
            with ranks.file_of_first(str(name), CPU) as path:
                own = path == name
                texts.append((own, path.name, path.read_bytes() if path.is_file() else None))
            texts.append(path.exists())
        return {
            "who": (ranks.is_active(), ranks.rank(), ranks.world_size(), ranks.is_first()),
            "sums": [tensor.tolist() for tensor in total],
            "shared": shared.tolist(),
            "gathered": gathered,
            "states": found,
            "means": means,
            "texts": texts,
        }

    for rank, found in enumerate(in_group(3, work)):
        first = rank == 0
        assert found["who"] == (True, rank, 3, first)
        assert found["sums"] == [[6.0, 60.0], 3] and found["shared"] == [0, 5]
        assert found["gathered"] == [part.tolist() for part in parts]
        assert found["states"] == [(state["rank"], state["state"].tolist()) for state in states]
        one, two, nothing = found["means"]
        assert one == pytest.approx(1 / 7, rel=1e-15) and two == (1.0, 2.0) and nothing is None
        assert isinstance(one, float) and isinstance(two, tuple)
        assert found["texts"] == [(first, "file.bin", b"of rank 0"), first, (first, "missing", None), False]


def test_a_state_that_is_more_than_plain_data_is_not_unpickled():
    def work(_):
        with pytest.raises(pickle.UnpicklingError, match="Weights only load failed"):
            ranks.gathered_states({"path": Path("x")}, CPU)
        return "refused"

    assert in_group(1, work) == ["refused"]


class Rows(nn.Module):
    """A table of row-wise gradients and a dense layer, with a mean loss over rows."""

    def __init__(self, sparse: bool, parts: int):
        super().__init__()
        torch.manual_seed(3)
        self.table, self.layer, self.parts = nn.Embedding(9, 4, sparse=sparse), nn.Linear(4, 1), parts

    def forward(self, rows):
        losses = (self.layer(self.table(rows)).squeeze(1) - rows / 5).square()
        return losses.mean() if self.parts == 1 else (losses.mean(), 2.0 * losses.sqrt().mean())


@pytest.mark.parametrize(("sparse", "parts"), [(True, 1), (False, 2)])
def test_the_ranks_gradients_are_those_of_one_process_over_the_whole_batch(sparse, parts):
    """Ten or nine rows in batches of four by two ranks: a last batch of two, or of one, where rank 1 has none."""

    def gradients(model):
        return [parameter.grad.to_dense().tolist() for parameter in model.parameters()]

    def step(model, losses):
        loss = sum(losses) if isinstance(losses, tuple) else losses
        (loss + ranks.zero_of_all(model)).backward()

    def work(rank, number):
        model = Rows(sparse, parts)
        sampler = ranks.RankSampler(number, 2, torch.Generator().manual_seed(5), False)
        loss_of = ranks.weighted_loss(model, sampler, model)
        found = []
        for rows in BatchSampler(sampler, 2, drop_last=False):
            model.zero_grad()
            losses = loss_of(torch.tensor(rows) % 9)
            if isinstance(losses, tuple):
                assert len(losses) == parts
            step(model, losses)
            for parameter in model.parameters():  # as DistributedDataParallel calls its hook
                bucket = SimpleNamespace(buffer=lambda parameter=parameter: parameter.grad)
                parameter.grad = ranks.mean_gradient(dist.group.WORLD, bucket).wait()
            found.append((gradients(model), model.table.weight.grad.is_sparse))
        return found

    for number in (10, 9):
        order = torch.randperm(number, generator=torch.Generator().manual_seed(5))
        both = in_group(2, lambda rank, number=number: work(rank, number))
        assert len(both[0]) == len(both[1]) == len(order.split(4))
        for batch, rows in enumerate(order.split(4)):
            alone = Rows(sparse, parts)
            step(alone, alone(rows % 9))
            for own in both:
                found, is_sparse = own[batch]
                assert is_sparse == sparse
                for got, want in zip(found, gradients(alone), strict=True):
                    assert torch.allclose(torch.tensor(got), torch.tensor(want), atol=1e-6)


def test_a_rank_without_rows_waits_with_layers_that_need_all_ranks():
    """Nine rows in batches of four: rank 1 has none in the last, and computes a loss only beside a SyncBatchNorm."""
    counts = {}
    for waits in (False, True):
        model = nn.Sequential(nn.Linear(1, 1), nn.SyncBatchNorm(1) if waits else nn.BatchNorm1d(1))
        called = itertools.count()
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(ranks, "rank", lambda: 1)
            patch.setattr(ranks, "world_size", lambda: 2)
            sampler = ranks.RankSampler(9, 2, None, False)
        loss_of = ranks.weighted_loss(lambda _, called=called: torch.tensor(3.0 + 0 * next(called)), sampler, model)
        assert [loss_of(None).item() for _ in range(3)] == [3.0, 3.0, 0.0]
        counts[waits] = next(called)
    assert counts == {False: 2, True: 3}


def test_uneven_ranks_weigh_by_their_rows():
    """Seven rows in batches of six by two ranks: the last batch is of one row, which counts twice on rank 0."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(ranks, "rank", lambda: 0)
        patch.setattr(ranks, "world_size", lambda: 2)
        sampler = ranks.RankSampler(7, 3, None, False)
    loss = torch.tensor(1.5)
    one = ranks.weighted_loss(lambda _: loss, sampler, nn.Linear(1, 1))
    assert one(None) is loss and one(None).item() == 3.0
    two = ranks.weighted_loss(lambda _: (loss, loss * 2), sampler, nn.Linear(1, 1))
    assert [part.item() for part in two(None)] == [1.5, 3.0] and [part.item() for part in two(None)] == [3.0, 6.0]


def test_row_wise_gradients_need_tables_used_as_they_are():
    def work(rank):
        leaf = nn.Parameter(torch.zeros(2))
        ranks.check_row_updates("AdapTauMF", [leaf, leaf])
        try:
            ranks.check_row_updates("AdapTauLightGCN", [leaf, leaf * 2])
        except OptionError as error:
            return str(error)

    told = in_group(1, work)
    assert told[0].startswith("learner = row_adam with several processes needs the CPU and a model whose tables")
    assert "unlike AdapTauLightGCN here: use learner=adam, or --nproc=1." in told[0]
    ranks.check_row_updates("AdapTauLightGCN", [torch.zeros(1, requires_grad=True) * 2])  # without a group all is well


def test_only_gloo_averages_row_wise_gradients(monkeypatch):
    monkeypatch.setattr(ranks, "is_active", lambda: True)
    monkeypatch.setattr(dist, "get_backend", lambda: "nccl")
    with pytest.raises(OptionError, match="needs the CPU"):
        ranks.check_row_updates("AdapTauMF", [nn.Parameter(torch.zeros(2))])
