"""RowAdam against PyTorch's own optimisers."""

import pytest
import torch
import torch.nn.functional as F

from recbole_adaptau.core.row_adam import RowAdam
from recbole_adaptau.errors import OptionError
from tests.helpers import build, trainer_of


def tables(number=2):
    return [torch.nn.Parameter(torch.linspace(-1, 1, 40).view(10, 4).clone()) for _ in range(number)]


def loss_of(table, rows, sparse):
    return F.embedding(rows, table, sparse=sparse).square().sin().sum()


def test_a_rows_second_moment_fades_while_it_rests_and_its_gradient_is_spent_at_once():
    """Against the formula, row by row in float64."""
    (table,) = tables(1)
    optimiser = RowAdam([table], lr=0.1, betas=(0.9, 0.8))
    generator = torch.Generator().manual_seed(0)
    start = table.detach().clone()
    want, second = start.double(), torch.zeros(10, 4).double()
    for step in range(1, 9):
        rows = torch.randint(1, 8, (6,), generator=generator)  # with repetitions
        gradient = torch.autograd.grad(loss_of(table, rows, sparse=False), table)[0].double()
        optimiser.zero_grad()
        loss_of(table, rows, sparse=True).backward()
        optimiser.step()
        second = 0.8 * second + 0.2 * gradient.square()
        want -= 0.1 * gradient / (torch.sqrt(second / (1 - 0.8**step)) + 1e-8)
    assert torch.allclose(table.double(), want, atol=1e-5)
    assert torch.equal(table[[0, 8, 9]], start[[0, 8, 9]]) and not torch.equal(table[1:8], start[1:8])


def test_a_rare_row_comes_as_far_as_with_adam():
    """Used once in a hundred steps, with the same gradient each time; SparseAdam would come a tenth as far."""
    ours, theirs = (torch.nn.Parameter(torch.zeros(1, 2)) for _ in range(2))
    one, two = RowAdam([ours], lr=0.01), torch.optim.Adam([theirs], lr=0.01)
    for step in range(1000):
        one.zero_grad()
        two.zero_grad(set_to_none=False)
        if step % 100 == 50:
            for table, sparse in ((ours, True), (theirs, False)):
                F.embedding(torch.tensor([0]), table, sparse=sparse).sum().backward()
        else:
            ours.grad = torch.zeros(1, 2).to_sparse(1)
        one.step()
        two.step()
    assert torch.allclose(ours, theirs, rtol=0.1)


def test_dense_gradients_get_adam():
    ours, theirs = tables()
    optimiser, reference = RowAdam([ours], lr=0.1), torch.optim.Adam([theirs], lr=0.1)
    for _ in range(5):
        for optimise, table in ((optimiser, ours), (reference, theirs)):
            optimise.zero_grad()
            loss_of(table, torch.arange(10).repeat(2), sparse=False).backward()
            optimise.step()
    assert torch.allclose(ours, theirs, atol=1e-6)


@pytest.mark.parametrize("model", ["AdapTauMF", "AdapTauLightGCN"])
@pytest.mark.parametrize("strategy", ["adaptive_user", "learned_user"])
def test_row_adam_trains_and_its_state_is_saved(board, model, strategy):
    settings = {**board, "learner": "row_adam", "tau_strategy": strategy, "reg_weight": 1e-3}
    built = build(model, settings)
    trainer = trainer_of(built)
    first = trainer._train_epoch(built.train, 0)
    table = built.model.user_embedding.weight
    assert isinstance(trainer.optimizer, RowAdam) and table.grad.is_sparse == (model == "AdapTauMF")
    other = RowAdam(built.model.parameters(), lr=1.0)
    other.load_state_dict(trainer.optimizer.state_dict())
    assert torch.equal(other.state[table]["exp_avg_sq"], trainer.optimizer.state[table]["exp_avg_sq"])
    assert trainer._train_epoch(built.train, 1) < first


@pytest.mark.parametrize(("setting", "message"), [
    ({"weight_decay": 0.1}, r"weight_decay = 0\.1 shrinks all rows"),
    ({"clip_grad_norm": {"max_norm": 5.0}}, "clip_grad_norm needs gradients of whole tables"),
])  # fmt: skip
def test_what_does_not_go_with_rows_is_refused(board, setting, message):
    with pytest.raises(OptionError, match=message):
        build("AdapTauMF", {**board, **setting})
    build("AdapTauMF", {**board, **setting, "learner": "adam"})
