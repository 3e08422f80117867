"""run_hyper.py: all points tried, chosen by validation, gone on with after Ctrl-C, and bad ranges refused."""

import json
import re
from pathlib import Path

import pytest

from recbole_adaptau.cli.tune import main
from recbole_adaptau.config.yaml_files import PROPERTIES
from recbole_adaptau.errors import OptionError
from recbole_adaptau.studies.tuning import Search, check_ranges
from tests.e2e.test_experiments import BATCHES, count_batches

pytestmark = pytest.mark.e2e


@pytest.fixture
def words(board):
    """A search on the checkerboard, but for its ranges and its algorithm."""
    settings = {**board, "topk": [5, 20], "valid_metric": "NDCG@20", "epochs": 1, "num_negatives": 16}
    path = settings.pop("data_path")
    del settings["state"], settings["show_progress"]
    return [
        "--model", "AdapTauMF", "--dataset", "board", "--data-path", path, "--params_file", "ranges.test",
        "--output", "out", *(f"--{key}={value}" for key, value in settings.items()),
    ]  # fmt: skip


def search(algo="exhaustive", max_evals=20, early_stop=None, seed=1, workers=0):
    return Search("AdapTauMF", "board", Path("ranges.test"), algo, max_evals, early_stop, seed, workers)


def test_an_interrupted_search_goes_on_and_chooses_by_validation(words, capsys):
    Path("ranges.test").write_text("learning_rate choice [1e-5,5e-2]\nreg_weight choice [0.0,1e-3]\n")
    with pytest.MonkeyPatch.context() as patch:
        count_batches(patch, interrupt_at=2 * BATCHES + 3)  # in the third of four trials
        assert main(words) == 130
    assert len(list(Path("out/runs").glob("*/result.json"))) == 2
    with pytest.MonkeyPatch.context() as patch:
        trained = count_batches(patch)
        assert main([*words, "--output_file", "all.result"]) == 0
    assert len(trained) == 2 * BATCHES
    results = {path.parent.name: json.loads(path.read_text()) for path in Path("out/runs").glob("*/result.json")}
    assert set(results) == {f"learning_rate{rate}-reg_weight{l2}" for rate in (1e-05, 0.05) for l2 in (0.0, 0.001)}
    best = max(results, key=lambda name: results[name]["best_valid_score"])
    data = json.loads(Path("out/tune.json").read_text())
    assert data["best"] == best and data["keys"] == ["learning_rate", "reg_weight"]
    table = Path("out/tune.md").read_text()
    shown = re.search(r"Test figures of the chosen one: recall@20 (\S+), NDCG@20 (\S+)\. .*`(.*)`", table)
    test = results[best]["test_result"]
    assert (shown[1], shown[2]) == (f"{test['recall@20']:.4f}", f"{test['ndcg@20']:.4f}")
    assert shown[3] == "--" + best.replace("-reg_weight", " --reg_weight=").replace("learning_rate", "learning_rate=")
    assert table.count("**chosen**") == 1 and len(re.findall(r"^\| (1e-05|0\.05) ", table, re.M)) == 4
    assert Path("out/tune.png").stat().st_size > 5000
    assert Path("all.result").read_text().count("Valid result:") == 4  # RecBole's own list
    # And once more: nothing is left to train.
    with pytest.MonkeyPatch.context() as patch:
        trained = count_batches(patch)
        assert main(words) == 0
    assert trained == []
    assert "test result" not in capsys.readouterr().out


def test_bayes_learns_from_results_and_is_not_repeated(words):
    Path("ranges.test").write_text("learning_rate loguniform -9,-3\n")
    for trials in (3, 0):
        with pytest.MonkeyPatch.context() as patch:
            trained = count_batches(patch)
            assert main([*words, "--algo", "bayes", "--max_evals", "3"]) == 0
        assert len(trained) == trials * BATCHES
    data = json.loads(Path("out/tune.json").read_text())
    assert len(data["runs"]) == len(list(Path("out/runs").iterdir())) == 3
    assert data["best"] == max(data["runs"], key=lambda run: run["best_valid_score"])["name"]


def test_every_point_of_a_grid_is_asked_for():
    """RecBole's search would stop after ten of them without progress."""
    Path("ranges.test").write_text(
        "learning_rate choice [1e-4,1e-3,1e-2]\nreg_weight choice [0.0,1e-5,1e-4,1e-3,1e-2]\n"
    )
    specs = search().specs({})
    pairs = {(spec.varied["learning_rate"], spec.varied["reg_weight"]) for spec in specs}
    assert len(specs) == len(pairs) == 15 and len({spec.name for spec in specs}) == 15


def test_a_random_search_is_the_same_for_the_same_seed():
    Path("ranges.test").write_text("learning_rate loguniform -9,-3\nreg_weight choice [0.0,1e-5]\n")
    one, again, other = ([dict(spec.varied) for spec in search("random", 6, seed=seed).specs({})] for seed in (3, 3, 4))
    assert one == again and len(one) == 6
    assert [point["learning_rate"] for point in one] != [point["learning_rate"] for point in other]
    assert all(1e-4 < point["learning_rate"] < 5e-2 for point in one)


@pytest.mark.parametrize(
    ("text", "algo", "message"),
    [
        ("", "random", "is empty"),
        ("learning_rate\n", "random", "cannot read 'learning_rate'"),
        ("learning_rate choise [1]\n", "random", "Did you mean 'choice'"),
        ("learning_rate choice []\n", "random", "choice takes a list"),
        ("learning_rate choice __import__('os').abort()\n", "random", "choice takes a list"),
        ("learning_rate uniform 1\n", "random", "uniform takes LOW,HIGH"),
        ("learning_rate quniform 1,2\n", "random", "quniform takes LOW,HIGH,STEP"),
        ("learning_rate loguniform -8,-2\n", "exhaustive", "cannot be searched exhaustively"),
    ],
)
def test_bad_ranges_are_named(text, algo, message):
    Path("ranges.test").write_text(text)
    with pytest.raises(OptionError, match=re.escape(message)):
        check_ranges(Path("ranges.test"), algo)


@pytest.mark.parametrize(
    ("text", "more", "message"),
    [
        ("tau choice [0.2,0.3]", [], "has no effect with tau_strategy = adaptive_user"),
        ("learning_rte choice [0.1]", [], "Did you mean 'learning_rate'"),
        ("learning_rate choice [-1.0]", [], "learning_rate = -1.0: must be a number above 0"),
        ("learning_rate choice [0.1]", ["--algo", "bayes", "--nproc", "2"], "--algo bayes waits for each result"),
        ("learning_rate choice [0.1]", ["--early_stop", "3", "--nproc", "2"], "--early_stop waits for each result"),
        ("learning_rate choice [0.1]", ["--max_evals", "0"], "must be the number of trials, at least 1"),
        ("learning_rate choice [0.1]", ["--params_file", "none.test"], "there is no file"),
    ],
)
def test_bad_searches_end_before_training(words, capsys, text, more, message):
    Path("ranges.test").write_text(text + "\n")
    assert main([*words, *more]) == 2
    error = capsys.readouterr().err
    assert message in error and "Traceback" not in error and not Path("out/runs").exists()


@pytest.mark.parametrize("path", sorted((PROPERTIES / "hyper").glob("*.test")), ids=lambda path: path.stem)
def test_our_ranges_are_sound_and_have_no_temperature(path):
    check_ranges(path, "exhaustive")
    keys = {line.split()[0] for line in path.read_text().splitlines()}
    assert {"learning_rate", "reg_weight"} <= keys and not any("tau" in key for key in keys)
