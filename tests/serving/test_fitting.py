"""From a table to RecBole's files and a run folder."""

import warnings
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from recbole_adaptau import Recommender
from recbole_adaptau.errors import AdapTauError, DataError, DataWarning, OptionError
from recbole_adaptau.runs.folder import RunFolder
from recbole_adaptau.serving import fitting
from recbole_adaptau.serving.fitting import _each_pair_once, write_dataset
from tests.serving.conftest import QUICK, colours


@settings(max_examples=60)
@given(st.integers(0, 10**6), st.booleans(), st.sampled_from([None, 3.0]))
def test_of_a_repeated_pair_the_earliest_positive_stays(seed, with_time, min_rating):
    rng = np.random.default_rng(seed)
    table = pd.DataFrame({"user": rng.integers(0, 3, 12), "item": rng.integers(0, 3, 12), "row": range(12)})
    table["rating"] = rng.integers(1, 6, 12).astype(float)
    table.loc[0, "rating"] = 3.0
    if with_time:
        table["time"] = rng.integers(0, 4, 12)
    best = {}
    for row in table.to_dict("records"):
        key = (min_rating is not None and row["rating"] < min_rating, row.get("time", 0), row["row"])
        pair = row["user"], row["item"]
        best[pair] = min(best.get(pair, key), key)
    found = _each_pair_once(table, min_rating)
    assert found["row"].tolist() == sorted(key[-1] for key in best.values())


def test_of_many_rows_alike_the_first_stays():
    """More rows than a sort without an order of the equal leaves in place."""
    rows = np.arange(4000)
    table = pd.DataFrame({"user": rows % 7, "item": rows % 5, "row": rows, "rating": np.where(rows % 3, 5.0, 1.0)})
    assert _each_pair_once(table, 3.0)["row"].max() < 3 * 35
    assert _each_pair_once(table.assign(time=rows // 2000), None)["row"].tolist() == list(range(35))


def test_quotes_in_ids_and_names_are_written_as_they_are(tmp_path):
    table = pd.DataFrame({"user": ['"a', "b c"], "item": ['1"', "2"]})
    write_dataset(tmp_path, "shop", table, {'1"': "x"})
    assert (tmp_path / "shop.inter").read_text() == 'user_id:token\titem_id:token\n"a\t1"\nb c\t2\n'
    assert (tmp_path / "shop.item").read_text() == 'item_id:token\titem_name:token_seq\n1"\tx\n'


def test_no_positive_at_all_is_refused():
    table = pd.DataFrame({"user": [1], "item": [2], "rating": [2.0]})
    with pytest.raises(DataError, match=r"no rating is at least min_rating = 3"):
        _each_pair_once(table, 3)


def test_files_are_recboles_atomic_ones(tmp_path):
    table = pd.DataFrame({"user": ["a", "b"], "item": [1, 2], "time": [0.5, 2.0], "rating": [4.0, 1.0]})
    folder = tmp_path / "new" / "shop"
    write_dataset(folder, "shop", table, {1: 'Tea\t"green"', 2: "  two \n lines"}, 3.5)
    write_dataset(folder, "shop", table, pd.Series({1: 'Tea\t"green"', 2: "  two \n lines"}), 3.5)
    assert (folder / "shop.inter").read_bytes() == (
        b"user_id:token\titem_id:token\ttimestamp:float\trating:float\na\t1\t0.5\t4.0\nb\t2\t2.0\t1.0\n"
    )
    assert (folder / "shop.item").read_bytes() == (
        b"item_id:token\titem_name:token_seq\n1\tTea 'green'\n2\ttwo lines\n"
    )
    assert yaml.safe_load((folder / "shop.yaml").read_text()) == {
        "load_col": {"inter": ["user_id", "item_id", "timestamp", "rating"]},
        "min_rating": 3.5,
    }
    write_dataset(tmp_path / "plain", "plain", table[["user", "item", "rating"]])
    assert (tmp_path / "plain" / "plain.inter").read_text() == "user_id:token\titem_id:token\na\t1\nb\t2\n"
    assert (tmp_path / "plain" / "plain.yaml").read_text() == "load_col: {inter: [user_id, item_id]}\n"
    assert not (tmp_path / "plain" / "plain.item").exists()


@pytest.fixture
def untrained(monkeypatch):
    """What would be trained, instead of training it."""
    asked = []
    monkeypatch.setattr(fitting, "run_recbole_adaptau", lambda *args: asked.append(args))
    monkeypatch.setattr("recbole_adaptau.serving.recommender.from_run", lambda folder: folder)
    return asked


def fit(data, made=None, **options):
    recommender = Recommender("AdapTauMF", **(made or {}))
    recommender.fit(data, **options)
    return recommender._served


def test_a_table_is_trained_on_in_a_folder_of_its_own(untrained, tmp_path, monkeypatch):
    table = colours(range(8), range(8))
    folder = fit(table, {"epochs": 3, "run_root": "here"}, name="shop")
    (model, dataset, files, given) = untrained[0]
    assert (model, dataset, files) == ("AdapTauMF", "shop", None) and folder.parts[0] == "here"
    assert given["epochs"] == 3 and yaml.safe_load(given["run_folder"]) == str(folder)
    assert yaml.safe_load(given["data_path"]) == str(folder / "dataset")
    assert given["strict_keys"] == ["epochs", "run_root"] and given["show_progress"] is False
    assert RunFolder(folder).about_data()["id_types"] == {"user": "int", "item": "int"}
    assert (folder / "dataset" / "shop" / "shop.inter").is_file()
    monkeypatch.setattr("sys.stderr.isatty", lambda: True, raising=False)
    folder = fit(table.astype({"user": str}))
    assert folder.parts[0] == "runs" and untrained[1][1] == "interactions"
    assert RunFolder(folder).about_data()["id_types"] == {"item": "int"}
    assert fit(table, {"run_folder": str(tmp_path / "mine")}) == tmp_path / "mine"
    assert fit(table, {"show_progress": True}) and untrained[-1][-1]["show_progress"] is True


def test_rows_without_an_id_are_counted_in_a_warning(untrained):
    table = pd.DataFrame({"user": ["a", None, "b", "c"], "item": ["x", "y", None, "z"], "stars": [5.0, 4.0, 3.0, 2.0]})
    with pytest.warns(DataWarning, match="2 of 4 rows have no user or no item and are left out") as told:
        Recommender("AdapTauMF").fit(table)
    assert Path(told[0].filename) == Path(__file__), "the line that called fit"
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        fit(table.dropna())
    with pytest.warns(DataWarning, match="2 of 4 rows"):
        fit(table, rating="stars", min_rating=2)
    matrix = sp.csr_matrix(np.array([[5.0, 0.0], [3.0, 4.0]]))
    folder = fit(matrix, min_rating=4, user_ids=["a", "b"], item_ids=["x", "y"])  # and no warning
    assert "min_rating: 4" in (folder / "dataset/interactions/interactions.yaml").read_text()
    rows = (folder / "dataset/interactions/interactions.inter").read_text().splitlines()
    assert rows[1:] == ["a\tx\t5.0", "b\tx\t3.0", "b\ty\t4.0"]


@pytest.mark.parametrize(
    ("made", "options", "message"),
    [
        ({"dataset": "x"}, {}, "dataset: fit sets it; leave it out"),
        ({"load_col": None}, {}, "load_col: fit sets it; leave it out"),
        ({"min_rating": 4}, {}, "min_rating: give it to fit"),
        ({}, {"item": None}, "user and item: name the columns"),
        ({}, {"rating": "stars"}, "say from which rating on an interaction is a positive"),
        ({}, {"min_rating": "4", "rating": "stars"}, "min_rating = '4': must be a number"),
        ({}, {"min_rating": 4}, "min_rating = 4: name the column with the ratings"),
        ({}, {"name": "a/b"}, "dataset = 'a/b' is not a name"),
    ],
)
def test_what_fit_cannot_use_is_refused(untrained, made, options, message):
    with pytest.raises(AdapTauError, match=message):
        fit(colours(range(8), range(8)).assign(stars=5.0), made, **options)
    assert untrained == [] and list(Path().iterdir()) == []


def test_a_folder_that_is_a_file_or_used_is_refused(untrained, fitted):
    Path("file").touch()
    with pytest.raises(OptionError, match="run_folder = 'file' is a file, not a folder"):
        fit(colours(range(8), range(8)), {"run_folder": "file"})
    with pytest.raises(DataError, match="already holds a run"):
        fit(colours(range(8), range(8)), {"run_folder": str(fitted)})
    Path("empty").mkdir()
    assert fit(colours(range(8), range(8)), {"run_folder": "empty", "min_rating": None}) == Path("empty")


def test_the_host_programs_arguments_are_not_recboles(monkeypatch):
    monkeypatch.setattr("sys.argv", ["test", "--epochs=7"])
    made = Recommender("BPR", epochs=1, run_folder="run", **QUICK).fit(colours(range(12), range(12)))
    assert RunFolder("run").settings()["epochs"] == 1 and made.recommend(3, 2)["user"].tolist() == [3, 3]
