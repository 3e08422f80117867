"""A start from another run's weights: rows are found by id, whatever their order."""

import numpy as np
import pytest
import torch

import recbole_adaptau
from recbole_adaptau.data.stored import RunData
from recbole_adaptau.errors import CheckpointError
from recbole_adaptau.runs.folder import RunFolder, read_interactions
from recbole_adaptau.runs.warm_start import warm_start
from recbole_adaptau.training import checkpoint
from tests.helpers import build


def extended(data: RunData) -> RunData:
    """The same users and items in reverse order, a new user with two known items, a new item of a known user."""
    users = np.array(["[PAD]", "newbie", *data.user_ids[:0:-1]])
    items = np.array(["[PAD]", *data.item_ids[:0:-1], "brandnew"])
    place = [{name: row for row, name in enumerate(ids)} for ids in (users, items)]
    rows = [(data.user_ids[u], data.item_ids[i]) for u, i in zip(data.users, data.items, strict=True)]
    rows += [("newbie", "i3"), ("newbie", "i8"), ("u5", "brandnew")]
    places = [np.array([place[side][row[side]] for row in rows], np.int32) for side in (0, 1)]
    return RunData(users, items, *places, (len(rows), 0, 0))


@pytest.mark.parametrize("model", ["AdapTauMF", "AdapTauLightGCN", "BPR"])
def test_rows_go_to_the_same_users_and_items(board, model):
    settings = {**board, "epochs": 1, "run_folder": "old"}
    recbole_adaptau.run_recbole_adaptau(model, "board", None, settings)
    old, run = read_interactions(RunFolder("old").interactions), RunFolder("old")
    data = extended(old)
    RunFolder("new").path.mkdir()
    RunFolder("new").write_interactions(data)
    built = build(model, {**board, "stored_data": "new/interactions.npz"})
    start = {name: value.clone() for name, value in built.model.state_dict().items()}
    warm_start(built.model, run, built.train._dataset)
    state = checkpoint.load(run.best)["state_dict"]
    found = built.model.state_dict()
    for kind, ids, before in (("user", data.user_ids, old.user_ids), ("item", data.item_ids, old.item_ids)):
        table = found[f"{kind}_embedding.weight"]
        for row, name in enumerate(ids[1:], start=1):
            if name in before:
                assert torch.equal(table[row], state[f"{kind}_embedding.weight"][before.tolist().index(name)])
    users, items = (state[f"{kind}_embedding.weight"].double() for kind in ("user", "item"))
    mean = sum(items[old.item_ids.tolist().index(name)] for name in ("i3", "i8"))
    expected = mean / mean.norm() * users[1:].norm(dim=1).mean()
    torch.testing.assert_close(found["user_embedding.weight"][1].double(), expected, atol=1e-6, rtol=1e-5)
    own = users[old.user_ids.tolist().index("u5")]
    expected = own / own.norm() * items[1:].norm(dim=1).mean()
    torch.testing.assert_close(found["item_embedding.weight"][-1].double(), expected, atol=1e-6, rtol=1e-5)
    if model != "BPR":
        assert torch.equal(found["strategy.tau_0"], state["strategy.tau_0"])
        assert torch.equal(found["strategy.tau_u"][2:], state["strategy.tau_u"][1:].flip(0))
        assert found["strategy.tau_u"][1] == start["strategy.tau_u"][1]


def test_another_models_weights_are_refused(board):
    recbole_adaptau.run_recbole_adaptau("BPR", "board", None, {**board, "epochs": 1, "run_folder": "old"})
    built = build("AdapTauMF", board)
    with pytest.raises(CheckpointError, match=r"best\.pth has no strategy\.tau_\w+: it is of another model"):
        warm_start(built.model, RunFolder("old"), built.train._dataset)
