"""RecBole's graph models with our propagation lent to them: the same losses, gradients, scores and training."""

import copy

import numpy as np
import pytest
import torch

from tests.helpers import build, trainer_of

MODELS = {
    "LightGCN": {"n_layers": 3},
    "NCL": {"n_layers": 2, "num_clusters": 4, "ssl_reg": 0.1, "proto_reg": 0.1},
    "NGCF": {"hidden_size_list": [8, 4], "message_dropout": 0.0},
    "SGL": {"n_layers": 3, "drop_ratio": 0.3},
    "SGL RW": {"n_layers": 2, "type": "RW", "drop_ratio": 0.3},
}


def pair(board, name):
    settings = {**board, **MODELS[name]}
    model = name.split()[0]
    yield build(model, settings)
    yield build(model, {**settings, "fast_propagation": True})


def loss_and_gradients(built, interaction):
    model = built.model
    torch.manual_seed(0)

    np.random.seed(0)
    model.train()
    if hasattr(model, "e_step"):
        model.e_step()
    losses = model.calculate_loss(interaction)
    loss = sum(losses) if isinstance(losses, tuple) else losses
    loss.backward()
    return loss.item(), model.user_embedding.weight.grad, model.item_embedding.weight.grad


@pytest.mark.parametrize("name", MODELS)
def test_losses_gradients_and_scores_are_recboles(board, name):
    plain, fast = pair(board, name)
    interaction = next(iter(plain.train))
    assert torch.equal(plain.model.user_embedding.weight, fast.model.user_embedding.weight)
    assert not getattr(plain.model, "lent_propagation", False) and fast.model.lent_propagation
    (loss, *grads), (fast_loss, *fast_grads) = (loss_and_gradients(built, interaction) for built in (plain, fast))
    assert fast_loss == pytest.approx(loss, rel=1e-5)
    for ours, theirs in zip(fast_grads, grads, strict=True):
        assert theirs.abs().max() > 0 and torch.allclose(ours, theirs, rtol=1e-4, atol=1e-6)
    copy.deepcopy(fast.model)  # as RecBole's run_recbole does
    scores = [built.model.eval().full_sort_predict({"user_id": torch.arange(1, 9)}) for built in (plain, fast)]
    assert torch.allclose(*scores, atol=1e-6)


def test_sgl_on_a_graph_for_each_layer_gives_recboles_embeddings(board):
    plain, fast = pair(board, "SGL RW")
    for built in (plain, fast):
        np.random.seed(0)
        built.model.graph_construction()
    nodes, fast_nodes = (torch.cat(built.model.forward(built.model.sub_graph1)) for built in (plain, fast))
    assert len(fast.model.sub_graph1) == 2 and torch.allclose(fast_nodes, nodes, atol=1e-6)


@pytest.mark.parametrize("name", ["LightGCN", "SGL"])
def test_training_comes_to_the_same(board, name):
    results = []
    for built in pair({**board, "epochs": 3, "metric_decimal_place": 4}, name):
        trainer = trainer_of(built)
        trainer.fit(built.train, built.valid, saved=False)
        results.append((trainer.train_loss_dict, trainer.best_valid_result))
    (losses, valid), (fast_losses, fast_valid) = results
    assert list(fast_losses.values()) == pytest.approx(list(losses.values()), rel=1e-4)
    assert dict(fast_valid) == pytest.approx(dict(valid), abs=2e-3)


def test_ngcf_with_node_dropout_keeps_recboles_matrix(board):
    model = build("NGCF", {**board, "node_dropout": 0.2, "fast_propagation": True}).model
    assert not hasattr(model, "lent_propagation") and model.norm_adj_matrix.is_sparse
    assert model.train().forward()[0].isfinite().all()
