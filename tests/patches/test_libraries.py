"""RecBole's code led through every place where NumPy, pandas, SciPy or Ray have changed."""

import os
import subprocess
import sys
import types
import warnings
from importlib import import_module
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
import torch
from recbole.config import Config
from recbole.data import create_dataset
from recbole.evaluator.metrics import MAP
from recbole.quick_start import quick_start
from recbole.trainer import HyperTuning

import recbole_adaptau
from tests.helpers import build, trainer_of

assert recbole_adaptau.__version__  # it has patched RecBole
SETTINGS = {"data_path": "data", "state": "ERROR", "show_progress": False}
ITEMS = """item_id:token\tcolour:token\tprice:float\ttags:token_seq\tvector:float_seq
a\tred\t1\tnew cheap\t0 1 2
b\t\t\t\t3
c\tblue\t4\tcheap\t4 5
"""
TAGS = {"a": ["new", "cheap"], "b": [], "c": ["cheap"]}


def write(name: str, **parts: str) -> None:
    Path("data", name).mkdir(parents=True)
    for suffix, text in parts.items():
        Path("data", name, f"{name}.{suffix.replace('_', '.')}").write_text(text, encoding="utf-8")


def shop(model: str = "BPR", **given):
    """Three items with features of every type, of which item b has none, and a user for each item."""
    inter = "user_id:token\titem_id:token\trating:float\nu\ta\t5\nv\tb\t\nw\tc\t2\n"
    write("shop", inter=inter, item=ITEMS)
    columns = {"inter": ["user_id", "item_id", "rating"], "item": [word.split(":")[0] for word in ITEMS.split()[:5]]}
    dataset = create_dataset(Config(model, "shop", config_dict={**SETTINGS, "load_col": columns, **given}))
    dataset._change_feat_format()
    return dataset


def features(dataset, field: str) -> dict:
    """A feature by the item's token."""
    table = dataset.item_feat
    tokens = dataset.id2token("item_id", table["item_id"].numpy())
    return dict(zip(tokens, table[field].tolist(), strict=True))


IN_A_PROCESS_OF_ITS_OWN = """
import recbole_adaptau, sys
import numpy as np
before = dict(vars(np))
from tests.patches.test_libraries import shop
sys.argv = ["x"]
shop()
assert all(getattr(np, name) is kind for name, kind in before.items()), "NumPy's own names stay"
print([np.dtype(getattr(np, name)).kind for name in "bool int float complex object str long unicode".split()])
"""


def test_a_dataset_is_loaded_with_numpys_old_names_and_without_warnings():
    """Neither of columns filled in place nor of read-only ones, of which PyTorch warns once in a process."""
    root = str(Path(__file__).parents[2])
    done = subprocess.run(
        [sys.executable, "-c", IN_A_PROCESS_OF_ITS_OWN],
        capture_output=True,
        text=True,
        env={**os.environ, "PYTHONPATH": root},
    )
    assert done.stdout.strip() == "['b', 'i', 'f', 'c', 'O', 'U', 'i', 'U']", done.stderr
    assert "a copy" not in done.stderr and "not writable" not in done.stderr, done.stderr


def test_a_metric_that_names_numpys_old_types_is_right():
    config = Config("BPR", "ml-100k")
    hits, positives = np.array([[True, False, True]]), np.array([2])
    assert MAP(config).metric_info(hits, positives)[0].tolist() == pytest.approx([1, 1 / 2, (1 + 2 / 3) / 2])


def test_figures_are_plain_numbers(board):
    built = build("BPR", board)
    result = trainer_of(built).evaluate(built.test, load_best_model=False)
    assert len(result) == 10 and all(type(value) is float for value in result.values())


def test_missing_values_are_filled():
    dataset = shop()
    assert features(dataset, "price") == {"[PAD]": 2.5, "a": 1, "b": 2.5, "c": 4}
    colours = dataset.id2token("colour", np.array(list(features(dataset, "colour").values()))).tolist()
    assert colours == ["[PAD]", "red", "[PAD]", "blue"]
    ratings = dict(zip(dataset.inter_feat["user_id"].tolist(), dataset.inter_feat["rating"].tolist(), strict=True))
    assert ratings == {1: 5, 2: 3.5, 3: 2}


def test_sequences_are_split_as_they_were_joined():
    dataset = shop()
    found = {
        token: [tag for tag in dataset.id2token("tags", np.array(ids)) if tag != "[PAD]"]
        for token, ids in features(dataset, "tags").items()
    }
    assert found == {"[PAD]": [], **TAGS}
    assert features(dataset, "vector") == {"[PAD]": [0, 0, 0], "a": [0, 1, 2], "b": [3, 0, 0], "c": [4, 5, 0]}


def test_sequences_of_numbers_are_normalised_together():
    vectors = features(shop(normalize_field=["vector"]), "vector")
    for token, values in {"a": [0, 0.2, 0.4], "b": [0.6, 0, 0], "c": [0.8, 1, 0]}.items():
        assert vectors[token] == pytest.approx(values)


@pytest.mark.parametrize("buckets", [None, {"vector": {"method": "ED", "bucket": 3}}])
def test_sequences_of_numbers_are_put_into_buckets(buckets):
    """A pair for each number, (value, 1); in buckets (1, bucket), of which three have the width 5 / 3."""
    dataset = shop("FM", numerical_features=["vector"], discretization=buckets, load_col=None)
    pairs = {token: [tuple(pair) for pair in rows] for token, rows in features(dataset, "vector").items()}
    known = {token: row for token, row in pairs.items() if token != "[PAD]"}
    if buckets is None:
        assert known == {"a": [(0, 1), (1, 1), (2, 1)], "b": [(3, 1), (0, 0), (0, 0)], "c": [(4, 1), (5, 1), (0, 0)]}
    else:
        assert [[pair[0] for pair in row] for row in known.values()] == [[1, 1, 1], [1, 0, 0], [1, 1, 0]]
        assert known["a"][0][1] < known["b"][0][1] < known["c"][1][1]


def test_entities_in_sequences_get_the_ids_that_they_share_with_items():
    write(
        "shop",
        inter="user_id:token\titem_id:token\nu\ta\nv\tb\nw\tc\n",
        link="item_id:token\tentity_id:token\na\tE\nb\tF\n",
        kg="head_id:token\trelation_id:token\ttail_id:token\nE\tr\tF\nF\tr\tG\nG\tr\tE\n",
        ent="ent_id:token\tnear:token_seq\nE\tG F\nF\t\nG\tE\n",
    )
    columns = {
        "inter": ["user_id", "item_id"],
        "link": ["item_id", "entity_id"],
        "kg": ["head_id", "relation_id", "tail_id"],
        "ent": ["ent_id", "near"],
    }
    more = {"additional_feat_suffix": ["ent"], "alias_of_entity_id": ["ent_id", "near"], "load_col": columns}
    dataset = create_dataset(Config("KGAT", "shop", config_dict={**SETTINGS, **more}))
    table = dataset.ent_feat
    read = {
        token: [name for name in dataset.id2token("near", ids) if name != "[PAD]"]
        for token, ids in zip(dataset.id2token("ent_id", table["ent_id"]), table["near"], strict=True)
    }
    assert read == {"E": ["G", "F"], "F": [], "G": ["E"]}
    linked = dict(zip(table["ent_id"], dataset.id2token("ent_id", table["ent_id"]), strict=True))
    assert linked[dataset.token2id("item_id", "a")] == "E" and linked[dataset.token2id("item_id", "b")] == "F"


def test_given_sequences_have_their_own_lengths():
    head = "user_id:token\titem_id_list:token_seq\titem_id:token\n"
    write(
        "shop", inter_="", **dict.fromkeys(("train_inter", "valid_inter", "test_inter"), f"{head}u\ta b\tc\nv\ta\tb\n")
    )
    given = {
        **SETTINGS,
        "benchmark_filename": ["train", "valid", "test"],
        "alias_of_item_id": ["item_id_list"],
        "load_col": {"inter": ["user_id", "item_id", "item_id_list"]},
        "train_neg_sample_args": None,
    }
    dataset = create_dataset(Config("GRU4Rec", "shop", config_dict=given))
    assert np.asarray(dataset.inter_feat["item_length"]).tolist() == [2, 1] * 3


GRAPHS = {
    "general_recommender.lightgcn:LightGCN.get_norm_adj_mat": (-0.5, -0.5),
    "general_recommender.ngcf:NGCF.get_norm_adj_mat": (-0.5, -0.5),
    "general_recommender.ncl:NCL.get_norm_adj_mat": (-0.5, -0.5),
    "general_recommender.gcmc:GCMC.get_norm_adj_mat": (-0.5, -0.5),
    "general_recommender.spectralcf:SpectralCF.get_laplacian_matrix": (-1, 0),
    "knowledge_aware_recommender.kgin:KGIN.get_norm_inter_matrix": (-0.5, -0.5),
    "knowledge_aware_recommender.mcclk:MCCLK.get_norm_inter_matrix": (-0.5, -0.5),
}


@pytest.mark.parametrize("place", GRAPHS)
def test_a_graph_is_the_adjacency_matrix_divided_by_degrees(place):
    module, _, name = place.partition(":")
    owner, method = name.split(".")
    model = getattr(import_module(f"recbole.model.{module}"), owner)
    rng = np.random.default_rng(0)
    inter = rng.integers(0, 2, (4, 6)).astype(np.float32)
    inter[:, 0] = inter[0] = 1  # no degree is zero
    adjacency = np.block([[np.zeros((4, 4)), inter], [inter.T, np.zeros((6, 6))]])
    matrix = sp.coo_matrix(inter)
    stands_for = types.SimpleNamespace(
        n_users=4, n_items=6, n_entities=6, interaction_matrix=matrix, inter_matrix=matrix, device="cpu",
        get_eye_mat=lambda size: torch.eye(size),
    )  # fmt: skip
    graph = getattr(model, method)(stands_for)
    graph = graph[0] if isinstance(graph, tuple) else graph
    left, right = (adjacency.sum(1) ** power for power in GRAPHS[place])
    wanted = left[:, None] * adjacency * right
    wanted = np.eye(10) - wanted if owner == "SpectralCF" else wanted
    found = graph.to_dense().numpy()
    if found.shape != wanted.shape:
        wanted = wanted[:4, 4:]
    np.testing.assert_allclose(found, wanted, atol=1e-6)


def test_the_matrix_is_changed_for_recbole_alone():
    lightgcn = import_module("recbole.model.general_recommender.lightgcn")
    assert lightgcn.sp.dok_matrix is not sp.dok_matrix and lightgcn.sp.diags is sp.diags
    assert isinstance(lightgcn.sp.dok_matrix((2, 2)), sp.dok_matrix)


@pytest.mark.parametrize("takes", ["a dict", "names"])
def test_figures_reach_both_rays(monkeypatch, takes):
    got: list[dict] = []

    def today(metrics, *, checkpoint=None):
        got.append(metrics)

    def of_2023(_metric=None, **figures):
        got.append(figures)

    report = today if takes == "a dict" else of_2023
    monkeypatch.setitem(sys.modules, "ray.tune", types.SimpleNamespace(report=report))
    quick_start.tune.report(**{"ndcg@10": 0.5, "recall@10": 0.25})
    assert got == [{"ndcg@10": 0.5, "recall@10": 0.25}]


def test_an_exhaustive_search_tries_every_point(capsys):
    pytest.importorskip("hyperopt")
    Path("grid").write_text("x choice [1,2]\ny choice ['a','b']\n")
    tried = []

    def objective(point, _):
        tried.append((point["x"], point["y"]))
        score = {"best_valid_score": float(point["x"]), "valid_score_bigger": True}
        return {"model": "BPR", **score, "best_valid_result": {}, "test_result": {}}

    tuning = HyperTuning(objective, params_file="grid", algo="exhaustive", early_stop=100)
    tuning.run()
    assert sorted(tried) == [(1, "a"), (1, "b"), (2, "a"), (2, "b")] and tuning.best_params["x"] == 2


def test_columns_of_text_are_pythons_own_strings():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        read = import_module("recbole.data.dataset.dataset").pd.read_csv
        Path("x.item").write_text("id:token\ttags:token_seq\n001\t\n\tx\n")
        columns = ["id:token", "tags:token_seq"]
        table = read("x.item", delimiter="\t", engine="python", usecols=columns, dtype=dict.fromkeys(columns, str))
    assert [str(kind) for kind in table.dtypes] == ["object", "object"]
    assert table["id:token"][0] == "001" and pd.isna(table["id:token"][1])
    assert table["tags:token_seq"].tolist() == ["", "x"]
