"""Embeddings, fold-in, neighbours, names, tables and the index, each against an independent truth."""

import json
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from recbole.data.interaction import Interaction
from recbole.utils import get_model

from recbole_adaptau.errors import AdapTauError, DataError, OptionError
from recbole_adaptau.runs.folder import RunFolder
from recbole_adaptau.serving import Embeddings, Recommender, embeddings_of
from recbole_adaptau.serving.index import check_index, write_index
from recbole_adaptau.serving.names import item_names
from recbole_adaptau.serving.similar import neighbours
from recbole_adaptau.serving.tables import check_output, format_table, write_table
from tests.helpers import build

ACTIVE = torch.arange(1, 49)


def full_scores(model) -> torch.Tensor:
    with torch.no_grad():
        return model.eval().full_sort_predict(Interaction({"user_id": ACTIVE})).view(48, -1)


@pytest.mark.parametrize(
    ("model", "changes"),
    [
        ("AdapTauMF", {}),
        ("AdapTauMF", {"recipe": "plus"}),
        ("AdapTauMF", {"recipe": "item_regression"}),
        ("AdapTauMF", {"tau_strategy": "none"}),
        ("AdapTauMF", {"recipe": "popularity_prior"}),
        ("AdapTauLightGCN", {}),
        ("BPR", {}),
        ("LightGCN", {"n_layers": 2, "reg_weight": 0, "require_pow": False}),
        ("NGCF", {"node_dropout": 0.0, "message_dropout": 0.0}),
    ],
)
def test_scores_are_inner_products_of_the_embeddings_and_what_a_recipe_adds(board, model, changes):
    built = build(model, {**board, **changes}).model
    if hasattr(built, "begin_epoch"):
        built.begin_epoch(0)
    found = embeddings_of(built.eval(), ACTIVE)
    scores = found.users[1:] @ found.items.T
    for part in found.added:
        part.pairs.add_to(scores, ACTIVE, part.scales[1:])
    torch.testing.assert_close(scores[:, 1:], full_scores(built)[:, 1:])
    recipe = changes.get("recipe")
    assert len(found.added) == (recipe in ("plus", "item_regression"))
    assert found.has_bias == (recipe in ("plus", "popularity_prior"))


def test_a_model_without_inner_products_is_refused_but_ranks(board):
    built = build("NeuMF", {**board, "mf_embedding_size": 4, "mlp_embedding_size": 4})
    with pytest.raises(OptionError, match="NeuMF has no full_sort_predict"):
        Recommender(built.model, built.dataset)
    built = build("ENMF", board)
    with pytest.raises(OptionError, match="scores of ENMF are not inner products"):
        Recommender(built.model, built.dataset).recommend_for(["i1"], 3)
    assert len(Recommender(built.model, built.dataset).recommend(["u1"], 3)) == 3
    sequential = get_model("GRU4Rec")
    with pytest.raises(OptionError, match="GRU4Rec is a sequential model"):
        Recommender(sequential.__new__(sequential), built.dataset)


@settings(max_examples=50, deadline=None)
@given(st.integers(0, 2**31), st.integers(1, 6), st.booleans(), st.floats(0.1, 20))
def test_fold_in_is_the_mean_direction_at_the_given_length(seed, liked, prior, length):
    items = torch.randn(9, 5, generator=torch.Generator().manual_seed(seed))
    ids = torch.randperm(8, generator=torch.Generator().manual_seed(seed))[:liked] + 1
    user = Embeddings(torch.zeros(2, 5), items, prior, length).fold_in(ids)
    vectors = items.double().numpy()[ids.numpy(), : 4 if prior else 5]
    mean = sum(vector / np.linalg.norm(vector) for vector in vectors) / liked
    expected = mean / np.linalg.norm(mean) * length
    assert user[: len(expected)].tolist() == pytest.approx(expected.tolist(), rel=1e-3, abs=1e-3)
    assert user[len(expected) :].tolist() == [1.0] * prior


def test_somebody_new_has_the_length_of_a_user_at_tau_0(board):
    model = build("AdapTauMF", {**board, "recipe": "plus"}).model
    model.begin_epoch(0)
    model.strategy.tau_u.uniform_(0.05, 0.5)
    found = embeddings_of(model, ACTIVE)
    assert found.user_length == pytest.approx(1 / model.strategy.tau_0.item(), rel=1e-5)
    assert found.added[0].new_scale == pytest.approx(0.5 / model.strategy.tau_0.item(), rel=1e-5)
    liked = torch.tensor([1, 5, 9])
    expected = found.items @ found.fold_in(liked) + found.added[0].new_scale * found.added[0].pairs.of_liked(liked)
    torch.testing.assert_close(found.scores_for(liked), expected)
    plain = embeddings_of(build("AdapTauMF", {**board, "recipe": "item_regression"}).model, ACTIVE)
    assert plain.user_length == pytest.approx(1.0, rel=1e-5) and plain.added[0].new_scale == 0.5


def test_neighbours_are_those_of_brute_force_and_never_the_item_itself():
    directions = torch.nn.functional.normalize(torch.randn(40, 6, generator=torch.Generator().manual_seed(3)), dim=1)
    cosines = (directions.double() @ directions.double().T).numpy()
    rows = list(neighbours(directions, 5, scores_at_once=40 * 7))
    assert len(rows) > 1 and torch.cat([items for items, _, _ in rows]).tolist() == list(range(1, 40))
    for item, near, found in zip(*(torch.cat(part).tolist() for part in zip(*rows, strict=True)), strict=True):
        others = [other for other in np.argsort(-cosines[item]) if other not in (0, item)]
        assert near == others[:5]
        assert found == pytest.approx(cosines[item, others[:5]].tolist(), abs=1e-5)
    ((some, near, _),) = neighbours(directions, 5, of=[7, 3])
    assert some.tolist() == [7, 3] and near.tolist() == [
        torch.cat([part[1] for part in rows])[item - 1].tolist() for item in (7, 3)
    ]


PARTS = [
    pd.DataFrame({"user": users, "rank": np.array(ranks, np.int32), "score": np.array(scores, np.float32)})
    for users, ranks, scores in ((["a", 'é,"x'], [1, 2], [0.5, 1.5]), (["007"], [3], [-2.25]))
]


def read(path) -> list[tuple]:
    if path.suffix == ".csv":
        table = pd.read_csv(path, dtype={"user": str})
    elif path.suffix == ".parquet":
        table = pd.read_parquet(path)
    else:
        table = pd.DataFrame([json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()])
    return list(table.itertuples(index=False, name=None))


@pytest.mark.parametrize("suffix", [".csv", ".jsonl", ".parquet"])
def test_a_table_comes_back_as_it_was_written(tmp_path, suffix):
    path = tmp_path / "new" / f"table{suffix}"
    assert write_table(path, iter(PARTS)) == 3
    assert read(path) == [("a", 1, 0.5), ('é,"x', 2, 1.5), ("007", 3, -2.25)]
    assert write_table(path, [PARTS[0].iloc[:0]]) == 0
    assert read(path) == []
    assert suffix == ".jsonl" or list((pd.read_csv if suffix == ".csv" else pd.read_parquet)(path).columns) == [
        "user", "rank", "score",
    ]  # fmt: skip


@pytest.mark.parametrize("suffix", [".csv", ".jsonl", ".parquet"])
def test_an_interrupted_table_leaves_the_old_one(tmp_path, suffix):
    path = tmp_path / f"table{suffix}"
    write_table(path, PARTS[1:])

    def parts():
        yield PARTS[0]
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        write_table(path, parts())
    assert read(path) == [("007", 3, -2.25)] and list(tmp_path.iterdir()) == [path]


def test_unknown_suffixes_and_missing_packages_are_named(tmp_path, monkeypatch):
    with pytest.raises(OptionError, match=r"top\.xlsx: the name must end in one of \.csv, \.jsonl, \.parquet"):
        check_output(tmp_path / "top.xlsx")
    monkeypatch.setattr("recbole_adaptau.errors.find_spec", lambda name: None)
    with pytest.raises(OptionError, match=r"pip install 'recbole_adaptau\[parquet\]'"):
        check_output(tmp_path / "top.parquet")

    with pytest.raises(OptionError, match=r"pip install 'recbole_adaptau\[faiss\]'"):
        write_index(tmp_path / "items.faiss", torch.ones(3, 2))


def test_a_table_for_the_eye_keeps_users_apart():
    text = format_table(pd.concat(PARTS))
    assert text.count("user ") == 3 and text.index("user a") < text.index("user 007") and "-2.2500" in text
    assert format_table(PARTS[0].iloc[:0]) == ""


def dataset_with(tmp_path, text: str | None) -> SimpleNamespace:
    if text is not None:
        (tmp_path / "d.item").write_text(text, encoding="utf-8")
    return SimpleNamespace(
        dataset_path=str(tmp_path), dataset_name="d", iid_field="item_id",
        config={"field_separator": "\t", "encoding": None}, field2id_token={"item_id": ["[PAD]", "b", "a", "c"]},
    )  # fmt: skip


def test_names_follow_the_items_and_not_the_file(tmp_path):
    text = 'item_id:token\tyear:float\tmovie_title:token_seq\na\t1\tNaN\nb\t2\t"Quoted" title\n'
    assert item_names(dataset_with(tmp_path, text)).tolist() == ["", '"Quoted" title', "NaN", ""]
    assert item_names(dataset_with(tmp_path, text), "year").tolist() == ["", "2", "1", ""]
    with pytest.raises(DataError, match=r"has no column titel; it has item_id, year, movie_title.*'movie_title'"):
        item_names(dataset_with(tmp_path, text), "titel")
    assert item_names(dataset_with(tmp_path, "item_id:token\tyear:float\na\t1\n")) is None


def test_without_an_item_file_there_are_no_names(tmp_path):
    assert item_names(dataset_with(tmp_path, None)) is None
    with pytest.raises(DataError, match="which is not there"):
        item_names(dataset_with(tmp_path, None), "title")


def test_the_index_is_checked_against_the_models_ranking(board, tmp_path):
    pytest.importorskip("faiss", reason="the extra 'faiss' is not installed")
    model = build("AdapTauMF", board).model
    model.begin_epoch(0)
    embeddings = embeddings_of(model, ACTIVE)
    path = tmp_path / "items.faiss"
    write_index(path, embeddings.items[1:])
    check_index(path, model, embeddings, ACTIVE, 5)
    write_index(path, embeddings.items[1:].flip(0))
    with pytest.raises(AdapTauError, match="does not rank as the model does"):
        check_index(path, model, embeddings, ACTIVE, 5)


def test_other_ids_under_the_same_counts_are_refused(board, tmp_path):
    run = RunFolder(tmp_path)
    dataset = build("AdapTauMF", board).dataset
    run.refuse_other_ids(dataset)  # nothing was written down, as in runs from before
    run.keep_ids(dataset)
    run.refuse_other_ids(dataset)
    tokens = dataset.field2id_token["item_id"]
    tokens[[1, 2]] = tokens[[2, 1]]
    with pytest.raises(AdapTauError, match=r"is not the one that .* was trained on: it had 48 users and 48 items"):
        run.refuse_other_ids(dataset)


def test_lists_are_shorter_where_less_is_left_and_batches_change_nothing(board, monkeypatch):
    """48 items, 12 of them seen by everybody: 36 are left, whatever k."""
    built = build("AdapTauMF", board)
    built.model.begin_epoch(0)
    recommender = Recommender(built.model, built.dataset)
    whole = recommender.recommend(k=48)
    assert whole.groupby("user").size().tolist() == [36] * 48
    monkeypatch.setattr("recbole_adaptau.serving.recommender.SCORES_AT_ONCE", 49 * 5)
    parts = list(recommender.batches(None, 48))
    assert len(parts) == 10
    pd.testing.assert_frame_equal(pd.concat(parts, ignore_index=True), whole, atol=1e-6)
    assert recommender.recommend(["u3"], 48, include_seen=True).groupby("user").size().tolist() == [48]
    with pytest.warns(UserWarning, match="users nobody"):
        assert set(recommender.recommend(["u3", "nobody", "u3"], 4)["user"]) == {"u3"}
    for k in (0, 49):
        with pytest.raises(OptionError, match=f"k = {k}: must be at least 1 and at most 48"):
            recommender.recommend(["u3"], k)
