"""The ladder and the table of losses on planted data: what is compared with what, and figures from the runs' files."""

import json
from pathlib import Path

import pytest

from recbole_adaptau.cli.experiment import main
from recbole_adaptau.runs.folder import RunFolder
from recbole_adaptau.runs.significance import paired
from recbole_adaptau.studies.ladder import ladder_entries, loss_entries

pytestmark = pytest.mark.e2e


@pytest.fixture
def words(board):
    settings = {key: board[key] for key in ("benchmark_filename", "load_col")}
    settings |= {"epochs": 1, "embedding_size": 8, "train_batch_size": 64, "num_negatives": 16}
    where = [
        "--taus",
        "0.2",
        "0.4",
        "--dataset",
        "board",
        "--data-path",
        board["data_path"],
        "--output",
        "out",
        "--parallel",
        "0",
    ]
    return [*where, *(f"--{key}={value}" for key, value in settings.items())]


def test_every_rung_is_compared_with_the_one_before_and_a_part_alone_with_the_strategy(words, capsys):
    assert main(["ladder", *words, "--seeds", "1"]) == 0
    data = json.loads(Path("out/ladder.json").read_text())
    against = {row["rung"]: row["against"] for row in data["rows"]}
    parts = ["item_regression", "popularity_prior", "spectral_start", "user_dropout", "user_weighting"]
    rungs = ["fixed", "adaptive", "adaptive_user", "calibrated_user", *(f"with-{part}" for part in parts), "plus"]
    assert list(against) == [*rungs, *(f"alone-{part}" for part in parts[1:])]
    assert against["fixed"] is None and against["with-item_regression"] == "calibrated_user"
    assert against["with-spectral_start"] == "with-popularity_prior" and against["plus"] == "with-user_weighting"
    assert all(against[f"alone-{part}"] == "calibrated_user" for part in parts[1:])
    config = RunFolder("out/runs/with-spectral_start-seed2020").settings()
    assert config["recipe"] == parts[:3] and config["tau_strategy"] == "calibrated_user"
    row = next(row for row in data["rows"] if row["rung"] == "with-popularity_prior")
    runs = [[RunFolder(f"out/runs/with-{part}-seed2020")] for part in parts[1::-1]]
    assert row["pair"]["difference"] == pytest.approx(paired(*runs).difference)
    assert row["pair"]["p_holm"] >= row["pair"]["p"]
    assert "| fixed |" in capsys.readouterr().out and Path("out/report.html").is_file()


def test_losses_by_strategies_with_the_fixed_tau_that_validates_best(words, capsys):
    more = ["--losses", "softmax", "bpr", "--strategies", "fixed", "adaptive", "--seeds", "2"]
    assert main(["losses", *more, *words]) == 0
    data = json.loads(Path("out/losses.json").read_text())
    rows = {row["method"]: row for row in data["rows"]}
    assert set(rows) == {"softmax-fixed", "softmax-adaptive", "bpr-fixed", "bpr-adaptive"}
    tried = [RunFolder(f"out/runs/softmax-fixed-try{n}-seed2020").read_result() for n in (1, 2)]
    best = max((0, 1), key=lambda n: tried[n]["best_valid_score"])
    assert rows["softmax-fixed"]["settings"]["tau"] == (0.2, 0.4)[best] and rows["softmax-fixed"]["trials"] == 2
    assert "follows from the softmax" in rows["bpr-adaptive"]["errors"][0]
    said = capsys.readouterr().out
    assert "| loss | fixed | adaptive |" in said and "refused" in said


def test_what_the_study_sets_itself_is_refused(words, capsys):
    assert main(["ladder", *words, "--recipe=plus"]) == 2
    assert main(["losses", *words, "--loss=bsl"]) == 2
    assert main(["ladder", *words, "--model", "BPR"]) == 2
    said = capsys.readouterr().err
    assert "recipe is set" in said and "loss is set" in said and "BPR does not have" in said


def test_lightgcn_keeps_the_batch_of_its_leaderboard_entry():
    for made in (ladder_entries("AdapTauLightGCN", "x", "adaptive", [0.2]),
                 loss_entries("AdapTauLightGCN", "x", ["bsl"], ["adaptive"], [0.2])):  # fmt: skip
        assert all(trial["train_batch_size"] == 8192 for entry in made for trial in entry.trials)
