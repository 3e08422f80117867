"""Recommendations and exports of saved runs, beside RecBole's own top-k for the same checkpoint."""

import json
import shutil
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import torch
from recbole.config import Config
from recbole.quick_start import run_recbole
from recbole.utils.case_study import full_sort_topk
from scipy.sparse import load_npz

import recbole_adaptau
from recbole_adaptau.cli import export, recommend, report, similar, train
from recbole_adaptau.serving import Recommender
from recbole_adaptau.training import checkpoint
from tests.conftest import checkerboard, write_inter

pytestmark = pytest.mark.e2e
MODELS = ["AdapTauMF", "AdapTauMF+", "BPR", "LightGCN"]


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    """A short run of each model on ml-100k."""
    folder = tmp_path_factory.mktemp("runs")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("sys.argv", ["test"])
        for model in MODELS:
            settings = {"epochs": 1, "show_progress": False, "state": "ERROR", "eval_batch_size": 4_000_000}
            settings |= {"recipe": "plus"} if model.endswith("+") else {}
            settings |= {"run_folder": str(folder / model)}
            recbole_adaptau.run_recbole_adaptau(model.removesuffix("+"), "ml-100k", None, settings)
    return folder


@pytest.mark.parametrize("model", MODELS)
def test_recommendations_are_recboles_full_sort_topk(runs, model):
    """RecBole leaves training and validation out and ranks the test items; we leave those out, too."""
    _, loaded, dataset, _, _, test_data = recbole_adaptau.load_data_and_model(runs / model)
    users = np.arange(1, dataset.user_num, 5)
    tests = [set(() if own is None else own.tolist()) for own in test_data.uid2positive_item]
    scores, items = full_sort_topk(users, loaded.eval(), test_data, k=20 + max(map(len, tests)))
    table = Recommender.load(runs / model).recommend(dataset.id2token(dataset.uid_field, users), k=20)
    found = {user: own for user, own in table.groupby("user")}
    assert len(found) == len(users)
    lines = (Path(dataset.dataset_path) / "ml-100k.item").read_text(encoding="utf-8").splitlines()
    titles = dict(line.split("\t")[:2] for line in lines)
    assert titles["1"] == "Toy Story" and table["name"].tolist() == [titles[item] for item in table["item"]]
    for row, user in enumerate(users):
        expected = [place for place, item in enumerate(items[row].tolist()) if item not in tests[user]][:20]
        own = found[dataset.id2token(dataset.uid_field, user)]
        wanted = scores[row, expected]
        assert own["score"].tolist() == pytest.approx(wanted.tolist(), rel=1e-5, abs=1e-6)
        names = dataset.id2token(dataset.iid_field, items[row, expected].numpy())
        # Equal scores may change places.
        apart = torch.isclose(wanted, wanted.roll(1)).logical_or(torch.isclose(wanted, wanted.roll(-1))).logical_not()
        assert all(a == b for a, b, sure in zip(own["item"], names, apart.tolist(), strict=True) if sure)
        assert own["rank"].tolist() == list(range(1, 21))


def test_with_seen_items_lists_are_the_models_whole_ranking(runs):
    _, model, dataset, *_ = recbole_adaptau.load_data_and_model(runs / "AdapTauMF")
    recommender = Recommender.load(runs / "AdapTauMF")
    own = recommender.recommend([7], k=dataset.item_num - 1, include_seen=True)
    scores = model.eval().score_items(torch.tensor([dataset.token2id("user_id", "7")]))[0, 1:]
    assert own["score"].tolist() == scores.sort(descending=True).values.tolist()


def test_somebody_new_is_offered_what_the_liked_items_are_like(board):
    """Four colours, and nobody in the data likes exactly these: the rest of the colour must come first."""
    settings = {**board, "epochs": 15, "learning_rate": 0.02, "run_folder": "run"}
    recbole_adaptau.run_recbole_adaptau("AdapTauMF", "board", None, settings)
    recommender = Recommender.load("run")
    for own in range(4):
        liked = [f"i{item}" for item in range(own, 20, 4)]
        top = recommender.recommend_for(liked, 7)["item"].tolist()
        assert sorted(top) == sorted(f"i{item}" for item in range(own + 20, 48, 4))
    with pytest.warns(UserWarning, match="items i99"):
        assert "user" not in recommender.recommend_for(["i1", "i99"], 3)


@pytest.mark.parametrize("model", MODELS)
def test_what_is_exported_ranks_as_the_model_does(runs, model, capsys):
    Path("out").mkdir()
    Path("out/item_weights.npz").write_bytes(b"of another run")
    arguments = [str(runs / model), "out", "--neighbours", "3"]
    try:
        import faiss
    except ImportError:
        faiss = None
    assert export.main(arguments + ["--faiss"] * (faiss is not None)) == 0
    assert "written: out/embeddings.safetensors" in capsys.readouterr().out
    about = json.loads(Path("out/embeddings.json").read_text(encoding="utf-8"))
    with np.load("out/embeddings.npz", allow_pickle=False) as file:
        users, items = file["users"], file["items"]
        assert file["item_ids"].tolist() == about["item_ids"] and file["user_ids"].tolist() == about["user_ids"]
    assert about["model"] == model.removesuffix("+") and (about["last_column"] is not None) == model.endswith("+")
    place = about["user_ids"].index("42")
    scores = products = users[place] @ items.T
    if about["last_column"] is not None:
        _, _, dataset, train, *_ = recbole_adaptau.load_data_and_model(runs / model)
        pairs = train.dataset.inter_feat
        seen = pairs["item_id"][pairs["user_id"] == dataset.token2id("user_id", "42")].unique().numpy() - 1
        with np.load("out/embeddings.npz", allow_pickle=False) as file:
            scale = file["neighbour_scales"][place]
        sums = np.asarray(load_npz("out/item_weights.npz")[:, seen].sum(axis=1)).ravel()  # a matrix before SciPy 1.13
        scores = products + scale * sums
        assert "item_weights" in about["score"] and not np.allclose(scores, products)
    own = Recommender.load(runs / model).recommend(["42"], k=20, include_seen=True)
    best = np.argsort(-scores)[:20]
    assert scores[best].tolist() == pytest.approx(own["score"].tolist(), rel=1e-4, abs=1e-5)
    assert len({about["item_ids"][row] for row in best} & set(own["item"])) >= 19
    if faiss is not None:
        found, rows = faiss.read_index("out/items.faiss").search(users[place : place + 1], 20)
        best = np.argsort(-products)[:20]
        assert found[0].tolist() == pytest.approx(products[best].tolist(), rel=1e-4, abs=1e-5)
        assert len(set(rows[0].tolist()) & set(best.tolist())) >= 19
    assert Path("out/item_weights.npz").exists() == model.endswith("+")
    head = Path("out/neighbours.csv").read_text(encoding="utf-8").splitlines()[0]
    assert head == "item,rank,neighbour,cosine,name,neighbour_name"


def test_the_command_prints_tables_and_reports_whom_it_does_not_know(runs, capsys):
    assert recommend.main([str(runs / "AdapTauMF"), "--users", "1", "nobody", "2", "--k", "3"]) == 0
    printed = capsys.readouterr()
    assert [line for line in printed.out.splitlines() if line.startswith("user ")] == ["user 1", "user 2"]
    assert "note: 1 of 3 users not in the data, left out: nobody" in printed.err
    assert recommend.main([str(runs / "AdapTauMF"), "--users", "nobody", "--output", "top.csv"]) == 2
    assert "none of the users is in the data: nobody" in capsys.readouterr().err and not Path("top.csv").exists()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--all", "--k", "1683"], "k = 1683: must be at least 1 and at most 1682, the number of items"),
        (["--k", "0"], "--k 0: must be at least 1"),
        (["--output", "top.txt"], "must end in one of .csv, .jsonl, .parquet"),
        (["--users-file", "none.txt"], "none.txt: cannot be read"),
        (["--liked", "no such film"], "none of the liked items is in the data"),
        ([], "say for whom: --users ID …, --users-file FILE or --all; or give a file with --output FILE"),
        (["--users", "1", "--explain", "-1"], "--explain -1: must be at least 0"),
        (["--users", "1", "--deny", "none.txt"], "none.txt: cannot be read"),
        (["--users", "1", "--exclude", "none.csv"], "'none.csv' does not exist"),
        (["--all", "--names", "titel"], "has no column titel; it has item_id, movie_title"),
    ],
)
def test_bad_options_are_told_from_each_other(runs, arguments, message, capsys):
    assert recommend.main([str(runs / "AdapTauMF"), *arguments]) == 2
    printed = capsys.readouterr()
    assert message in printed.err and "Traceback" not in printed.err and printed.out == ""


def test_similar_items_are_those_of_the_export(runs, capsys):
    run = str(runs / "AdapTauMF")
    assert similar.main([run, "--output", "all.csv", "--k", "3"]) == 0
    assert "5,046 rows written to all.csv" in capsys.readouterr().out
    assert export.main([run, "out", "--neighbours", "3"]) == 0
    assert Path("all.csv").read_bytes() == Path("out/neighbours.csv").read_bytes()
    capsys.readouterr()
    assert similar.main([run, "--items", "181", "nothing", "50", "--k", "3"]) == 0
    printed = capsys.readouterr()
    assert "note: 1 of 3 items not in the data, left out: nothing" in printed.err
    heads = [line for line in printed.out.splitlines() if line.startswith("item ")]
    assert heads == ["item 181  Return of the Jedi", "item 50  Star Wars"]
    own = Recommender.load(run).similar_items(["50"], 3)
    assert own["item"].tolist() == ["50"] * 3 and own["name"].tolist() == ["Star Wars"] * 3
    block = printed.out.split("item 50  Star Wars\n")[1].splitlines()
    assert block[0].split() == ["rank", "neighbour", "cosine", "neighbour_name"]
    assert [line.split()[:2] for line in block[1:4]] == [
        [str(rank), item] for rank, item in enumerate(own["neighbour"], 1)
    ]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "name items with --items ID …, or give a file for all items with --output FILE"),
        (["--items", "no such film"], "none of the items is in the data"),
        (["--items", "50", "--k", "1682"], "1682 neighbours: must be at least 1 and at most 1681"),
        (["--items", "50", "--k", "0"], "--k 0: must be at least 1"),
        (["--output", "all.txt"], "must end in one of .csv, .jsonl, .parquet"),
    ],
)
def test_bad_requests_for_similar_items(runs, arguments, message, capsys):
    assert similar.main([str(runs / "BPR"), *arguments]) == 2
    printed = capsys.readouterr()
    assert message in printed.err and printed.out == "" and not list(Path().glob("all.*"))


def test_bad_run_folders(runs, capsys):
    moved = Path("moved")
    moved.mkdir()
    for name in ("config.yaml", "data.json", "interactions.npz"):
        shutil.copy(runs / "AdapTauMF" / name, moved)
    for folder, message in (
        (str(runs / "AdapTauMG"), "is not a run folder: there is no such folder. Did you mean 'AdapTauMF'?"),
        (str(runs / "AdapTauMF" / "best.pth"), f"is not a run folder but lies in one: give {runs / 'AdapTauMF'}"),
        (".", "is not a run folder: it has no config.yaml."),
        (str(moved), "has no best.pth yet"),
    ):
        for command in (
            [recommend.main, [folder, "--all"]],
            [export.main, [folder, "out"]],
            [similar.main, [folder, "--items", "1"]],
        ):
            assert command[0](command[1]) == 2
            assert message in capsys.readouterr().err
    shutil.copy(runs / "BPR" / "best.pth", moved)
    assert recommend.main([str(moved), "--all"]) == 2
    assert "best.pth is of model BPR, but this run has AdapTauMF" in capsys.readouterr().err
    assert export.main([str(runs / "BPR"), "out", "--neighbours", "1682"]) == 2
    assert "1682 neighbours: must be at least 1 and at most 1681" in capsys.readouterr().err
    assert not Path("out").exists()


@pytest.fixture
def whole(board, tmp_path) -> dict:
    """Settings for the checkerboard in one file, which RecBole splits."""
    train, valid, test = checkerboard()
    write_inter(tmp_path / "data", "whole", train + valid + test)
    return {**board, "benchmark_filename": None, "epochs": 2}


def run(settings: dict, folder: str, **changes) -> dict:
    return recbole_adaptau.run_recbole_adaptau(
        "AdapTauMF", "whole", None, {**settings, "run_folder": folder, **changes}
    )


def test_another_datasets_checkpoint_is_refused(board, tmp_path, capsys):
    for part, pairs in zip(("train", "valid", "test"), checkerboard(), strict=True):
        write_inter(tmp_path / "data", "other", pairs, part)
    for name in ("board", "other"):
        settings = {**board, "epochs": 1, "run_folder": f"runs/{name}"}
        recbole_adaptau.run_recbole_adaptau("AdapTauMF", name, None, settings)
    shutil.copy("runs/other/best.pth", "runs/board/best.pth")
    assert recommend.main(["runs/board", "--all"]) == 2
    assert "best.pth is of dataset other, but this run has board" in capsys.readouterr().err


@pytest.mark.parametrize("model", ["AdapTauMF", "AdapTauLightGCN", "BPR", "ItemKNN"])
def test_a_run_survives_a_refresh_of_its_data(whole, tmp_path, monkeypatch, model):
    """Its folder is enough: the same lists in another order of ids, with new users and items, and without any data."""
    settings = {**whole, "run_folder": "run", "epochs": 1}
    recbole_adaptau.run_recbole_adaptau(model, "whole", None, settings)
    before = Recommender.load("run").recommend(k=5)
    rows = [pair for part in checkerboard() for pair in part][::-1]
    bought = before[before.user == "u1"]["item"].tolist()[0]
    write_inter(tmp_path / "data", "whole", [("newbie", "i2"), ("newbie", "brandnew"), ("u1", bought), *rows])
    with pytest.warns(UserWarning, match="1 item is new since the training .*: brandnew"):
        refreshed = Recommender.load("run")
    others = before["user"] != "u1"
    found = refreshed.recommend(before[others]["user"], k=5)
    pd.testing.assert_frame_equal(found, before[others].reset_index(drop=True))
    assert bought not in refreshed.recommend("u1", 5)["item"].tolist()
    if model != "ItemKNN":  # whose scores are no inner products
        new = refreshed.recommend("newbie", 5)
        assert len(new) == 5 and "i2" not in new["item"].tolist()
        pd.testing.assert_frame_equal(new.drop(columns="user"), Recommender.load("run").recommend_for(["i2"], 5))
    shutil.rmtree(tmp_path / "data")
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path / "elsewhere")
    pd.testing.assert_frame_equal(Recommender.load("../run").recommend(k=5), before)
    assert list(Path().iterdir()) == []  # loading writes nothing


def test_low_ratings_since_the_training_count_as_seen(tmp_path):
    rows = [(user, item, 5) for part in checkerboard() for user, item in part]
    head = "user_id:token\titem_id:token\trating:float\n"
    path = write_inter(tmp_path / "data", "rated", [])
    path.write_text(head + "".join(f"{user}\t{item}\t{stars}\n" for user, item, stars in rows))
    settings = {"data_path": str(tmp_path / "data"), "epochs": 1, "min_rating": 4, "run_folder": "run"}
    settings |= {"load_col": {"inter": ["user_id", "item_id"]}, "show_progress": False, "state": "ERROR", "topk": 5}
    recbole_adaptau.run_recbole_adaptau("AdapTauMF", "rated", None, settings | {"valid_metric": "NDCG@5"})
    before = Recommender.load("run").recommend("u1", k=48)["item"].tolist()
    low = f"u1\t{before[0]}\t1\nu1\tunknown\t2\nnobody\t{before[0]}\t1\n"
    path.write_text(path.read_text() + low)
    refreshed = Recommender.load("run")
    assert refreshed.recommend("u1", k=47)["item"].tolist() == before[1:]
    assert refreshed.known("user", ["u1", "nobody"]) == (["u1"], ["nobody"]), "nobody is described by low ratings"


def test_refreshed_data_that_cannot_be_read_leaves_the_run_as_it_was(whole, tmp_path):
    run(whole, "run")
    before = Recommender.load("run").recommend(k=5)
    (tmp_path / "data/whole/whole.inter").write_text("half an imp")
    with pytest.warns(UserWarning, match="the data has changed since the training and cannot be read"):
        found = Recommender.load("run").recommend(k=5)
    pd.testing.assert_frame_equal(found, before)


def test_a_run_without_kept_interactions_needs_its_data(whole, tmp_path, capsys):
    """As version 0.2 wrote it."""
    run(whole, "run")
    before = Recommender.load("run").recommend(k=5)
    Path("run/interactions.npz").unlink()
    pd.testing.assert_frame_equal(Recommender.load("run").recommend(k=5), before)
    rows = [pair for part in checkerboard() for pair in part]
    write_inter(tmp_path / "data", "whole", rows[::-1])
    assert recommend.main(["run", "--all"]) == 2
    assert "the dataset whole is not the one that run was trained on" in capsys.readouterr().err


@pytest.mark.parametrize("shares", [[0.9, 0.1, 0], [1, 0, 0]])
def test_a_run_without_a_test_part_ends_with_a_result(whole, shares, capsys):
    result = run(whole, "run", eval_args={"split": {"RS": shares}, "group_by": "user", "order": "RO", "mode": "full"})
    assert result["test_result"] is None
    saved = json.loads(Path("run/result.json").read_text(), parse_constant=pytest.fail)
    assert saved["test_result"] is None and saved["stopped_by"] == "epochs"
    assert (saved["best_valid_score"] is None) == (shares[1] == 0)
    best = checkpoint.load("run/best.pth")["state_dict"]["strategy.tau_0"].item()
    assert saved["tau_0"] == pytest.approx(best)  # of the epoch that is kept, not of the last
    assert len(Recommender.load("run").recommend(k=3)) == 144
    assert train.main(["--resume=run"]) == 0
    assert "this run is complete; nothing was trained" in capsys.readouterr().out
    Path("run/result.json").unlink()
    assert train.main(["--resume=run"]) == 0
    assert "test: no test part" in capsys.readouterr().out


def test_a_run_without_an_epoch_is_reported_beside_others(whole, capsys):
    run(whole, "runs/zero", epochs=0)
    run(whole, "runs/one", epochs=1)
    assert report.main(["runs"]) == 0
    assert "2 runs written to report.html" in capsys.readouterr().out
    assert report.main(["runs/nope"]) == 2
    assert "a run that can be read: runs/nope. nope: there is no such folder." in capsys.readouterr().err


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--resume=run", "-m", "BPR"], "--resume takes the model, data and settings of its run; remove --model"),
        (["--resume=run", "-d", "ml-1m"], "remove --dataset"),
        (["--device=cuda"], "device = 'cuda': nothing reads it; choose GPUs with gpu_id"),
        (["-m", "BPR", "--device=cuda"], "device = 'cuda': nothing reads it"),
        (["--gpu_id=7"], "gpu_id = 7: PyTorch finds no GPU on this machine; leave it out to run on the CPU"),
    ],
)
def test_settings_that_a_run_would_pass_over_are_refused(words, message, capsys, monkeypatch):
    monkeypatch.setattr("torch.cuda.is_available", lambda: False)
    assert train.main(words) == 2
    assert message in capsys.readouterr().err


def test_recboles_own_function_names_the_run_folder(board):
    result = run_recbole("AdapTauMF", "board", config_dict={**board, "epochs": 1})
    assert Path(result["run_folder"], "result.json").is_file()
    assert "run_folder" not in run_recbole("BPR", "board", config_dict={**board, "epochs": 1})


def test_recboles_models_report_the_k_of_ours(board):
    settings = {key: value for key, value in board.items() if key not in ("topk", "valid_metric")}
    assert Config("BPR", "board", config_dict={**settings, "record_run": True})["topk"] == [10, 20]
    assert Config("BPR", "board", config_dict={**settings, "record_run": True, "topk": [5], "valid_metric": "MRR@5"})[
        "topk"
    ] == [5]
    assert Config("BPR", "board", config_dict=settings)["topk"] == [10]  # RecBole alone is as ever


def test_the_export_can_be_read_by_others(runs):
    assert export.main([str(runs / "BPR"), "out"]) == 0
    assert {path.stat().st_mode & 0o777 for path in Path("out").iterdir()} == {
        Path("out/embeddings.json").stat().st_mode & 0o777
    }


def test_the_command_filters_explains_and_serves_many_new_users(runs, capsys):
    folder = str(runs / "AdapTauMF+")
    Path("who.csv").write_text("user,item\na,50\na,181\nb,1\n")
    assert recommend.main([folder, "--liked-file", "who.csv", "--k", "2", "--explain", "1", "--output", "new.csv"]) == 0
    table = pd.read_csv("new.csv")
    assert table["user"].tolist() == ["a", "a", "b", "b"]
    assert set(table["because"]) <= {"Star Wars", "Return of the Jedi", "Toy Story"}
    best = pd.read_csv("new.csv", dtype=str)["item"][0]
    Path("deny.txt").write_text(f"{best}\n")
    folder = str(runs / "AdapTauMF")
    assert recommend.main([folder, "--liked-file", "who.csv", "--deny", "deny.txt", "--output", "new.csv"]) == 0
    assert best not in pd.read_csv("new.csv", dtype=str)["item"].tolist()
    Path("only.csv").write_text("user,item\n1,1500\n1,1501\n")
    assert recommend.main([folder, "--users", "1", "2", "--candidates", "only.csv", "--output", "top.csv"]) == 0
    assert set(pd.read_csv("top.csv", dtype=str)["item"]) == {"1500", "1501"}
