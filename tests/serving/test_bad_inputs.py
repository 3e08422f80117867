"""What the Python interface cannot use: each a clear sentence, before anything is trained or written."""

from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp

from recbole_adaptau import Recommender
from recbole_adaptau.data.frames import interactions_table
from recbole_adaptau.errors import AdapTauError, DataError, OptionError
from tests.helpers import build


@pytest.fixture(scope="module")
def recommender(tmp_path_factory):
    """A model of 48 users and items, not trained; nothing below changes it."""
    from tests.conftest import board_settings, write_board

    folder = tmp_path_factory.mktemp("board")
    write_board(folder)
    built = build("AdapTauMF", board_settings(folder))
    built.model.begin_epoch(0)
    return Recommender.of(built.model, built.dataset)


PAIRS = r"give pairs \(user, item\), \{user: items\} or a table with both"
IDS = "give an id or a sequence of ids"


@pytest.mark.parametrize(
    ("ask", "error", "message"),
    [
        (lambda r: r.recommend("u1", k="5"), TypeError, "k = '5': must be a whole number"),
        (lambda r: r.recommend("u1", k=2.5), TypeError, "k = 2.5: must be a whole number"),
        (lambda r: r.recommend("u1", k=True), TypeError, "k = True: must be a whole number"),
        (lambda r: r.recommend("u1", k=None), TypeError, "k = None: must be a whole number"),
        (lambda r: r.recommend("u1", k=-1), OptionError, "k = -1: must be at least 1 and at most 48"),
        (lambda r: r.recommend("u1", explain="2"), TypeError, "explain = '2': must be a whole number"),
        (lambda r: r.recommend("u1", explain=-1), OptionError, "explain = -1: must be at least 0"),
        (lambda r: r.recommend("u1", explain=1.5), TypeError, "explain = 1.5: must be a whole number"),
        (lambda r: r.recommend({"u1": 1}), TypeError, f"users: {IDS}, not a dict"),
        (lambda r: r.recommend("u1", allow={"i1": 1}), TypeError, f"allow: {IDS}, not a dict"),
        (lambda r: r.recommend("u1", deny=[None]), TypeError, "an id is text or a whole number, not None"),
        (lambda r: r.recommend("u1", deny=[["i1"]]), TypeError, r"an id is text or a whole number, not \['i1'\]"),
        (lambda r: r.recommend("u1", exclude="u1"), TypeError, f"exclude: {PAIRS}"),
        (lambda r: r.recommend("u1", exclude=3), TypeError, f"exclude: {PAIRS}"),
        (lambda r: r.recommend("u1", exclude=[("u1",)]), TypeError, f"exclude: {PAIRS}"),
        (lambda r: r.recommend("u1", exclude={"u1": None}), TypeError, f"exclude: {IDS}, not a NoneType"),
        (lambda r: r.recommend("u1", candidates=["i1"]), TypeError, f"candidates: {PAIRS}"),
        (lambda r: r.recommend("u1", candidates=[("u1", "i1", 3)]), TypeError, f"candidates: {PAIRS}"),
        (lambda r: r.batches("u1", denied=["i1"]), TypeError, "there is no filter 'denied', .*Did you mean 'deny'"),
        (lambda r: r.recommend_for("i1", allowed=["i1"]), TypeError, "there is no filter 'allowed', .*'allow'"),
        (lambda r: r.recommend_for("i1", explain=-1), OptionError, "explain = -1: must be at least 0"),
        (lambda r: r.recommend_for([]), DataError, "none of the liked items is in the data"),
        (lambda r: r.recommend_for({}), DataError, "none of the liked items is in the data"),
        (lambda r: r.recommend_for(None), TypeError, f"liked: {IDS}, not a NoneType"),
        (lambda r: r.recommend_for(3.5), TypeError, "an id is text or a whole number, not 3.5"),
        (lambda r: r.recommend_for(pd.DataFrame({"item": ["i1"]})), TypeError, "the table has no column 'user'"),
        (lambda r: r.similar_items("i1", k="3"), TypeError, "k = '3': must be a whole number"),
        (lambda r: r.similar_items({"i1": 2}), TypeError, f"items: {IDS}, not a dict"),
        (lambda r: r.similar_items("i1", k=48), OptionError, "48 neighbours: must be at least 1 and at most 47"),
        (lambda r: r.similar_users(None), TypeError, f"users: {IDS}, not a NoneType"),
        (lambda r: r.similar_users("u1", k=2.5), TypeError, "k = 2.5: must be a whole number"),
        (lambda r: r.score("u1"), TypeError, f"pairs: {PAIRS}"),
        (lambda r: r.score([("u1", None)]), TypeError, f"pairs: {PAIRS}"),
        (lambda r: r.score(pd.DataFrame({"user": ["u1"]})), TypeError, "pairs: the table has no column 'item'"),
        (lambda r: r.add_history(7), TypeError, f"interactions: {PAIRS}"),
        (lambda r: r.add_history(["u1"]), TypeError, f"interactions: {PAIRS}"),
        (lambda r: r.update(pd.DataFrame({"user": [1], "item": [2]})), AdapTauError, "only a model with a run folder"),
        (lambda r: Recommender().refresh(), AdapTauError, "nothing is trained yet"),
        (lambda r: Recommender(7), TypeError, "Recommender takes a model's name"),
        (lambda r: Recommender.load(""), DataError, "'' is not a run folder"),
        (lambda r: Recommender.load("runs/nowhere"), DataError, "runs/nowhere is not a run folder: there is no such"),
    ],
)  # fmt: skip
def test_what_cannot_be_asked(recommender, ask, error, message):
    with pytest.raises(error, match=message):
        ask(recommender)


TABLE = pd.DataFrame({"user": np.arange(60) % 6, "item": np.arange(60) // 2, "stars": 5.0})


@pytest.mark.parametrize(
    ("made", "options", "error", "message"),
    [
        ({"model": "AdapTauFM"}, {}, AdapTauError, "FM cannot be adapted: it is a context recommender"),
        ({"model": "LigthGCN"}, {}, AdapTauError, "there is no model named 'LigthGCN'"),
        ({"model": "GRU4Rec"}, {}, OptionError, "GRU4Rec is a sequential model"),
        ({"model": "NeuMF"}, {}, OptionError, "NeuMF has no full_sort_predict"),
        ({"epochs": "many"}, {}, OptionError, "epochs = 'many': must be a whole number of at least 0"),
        ({"recipe": "extra"}, {}, OptionError, "recipe: 'extra' is not one of none, plus"),
        ({"valid": 2}, {}, OptionError, "valid = 2: must be a number from 0 to below 1"),
        ({"split": "time"}, {}, DataError, "eval_args orders by time, but no column 'timestamp'"),
        ({"split": "tmie"}, {}, OptionError, "split = 'tmie'"),
        ({"run_folder": "a-file"}, {}, OptionError, "run_folder = 'a-file' is a file, not a folder"),
        ({"topk": [31]}, {}, DataError, "topk = .31., but 'interactions' has only 30 items"),
        ({"model": "BPR", "topk": [31]}, {}, DataError, "topk = .31., but 'interactions' has only 30 items"),
        ({}, {"item_names": ["Tea"]}, TypeError, "item_names: give .item: name., not a list"),
        ({}, {"item_names": "title"}, TypeError, "item_names: give .item: name., not a str"),
        ({}, {"user": None}, OptionError, "user and item: name the columns with the ids"),
        ({}, {"user": 0}, DataError, "the table has no column '0'"),
        ({}, {"rating": "stars", "min_rating": float("nan")}, AdapTauError, "min_rating = '?nan'?: must be a number"),
        ({}, {"rating": "stars", "min_rating": True}, OptionError, "min_rating = True: must be a number"),
        ({}, {"rating": "stars", "min_rating": 9}, DataError, "no rating is at least min_rating = 9"),
    ],
)  # fmt: skip
def test_what_cannot_be_fitted(made, options, error, message):
    Path("a-file").touch()
    settings = {"epochs": 1, "topk": [5], "valid_metric": "NDCG@5", "show_progress": False, "state": "ERROR", **made}
    if settings["topk"] == [31]:
        settings["valid_metric"] = "NDCG@31"
    with pytest.raises(error, match=message):
        Recommender(settings.pop("model", "AdapTauMF"), **settings).fit(TABLE, **options)
    assert not list(Path().rglob("best.pth"))


@pytest.mark.parametrize(
    ("data", "options", "message"),
    [
        (pd.DataFrame({"user": [2.0**60], "item": [1]}), {}, "column user: floats of this size have lost digits"),
        (pd.DataFrame({"user": [[1]], "item": [1]}), {}, r"column user: ids are text or whole numbers, not \[1\]"),
        (pd.DataFrame({"user": [b"a"], "item": [1]}), {}, "column user: ids are text or whole numbers, not b'a'"),
        (pd.DataFrame({"user": [("a", 1)], "item": [1]}), {}, r"column user: .* not \('a', 1\)"),
        (pd.DataFrame({"user": ["a", True], "item": [1, 2]}), {}, "column user: ids .* not True"),
        (
            sp.csr_matrix(np.array([[np.nan, 1.0]])),
            {"user_ids": ["a"], "item_ids": [1, 2]},
            "the matrix has values that are not numbers",
        ),
    ],
)
def test_ids_and_values_that_are_none(data, options, message):
    with pytest.raises(DataError, match=message):
        interactions_table(data, **options)
