"""From a table to a service, and next day's import while it answers."""

import json
import logging
import shutil
import threading
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
import torch
import yaml

import recbole_adaptau
from recbole_adaptau import Recommender
from recbole_adaptau.cli import train, update
from recbole_adaptau.errors import AdapTauError, DataError, DataWarning, OptionError
from recbole_adaptau.runs.folder import RunFolder, read_interactions
from recbole_adaptau.runs.refit import refit, resume_refit
from recbole_adaptau.serving import update as updating
from tests.conftest import checkerboard, write_inter

pytestmark = pytest.mark.e2e
QUICK = {"embedding_size": 8, "train_batch_size": 64, "learning_rate": 0.02, "topk": [2, 5], "valid_metric": "NDCG@5",
         "show_progress": False, "state": "ERROR"}  # fmt: skip


def colours(users: range, items: range) -> pd.DataFrame:
    """Users like the items of their colour, of which there are four; ids are whole numbers."""
    rows = [(user, item) for user in users for item in items if user % 4 == item % 4]
    return pd.DataFrame(rows, columns=["user", "item"])


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    """A run from a table: 48 users, 48 items; item 47 is in nobody's list but its own colour's."""
    folder = tmp_path_factory.mktemp("fit") / "run"
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("sys.argv", ["test", "--epochs=1"])  # the host program's own, and not for RecBole
        names = {item: f"item\t{item}" for item in range(48)}
        Recommender("AdapTauMF", epochs=12, run_folder=str(folder), **QUICK).fit(
            colours(range(48), range(48)), item_names=names, name="shop"
        )
    return folder


@pytest.fixture
def shop(trained, tmp_path) -> str:
    shutil.copytree(trained, tmp_path / "shop")
    return str(tmp_path / "shop")


def test_a_table_becomes_a_run_that_recommends_by_the_tables_own_ids(trained):
    recommender = Recommender.load(trained)
    settings = RunFolder(trained).settings()
    assert settings["epochs"] == 12 and settings["dataset"] == "shop"
    assert {"config.yaml", "best.pth", "result.json", "interactions.npz"} <= {path.name for path in trained.iterdir()}
    rows = recommender.recommend([3, 4], k=5)
    assert rows["user"].tolist() == [3] * 5 + [4] * 5 and rows["item"].dtype == np.int64
    assert rows["name"].tolist() == [f"item {item}" for item in rows["item"]]
    pd.testing.assert_frame_equal(recommender.recommend(["3", 4.0], k=5), rows)
    assert recommender.similar_items(3, 5)["neighbour"].dtype == np.int64
    assert recommender.score([(3, 7)]).dtypes["user"] == np.int64
    assert (recommender.similar_items(3, 11)["neighbour"] % 4 == 3).mean() > 0.8


def test_every_kind_of_table_trains_the_same_model():
    table = colours(range(16), range(16))
    pa = pytest.importorskip("pyarrow", reason="the extra 'parquet' is not installed")
    ids = list(range(16))
    matrix = sp.csr_matrix((np.ones(len(table)), (table["user"], table["item"])))
    given = [
        (table, {}),
        (pa.Table.from_pandas(table.rename(columns={"user": "who"})), {"user": "who"}),
        (matrix, {"user_ids": ids, "item_ids": ids}),
        (pytest.importorskip("polars", reason="Polars is not installed").DataFrame(table.to_dict("list")), {}),
    ]
    found = [Recommender("BPR", epochs=1, **QUICK).fit(data, **options).recommend(k=3) for data, options in given]
    for other in found[1:]:
        pd.testing.assert_frame_equal(other, found[0])


def test_ratings_decide_what_is_a_positive_and_the_earliest_of_a_pair_is_kept():
    table = colours(range(16), range(16))
    table["stars"] = np.where(table["item"] < 12, 5, 3)
    table["when"] = pd.date_range("2024-01-01", periods=len(table), freq="h")
    again = table.assign(when=table["when"] + pd.Timedelta(days=99))
    broken = pd.DataFrame({"user": [None], "item": [1], "stars": [5], "when": [pd.Timestamp(0)]})
    recommender = Recommender("BPR", epochs=1, **QUICK)
    with pytest.warns(DataWarning, match="1 of 129 rows have no user or no item"):
        recommender.fit(pd.concat([again, table, broken]), rating="stars", min_rating=4, time="when")
    data = read_interactions(RunFolder(recommender.run_folder).interactions)
    assert len(data.low_rated) == 16
    assert sorted(map(int, data.item_ids[1:])) == list(range(12)) and len(data.users) == 48
    assert data.numbers["timestamp"].max() < pd.Timestamp("2024-02-01").timestamp()


@pytest.mark.parametrize(
    ("settings", "options", "message"),
    [
        ({"epoch": 3}, {}, "No part of this program reads the option 'epoch'.*'epochs'"),
        ({"dataset": "x"}, {}, "dataset: fit sets it; leave it out"),
        ({}, {"rating": "stars"}, "say from which rating on an interaction is a positive: min_rating=4"),
        ({}, {"min_rating": 4}, "name the column with the ratings"),
        ({}, {"rating": "stars", "min_rating": "4"}, "min_rating = '4': must be a number"),
        ({"min_rating": 4}, {}, "min_rating: give it to fit, with the column of the ratings"),
        ({}, {"rating": "item", "item": "user", "user": "item", "min_rating": 4}, "must be different columns"),
        ({}, {"name": "../x"}, "is not a name"),
    ],
)
def test_what_fit_cannot_use_is_named_and_nothing_is_left(settings, options, message):
    with pytest.raises(AdapTauError, match=message):
        Recommender("AdapTauMF", **{**QUICK, **settings}).fit(colours(range(16), range(16)), **options)
    assert not list(Path().glob("runs/**/best.pth"))


def test_a_used_run_folder_is_refused(shop):
    with pytest.raises(DataError, match="already holds a run"):
        Recommender("AdapTauMF", run_folder=shop).fit(colours(range(16), range(16)))


def whole(tmp_path) -> dict:
    parts = checkerboard()
    write_inter(tmp_path / "data", "whole", [pair for part in parts for pair in part])
    return {**QUICK, "data_path": str(tmp_path / "data"), "load_col": {"inter": ["user_id", "item_id"]}, "epochs": 6}


def test_a_refit_trains_on_everything_for_the_best_number_of_epochs(tmp_path, capsys):
    words = [f"--{key}={json.dumps(value)}" for key, value in whole(tmp_path).items()]
    assert train.main(["-m", "AdapTauMF", "-d", "whole", "--refit", "--run_folder=run", *words]) == 0
    run, validation = RunFolder("run"), RunFolder("run/validation")
    validated = validation.read_result()
    epochs = validated["best_epoch"] + 1
    rates = [[record["learning_rate"] for record in folder.read_epochs()] for folder in (run, validation)]
    assert rates[0] == rates[1][:epochs] and len(rates[0]) == epochs
    before, after = (read_interactions(folder.interactions) for folder in (validation, run))
    assert after.sizes == (len(before.users), 0, 0) and min(before.sizes) > 0
    result = run.read_result()
    assert result["stopped_by"] == ("epochs" if epochs == 6 else "stop_epoch")
    assert result["validation"]["test_result"] == validated["test_result"]
    printed = capsys.readouterr().out
    assert f"best epoch {epochs - 1}, refit on everything for {epochs} epochs" in printed
    assert f"test before the refit: recall@2 {validated['test_result']['recall@2']:.4f}" in printed
    assert len(Recommender.load("run").recommend("u1", 5)) == 5


def test_a_refit_that_keeps_the_test_part_trains_on_the_other_two_and_tests(tmp_path, capsys):
    words = [f"--{key}={json.dumps(value)}" for key, value in {**whole(tmp_path), "epochs": 3}.items()]
    assert train.main(["-m", "AdapTauMF", "-d", "whole", "--refit=validation", "--run_folder=run", *words]) == 0
    run, validation = RunFolder("run"), RunFolder("run/validation")
    before, after = (read_interactions(folder.interactions) for folder in (validation, run))
    assert after.sizes == (sum(before.sizes[:2]), 0, before.sizes[2]) and min(before.sizes) > 0
    pd.testing.assert_frame_equal(after.frame(), before.frame())
    result = run.read_result()
    assert result["epochs"] == result["validation"]["best_epoch"] + 1 and result["best_valid_result"] is None
    model = recbole_adaptau.load_data_and_model(run.path)[1]
    scores = model.score_items(torch.arange(model.n_users)).double()
    scores[:, 0] = scores[tuple(map(torch.as_tensor, after.training))] = -torch.inf
    users, items = after.users[-after.sizes[2] :], after.items[-after.sizes[2] :]
    hits = (scores.topk(2).indices[users] == torch.as_tensor(items)[:, None]).any(1).numpy()
    recall = pd.Series(hits).groupby(users).mean().mean()
    assert result["test_result"]["recall@2"] == pytest.approx(recall, abs=1e-4)
    printed = capsys.readouterr().out
    assert f"refit on training and validation part for {result['epochs']} epochs" in printed
    assert f"\ntest: recall@2 {result['test_result']['recall@2']:.4f}" in printed


def test_a_refit_goes_on_where_it_was_interrupted(tmp_path, monkeypatch):
    settings = {**whole(tmp_path), "epochs": 2}
    refit("AdapTauMF", "whole", None, {**settings, "run_folder": "through"})
    broken = {"left": 1}

    def stop(self, *_):
        broken["left"] -= 1
        if broken["left"] < 0:
            raise KeyboardInterrupt
        return original(self, *_)

    original = RunFolder.write_interactions
    monkeypatch.setattr(RunFolder, "write_interactions", stop)
    with pytest.raises(KeyboardInterrupt):
        refit("AdapTauMF", "whole", None, {**settings, "run_folder": "stopped"})
    monkeypatch.setattr(RunFolder, "write_interactions", original)
    assert train.main(["--refit", "--resume=stopped"]) == 0
    expected = Recommender.load("through").recommend(k=5)
    pd.testing.assert_frame_equal(Recommender.load("stopped").recommend(k=5), expected)
    assert resume_refit("stopped")["run_folder"] == "stopped"  # complete: nothing to do


def test_a_refit_without_a_validation_part_is_refused(tmp_path):
    settings = {**whole(tmp_path), "epochs": 1, "run_folder": "run"}
    split = {"split": {"RS": [0.9, 0.0, 0.1]}, "group_by": "user", "order": "RO", "mode": "full"}
    with pytest.raises(OptionError, match="a refit needs a validation part"):
        refit("AdapTauMF", "whole", None, {**settings, "eval_args": split})
    assert not Path("run").exists(), "before anything is trained"


def test_a_run_that_is_no_refit_is_not_resumed_as_one(shop, capsys):
    assert train.main(["--refit", f"--resume={shop}"]) == 2
    assert f"{shop} was trained without --refit: go on with it by --resume={shop} alone" in capsys.readouterr().err
    assert train.main(["--refit", "--resume=nowhere"]) == 2
    assert "nowhere is not a run folder: there is no such folder" in capsys.readouterr().err


def test_a_stop_epoch_ends_a_run_on_the_way_of_the_longer_one(tmp_path, caplog):
    caplog.set_level(logging.INFO)
    settings = whole(tmp_path)
    for folder, stop in (("long", None), ("short", 2)):
        recbole_adaptau.run_recbole_adaptau(
            "AdapTauMF", "whole", None, {**settings, "run_folder": folder, "stop_epoch": stop}
        )
    losses = [[record["train_loss"] for record in RunFolder(name).read_epochs()] for name in ("long", "short")]
    assert losses[1] == losses[0][:2]
    assert "epoch 1 (2/6)" in caplog.text and "epoch 1 (2/2)" in caplog.text


NEXT_DAY = pd.concat([colours(range(48, 96), range(48)), colours(range(96), range(48, 56))])


def test_an_update_learns_new_users_and_items_while_the_service_answers(shop, capsys):
    service = Recommender.load(shop)
    before = service.recommend(k=5)
    service.add_history({7: before[before["user"] == 7]["item"].iloc[0]})
    failures, answers, done = [], [], threading.Event()

    def serve() -> None:
        while not done.is_set():
            try:
                service.refresh()
                answers.append(len(service.recommend([3, 4], k=5)))
                answers.append(len(Recommender.load(shop).recommend([3, 4], k=5)))
            except Exception as error:
                failures.append(error)

    thread = threading.Thread(target=serve)
    thread.start()
    NEXT_DAY.sample(frac=1, random_state=0).to_csv("new.csv", index=False)
    try:
        assert update.main([shop, "new.csv", "--epochs", "8"]) == 0
    finally:
        done.set()
        thread.join()
    assert failures == [] and set(answers) == {10} and len(answers) > 2
    printed = capsys.readouterr().out
    assert "768 new interactions, 48 new users, 8 new items" in printed and "the new model recommends now" in printed
    service.refresh()
    assert before[before["user"] == 7]["item"].iloc[0] not in service.recommend(7, k=20)["item"].tolist()
    rows = service.recommend(list(range(48, 96)), k=4, include_seen=True)
    assert len(rows) == 192 and (rows["user"] % 4 == rows["item"] % 4).mean() > 0.9
    assert set(before["user"]) < set(service.user_ids)
    seen = NEXT_DAY[NEXT_DAY["user"] == 3]["item"].tolist()
    assert not set(service.recommend(3, k=20)["item"]) & set(seen)
    assert not service.refresh()
    assert update.main([shop, "new.csv"]) == 0
    assert "nothing new" in capsys.readouterr().out
    assert len(list(Path(shop, "versions").iterdir())) == 1


def test_a_worse_model_does_not_take_the_place_of_the_old(shop, capsys):
    config = Path(shop, "config.yaml")
    config.write_text(yaml.safe_dump({**yaml.safe_load(config.read_text()), "learning_rate": 90.0}))
    before = Recommender.load(shop).recommend(k=5)
    NEXT_DAY.to_csv("new.csv", index=False)
    assert update.main([shop, "new.csv", "--epochs", "1"]) == 3
    assert "the new model is worse, and the old one stays" in capsys.readouterr().out
    pd.testing.assert_frame_equal(Recommender.load(shop).recommend(k=5), before)


def test_an_update_that_fails_leaves_what_serves(shop, monkeypatch):
    before = Recommender.load(shop).recommend(k=5)

    def fail(*_, **__):
        raise KeyboardInterrupt

    monkeypatch.setattr(updating, "run_recbole_adaptau", fail)
    with pytest.raises(KeyboardInterrupt):
        updating.update(shop, NEXT_DAY)
    monkeypatch.undo()
    pd.testing.assert_frame_equal(Recommender.load(shop).recommend(k=5), before)
    recommender = Recommender.load(shop)
    assert recommender.update(NEXT_DAY, epochs=1, check=False).replaced
    assert 95 in recommender.user_ids and len(list(Path(shop, "versions").iterdir())) == 1


BAD_FILES = {
    "empty.csv": "",
    "one.csv": "user\n1\n",
    "list.json": '[{"user": 1, "item": 2}]',
    "half.jsonl": '{"user": 1\n',
    "rated.csv": "user,item,rating\n1,2,five\n",
    "dates.csv": "user,item,time\n1,2,2024-01-01\n1,3,soon\n",
}


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["none.csv"], "'none.csv' does not exist"),
        (["new.csv", "--epochs", "0"], "epochs = 0: must be at least 1"),
        (["new.csv", "--held-out", "0.9"], "held_out = 0.9: must be above 0 and at most 0.5"),
        (["new.csv"], "only 1 user can be held out of 8 new interactions, too few to compare two models on (30): wait"),
        (["new.csv", "--user", "buyer"], "new.csv has no column 'buyer'"),
        (["new.csv", "--rating", "stars"], "new.csv has no column 'stars'"),
        (["new.csv", "--epochs", "x"], "argument --epochs: invalid int value: 'x'; see recbole-adaptau update --help"),
        (["empty.csv"], "empty.csv: the file is empty"),
        (["one.csv"], "its first line has one column, 'user'; columns are separated by"),
        (["list.json"], "list.json is one JSON list; write one object a line"),
        (["half.jsonl"], "half.jsonl, line 1: not JSON"),
        (["rated.csv"], "rated.csv, line 2, column rating: 'five' is not a number"),
        (["dates.csv"], "dates.csv, line 3, column time: 'soon' is not a date"),
        (["."], "'.' is a folder, not a file"),
    ],
)
def test_an_update_that_cannot_be_made_says_why(shop, words, message, capsys):
    colours(range(48, 49), range(48)).head(8).to_csv("new.csv", index=False)
    for name, text in BAD_FILES.items():
        Path(name).write_text(text)
    assert update.main([shop, *words]) == 2
    assert message in capsys.readouterr().err


def test_an_update_with_too_few_held_out_users_says_whether_a_larger_share_would_do(shop):
    rows = NEXT_DAY[NEXT_DAY["user"] < 48]
    with pytest.raises(DataError, match=r"too few .*: hold out more \(--held-out 0\.5\), or update without the check"):
        updating.update(shop, rows)


def rated(table: pd.DataFrame, low: range) -> pd.DataFrame:
    """One star for some items, five for the others."""
    return table.assign(stars=np.where(table["item"].isin(low), 1, 5))


def test_a_low_rating_counts_as_seen_and_nothing_is_learned_from_it(capsys):
    """Users have given one star to items 40 to 47 of their colour."""
    table = rated(colours(range(48), range(48)), range(40, 48))
    table.loc[(table["user"] < 8) & (table["item"] >= 40), "stars"] = 5  # so that these items are known
    settings = {**QUICK, "epochs": 12, "run_folder": "run"}
    shop = Recommender("AdapTauMF", **settings).fit(table, rating="stars", min_rating=4)
    data = read_interactions(RunFolder("run").interactions)
    assert len(data.users) == (table["stars"] == 5).sum() and len(data.low_rated) == (table["stars"] == 1).sum()
    for recommender in (shop, Recommender.load("run")):
        own = recommender.recommend(11, k=48)
        assert len(own) == 48 - 12 and not (own["item"] % 4 == 3).any(), "all of the colour is seen"
        everything = recommender.recommend(11, k=48, include_seen=True)
        assert len(everything) == 48
        because = ";".join(recommender.recommend(11, k=20, explain=10)["because"])
        assert because and not {"43", "47"} & {name.strip() for name in because.split(";")}, "no reason, either"
    new = rated(colours(range(48, 96), range(48)), range(36, 48))
    new.to_csv("new.csv", index=False)
    assert update.main(["run", "new.csv", "--epochs", "1", "--unchecked"]) == 0
    assert "144 with a low rating count as seen" in capsys.readouterr().out
    shop.refresh()
    assert len(shop.recommend(50, k=48)) == 48 - 12 and len(shop.recommend(11, k=48)) == 48 - 12
    again = read_interactions(RunFolder.serving("run").interactions)
    assert len(again.low_rated) == len(data.low_rated) + 144 and len(again.users) == len(data.users) + 48 * 9
    new.drop(columns="stars").to_csv("unrated.csv", index=False)
    assert update.main(["run", "unrated.csv"]) == 2
    assert "learned from ratings of at least 4, and the new interactions have none" in capsys.readouterr().err
    with pytest.raises(OptionError, match="--rating none if each of them is a positive"):
        shop.update(new)
    assert shop.update(new, rating="stars").interactions == 0
    done = shop.update(new, rating="none", epochs=1, check=False)
    assert done.interactions == 144 and done.low_rated == 0


def test_how_good_a_ranking_is_agrees_with_a_loop(trained):
    served = Recommender.load(trained).served
    rng = np.random.default_rng(0)
    users = [str(user) for user in range(12)]
    wanted = {user: set(map(str, rng.choice(60, 5, replace=False))) for user in users}  # some of them unknown
    found = updating.ndcg(served, [*users, "nobody"], {**wanted, "nobody": {"1"}}, k=6)
    lists = Recommender.load(trained).recommend(users, k=6)
    for user, value in zip(users, found, strict=False):
        items = lists[lists["user"] == int(user)]["item"]
        gain = sum(1 / np.log2(rank + 2) for rank, item in enumerate(items) if str(item) in wanted[user])
        assert value == pytest.approx(gain / sum(1 / np.log2(rank + 2) for rank in range(5)))
    assert found[-1] == 0
