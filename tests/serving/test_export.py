"""What is exported, read back and multiplied out, is the model's ranking."""

import json

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from safetensors.numpy import load_file

from recbole_adaptau import Recommender
from recbole_adaptau.errors import OptionError
from recbole_adaptau.runs.folder import RunFolder, read_interactions
from recbole_adaptau.serving import export as exporting
from recbole_adaptau.serving.export import export
from tests.serving.conftest import QUICK, colours


def scores_of(folder, seen: pd.DataFrame) -> pd.DataFrame:
    """User, item and score of every pair, from the files alone, in float64."""
    arrays = load_file(folder / "embeddings.safetensors")
    about = json.loads((folder / "embeddings.json").read_text(encoding="utf-8"))
    users, items = ([*map(int, about[f"{kind}_ids"])] for kind in ("user", "item"))
    scores = arrays["users"].astype(np.float64) @ arrays["items"].T.astype(np.float64)
    if (folder / "item_weights.npz").is_file():
        liked = np.zeros(scores.shape)
        for user, item in zip(seen["user"], seen["item"], strict=True):
            liked[users.index(user), items.index(item)] = 1.0
        weights = sp.load_npz(folder / "item_weights.npz").toarray()
        scores += arrays["neighbour_scales"][:, None] * (liked @ weights.T)
    places = [(user, item) for user in users for item in items]
    return pd.DataFrame(places, columns=["user", "item"]).assign(score=scores.ravel())


def training_pairs(folder) -> pd.DataFrame:
    data = read_interactions(RunFolder(folder).interactions)
    own, theirs = data.training
    return pd.DataFrame({"user": data.user_ids[own].astype(int), "item": data.item_ids[theirs].astype(int)})


def test_the_files_hold_the_models_scores_ids_and_neighbours(fitted, tmp_path):
    output = tmp_path / "new" / "export"
    written = export(fitted, output, neighbours=3)
    names = ["embeddings.safetensors", "embeddings.json", "embeddings.npz", "item_weights.npz", "neighbours.csv"]
    assert [path.name for path in written] == names and {path.name for path in output.iterdir()} == set(names)
    recommender = Recommender.load(fitted)
    found = scores_of(output, training_pairs(fitted))
    assert len(found) == 24 * 24
    wanted = recommender.score(found[["user", "item"]])["score"]
    np.testing.assert_allclose(found["score"], wanted, rtol=1e-4, atol=1e-4)
    about = json.loads((output / "embeddings.json").read_text(encoding="utf-8"))
    with np.load(output / "embeddings.npz") as arrays:
        assert about["user_ids"] == arrays["user_ids"].tolist() == [*map(str, recommender.user_ids)]
        assert about["item_ids"] == arrays["item_ids"].tolist() == [*map(str, recommender.item_ids)]
        assert arrays["items"].dtype == np.float32 and about["dimension"] == arrays["items"].shape[1] == 9
        for name, table in load_file(output / "embeddings.safetensors").items():
            assert np.array_equal(arrays[name], table)
    assert (about["model"], about["dataset"]) == ("AdapTauMF", "shop") and "popularity" in about["last_column"]
    assert about["user_length_of_somebody_new"] == recommender.embeddings().user_length
    assert "neighbour_scales[user]" in about["score"]
    near = pd.read_csv(output / "neighbours.csv")
    pd.testing.assert_frame_equal(near, recommender.similar_items(None, 3), check_dtype=False, rtol=1e-5)


def test_users_since_the_training_are_not_exported_and_old_weights_go(fitted, tmp_path, monkeypatch):
    """Of a run without a regression into the folder of one with it, and of a service that knows further users."""
    plain = tmp_path / "plain"
    Recommender("BPR", epochs=1, run_folder=str(plain), **QUICK).fit(colours(range(12), range(12)))
    output = tmp_path / "export"
    export(fitted, output)
    loaded = Recommender.load(plain)
    loaded.add_history({"somebody new": [1, 2]})
    monkeypatch.setattr(exporting.Recommender, "load", lambda *_: loaded)
    assert [path.name for path in export(plain, output)] == [
        f"embeddings.{end}" for end in ("safetensors", "json", "npz")
    ]
    assert not (output / "item_weights.npz").exists()
    about = json.loads((output / "embeddings.json").read_text(encoding="utf-8"))
    assert about["last_column"] is None and about["score"] == "inner product of a user's and an item's row"
    assert len(about["user_ids"]) == len(load_file(output / "embeddings.safetensors")["users"]) == 12
    with pytest.raises(OptionError, match=r"embeddings\.json is a file; give a folder"):
        export(plain, output / "embeddings.json")


def test_the_index_is_that_of_the_items_and_is_checked(fitted, tmp_path, monkeypatch):
    faiss = pytest.importorskip("faiss", reason="the extra 'faiss' is not installed")
    checked, check = [], exporting.check_index
    monkeypatch.setattr(exporting, "check_index", lambda *args: checked.append(args) or check(*args))
    written = export(fitted, tmp_path / "export", faiss=True)
    index = faiss.read_index(str(written[-1]))
    items = load_file(tmp_path / "export" / "embeddings.safetensors")["items"]
    assert written[-1].name == "items.faiss" and np.array_equal(index.reconstruct_n(0, 24), items)
    ((path, *_, users, k),) = checked
    assert path == written[-1] and users.tolist() == list(range(1, 25)) and k == 20
    monkeypatch.setattr(exporting, "CHECKED_USERS", 5)
    monkeypatch.setattr(exporting, "CHECKED_K", 99)
    export(fitted, tmp_path / "export", faiss=True)
    *_, users, k = checked[1]
    assert users.tolist() == [1, 2, 3, 4, 5] and k == 24


def test_an_index_without_faiss_is_refused_before_anything_is_written(fitted, tmp_path, monkeypatch):
    def missing():
        raise OptionError("faiss is missing")

    monkeypatch.setattr(exporting, "need_faiss", missing)
    with pytest.raises(OptionError, match="faiss is missing"):
        export(fitted, tmp_path / "export", faiss=True)
    assert not (tmp_path / "export").exists()
    assert len(export(fitted, tmp_path / "export")) == 4


def test_no_progress_bar_where_nobody_looks(fitted, tmp_path, capfd):
    export(fitted, tmp_path / "export", neighbours=3)
    assert "neighbours" not in capfd.readouterr().err
