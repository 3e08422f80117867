"""RecBole's models and a user's own, trained with Adap-tau from end to end; the example as it stands."""

import ast
import sys
from pathlib import Path

import pytest
import torch
from recbole.utils import get_trainer

import recbole_adaptau
from recbole_adaptau.runs.folder import RunFolder
from recbole_adaptau.training import checkpoint
from tests.e2e.test_resume import interrupt_at_batch, run

ROOT = Path(__file__).resolve().parents[2]
EXAMPLE = ROOT / "examples" / "custom_backbone.py"
pytestmark = pytest.mark.e2e


@pytest.mark.parametrize("base", ["BPR", "NGCF", "SGL", "NCL", "SimpleX", "ENMF"])
def test_adapted_models_learn_the_board_and_load_again(board, base):
    """Whoever has learned the colours ranks the held-out item of a user's own colour first."""
    settings = {
        **board, "epochs": 25, "learning_rate": 0.05, "num_clusters": 6, "dropout_prob": 0.1, "run_folder": "run",
    }  # fmt: skip
    result = recbole_adaptau.run_recbole_adaptau(f"AdapTau{base}", "board", None, settings)
    assert result["test_result"]["hit@2"] == 1.0
    config, model, _, _, _, test_data = recbole_adaptau.load_data_and_model("run")
    assert config["model"] == f"AdapTau{base}"
    trainer = get_trainer(config["MODEL_TYPE"], config["model"])(config, model)
    assert trainer.evaluate(test_data, load_best_model=False) == result["test_result"]


@pytest.mark.parametrize(
    ("model", "changes"),
    [
        ("AdapTauSGL", {}),
        ("AdapTauNCL", {"m_step": 2, "num_clusters": 6, "warm_up_step": 2}),
        ("AdapTauENMF", {}),
    ],
)
def test_a_resumed_run_equals_one_that_went_through(board, model, changes):
    settings = {**board, "num_negatives": 20, **changes}
    whole = run(model, settings, "whole")
    with pytest.MonkeyPatch.context() as patch:
        interrupt_at_batch(patch, model, 3 * 8 + 4)  # 8 batches an epoch: in the middle of the fourth
        with pytest.raises(KeyboardInterrupt):
            run(model, settings, "parts")
    resumed = recbole_adaptau.resume("parts")
    assert resumed["test_result"] == whole["test_result"]
    one, two = (checkpoint.load(RunFolder(name).last)["state_dict"] for name in ("whole", "parts"))
    assert all(torch.equal(value, two[name]) for name, value in one.items())


def test_the_example_is_ten_lines():
    (backbone,) = (node for node in ast.parse(EXAMPLE.read_text()).body if isinstance(node, ast.ClassDef))
    assert backbone.end_lineno - backbone.lineno + 1 + len(backbone.decorator_list) <= 10


def test_the_example_encodes_what_it_says(board):
    from tests.helpers import build

    sys.path.insert(0, str(EXAMPLE.parent))
    try:
        __import__("custom_backbone")
    finally:
        sys.path.remove(str(EXAMPLE.parent))
    model = build("HistoryMF", board).model
    users, items = model.encode()
    assert torch.equal(items, model.item_embedding.weight)
    for user in (1, 7, model.n_users - 1):
        own = model.interactions.items[model.interactions.users == user]
        want = model.user_embedding.weight[user] + items[own].mean(0)
        torch.testing.assert_close(users[user], want)
