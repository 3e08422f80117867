"""What every part of a recipe keeps to; a file in recipe/ is tested here by itself."""

import pytest
import torch
from recbole.data.interaction import Interaction

from recbole_adaptau.recipe import PARTS, RecipePart
from recbole_adaptau.serving import embeddings_of
from tests.helpers import build, interactions, trainer_of

MATRIX = (torch.rand(12, 40, generator=torch.Generator().manual_seed(0)) < 0.3).numpy()


@pytest.mark.parametrize("name", PARTS)
class TestEveryPart:
    def test_it_says_in_a_line_what_it_adds(self, name):
        assert 10 < len(PARTS[name].meaning) < 120

    def test_what_its_hooks_give_has_the_right_shape(self, name):
        data = interactions(MATRIX)
        part = PARTS[name](data)
        for values, size in (
            (part.item_logits(), data.n_items),
            (part.row_weights(), data.n_users),
            (part.positive_weights(), data.n_users),
        ):
            assert values is None or (values.shape == (size,) and torch.isfinite(values).all())
        users, items = torch.randn(data.n_users, 8), torch.randn(data.n_items, 8)
        with torch.no_grad():
            part.start(users, items)
        assert torch.isfinite(users).all() and torch.isfinite(items).all()
        assert part.drop(torch.ones(5, 8), torch.arange(1, 6)).shape == (5, 8)

    def test_it_does_something(self, name):
        """Otherwise it is no part."""
        data = interactions(MATRIX)
        part = PARTS[name](data)
        tables = torch.ones(data.n_users, 8), torch.ones(data.n_items, 8)
        part.start(*tables)
        changed = any(bool((table != 1).any()) for table in tables)
        dropped = bool((part.drop(torch.ones(5, 8), torch.arange(1, 6)) != 1).any())
        given = (part.item_logits(), part.row_weights(), part.positive_weights(), part.pair_scores())
        assert changed or dropped or any(value is not None for value in given)

    def test_only_what_it_calibrates_is_in_the_checkpoint(self, name):
        """The rest comes from the data."""
        calibrates = PARTS[name].calibrate is not RecipePart.calibrate
        assert bool(PARTS[name](interactions(MATRIX)).state_dict()) == calibrates

    def test_resumed_after_calibration_it_scores_the_same(self, name, board):
        changes = {"tau_strategy": "calibrated_user", "held_out_share": 0.2, "epochs": 3}
        built = build("AdapTauMF", {**board, **changes, "recipe": [name]})
        trainer_of(built).fit(built.train, built.valid, saved=False)
        again = build("AdapTauMF", {**board, **changes, "recipe": [name]}).model
        again.load_state_dict(built.model.state_dict())
        users = torch.arange(1, again.n_users)
        assert torch.equal(again.eval().score_items(users), built.model.eval().score_items(users))

    def test_a_model_with_it_predicts_ranks_and_exports_the_same_scores(self, name, board):
        built = build("AdapTauMF", {**board, "recipe": [name], "epochs": 2})
        trainer_of(built).fit(built.train, built.valid, saved=False)
        model = built.model.eval()
        users = torch.arange(1, model.n_users)
        ranked = model.full_sort_predict(Interaction({"user_id": users})).view(len(users), -1)
        items = users % (model.n_items - 1) + 1
        pairs = model.predict(Interaction({"user_id": users, "item_id": items}))
        torch.testing.assert_close(pairs, ranked[torch.arange(len(users)), items], rtol=1e-4, atol=1e-5)
        found = embeddings_of(model, users)
        scores = found.users[users] @ found.items.T
        for part in found.added:
            part.pairs.add_to(scores, users, part.scales[users])
        torch.testing.assert_close(scores[:, 1:], ranked[:, 1:], rtol=1e-4, atol=1e-5)
        assert not model.user_embedding.weight[0].any() and not model.item_embedding.weight[0].any()
