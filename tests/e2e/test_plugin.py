"""The table of RecBole's models before and after: the right runs, and the figures of their folders."""

import json
import re
from pathlib import Path

import pytest

from recbole_adaptau.cli.experiment import main
from recbole_adaptau.studies import plugin

pytestmark = pytest.mark.e2e


@pytest.fixture
def words(board):
    settings = {key: board[key] for key in ("benchmark_filename", "load_col", "embedding_size", "train_batch_size")}
    return [
        "plugin", "--models", "BPR", "ENMF", "--dataset", "board", "--seeds", "1", "2", "--data-path",
        board["data_path"], "--output", "out", "--epochs=1", *(f"--{key}={value}" for key, value in settings.items()),
    ]  # fmt: skip


def test_before_and_after_come_from_the_run_folders(words):
    assert main(words) == 0
    results = {path.parent.name: json.loads(path.read_text()) for path in Path("out/runs").glob("*/result.json")}
    models = ("BPR", "AdapTauBPR", "AdapTauBPR+", "ENMF", "AdapTauENMF", "AdapTauENMF+")
    assert set(results) == {f"{model}-seed{seed}" for model in models for seed in (1, 2)}
    assert all(result["model"] == re.split(r"[+-]", name)[0] for name, result in results.items())
    assert all((result.get("recipe") == "plus") == ("+" in name) for name, result in results.items())
    assert all(("tau_0" in result) == name.startswith("AdapTau") for name, result in results.items())
    table = Path("out/plugin.md").read_text()
    for model in ("BPR", "ENMF"):
        means = []
        for name in (model, f"AdapTau{model}", f"AdapTau{model}+"):
            values = [results[f"{name}-seed{seed}"]["test_result"]["ndcg@20"] for seed in (1, 2)]
            means.append(sum(values) / 2)
        row = re.search(rf"^\| {model} \|.*$", table, re.M)[0].split(" | ")
        assert [cell[:9] for cell in row[4:7]] == [f"{mean:.4f} ± " for mean in means]
        assert all(f"({100 * (means[n] / means[0] - 1):+.1f} %)" in row[4 + n] for n in (1, 2))


def test_a_model_that_cannot_be_adapted_ends_it_before_any_run(words, capsys):
    assert main([word if word != "ENMF" else "MultiVAE" for word in words]) == 2
    assert "MultiVAE cannot be adapted: it is an autoencoder" in capsys.readouterr().err
    assert not Path("out").exists()


def test_half_a_table_leaves_gaps():
    run = {"name": "BPR-seed1", "method": "BPR", "seed": 1, "seconds": 2.0, "best_epoch": 3, "best_valid_score": 0.1}
    run |= {part: {"recall@20": 0.2, "ndcg@20": 0.1} for part in ("best_valid_result", "test_result")}
    data = plugin.collected({"models": ["BPR", "NGCF"]}, [run])
    (row,) = data["summary"]
    assert row["model"] == "BPR" and row["after"] is None and plugin.change(row, "ndcg@20") is None
    assert row["before"]["test"]["ndcg@20"] == {"mean": 0.1, "std": None} and row["before"]["best_epochs"] == [3]
    assert row["before"]["out_of_budget"] == []


def test_adapted_epochs_are_of_the_adapted_runs_alone_and_a_budget_is_marked():
    made = [
        spec.settings(Path("x")) for spec in plugin.specs(["BPR"], "board", [1], {"epochs": 300}, adapted_epochs=12)
    ]
    assert [settings["epochs"] for settings in made] == [300, 12, 12]
    assert {(settings["learning_rate"], settings["train_batch_size"]) for settings in made} == {(0.001, 2048)}
    run = {"name": "BPR-seed1", "method": "BPR", "seed": 1, "seconds": 2.0, "best_epoch": 3, "best_valid_score": 0.1}
    run |= {part: {"recall@20": 0.2, "ndcg@20": 0.1} for part in ("best_valid_result", "test_result")}
    about = {"models": ["BPR"], "dataset": "board", "command": "", "protocol": "honest", "valid_metric": "NDCG@20"}
    about |= {"seeds": [1], "runs_asked": 1}
    for stop, marked in (("budget", True), (None, False)):
        data = plugin.collected(about, [{**run, "stopped_by": stop, "environment": {}}])
        assert ("‡" in plugin.text(data)) == marked


def test_no_epochs_are_refused(words, capsys):
    assert main([*words, "--adapted-epochs", "0"]) == 2
    assert "--adapted-epochs 0" in capsys.readouterr().err
