"""preset: authors against a transcription of the authors' loss, L2 and temperature update, in float64 and by loops."""

import math

import numpy as np
import pytest
import torch
from recbole.config import Config
from scipy.special import lambertw

from recbole_adaptau.errors import OptionError
from tests.helpers import build

AUTHORS = {"preset": "authors", "learning_rate": 0.001, "reg_weight": 0.03, "train_batch_size": 96, "num_negatives": 12}
DIVISOR = 1.0


def layers_of(model):
    """Every hop's embeddings in float64, from a dense graph; MF has the tables alone. Shape: hops × [n, d]."""
    tables = torch.cat([model.user_embedding.weight, model.item_embedding.weight]).double()
    if not hasattr(model, "propagation"):
        return [tables]
    graph = torch.zeros(len(tables), len(tables), dtype=torch.float64)
    for user, item in zip(model.interactions.users.tolist(), model.interactions.items.tolist(), strict=True):
        graph[user, model.n_users + item] = graph[model.n_users + item, user] = 1.0
    degree = graph.sum(1).clamp_min(1.0)
    graph = graph / degree.sqrt()[:, None] / degree.sqrt()[None, :]
    hops = [tables]
    for _ in range(model.settings.n_layers):
        hops.append(graph @ hops[-1])
    return hops


def authors_batch(model, users, positives, drawn):
    """Their loss with L2, and each row's loss at temperature 1, one row at a time.

    Args:
        drawn: The uniform negatives of each row, or None for in-batch ones.
    """
    hops = layers_of(model)
    final = sum(hops) / len(hops)
    unit = final / final.norm(dim=1, keepdim=True).clamp_min(1e-12)
    total, squares, plain = 0.0, 0.0, []
    rows = list(zip(users.tolist(), positives.tolist(), strict=True))
    for row, (user, positive) in enumerate(rows):
        negatives = [i for other, (_, i) in enumerate(rows) if other != row] if drawn is None else drawn[row]
        u = unit[user]
        f_positive = u @ unit[model.n_users + positive]
        f_negatives = torch.stack([u @ unit[model.n_users + item] for item in negatives])
        tau_0, tau_u = model.strategy.tau_0.double(), model.strategy.tau_u[user].double()
        total = total - torch.log(torch.exp(f_positive / tau_0) / torch.exp(f_negatives / tau_u).sum())
        plain.append((torch.exp(f_negatives).sum().log() - f_positive).item())
        for hop in hops:
            squares = squares + hop[user].square().sum() + hop[model.n_users + positive].square().sum()
        if drawn is not None:
            squares = squares + sum(hops[0][model.n_users + item].square().sum() for item in negatives)
    return (total + AUTHORS["reg_weight"] * squares / 2) / len(rows), plain


def of_each_row(drawn):
    """The negatives of each row, from those of the groups of rows that share them."""
    assert len(drawn.groups) > 1, "the preset draws for groups of rows"
    return [group.items.tolist() for group, rows in zip(drawn.groups, drawn.rows, strict=True) for _ in range(rows)]


def seen_negatives(model, monkeypatch):
    """The candidates of every batch from now on."""
    seen, draw = [], model.negatives.draw

    def recorded(*args):
        seen.append(draw(*args))
        return seen[-1]

    monkeypatch.setattr(model.negatives, "draw", recorded)
    return seen


@pytest.mark.parametrize("name", ["AdapTauMF", "AdapTauLightGCN"])
def test_a_batch_is_the_authors(board, name, monkeypatch):
    built = build(name, {**board, **AUTHORS})
    model, batch = built.model, next(iter(built.train))
    seen = seen_negatives(model, monkeypatch)
    model.begin_epoch(0)
    model.strategy.tau_u.copy_(torch.linspace(0.2, 0.5, model.n_users))
    model.train()
    loss = model.calculate_loss(batch)
    users, positives, _ = model._rows(batch)
    assert len(positives.unique()) < len(positives), "some positives stand in several rows of the batch"
    drawn = None
    if name == "AdapTauMF":
        drawn = of_each_row(seen[0])
        again = [positive in negatives for positive, negatives in zip(positives.tolist(), drawn, strict=True)]
        assert any(again), "some row's own positive is drawn again"
    want, _ = authors_batch(model, users, positives, drawn)
    assert loss.item() == pytest.approx(want.item(), rel=1e-5)
    tables = model.user_embedding.weight, model.item_embedding.weight
    for ours, naive in zip(torch.autograd.grad(loss, tables), torch.autograd.grad(want, tables), strict=True):
        torch.testing.assert_close(ours.to_dense(), naive.float(), rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize(("name", "threshold"), [("AdapTauMF", 0.9), ("AdapTauLightGCN", "mean")])
def test_the_temperatures_of_the_next_epoch_are_the_authors(board, name, threshold, monkeypatch):
    """Through a checkpoint in between, and with parameters that change from batch to batch."""
    built = build(name, {**board, **AUTHORS, "user_threshold": threshold})
    model = built.model
    seen = seen_negatives(model, monkeypatch)
    model.begin_epoch(0)
    assert model.strategy.tau_0.item() == pytest.approx(0.7 / model.view().log_ratio), "the gap they assume"
    model.train()
    of_user = {user: [] for user in model.interactions.active_users.tolist()}
    for batch in built.train:
        users, positives, _ = model._rows(batch)
        model.calculate_loss(batch)
        drawn = of_each_row(seen[-1]) if name == "AdapTauMF" else None
        for user, loss in zip(users.tolist(), authors_batch(model, users, positives, drawn)[1], strict=True):
            of_user[user].append(loss)
        with torch.no_grad():
            model.user_embedding.weight[1:] += 0.05 * torch.randn_like(model.user_embedding.weight[1:])
    means = np.array([np.mean(losses) for losses in of_user.values()])
    cut = means.mean() if threshold == "mean" else np.quantile(means, threshold)
    tau_0 = model.strategy.tau_0.item()
    want = [tau_0 * math.exp(lambertw(max(-1 / math.e + 1e-15, (loss - cut) / DIVISOR)).real) for loss in means]
    again = build(name, {**board, **AUTHORS, "user_threshold": threshold}).model
    again.load_state_dict(model.state_dict())
    again.begin_epoch(1)
    np.testing.assert_allclose(again.strategy.tau_u[list(of_user)].numpy(), want, rtol=1e-4)
    assert not any(tally.any() for tally in again.strategy.tallies()), "the next epoch begins with nothing added up"


def test_a_dataset_they_published_nothing_on_is_refused(board):
    with pytest.raises(OptionError, match=r"none for AdapTauMF/board: .*give --learning_rate and --reg_weight"):
        Config("AdapTauMF", "board", config_dict={**board, "preset": "authors"})
    config = Config("AdapTauMF", "board", config_dict={**board, **AUTHORS})
    assert config["positive_tau"] == "tau_0" and config["reg_weight"] == 0.03


def test_in_batch_a_positive_of_other_rows_counts_as_often_as_they_have_it(board):
    """Also in the scores that a loss may ask for, and with a correction for popularity."""
    for correction in (False, True):
        settings = {**board, "negatives": "in_batch", "own_positive": True, "logq_correction": correction}
        built = build("AdapTauMF", settings)
        model, batch = built.model, next(iter(built.train))
        users, positives, _ = model._rows(batch)
        u, every = (torch.randn(n, 5, dtype=torch.float64) for n in (len(users), model.n_items))
        drawn = model.negatives.draw(users, positives)
        shares = model.negatives.probabilities() * model.interactions.n_real_items
        tau = torch.full((len(users),), 0.5, dtype=torch.float64)
        want = [
            sum(
                math.exp(u[row] @ every[item] / 0.5) / (shares[item].item() if correction else 1.0)
                for other, item in enumerate(positives.tolist())
                if other != row
            )
            for row in range(len(users))
        ]
        got = drawn.logsumexp(u, every[drawn.items], None)(tau)
        np.testing.assert_allclose(got.exp().numpy(), want, rtol=1e-5)
        scores, weight = drawn.scores(u, every[drawn.items], None)
        np.testing.assert_allclose(torch.exp(scores / 0.5 + weight).sum(1).numpy(), want, rtol=1e-5)


def test_a_lone_row_without_a_negative_has_no_gradient(board):
    model = build("AdapTauMF", {**board, "negatives": "in_batch", "own_positive": True}).model
    drawn = model.negatives.draw(torch.tensor([1]), torch.tensor([2]))
    u = torch.ones(1, 3, requires_grad=True)
    lse = drawn.logsumexp(u, torch.ones(1, 3), None)(torch.ones(1))
    assert torch.isneginf(lse).all()
    torch.where(torch.isneginf(lse), 0.0, lse).sum().backward()
    assert torch.equal(u.grad, torch.zeros(1, 3))


def test_masking_hits_and_keeping_ones_own_contradict(board):
    with pytest.raises(OptionError, match="own_positive = True keeps one"):
        Config("AdapTauMF", "board", config_dict={**board, "mask_hits": True, "own_positive": True})
