"""Every experiment of the paper on the checkerboard: files, shared runs, interruption, and a saved run's analysis."""

import csv
import json
from pathlib import Path

import pytest

from recbole_adaptau.cli.analyse import main as analyse
from recbole_adaptau.cli.experiment import main
from recbole_adaptau.model import AdapTauRecommender
from recbole_adaptau.runs.folder import RunFolder
from recbole_adaptau.studies.paper import EXPERIMENTS

pytestmark = pytest.mark.e2e


@pytest.fixture
def words(board):
    settings = {**board, "num_negatives": 16, "topk": [5, 20], "valid_metric": "NDCG@20"}
    path = settings.pop("data_path")
    del settings["state"], settings["show_progress"]

    def given(name, output="out", *more):
        small = ["--taus", "0.1"] if EXPERIMENTS[name].taus else []
        small += ["--shares", "0.1", "0.4"] if EXPERIMENTS[name].shares else []
        if EXPERIMENTS[name].searched:
            small += ["--starts", "0.2", "--tau-rates", "1e-4", "--reg-weights", "0.01"]
        return [
            name, *small, *more, "--dataset", "board", "--model", "AdapTauMF", "--epochs", "2", "--data-path", path,
            "--output", output, *(f"--{key}={value}" for key, value in settings.items()),
        ]  # fmt: skip

    return given


def count_epochs(patch, interrupt_at=None):
    """Count the epochs begun; press Ctrl-C when the given one is."""
    calls, original = [], AdapTauRecommender.begin_epoch

    def begin_epoch(self, epoch):
        calls.append(epoch)
        if len(calls) == interrupt_at:
            raise KeyboardInterrupt
        return original(self, epoch)

    patch.setattr(AdapTauRecommender, "begin_epoch", begin_epoch)
    return calls


def test_all_experiments_share_their_runs_and_write_all_files(words, capsys):
    trained = []
    for name in EXPERIMENTS:
        with pytest.MonkeyPatch.context() as patch:
            calls = count_epochs(patch)
            assert main(words(name)) == 0, capsys.readouterr().err
        trained.append(len(calls) // 2)
        stem = f"out/{name}-AdapTauMF"
        data = json.loads(Path(f"{stem}.json").read_text())
        page = Path(f"{stem}.md").read_text()
        assert len(data["runs"]) == data["runs_asked"] and data["table"] and "are done" not in page
        assert data["data"] == {
            "users": 48, "items": 48, "train": 480, "valid": 48, "test": 48, "density": 480 / 48**2
        }  # fmt: skip
        assert len(list(csv.DictReader(Path(f"{stem}.csv").read_text().splitlines()))) == len(data["table"])
        if name != "approximation":
            assert Path(f"{stem}.png").stat().st_size > 5000
        assert not [path for kind in ("*.tmp", "*.svg", ".lock") for path in Path("out").rglob(kind)]
    by_name = dict(zip(EXPERIMENTS, trained, strict=True))
    # Each makes only what the ones before have not: normalisation of one side for norm-ablation, say.
    new = {"approximation": 2, "fairness": 3, "magnitude": 2, "noise-global": 2 * 3 + 1, "noise-local": 1}
    new |= {"norm-ablation": 2, "sota": 1, "strategies": 2 * 2 + 1}
    assert by_name == dict.fromkeys(EXPERIMENTS, 0) | new

    # A sentence on agreement is kept, and is no part of the command that is shown.
    assert main(words("approximation", "out", "--agreement", "It agrees.")) == 0
    assert main(words("approximation")) == 0
    page = Path("out/approximation-AdapTauMF.md").read_text()
    assert "**Agreement with the paper:** It agrees." in page and "--agreement" not in page

    # A saved run can be looked at, alone and against another.
    capsys.readouterr()
    run = Path("out/runs/AdapTauMF-adaptive_user-seed2020")
    other = "out/runs/AdapTauMF-none-seed2020"
    assert analyse([str(run), "--against", other]) == 0
    data = json.loads((run / "analysis/analysis.json").read_text())
    assert data["recall@20"] == pytest.approx(RunFolder(run).read_result()["test_result"]["recall@20"], abs=1e-6)
    assert sum(data["recall_by_group"]) == pytest.approx(data["recall@20"])
    theirs = RunFolder(other).read_result()["test_result"]["recall@20"]
    assert data["against"]["recall@20"]["difference"] == pytest.approx(data["recall@20"] - theirs, abs=1e-6)
    assert {path.stem for path in (run / "analysis").glob("*.png")} == {"groups", "trace", "users"}
    assert analyse(["out/runs"]) == 2
    assert "is not a run folder" in capsys.readouterr().err


def test_an_interrupted_experiment_gives_the_same_table(words, capsys):
    command = words("noise-local", "out", "--seeds", "1", "2")
    with pytest.MonkeyPatch.context() as patch:
        count_epochs(patch, interrupt_at=4)  # in the second run
        assert main(command) == 130
    assert "go on with:" in capsys.readouterr().err
    assert "1 of 2 runs are done" in Path("out/noise-local-AdapTauMF.md").read_text()
    first = Path("out/runs/AdapTauMF-adaptive_user-groups0.1_0.4-seed1/result.json").stat().st_mtime_ns
    with pytest.MonkeyPatch.context() as patch:
        assert main(command) == 0 and not count_epochs(patch)
    assert first == Path("out/runs/AdapTauMF-adaptive_user-groups0.1_0.4-seed1/result.json").stat().st_mtime_ns
    assert main(words("noise-local", "whole", "--seeds", "1", "2")) == 0
    for kind in ("csv", "png"):
        again, whole = (Path(folder, f"noise-local-AdapTauMF.{kind}").read_bytes() for folder in ("out", "whole"))
        assert again == whole, kind
