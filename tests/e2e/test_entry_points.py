"""RecBole's own entry points and ours, on the ml-100k inside RecBole, as a user would call them."""

import json
import logging
from pathlib import Path

import numpy as np
import pytest
import torch
from recbole.data.interaction import Interaction
from recbole.quick_start import load_data_and_model, objective_function, run_recbole
from recbole.trainer import HyperTuning
from recbole.utils import ModelType, get_model, get_trainer
from recbole.utils.case_study import full_sort_topk

import recbole_adaptau
from recbole_adaptau.model import AdapTauLightGCN, AdapTauMF
from recbole_adaptau.runs.folder import RunFolder
from recbole_adaptau.training.trainer import AdapTauTrainer

pytestmark = pytest.mark.e2e
SHORT = {"epochs": 2, "show_progress": False}


def test_recbole_finds_models_and_trainer_by_name():
    assert get_model("AdapTauMF") is AdapTauMF and get_model("AdapTauLightGCN") is AdapTauLightGCN
    assert issubclass(get_trainer(ModelType.GENERAL, "AdapTauMF"), AdapTauTrainer)
    with pytest.raises(ValueError, match="Did you mean 'AdapTauMF'"):
        get_model("adaptaumf")


def test_recboles_own_run_recbole_trains_our_model_with_its_defaults():
    result = run_recbole(model="AdapTauMF", dataset="ml-100k", config_dict=dict(SHORT))
    assert set(result) == {"best_valid_score", "valid_score_bigger", "best_valid_result", "test_result", "run_folder"}
    assert result["best_valid_score"] == result["best_valid_result"]["ndcg@20"]
    assert {"recall@20", "ndcg@10", "hit@20"} <= set(result["test_result"])
    (folder,) = Path("runs/ml-100k/AdapTauMF").iterdir()
    assert RunFolder(folder).is_complete
    assert not Path("saved").exists() and not Path("log").exists() and not Path("log_tensorboard").exists()


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    """One run of ours that several tests look at."""
    folder = tmp_path_factory.mktemp("finished") / "run"
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("sys.argv", ["test"])
        settings = {**SHORT, "epochs": 3, "run_folder": str(folder)}
        result = recbole_adaptau.run_recbole_adaptau("AdapTauLightGCN", "ml-100k", None, settings)
    return result, RunFolder(folder)


def test_the_run_folder_tells_the_whole_run(finished):
    result, run = finished
    assert result["run_folder"] == str(run.path)
    epochs = run.read_epochs()
    assert [record["epoch"] for record in epochs] == [0, 1, 2]
    for record in epochs:
        assert {"train_loss", "train_seconds", "valid_seconds", "valid_result", "learning_rate"} <= set(record)
        # In the first epoch all are equal, and a mean of equal numbers is rounded.
        assert record["tau_u_min"] - 1e-6 <= record["tau_u_mean"] <= record["tau_u_max"] + 1e-6
        assert record["tau_0"] > 0 and record["gradient"] > 0
    assert epochs[0]["learning_rate"] == pytest.approx(4e-3) and epochs[2]["learning_rate"] == pytest.approx(4e-3 / 3)
    summary = run.read_result()
    assert summary["test_result"] == result["test_result"] and summary["epochs"] == 3
    best = max(epochs, key=lambda record: record["valid_result"]["ndcg@20"])
    assert summary["best_epoch"] == best["epoch"] and summary["tau_0"] == pytest.approx(best["tau_0"], rel=1e-5)
    assert run.settings()["model"] == "AdapTauLightGCN"
    environment = json.loads(run.environment.read_text())
    assert environment["versions"]["recbole"] == "1.2.1" and environment["cores"] >= 1
    log = (run.path / "run.log").read_text()
    assert f"run folder: {run.path}" in log and "test result" in log and "mean |dL/df|" in log
    assert list((run.path / "tensorboard").glob("events*"))


def test_temperatures_are_saved_beside_external_ids(finished):
    _, run = finished
    temperatures = run.read_temperatures()
    assert len(temperatures["user"]) == len(temperatures["tau_u"]) == 943
    assert set(temperatures["user"]) == {str(user) for user in range(1, 944)}
    spread = run.read_result()["tau_u"]
    assert temperatures["tau_u"].min() == pytest.approx(spread["min"]) and spread["min"] < spread["max"]


def test_tensorboard_has_the_temperatures(finished):
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    events = EventAccumulator(str(finished[1].path / "tensorboard"))
    events.Reload()
    values = [event.value for event in events.Scalars("Temperature/tau_0")]
    assert values == pytest.approx([record["tau_0"] for record in finished[1].read_epochs()], rel=1e-5)


def test_checkpoint_is_plain_data_and_loads_everywhere(finished):
    result, run = finished
    state = torch.load(run.best, weights_only=True)
    assert state["config"]["model"] == "AdapTauLightGCN"
    for load, source in (
        (load_data_and_model, str(run.best)),
        (recbole_adaptau.load_data_and_model, run.path),
    ):
        config, model, dataset, _, _, test_data = load(source)
        trainer = get_trainer(config["MODEL_TYPE"], config["model"])(config, model)
        assert trainer.evaluate(test_data, load_best_model=False) == result["test_result"]
        assert dataset.user_num == 944


def test_full_sort_topk_knows_our_model(finished):
    _, model, _, _, _, test_data = load_data_and_model(str(finished[1].best))
    users = np.array([1, 5, 9])
    scores, items = full_sort_topk(users, model, test_data, k=10)
    everything = model.full_sort_predict(Interaction({"user_id": torch.from_numpy(users)})).view(3, -1)
    for row, user in enumerate(users):
        seen = set(test_data.uid2history_item[user].tolist())
        order = [i for i in everything[row].argsort(descending=True).tolist() if i != 0 and i not in seen]
        assert items[row].tolist() == order[:10]
        assert scores[row].tolist() == pytest.approx(everything[row, order[:10]].tolist())


@pytest.mark.parametrize("function", [objective_function, recbole_adaptau.objective_function])
def test_objective_function_gives_recboles_result(function):
    result = function({"model": "AdapTauMF", "dataset": "ml-100k", **SHORT, "state": "ERROR"}, None, True)
    assert set(result) == {
        "model",
        "best_valid_score",
        "valid_score_bigger",
        "best_valid_result",
        "test_result",
    }
    assert result["model"] == "AdapTauMF" and result["best_valid_score"] > 0


def test_hyper_tuning_searches_our_model():
    Path("fixed.yaml").write_text(
        "model: AdapTauMF\ndataset: ml-100k\nepochs: 1\nshow_progress: False\nstate: ERROR\ntopk: [10, 20]\n"
    )
    tuning = HyperTuning(
        objective_function,
        params_dict={"choice": {"learning_rate": [1e-5, 1e-2]}},
        fixed_config_file_list=["fixed.yaml"],
        algo="exhaustive",
        early_stop=10,
    )
    tuning.run()
    assert len(tuning.params2result) == 2
    assert tuning.best_params["learning_rate"] == 1e-2


def test_our_runner_takes_recboles_models_and_two_runs_both_log():
    folders = []
    for model in ("BPR", "LightGCN"):
        result = recbole_adaptau.run_recbole_adaptau(model, "ml-100k", None, dict(SHORT))
        run = RunFolder(result["run_folder"])
        assert run.is_complete and [record["epoch"] for record in run.read_epochs()] == [0, 1]
        assert "test result" in (run.path / "run.log").read_text()
        assert "tau_0" not in run.read_result()
        folders.append(run.path)
    assert len(set(folders)) == 2
    assert "LightGCN" not in (folders[0] / "run.log").read_text()


def test_without_checkpoints_nothing_is_saved_but_the_figures():
    result = recbole_adaptau.run_recbole_adaptau("AdapTauMF", "ml-100k", None, dict(SHORT), saved=False)
    run = RunFolder(result["run_folder"])
    assert run.is_complete and not run.best.exists() and not run.last.exists()


def test_wandb_gets_the_temperatures_when_recbole_has_it_on(monkeypatch):
    """RecBole's own logger is what we send to; a stand-in for the wandb module sees what arrives."""
    import sys
    from types import ModuleType, SimpleNamespace

    sent = []
    wandb = ModuleType("wandb")
    wandb.run = SimpleNamespace(summary={})
    wandb.define_metric = lambda *args, **kwargs: None
    wandb.log = lambda metrics, commit=True: sent.append(metrics)
    monkeypatch.setitem(sys.modules, "wandb", wandb)
    run_recbole("AdapTauMF", "ml-100k", config_dict={**SHORT, "epochs": 1, "log_wandb": True})
    assert any("train/tau_0" in metrics and "train_step" in metrics for metrics in sent)


def test_the_users_own_log_handler_stays(caplog):
    with caplog.at_level(logging.INFO):
        run_recbole("AdapTauMF", "ml-100k", config_dict={**SHORT, "epochs": 1})
    assert "test result" in caplog.text
