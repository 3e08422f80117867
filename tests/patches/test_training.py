"""RecBole's own models, trained, tested, saved and loaded through RecBole's own functions."""

from pathlib import Path

import pytest
import torch
from recbole.config import Config
from recbole.data import create_dataset, data_preparation
from recbole.data.interaction import Interaction
from recbole.quick_start import load_data_and_model, run_recbole
from recbole.utils import get_model, get_trainer, init_seed

from recbole_adaptau.errors import CheckpointError
from recbole_adaptau.training import checkpoint

KEYS = {"config", "epoch", "cur_step", "best_valid_score", "state_dict", "other_parameter", "optimizer"}


def train(name, dataset, settings):
    """One epoch, step by step, as run_recbole does it; gives what it leaves behind."""
    config = Config(name, dataset, config_dict={**settings, "epochs": 1, "state": "ERROR", "show_progress": False})
    init_seed(config["seed"], True)
    loaders = data_preparation(config, create_dataset(config))
    model = get_model(name)(config, loaders[0]._dataset)
    trainer = get_trainer(config["MODEL_TYPE"], name)(config, model)
    trainer.fit(loaders[0], loaders[1], show_progress=False)
    return config, model, trainer, loaders


@pytest.mark.e2e
@pytest.mark.parametrize("name", ["BPR", "LightGCN", "SGL", "NCL", "SimpleX"])
def test_recboles_models_train_test_and_load_on_ml_100k(name):
    if name == "NCL":
        pytest.importorskip("faiss")
    settings = {"epochs": 1, "state": "ERROR", "show_progress": False, "train_batch_size": 8192}
    result = run_recbole(model=name, dataset="ml-100k", config_dict=settings)
    assert set(result["test_result"]) == {"recall@10", "mrr@10", "ndcg@10", "hit@10", "precision@10"}
    assert all(0 <= value <= 1 for value in result["test_result"].values())
    assert result["test_result"]["hit@10"] > 0

    (file,) = Path("saved").glob(f"{name}-*.pth")
    state = torch.load(file, weights_only=True)
    assert set(state) == KEYS and state["config"]["model"] == name

    config, model, *_, test_data = load_data_and_model(str(file))
    assert config["model"] == name and config["epochs"] == 1
    trainer = get_trainer(config["MODEL_TYPE"], name)(config, model)
    assert trainer.evaluate(test_data, load_best_model=False) == result["test_result"]


@pytest.mark.parametrize("name", ["BPR", "LightGCN", "ItemKNN", "EASE", "Pop", "SLIMElastic"])
def test_a_loaded_model_predicts_what_the_saved_one_did(board, name):
    _, model, trainer, loaders = train(name, "board", board)
    result = trainer.evaluate(loaders[2])
    users = Interaction({"user_id": torch.arange(1, 17)})
    scores = model.full_sort_predict(users)
    torch.load(trainer.saved_model_file, weights_only=True)
    _, loaded, *_ = load_data_and_model(trainer.saved_model_file)
    loaded.eval()
    assert torch.equal(loaded.full_sort_predict(users), scores)
    assert result


def test_recboles_resume_reads_the_file(board):
    config, model, trainer, loaders = train("BPR", "board", board)
    again = get_trainer(config["MODEL_TYPE"], "BPR")(config, get_model("BPR")(config, loaders[0]._dataset))
    again.resume_checkpoint(trainer.saved_model_file)
    assert again.start_epoch == 1 and again.best_valid_score == trainer.best_valid_score
    assert torch.equal(again.model.user_embedding.weight, model.user_embedding.weight)
    assert again.optimizer.state_dict()["state"].keys() == trainer.optimizer.state_dict()["state"].keys()


def test_a_model_with_a_module_beside_its_weights_is_saved_without_it(board):
    """FDSA lists an embedding layer that would be pickled with its whole dataset."""
    _, model, trainer, _ = train("BPR", "board", board)
    model.layer, model.factor = torch.nn.Linear(2, 2), torch.ones(3)
    model.other_parameter_name = ["layer", "factor"]
    trainer._save_checkpoint(0, verbose=False)
    state = torch.load(trainer.saved_model_file, weights_only=True)
    assert list(state["other_parameter"]) == ["factor"] and "layer.weight" in state["state_dict"]


def test_pretraining_writes_plain_data_too(board):
    settings = board | {"pretrain_epochs": 1, "save_step": 1, "train_stage": "actor_pretrain"}
    _, _, trainer, _ = train("RaCT", "board", settings)
    state = torch.load(trainer.saved_model_file, weights_only=True)
    assert state["config"]["model"] == "RaCT" and state["epoch"] == 0


@pytest.mark.parametrize(
    ("state", "reason"),
    [({"epoch": 1}, "no config and no state_dict"), ({"config": 1, "state_dict": {}}, "settings")],
)
def test_a_file_that_is_no_checkpoint_is_refused(state, reason):
    checkpoint.save(state, "a.pth")
    with pytest.raises(CheckpointError, match=reason):
        load_data_and_model("a.pth")


def test_a_pickled_config_is_refused_by_load_data_and_model():
    torch.save({"config": Config("BPR", "ml-100k"), "state_dict": {}}, "a.pth")
    with pytest.raises(CheckpointError, match="holds more than plain data"):
        load_data_and_model("a.pth")


def test_weights_of_other_data_are_told(board, tmp_path):
    _, _, trainer, _ = train("BPR", "board", board)
    with open(tmp_path / "data" / "board" / "board.train.inter", "a") as file:
        file.write("newcomer\ti1\n")
    with pytest.raises(CheckpointError, match="was the dataset changed since"):
        load_data_and_model(trainer.saved_model_file)


@pytest.mark.parametrize("name", ["Pop", "EASE", "ItemRegression"])
def test_models_of_one_epoch_are_validated_and_kept_whatever_the_step(name, board):
    settings = {**board, "epochs": 20, "eval_step": 5, "state": "ERROR", "show_progress": False}
    result = run_recbole(model=name, dataset="board", config_dict=settings)
    assert result["best_valid_result"] and 0 <= result["best_valid_score"] <= 1
