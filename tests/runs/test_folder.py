"""What a run folder holds and refuses."""

import json

import pytest

from recbole_adaptau.errors import AdapTauError, DataError
from recbole_adaptau.runs.folder import RunFolder
from tests.helpers import build


def test_other_ids_under_the_same_counts_are_refused(board, tmp_path):
    run = RunFolder(tmp_path)
    dataset = build("AdapTauMF", board).dataset
    run.refuse_other_ids(dataset)  # nothing was written down, as in runs from before
    run.keep_data(dataset)
    run.refuse_other_ids(dataset)
    tokens = dataset.field2id_token["item_id"]
    tokens[[1, 2]] = tokens[[2, 1]]
    with pytest.raises(AdapTauError, match=r"is not the one that .* was trained on: it had 48 users and 48 items"):
        run.refuse_other_ids(dataset)


def test_a_result_without_a_number_is_still_json(tmp_path):
    """-inf is the best score of a run without an epoch; version 0.2 wrote it as -Infinity, which is no JSON."""
    run = RunFolder(tmp_path)
    run.finish({"best_valid_score": -float("inf"), "test_result": {"recall@2": float("nan"), "ndcg@2": 0.5}})
    expected = {"best_valid_score": None, "test_result": {"recall@2": None, "ndcg@2": 0.5}}
    assert json.loads(run.result.read_text(), parse_constant=pytest.fail) == expected == run.read_result()
    run.result.write_text('{"best_valid_score": -Infinity}')
    assert run.read_result() == {"best_valid_score": None}


def test_what_is_no_run_folder_is_told_apart(tmp_path):
    run = tmp_path / "monday"
    run.mkdir()
    (run / "config.yaml").write_text("model: AdapTauMF\n")
    (tmp_path / "mondays").mkdir()  # no run, and so not suggested
    for given, message in (
        (run / "best.pth", f"is not a run folder but lies in one: give {run}"),
        (tmp_path / "mondai", r"there is no such folder. Did you mean 'monday'\?"),
        (tmp_path / "mondays", "it has no config.yaml"),
    ):
        with pytest.raises(DataError, match=message):
            RunFolder.existing(given)


def test_a_version_takes_the_place_of_a_run(tmp_path):
    run = RunFolder(tmp_path)
    version = run.versions / "second"
    version.mkdir(parents=True)
    for folder in (run.path, version):
        (folder / "config.yaml").write_text("model: AdapTauMF\n")
    assert RunFolder.serving(tmp_path).path == run.path
    run.put_in_place("second")
    assert RunFolder.serving(tmp_path).path == version
    for content, message in (("{", "is damaged"), ('{"version": "../.."}', "names no version")):
        run.current.write_text(content)
        with pytest.raises(DataError, match=message):
            RunFolder.serving(tmp_path)
