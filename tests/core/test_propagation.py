"""Propagation against dense matrices and against RecBole's own LightGCN."""

import numpy as np
import pytest
import torch

from recbole_adaptau.core.interactions import Interactions
from recbole_adaptau.core.propagation import Propagation


def graph(seed=0, n_users=7, n_items=9):
    rng = np.random.default_rng(seed)
    return Interactions(rng.integers(1, n_users - 1, 20), rng.integers(1, n_items, 20), n_users, n_items)


def dense(data):
    size = data.n_users + data.n_items
    a = torch.zeros(size, size, dtype=torch.float64)
    for user, item in zip(data.users.tolist(), data.items.tolist(), strict=True):
        a[user, data.n_users + item] = a[data.n_users + item, user] = 1.0
    degree = a.sum(1).clamp_min(1.0)
    return a / torch.sqrt(degree[:, None] * degree[None, :])


@pytest.mark.parametrize("columns", [5, 32, 70])  # 32 are done at a time
@pytest.mark.parametrize("layers", [0, 1, 3])
def test_forward_and_backward_equal_the_dense_polynomial(layers, columns):
    data = graph()
    a = dense(data)
    x = torch.randn(len(a), columns, requires_grad=True)
    want = sum(torch.linalg.matrix_power(a, k) for k in range(layers + 1)) @ x.double() / (layers + 1)
    got = Propagation(data, layers)(x)
    assert torch.allclose(got.double(), want, atol=1e-6)
    weights = torch.randn_like(got)
    (ours,) = torch.autograd.grad((got * weights).sum(), x)
    (naive,) = torch.autograd.grad((want * weights).sum(), x)
    assert torch.allclose(ours, naive, atol=1e-5)


def test_nodes_without_edges_and_the_padding_keep_their_own_embedding():
    data = graph()
    x = torch.randn(data.n_users + data.n_items, 4)
    out = Propagation(data, 3)(x)
    for node in (0, data.n_users, data.n_users - 1):
        assert torch.allclose(out[node], x[node] / 4)


def test_edge_dropout_is_symmetric_unbiased_and_off_in_evaluation():
    data = graph()
    propagation = Propagation(data, 2, edge_dropout=0.4)
    torch.manual_seed(0)
    total = torch.zeros(propagation.size, propagation.size)
    for _ in range(800):
        a = propagation.matrix().to_dense()
        assert torch.equal(a, a.T)
        total += a
    assert torch.allclose(total / 800, dense(data).float(), atol=0.08)
    assert not torch.equal(propagation.matrix().to_dense(), propagation.matrix().to_dense())
    propagation.eval()
    assert torch.allclose(propagation.matrix().to_dense(), dense(data).float())


def test_edge_dropout_gradient_uses_the_same_dropped_graph():
    data = graph()
    propagation = Propagation(data, 1, edge_dropout=0.5)
    x = torch.randn(propagation.size, 3, requires_grad=True)
    torch.manual_seed(3)
    kept = propagation.matrix().to_dense()
    torch.manual_seed(3)
    out = propagation(x)
    (ours,) = torch.autograd.grad(out.square().sum(), x)
    (naive,) = torch.autograd.grad(((x + kept @ x) / 2).square().sum(), x)
    assert torch.allclose(ours, naive, atol=1e-5)


def test_message_dropout_changes_training_only():
    propagation = Propagation(graph(), 2, message_dropout=0.5)
    x = torch.randn(propagation.size, 3)
    assert not torch.equal(propagation(x), propagation(x))
    propagation.eval()
    assert torch.equal(propagation(x), propagation(x))


def test_memory_kept_in_inference_mode_does_not_break_training():
    propagation = Propagation(graph(), 2)
    x = torch.randn(propagation.size, 3, requires_grad=True)
    with torch.inference_mode():
        first = propagation(x)
    second = propagation(x)
    second.sum().backward()
    assert torch.equal(first, second) and torch.isfinite(x.grad).all()


@pytest.mark.parametrize("layers", [1, 3])
@pytest.mark.parametrize("edges", [0.0, 0.5])
def test_layers_with_dropout_are_the_dense_polynomial_of_the_dropped_graph(layers, edges):
    """A share of messages too small to drop any takes the path of training with message dropout."""
    propagation = Propagation(graph(), layers, message_dropout=1e-12, edge_dropout=edges)
    x = torch.randn(propagation.size, 3, dtype=torch.float32, requires_grad=True)
    torch.manual_seed(3)
    a = propagation.matrix().to_dense().double()
    want = sum(torch.linalg.matrix_power(a, k) for k in range(layers + 1)) @ x.double() / (layers + 1)
    for given in (propagation, Propagation(graph(), layers, edge_dropout=edges)):
        torch.manual_seed(3)
        got = given(x)
        torch.testing.assert_close(got.double(), want, rtol=1e-5, atol=1e-6)
        ours, naive = (torch.autograd.grad(y.square().sum(), x, retain_graph=True)[0] for y in (got, want))
        torch.testing.assert_close(ours, naive, rtol=1e-4, atol=1e-5)


def test_message_dropout_drops_its_share_of_every_layer_and_keeps_the_mean():
    torch.manual_seed(0)
    propagation = Propagation(graph(), 1, message_dropout=0.25)
    x = torch.ones(propagation.size, 4000)
    messages = propagation(x) * 2 - x
    reached = messages.any(1)
    assert (messages[reached] == 0).float().mean().item() == pytest.approx(0.25, abs=0.02)
    torch.testing.assert_close(messages.mean(1), propagation.eval().product(x).mean(1), rtol=0.05, atol=1e-6)


def test_the_last_items_may_have_no_edge_and_any_layout_is_taken():
    data = Interactions(np.array([1, 2, 2]), np.array([1, 1, 2]), 5, 7)
    a = dense(data)
    turned = torch.randn(4, len(a)).T.requires_grad_()
    for layers in (0, 2):
        propagation = Propagation(data, layers)
        got = propagation(turned)
        want = sum(torch.linalg.matrix_power(a, k) for k in range(layers + 1)) @ turned.double() / (layers + 1)
        torch.testing.assert_close(got.double(), want, rtol=1e-5, atol=1e-6)
        assert got.data_ptr() != turned.data_ptr(), "what is given stays the caller's"
        (ours,) = torch.autograd.grad(got.sum(), turned)  # an expanded gradient
        (naive,) = torch.autograd.grad(want.sum(), turned)
        torch.testing.assert_close(ours, naive, rtol=1e-5, atol=1e-6)
    torch.testing.assert_close(propagation.product(turned).double(), a @ turned.double(), rtol=1e-5, atol=1e-6)


def test_layers_stand_in_memory_that_is_kept():
    propagation = Propagation(graph(), 2)
    x = torch.randn(propagation.size, 3)
    propagation(x)
    for memory in propagation._work:
        memory.fill_(torch.nan)
    places = [memory.data_ptr() for memory in propagation._work]
    propagation(x)
    assert [memory.data_ptr() for memory in propagation._work] == places
    assert not any(memory.isnan().any() for memory in propagation._work)
    propagation(torch.randn(propagation.size, 5))
    assert len(propagation._work[0]) == 5 * propagation.size, "of another size, others"
