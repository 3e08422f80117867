"""Interactions from tables in memory: the same rows, whatever holds them."""

import datetime

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp

from recbole_adaptau.data.frames import are_numbers, interactions_table, read_pairs
from recbole_adaptau.errors import DataError

ROWS = pd.DataFrame({"who": [7, 7, 9], "what": ["tea", "pot", "tea"], "stars": [5, 2, 4]})
ROWS["day"] = ["2024-05-01", "2024-05-02", "2024-05-03"]
COLUMNS = {"user": "who", "item": "what", "time": "day", "rating": "stars"}


def polars(table: pd.DataFrame):
    return pytest.importorskip("polars", reason="Polars is not installed").DataFrame(table.to_dict("list"))


def arrow(table: pd.DataFrame):
    return pytest.importorskip("pyarrow", reason="the extra 'parquet' is not installed").Table.from_pandas(table)


@pytest.mark.parametrize("made", [pd.DataFrame.copy, polars, arrow])
def test_tables_of_any_make_give_the_same_rows(made):
    found = interactions_table(made(ROWS), **COLUMNS)
    assert found["user"].tolist() == [7, 7, 9] and are_numbers(found["user"])
    assert found["item"].tolist() == ["tea", "pot", "tea"] and not are_numbers(found["item"])
    assert found["rating"].tolist() == [5.0, 2.0, 4.0]
    noon = [datetime.datetime(2024, 5, day, tzinfo=datetime.timezone.utc).timestamp() for day in (1, 2, 3)]
    assert found["time"].tolist() == noon
    assert list(interactions_table(made(ROWS), "who", "what").columns) == ["user", "item"]


@pytest.mark.parametrize("kind", [sp.csr_matrix, sp.coo_array, sp.csc_array])
def test_a_matrix_gives_its_entries_under_the_given_ids(kind):
    found = interactions_table(kind(np.array([[0, 3, 0], [1, 0, 2]])), user_ids=["a", "b"], item_ids=[10, 11, 12])
    rows = sorted(found.itertuples(index=False, name=None))
    assert rows == [("a", 11, 3.0), ("b", 10, 1.0), ("b", 12, 2.0)]
    assert are_numbers(found["item"])


@pytest.mark.parametrize(
    "ids",
    [
        pd.Series([1.0, 2.0, np.nan, 2.0]),
        pd.Series([1, 2, None, 2], dtype="Int64"),
        pd.Series(["1", " 2", " ", "2"]),
        pd.Series(["1", "2", None, "2"], dtype="string"),
        pd.Series(["1", "2", None, "2"], dtype="category"),
    ],
)
def test_rows_without_an_id_are_left_out_and_ids_are_whole(ids):
    found = interactions_table(pd.DataFrame({"user": ids, "item": ["x", "y", "z", "z"]}))
    assert [str(name) for name in found["user"]] == ["1", "2", "2"] and found["item"].tolist() == ["x", "y", "z"]


@pytest.mark.parametrize(
    ("table", "options", "message"),
    [
        (ROWS, {"user": "who", "item": "wat"}, "the table has no column 'wat'; it has: who, what, stars, day. Did you"),
        (ROWS, {"user": "who", "item": "who"}, "must be different columns"),
        (ROWS.iloc[:0], {"user": "who", "item": "what"}, "the table has no interactions"),
        (pd.DataFrame([[1, 2, 3]], columns=["user", "item", "item"]), {}, "two columns of the table are called 'item'"),
        (pd.DataFrame({"user": [1.5], "item": [1]}), {}, "column user: ids are text or whole numbers, not 1.5"),
        (pd.DataFrame({"user": [True], "item": [1]}), {}, "column user: ids are text or whole numbers, not bool"),
        (pd.DataFrame({"user": ["a"], "item": ['6" pan']}), {}, "column item, row 0: RecBole cannot read the id"),
        (pd.DataFrame({"user": ["[PAD]"], "item": [1]}), {}, "column user, row 0: RecBole cannot read the id '.PAD.'"),
        (pd.DataFrame({"user": ["a\tb"], "item": [1]}), {}, "RecBole cannot read the id"),
        (pd.DataFrame({"user": [1], "item": [1], "t": ["soon"]}), {"time": "t"}, "column t: neither numbers nor dates"),
        (
            pd.DataFrame({"user": [1], "item": [1], "t": [np.inf]}),
            {"time": "t"},
            "column t, row 0: inf is not a number",
        ),
        (pd.DataFrame({"user": [1], "item": [1], "r": ["good"]}), {"rating": "r"}, "column r, row 0: 'good' is not a"),
        (sp.eye(2).tocsr(), {}, "a matrix has no ids"),
        (sp.eye(2).tocsr(), {"user_ids": [1], "item_ids": [1, 2]}, "user_ids: 1 ids, but the matrix has 2 users"),
        (sp.eye(2).tocsr(), {"user_ids": [1, 1], "item_ids": [1, 2]}, "user_ids: 1 is given twice"),
        (sp.csr_matrix((2, 2)), {"user_ids": [1, 2], "item_ids": [1, 2]}, "the matrix has no interactions"),
    ],
)
def test_what_cannot_be_used_is_named(table, options, message):
    with pytest.raises(DataError, match=message):
        interactions_table(table, **options)


@pytest.mark.parametrize("other", [[("a", "b")], {"user": ["a"]}, np.zeros((2, 2)), "file.csv", None])
def test_what_is_no_table_is_a_type_error(other):
    with pytest.raises(TypeError, match="give a pandas or Polars DataFrame, an Arrow table or a SciPy matrix"):
        interactions_table(other)


@pytest.mark.parametrize("name", ["new.csv", "new.parquet"])
def test_files_are_read_under_their_usual_names(tmp_path, name):
    path = tmp_path / name
    table = pd.DataFrame({"Item_ID": ["x", "y"], "user": ["1", "007"], "timestamp": ["5", "6"]})
    if name.endswith("csv"):
        table.to_csv(path, sep=";", index=False)
    else:
        pytest.importorskip("pyarrow", reason="the extra 'parquet' is not installed")
        table.to_parquet(path)
    found = read_pairs(path)
    assert found.to_dict("list") == {"user": ["1", "007"], "item": ["x", "y"], "time": [5.0, 6.0]}
    with pytest.raises(DataError, match="does not exist"):
        read_pairs(tmp_path / "none.csv")
    (tmp_path / "bad.csv").write_text("a,b\n1,2\n")
    with pytest.raises(DataError, match=r"no column is called user_id, .* it has: a, b"):
        read_pairs(tmp_path / "bad.csv")
    (tmp_path / "bad.parquet").write_text("no")
    with pytest.raises(DataError, match="its first line has one column"):
        read_pairs(tmp_path / "bad.parquet")
