"""RowAdam against PyTorch's own optimisers."""

import pytest
import torch
import torch.nn.functional as F

from recbole_adaptau.errors import OptionError
from recbole_adaptau.optimiser import RowAdam
from tests.helpers import build, trainer_of


def tables(number=2):
    return [torch.nn.Parameter(torch.linspace(-1, 1, 40).view(10, 4).clone()) for _ in range(number)]


def loss_of(table, rows, sparse):
    return F.embedding(rows, table, sparse=sparse).square().sin().sum()


def test_rows_follow_pytorchs_sparse_adam_and_others_rest():
    ours, theirs = tables()
    one, two = RowAdam([ours], lr=0.1), torch.optim.SparseAdam([theirs], lr=0.1)
    generator = torch.Generator().manual_seed(0)
    start = ours.detach().clone()
    for _ in range(8):
        rows = torch.randint(1, 8, (6,), generator=generator)  # with repetitions
        for optimiser, table in ((one, ours), (two, theirs)):
            optimiser.zero_grad()
            loss_of(table, rows, sparse=True).backward()
            optimiser.step()
    assert torch.allclose(ours, theirs, atol=1e-6)
    assert torch.equal(ours[[0, 8, 9]], start[[0, 8, 9]]) and not torch.equal(ours[1:8], start[1:8])


def test_where_every_row_is_touched_it_is_adam_and_dense_gradients_too():
    sparse, dense, theirs = tables(3)
    optimiser, reference = RowAdam([sparse, dense], lr=0.1), torch.optim.Adam([theirs], lr=0.1)
    rows = torch.arange(10).repeat(2)
    for _ in range(5):
        optimiser.zero_grad()
        reference.zero_grad()
        for table, kind in ((sparse, True), (dense, False), (theirs, False)):
            loss_of(table, rows, kind).backward()
        assert sparse.grad.is_sparse and not dense.grad.is_sparse
        optimiser.step()
        reference.step()
    assert torch.allclose(sparse, theirs, atol=1e-6) and torch.allclose(dense, theirs, atol=1e-6)


@pytest.mark.parametrize("model", ["AdapTauMF", "AdapTauLightGCN"])
@pytest.mark.parametrize("strategy", ["adaptive_user", "learned_user"])
def test_sparse_adam_trains_and_its_state_is_saved(board, model, strategy):
    settings = {**board, "learner": "sparse_adam", "tau_strategy": strategy, "reg_weight": 1e-3}
    built = build(model, settings)
    trainer = trainer_of(built)
    first = trainer._train_epoch(built.train, 0)
    table = built.model.user_embedding.weight
    assert isinstance(trainer.optimizer, RowAdam) and table.grad.is_sparse == (model == "AdapTauMF")
    other = RowAdam(built.model.parameters(), lr=1.0)
    other.load_state_dict(trainer.optimizer.state_dict())
    assert torch.equal(other.state[table]["exp_avg"], trainer.optimizer.state[table]["exp_avg"])
    assert trainer._train_epoch(built.train, 1) < first


def test_weight_decay_does_not_go_with_rows(board):
    with pytest.raises(OptionError, match=r"weight_decay = 0\.1 shrinks all rows"):
        build("AdapTauMF", {**board, "learner": "sparse_adam", "weight_decay": 0.1})
