"""A finished run in MLflow, where it is installed."""

import pytest

import recbole_adaptau
from recbole_adaptau.errors import OptionError
from recbole_adaptau.runs import mlflow_log, recorder
from recbole_adaptau.runs.folder import RunFolder


def test_without_mlflow_the_extra_is_named_before_anything_is_trained(board, monkeypatch):
    monkeypatch.setattr(mlflow_log, "find_spec", lambda name: None)
    with pytest.raises(OptionError, match=r"log_mlflow = True needs MLflow: pip install 'recbole_adaptau\[mlflow\]'"):
        recbole_adaptau.run_recbole_adaptau("AdapTauMF", "board", None, {**board, "log_mlflow": True})


def test_figures_are_the_finite_numbers():
    record = {
        "epoch": 3,
        "train_loss": 2.5,
        "nan": float("nan"),
        "valid_result": {"ndcg@20": 0.5},
        "on": True,
        "a": "b",
    }
    assert mlflow_log._figures(record) == {"train_loss": 2.5, "valid_ndcg_at_20": 0.5}


def test_settings_figures_and_files_are_logged(board, monkeypatch, tmp_path):
    mlflow = pytest.importorskip("mlflow", reason="the extra 'mlflow' is not installed")
    monkeypatch.setenv("MLFLOW_ALLOW_FILE_STORE", "true")
    mlflow.set_tracking_uri((tmp_path / "mlruns").as_uri())
    settings = {**board, "log_mlflow": True, "epochs": 2, "run_folder": "run"}
    result = recbole_adaptau.run_recbole_adaptau("AdapTauMF", "board", None, settings)
    (logged,) = mlflow.MlflowClient().search_runs(["0"])
    run = RunFolder("run")
    assert logged.data.params["embedding_size"] == "8" and logged.data.params["dataset"] == "board"
    assert logged.data.metrics["test_ndcg_at_5"] == pytest.approx(result["test_result"]["ndcg@5"])
    history = mlflow.MlflowClient().get_metric_history(logged.info.run_id, "train_loss")
    assert [point.value for point in history] == [record["train_loss"] for record in run.read_epochs()]
    files = {file.path for file in mlflow.MlflowClient().list_artifacts(logged.info.run_id)}
    assert {"config.yaml", "result.json", "run.log", "best.pth"} <= files


def test_a_server_that_fails_does_not_fail_the_run(board, monkeypatch, caplog):
    def refuse(run):
        raise ConnectionError("nobody listens")

    monkeypatch.setattr(recorder, "log_run", refuse)
    monkeypatch.setattr(recorder, "need_mlflow", lambda: None)
    settings = {**board, "log_mlflow": True, "epochs": 1, "run_folder": "run"}
    assert recbole_adaptau.run_recbole_adaptau("AdapTauMF", "board", None, settings)["test_result"]
    assert "not logged to MLflow: nobody listens" in caplog.text and RunFolder("run").is_complete
