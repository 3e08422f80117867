"""A leaderboard of quick runs on planted data: interrupted, continued, with models that fail."""

import csv
import json
import os
import re
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

import recbole_adaptau
from recbole_adaptau.cli.compare import main
from recbole_adaptau.model import AdapTauMF
from recbole_adaptau.peers.simgcl import SimGCL
from recbole_adaptau.runs.folder import RunFolder
from recbole_adaptau.studies.leaderboard.entries import FOLDER, MODELS, SIMPLE, common, entries

pytestmark = pytest.mark.e2e
ROOT = Path(recbole_adaptau.__file__).parent.parent


@pytest.fixture
def words(board):
    settings = {key: board[key] for key in ("benchmark_filename", "load_col")}
    settings |= {"epochs": 3, "embedding_size": 8, "train_batch_size": 64, "num_negatives": 16}
    return [
        "--dataset", "board", "--seeds", "2", "--data-path", board["data_path"], "--output", "out", "--parallel", "0",
        *(f"--{key}={value}" for key, value in settings.items()),
        "--models",
    ]  # fmt: skip


def read():
    return json.loads(Path("out/leaderboard.json").read_text())


def timeless(data):
    """What does not depend on how fast the machine was."""
    keys = ("model", "seeds", "test", "significance", "errors", "settings", "temperatures_tried", "epochs_to_best")
    return [{key: row.get(key) for key in keys} for row in data["rows"]]


def test_interrupted_and_continued_it_comes_to_the_same(words, monkeypatch, capsys):
    words = [*words, "AdapTauMF", "BPR"]
    assert main([word.replace("out", "whole") if word == "out" else word for word in words]) == 0
    whole = json.loads(Path("whole/leaderboard.json").read_text())
    calls, original = [], AdapTauMF.calculate_loss

    def calculate_loss(self, interaction):
        calls.append(1)
        if len(calls) == 12:
            raise KeyboardInterrupt
        return original(self, interaction)

    with monkeypatch.context() as patch:
        patch.setattr(AdapTauMF, "calculate_loss", calculate_loss)
        assert main(words) == 130
    assert "go on with:\n  recbole-adaptau compare --dataset board" in capsys.readouterr().err
    assert main(words) == 0
    assert timeless(read()) == timeless(whole)
    # A damaged result is made again from the checkpoints, and all is as it was.
    RunFolder("out/runs/AdapTauMF-seed2020").result.write_text("{")
    assert main(words) == 0
    assert "result.json is damaged" in capsys.readouterr().err and timeless(read()) == timeless(whole)

    # The table against the runs' own files: three learning rates of BPR on the first seed, the best on the second.
    rows = {row["model"]: row for row in whole["rows"]}
    tried = [RunFolder(f"whole/runs/BPR-try{n}-seed2020").read_result() for n in (1, 2, 3)]
    best = max(range(3), key=lambda n: tried[n]["best_valid_score"])
    second = RunFolder(f"whole/runs/BPR-try{best + 1}-seed2021").read_result()
    ndcg = [tried[best]["test_result"]["ndcg@20"], second["test_result"]["ndcg@20"]]
    assert rows["BPR"]["test"]["ndcg@20"]["mean"] == pytest.approx(sum(ndcg) / 2)
    assert rows["BPR"]["settings"] == dict(entries(["BPR"], "board")[0].trials[best])
    assert (rows["BPR"]["temperatures_tried"], rows["AdapTauMF"]["temperatures_tried"]) == (None, 0)
    assert whole["rows"][0]["significance"] is None and whole["rows"][1]["significance"]["users"] == 48
    text = Path("whole/leaderboard.md").read_text()
    assert (
        "NDCG@20" in text and "TailPercentage" not in text and "| 1 | " in text and "Source: RecBole's defaults" in text
    )
    lines = list(csv.DictReader(Path("whole/leaderboard.csv").read_text().splitlines()))
    assert [line["model"] for line in lines] == [row["model"] for row in whole["rows"]]
    assert float(lines[0]["ndcg@20 mean"]) == whole["rows"][0]["test"]["ndcg@20"]["mean"]
    assert Path("whole/report.html").stat().st_size < 6_000_000


def test_a_model_that_fails_is_a_row_and_the_others_go_on(words, monkeypatch, capsys):
    def calculate_loss(self, interaction):
        raise RuntimeError("no luck | today")

    with monkeypatch.context() as patch:
        patch.setattr(SimGCL, "calculate_loss", calculate_loss)
        assert main([*words, "AdapTauMF", "SimGCL", "AdapTauMG"]) == 1
    said = capsys.readouterr()
    assert "AdapTauMG is left out: there is no model named 'AdapTauMG'. Did you mean 'AdapTauMF'?" in said.err
    rows = {row["model"]: row for row in read()["rows"]}
    assert next(iter(rows)) == "AdapTauMF" and rows["AdapTauMF"]["errors"] == []
    assert "no luck" in rows["SimGCL"]["errors"][0] and "Did you mean" in rows["AdapTauMG"]["errors"][0]
    page = Path("out/report.html").read_text()
    assert '"label":"AdapTauMG"' in page and "no luck | today" in page
    assert "failed: RuntimeError: no luck / today" in said.out and "| – | SimGCL |" in said.out
    # What failed is tried again, and now succeeds.
    assert main([*words, "AdapTauMF", "SimGCL"]) == 0
    assert [row["errors"] for row in read()["rows"]] == [[], []]


def test_a_loss_and_a_simple_model_are_rows_beside_the_model_they_vary(words, capsys):
    assert main([*words, "AdapTauMF", "AdapTauMF-bsl", "ItemRegression", "--seeds", "1"]) == 0
    rows = {row["method"]: row for row in read()["rows"]}
    assert set(rows) == {"AdapTauMF", "AdapTauMF-bsl", "ItemRegression"}
    config = RunFolder("out/runs/AdapTauMF-bsl-try1-seed2020").settings()
    assert (config["loss"], config["tau_strategy"], config["tau"]) == ("bsl", "fixed", 0.1)
    assert rows["AdapTauMF-bsl"]["trials"] == 3 and rows["AdapTauMF-bsl"]["temperatures_tried"] == 3
    assert RunFolder("out/runs/AdapTauMF-seed2020").settings()["loss"] == "softmax"


def test_the_budget_stops_cleanly_and_is_marked(words, capsys):
    assert (
        main([*words, "AdapTauMF", "--epochs=100000", "--stopping_step=100000", "--seeds", "1", "--budget", "0.02"])
        == 2
    )
    assert "--epochs is given twice" in capsys.readouterr().err
    words = [word for word in words if not word.startswith("--epochs")]
    assert (
        main([*words, "AdapTauMF", "--epochs=100000", "--stopping_step=100000", "--seeds", "1", "--budget", "0.02"])
        == 0
    )
    result = RunFolder("out/runs/AdapTauMF-seed2020").read_result()
    assert result["stopped_by"] == "budget" and 1 <= result["epochs"] < 100_000
    assert "| ‡ | AdapTauMF ‡ |" in Path("out/leaderboard.md").read_text()


def test_a_larger_budget_goes_on_and_a_smaller_one_is_refused(words, monkeypatch, capsys):
    monkeypatch.setattr(RunFolder, "seconds_by_epoch", lambda self: [60.0 for _ in self.read_epochs()])
    words = [word for word in words if not word.startswith("--epochs")]
    words += ["AdapTauMF", "BPR", "--epochs=5", "--seeds", "1", "--budget"]
    # BPR has three settings to try, and so a third of the time for each.
    assert main([*words, "3"]) == 0
    assert [len(row["out_of_budget"]) for row in read()["rows"]] == [1, 1]
    assert main([*words, "5"]) == 0
    rows = {row["model"]: row for row in read()["rows"]}
    assert rows["AdapTauMF"]["out_of_budget"] == [] and rows["BPR"]["out_of_budget"] == [2020]
    assert RunFolder("out/runs/AdapTauMF-seed2020").read_result()["epochs"] == 5
    assert main([*words, "4"]) == 2
    assert "budget_minutes = 5.0 there and 4.0 now" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("more", "message"),
    [
        (["AdapTauMF", "AdapTauMF"], "--models: AdapTauMF is given twice"),
        (["NoSuchModel"], "none of the models can be run"),
        (["AdapTauMF-bls"], "--models AdapTauMF-bls: after the - stands the loss"),
        (["BPR-bsl"], "--models BPR-bsl: after the - stands the loss"),
        (["AdapTauMF", "--seeds", "0"], "--seeds 0: must be the number of seeds"),
        (["AdapTauMF", "--budget", "-1"], "--budget -1.0: must be minutes above 0"),
        (["AdapTauMF", "--seed=3"], "seed is set for each run by this command: use --seeds"),
    ],
)
def test_bad_input_is_one_line_and_leaves_nothing(words, capsys, more, message):
    assert main([*words, *more]) == 2
    assert message in capsys.readouterr().err and not Path("out").exists()


def test_every_setting_has_a_source_and_is_read_by_its_model():
    from recbole.config import Config

    from recbole_adaptau.config.keys import notes
    from recbole_adaptau.training.checkpoint import quoted

    assert {"common.yaml", "default.yaml", "ml-1m.yaml"} <= {path.name for path in FOLDER.iterdir()}
    models = [*MODELS, "AdapTauLightGCN-slatk", "NGCF"]
    if find_spec("implicit") is None:  # of the extra ials
        models.remove("IALS")
    for dataset in ("ml-100k", "ml-1m", "electronic", "gowalla-iid"):
        for entry in entries(models, dataset):
            assert len(entry.source) > 10 and entry.trials
            for trial in entry.trials:
                settings = {**common(), **trial, **({"loss": entry.loss} if entry.loss else {})}
                if entry.model in SIMPLE and entry.model != "IALS":
                    del settings["embedding_size"]  # nothing is embedded
                config = Config(entry.model, "ml-100k", config_dict=quoted(settings))
                assert notes(config) == [], (entry.model, trial)
    assert [entry.temperatures_tried for entry in entries(["SGL", "BPR", "SimGCL", "AdapTauMF"], "ml-1m")] == [
        2,
        None,
        3,
        0,
    ]


@pytest.mark.parametrize("script", ["run_recbole.py", "significance_test.py"])
def test_the_examples_run(script):
    more = [] if script == "run_recbole.py" else ["--run_times=2"]
    ran = subprocess.run(
        [sys.executable, ROOT / "examples" / script, "--epochs=1", "--show_progress=False", "--state=ERROR", *more],
        capture_output=True, text=True, env={**os.environ, "PYTHONPATH": str(ROOT)}, check=False,
    )  # fmt: skip
    assert ran.returncode == 0, ran.stderr
    if more:
        assert re.search(r"ndcg@20 over 2 seeds: t = .*\nndcg@20 over 9\d\d users: [+-]0\.\d+ \[", ran.stdout), (
            ran.stdout
        )
    else:
        assert "ndcg@20" in ran.stdout
