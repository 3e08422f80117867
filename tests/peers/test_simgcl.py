"""SimGCL and XSimGCL against their formulas, written out with dense matrices in float64."""

import pytest
import torch
import torch.nn.functional as F

from recbole_adaptau.errors import OptionError
from recbole_adaptau.peers.simgcl import info_nce
from tests.helpers import build

SETTINGS = {"n_layers": 3, "reg_weight": 0.3, "cl_weight": 0.7, "eps": 0.2, "temperature": 0.25}


def batch_of(built):
    return next(iter(built.train))


def dense_graph(model, built):
    size = model.n_users + model.n_items
    a = torch.zeros(size, size, dtype=torch.float64)
    data = built.train._dataset.inter_feat
    for user, item in zip(data["user_id"].tolist(), data["item_id"].tolist(), strict=True):
        a[user, model.n_users + item] = a[model.n_users + item, user] = 1.0
    degree = a.sum(1).clamp_min(1.0)
    return a / torch.sqrt(degree[:, None] * degree[None, :])


def noisy_layers(a, x, layers, eps):
    """E_k = A E_(k-1) + eps sign(A E_(k-1)) n / |n|, the noise drawn in the order the model draws it."""
    found = []
    for _ in range(layers):
        x = a @ x
        noise = torch.rand(x.shape, dtype=torch.float32).double()
        x = x + eps * torch.sign(x) * noise / noise.norm(dim=1, keepdim=True)
        found.append(x)
    return found


def contrast(one, other, ids, tau):
    """-1/N Σ_i log (exp(cos(z_i, z'_i) / tau) / Σ_j exp(cos(z_i, z'_j) / tau)), in a loop."""
    total = 0.0
    for i in ids:
        scores = torch.stack([F.cosine_similarity(one[i], other[j], dim=0) / tau for j in ids])
        total = total - torch.log(torch.exp(scores[ids.index(i)]) / torch.exp(scores).sum())
    return total / len(ids)


def ranking(model, interaction, nodes, tables):
    users, positives = interaction["user_id"], interaction["item_id"] + model.n_users
    negatives = interaction["neg_item_id"] + model.n_users
    gap = (nodes[users] * (nodes[positives] - nodes[negatives])).sum(1)
    rows = torch.cat([tables[users], tables[positives], tables[negatives]])
    return -torch.log(torch.sigmoid(gap)).mean() + SETTINGS["reg_weight"] * rows.square().sum() / (2 * len(users))


def expected(name, model, interaction, a, tables):
    layers, tau = SETTINGS["n_layers"], SETTINGS["temperature"]
    users = interaction["user_id"].unique().tolist()
    items = (interaction["item_id"].unique() + model.n_users).tolist()
    if name == "SimGCL":
        clean = sum(torch.linalg.matrix_power(a, k) @ tables for k in range(1, layers + 1)) / layers
        one, other = (torch.stack(noisy_layers(a, tables, layers, SETTINGS["eps"])).mean(0) for _ in range(2))
    else:
        noisy = noisy_layers(a, tables, layers, SETTINGS["eps"])
        clean = one = torch.stack(noisy).mean(0)
        other = noisy[1]
    loss = ranking(model, interaction, clean, tables)
    return loss + SETTINGS["cl_weight"] * (contrast(one, other, users, tau) + contrast(one, other, items, tau))


@pytest.mark.parametrize("name", ["SimGCL", "XSimGCL"])
def test_loss_and_gradient_are_the_papers(board, name):
    built = build(name, {**board, **SETTINGS, **({"layer_cl": 2} if name == "XSimGCL" else {})})
    model, interaction = built.model, batch_of(built)
    model.train()
    tables = torch.cat([model.user_embedding.weight, model.item_embedding.weight]).detach().double().requires_grad_()
    torch.manual_seed(5)
    loss = model.calculate_loss(interaction)
    loss.backward()
    torch.manual_seed(5)
    want = expected(name, model, interaction, dense_graph(model, built), tables)
    want.backward()
    assert loss.item() == pytest.approx(want.item(), rel=1e-5)
    got = torch.cat([model.user_embedding.weight.grad, model.item_embedding.weight.grad])
    assert torch.allclose(got.double(), tables.grad, atol=1e-6)
    # The contrast has a say in it, or the test would show nothing.
    model.cl_weight = 0.0
    assert abs(model.calculate_loss(interaction).item() - loss.item()) > 0.1


@pytest.mark.parametrize("name", ["SimGCL", "XSimGCL"])
def test_prediction_is_without_noise_and_without_layer_zero(board, name):
    built = build(name, {**board, "n_layers": 2})
    model = built.model.eval()
    a = dense_graph(model, built)
    nodes = (a + a @ a) @ torch.cat([model.user_embedding.weight, model.item_embedding.weight]).double() / 2
    want = nodes[: model.n_users] @ nodes[model.n_users :].T
    interaction = {"user_id": torch.tensor([3, 9]), "item_id": torch.tensor([5, 2])}
    full = model.full_sort_predict(interaction).view(2, -1)
    assert torch.allclose(full.double(), want[[3, 9]], atol=1e-6)
    assert torch.allclose(model.predict(interaction), full[[0, 1], [5, 2]])
    with torch.no_grad():
        model.user_embedding.weight.mul_(2.0)
    model.eval()
    assert not torch.allclose(model.full_sort_predict(interaction).view(2, -1), full)


def test_embeddings_are_kept_until_the_mode_is_set_again_even_if_a_write_is_not_counted(board):
    """A write through `.data` leaves the version of a parameter as it is, like that of a fused optimiser."""
    model = build("SimGCL", board).model.eval()
    interaction = {"user_id": torch.tensor([3, 9])}
    before, kept = model.full_sort_predict(interaction), model._test_embeddings()
    assert model._test_embeddings()[0] is kept[0]
    model.user_embedding.weight.data.mul_(2.0)
    model.item_embedding.weight.data.mul_(2.0)
    assert torch.allclose(model.eval().full_sort_predict(interaction), 4 * before)


def test_noise_of_a_layer_has_length_eps_and_the_signs_of_the_layer_and_spares_zeros(board):
    model = build("SimGCL", {**board, "eps": 0.3}).model
    layer = torch.randn(40, 8, generator=torch.Generator().manual_seed(0))
    layer[0] = 0.0
    noise = model._perturbed(layer) - layer
    assert noise[0].tolist() == [0.0] * 8 and (noise[1:] * layer[1:] >= 0).all()
    assert torch.allclose(noise[1:].norm(dim=1), torch.tensor(0.3), atol=1e-5)


def test_tables_start_uniform_within_xaviers_bound(board):
    model = build("SimGCL", {**board, "embedding_size": 32}).model
    for table in (model.user_embedding.weight, model.item_embedding.weight):
        bound = (6 / (49 + 32)) ** 0.5
        assert 0.95 * bound < table.abs().max() <= bound and table.std().item() == pytest.approx(
            bound / 3**0.5, rel=0.1
        )


def test_the_last_layer_may_be_contrasted(board):
    built = build("XSimGCL", {**board, "n_layers": 2, "layer_cl": 2})
    assert built.model.layer_cl == 2 and built.model.calculate_loss(batch_of(built)).isfinite()


def test_info_nce_of_equal_rows_is_the_log_of_their_number():
    same = torch.ones(7, 3)
    assert info_nce(same, same, 0.1).item() == pytest.approx(torch.log(torch.tensor(7.0)).item(), rel=1e-6)


@pytest.mark.parametrize(
    ("model", "changes", "message"),
    [
        ("SimGCL", {"temperature": 0}, "temperature = 0: must be a number above 0"),
        ("SimGCL", {"n_layers": 0}, "n_layers = 0"),
        ("SimGCL", {"eps": -0.1}, "eps = -0.1"),
        ("XSimGCL", {"layer_cl": 3}, "layer_cl = 3 is above n_layers = 2"),
    ],
)
def test_what_makes_no_sense_is_refused_before_data_is_loaded(model, changes, message):
    from recbole.config import Config

    with pytest.raises(OptionError, match=message):
        Config(model, "no-such-data", config_dict={**changes})
