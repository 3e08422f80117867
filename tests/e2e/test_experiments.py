"""A grid that is interrupted, continued, and reported from nothing but its run folders."""

import json
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from recbole_adaptau.cli.experiment import main
from recbole_adaptau.model import AdapTauMF
from recbole_adaptau.runs.folder import RunFolder

pytestmark = pytest.mark.e2e
NAMES = ["fixed-tau0.1-seed3", "fixed-tau0.3-seed3", "adaptive-seed3", "adaptive_user-seed3"]
BATCHES = 8  # of an epoch: 480 interactions, 64 at a time


@pytest.fixture
def words(board):
    settings = {**board, "topk": [5, 20], "valid_metric": "NDCG@20", "epochs": 2, "num_negatives": 16}
    path = settings.pop("data_path")
    del settings["state"], settings["show_progress"]
    return [
        "grid", "--model", "AdapTauMF", "--dataset", "board", "--taus", "0.1", "0.3", "--seeds", "3",
        "--data-path", path, "--output", "out", *(f"--{key}={value}" for key, value in settings.items()),
    ]  # fmt: skip


def count_batches(patch, interrupt_at=None):
    """Count the batches trained; press Ctrl-C when the given one is about to be."""
    calls, original = [], AdapTauMF.calculate_loss

    def calculate_loss(self, interaction):
        if len(calls) + 1 == interrupt_at:
            raise KeyboardInterrupt
        calls.append(1)
        return original(self, interaction)

    patch.setattr(AdapTauMF, "calculate_loss", calculate_loss)
    return calls


def check_reports(names):
    """grid.json holds what the folders' result.json say, and the table shows it."""
    data = json.loads(Path("out/grid.json").read_text())
    assert [run["name"] for run in data["runs"]] == names
    table = Path("out/grid.md").read_text()
    for run in data["runs"]:
        result = json.loads(Path("out", run["folder"], "result.json").read_text())
        for key in ("seed", "protocol", "best_epoch", "epochs", "best_valid_result", "test_result", "best_valid_score"):
            assert run[key] == result[key], key
        assert run["seconds"] == result["train_seconds"] + result["valid_seconds"]
        assert (
            run["settings"]["seed"] == 3
            and run["environment"]["cores"] >= 1
            and run["environment"]["versions"]["torch"]
        )
        parts = ("best_valid_result", "test_result")
        cells = " | ".join(f"{result[part][name]:.4f}" for part in parts for name in ("recall@20", "ndcg@20"))
        assert f" | {cells} | 1 | " in table
    assert Path("out/grid.png").stat().st_size > 5000 and not list(Path("out").glob("*.tmp"))
    return data


def test_an_interrupted_grid_goes_on_and_trains_nothing_twice(words, capsys):
    with pytest.MonkeyPatch.context() as patch:
        # The first run is through, the second in the middle of its second epoch.
        count_batches(patch, interrupt_at=2 * BATCHES + BATCHES + 4)
        assert main(words) == 130
    error = capsys.readouterr().err
    assert "go on with:\n  recbole-adaptau experiment grid --model AdapTauMF" in error
    assert "Traceback" not in error
    assert check_reports(NAMES[:1])["best_fixed_tau"] is None
    assert "1 of 4 runs are done" in Path("out/grid.md").read_text()
    first = {path: path.stat().st_mtime_ns for path in Path("out/runs", NAMES[0]).rglob("*")}

    with pytest.MonkeyPatch.context() as patch:
        trained = count_batches(patch)
        assert main(words) == 0
    # What was missing: an epoch of the second run, and two runs of two epochs.
    assert len(trained) == BATCHES + 2 * 2 * BATCHES
    assert first == {path: path.stat().st_mtime_ns for path in Path("out/runs", NAMES[0]).rglob("*")}
    out = capsys.readouterr()
    assert "1 of 4 runs are complete already" in out.err and "INFO" not in out.err
    data = check_reports(NAMES)
    valid = {run["settings"]["tau"]: run["best_valid_score"] for run in data["runs"] if "tau" in run["settings"]}
    assert data["best_fixed_tau"] == max(valid, key=valid.get)
    assert data["given"]["epochs"] == 2 and data["command"].startswith("recbole-adaptau experiment grid ")
    assert "`adaptive_user` against the best fixed tau" in out.out

    # All is there: only the reports are written again, with the same content.
    before = {path: path.read_bytes() for path in Path("out").glob("grid.*")}
    with pytest.MonkeyPatch.context() as patch:
        trained = count_batches(patch)
        assert main(words) == 0
    assert not trained and before == {path: path.read_bytes() for path in Path("out").glob("grid.*")}

    # Other settings under the same names are refused before anything is trained or written.
    assert main([word.replace("--epochs=2", "--epochs=3") for word in words]) == 2
    assert "holds a finished run with other settings (epochs = 2 there and 3 now)" in capsys.readouterr().err
    assert before == {path: path.read_bytes() for path in Path("out").glob("grid.*")}

    # The curves of what was run.
    folders = [str(Path("out/runs", name)) for name in NAMES]
    assert main(["curves", *folders, "--output", "out/curves.png"]) == 0
    assert Path("out/curves.png").is_file()
    assert [record["epoch"] for record in RunFolder(folders[1]).read_epochs()] == [0, 1]


def test_repeat_with_several_seeds(words, capsys):
    words = [
        "repeat",
        *words[1:5],
        "--seeds",
        "1",
        "2",
        *words[words.index("--data-path") :],
        "--tau_strategy=adaptive",
    ]
    assert main(words) == 0
    data = json.loads(Path("out/repeat.json").read_text())
    results = [json.loads(Path(f"out/runs/seed{seed}/result.json").read_text()) for seed in (1, 2)]
    assert [run["test_result"] for run in data["runs"]] == [result["test_result"] for result in results]
    one, two = (result["test_result"]["ndcg@20"] for result in results)
    expected = {"mean": (one + two) / 2, "std": abs(one - two) / 2**0.5}
    assert one != two and data["summary"]["test"]["ndcg@20"] == pytest.approx(expected)
    assert data["tau_strategies"] == ["adaptive"] and data["paper"] is None
    assert f"{expected['mean']:.4f} ± {expected['std']:.4f}" in capsys.readouterr().out


def test_runs_side_by_side_come_to_the_same(words):
    words = ["repeat", *words[1:5], "--seeds", "1", "2", *words[words.index("--data-path") :]]
    assert main(words) == 0
    alone = json.loads(Path("out/repeat.json").read_text())
    assert main([*words[: words.index("out")], "beside", *words[words.index("out") + 1 :], "--parallel", "2"]) == 0
    beside = json.loads(Path("beside/repeat.json").read_text())
    for key in ("seed", "test_result", "best_valid_result", "best_epoch"):
        assert [run[key] for run in alone["runs"]] == [run[key] for run in beside["runs"]]
    here, there = (RunFolder(f"{place}/runs/seed1").settings() for place in ("out", "beside"))
    assert {key: here[key] for key in here if key != "run_folder"} == {
        key: there[key] for key in there if key != "run_folder"
    }, "Ray's own arguments are no settings"


def test_sigterm_ends_runs_side_by_side_and_says_how_to_go_on(words):
    words = ["repeat", *words[1:5], "--seeds", "1", "2", *words[words.index("--data-path") :], "--parallel", "2"]
    words[words.index("--epochs=2")] = "--epochs=5000"
    command = [sys.executable, "-m", "recbole_adaptau", "experiment", *words, "--stopping_step=5000"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    run, deadline = RunFolder("out/runs/seed1"), time.monotonic() + 120
    while not run.read_epochs() and time.monotonic() < deadline:
        time.sleep(0.1)
    process.send_signal(signal.SIGTERM)
    _, error = process.communicate(timeout=60)
    assert process.returncode == 143 and "go on with:\n  recbole-adaptau experiment repeat" in error
    assert "SIGTERM received" not in error, "Ray's own handler prints that and ends the process on the spot"
    assert run.read_epochs() and not run.is_complete
