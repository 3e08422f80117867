"""L2 over all layers, on data with other numbers of users and items."""

import pytest
import torch
from recbole.data.interaction import Interaction

from tests.helpers import build
from tests.model.test_authors import layers_of

ALL_LAYERS = {"reg_weight": 0.3, "reg_layers": "all", "negatives": "in_batch", "n_layers": 2}


def rows(model) -> tuple[torch.Tensor, torch.Tensor]:
    return model.interactions.users[::3], model.interactions.items[::3]


def squares(model) -> float:
    """reg_weight · the sum of squares of the batch's rows at every layer, over twice the batch, from a dense graph."""
    users, items = rows(model)
    total = sum(hop[users].square().sum() + hop[model.n_users + items].square().sum() for hop in layers_of(model))
    return 0.3 * total.item() / (2 * len(users))


@pytest.mark.parametrize("training", [True, False])
def test_l2_counts_a_batchs_rows_at_every_layer(uneven, training):
    """In training and outside of it, also after a step has changed the tables."""
    with_l2, without = (
        build("AdapTauLightGCN", {**uneven, **ALL_LAYERS, "reg_weight": weight}, "uneven").model
        for weight in (0.3, 0.0)
    )
    assert with_l2.n_users != with_l2.n_items
    batch = Interaction(dict(zip(("user_id", "item_id"), rows(with_l2), strict=True)))
    for model in (with_l2, without):
        model.begin_epoch(0)
        model.train().calculate_loss(batch)
        with torch.no_grad():
            model.user_embedding.weight[1:] += 0.5
            model.item_embedding.weight[1:] -= 0.2
        model.train(training)
    difference = with_l2.calculate_loss(batch) - without.calculate_loss(batch)
    assert difference.item() == pytest.approx(squares(with_l2), rel=1e-4)


def test_with_dropout_l2_is_on_the_layers_that_the_loss_had(uneven, monkeypatch):
    """One propagation a batch: a second one would drop other messages."""
    model = build("AdapTauLightGCN", {**uneven, **ALL_LAYERS, "message_dropout": 0.5}, "uneven").model
    model.begin_epoch(0)
    made, layers = [], model.propagation.layers
    monkeypatch.setattr(model.propagation, "layers", lambda tables: made.append(layers(tables)) or made[-1])
    users, items = rows(model)
    model.train().calculate_loss(Interaction({"user_id": users, "item_id": items}))
    assert len(made) == 1
    of_users, of_items = model.ego_embeddings(users, items)
    assert torch.equal(of_users, torch.cat([layer[users] for layer in made[0]], 1))
    assert torch.equal(of_items, torch.cat([layer[model.n_users + items] for layer in made[0]], 1))
