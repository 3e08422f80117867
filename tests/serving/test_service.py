"""A service on a run folder: loaded, refreshed, updated, with data that has changed since the training."""

import logging
import warnings

import numpy as np
import pandas as pd
import pytest
import yaml

from recbole_adaptau import Recommender
from recbole_adaptau.errors import DataWarning
from recbole_adaptau.runs.folder import RunFolder
from recbole_adaptau.serving import served
from recbole_adaptau.serving.served import from_run, quiet
from tests.serving.conftest import QUICK, colours


def add_lines(shop, rows) -> None:
    """Further interactions in the files that the run was trained on."""
    file = shop / "dataset" / "shop" / "shop.inter"
    with file.open("a", encoding="utf-8") as text:
        text.writelines(f"{user}\t{item}\n" for user, item in rows)


def relocated(shop):
    """The copy with its own files as those it was trained on."""
    run = RunFolder(shop)
    settings = yaml.safe_load(run.config.read_text())
    run.config.write_text(yaml.safe_dump({**settings, "data_path": str(shop / "dataset") + "/"}))
    file = (shop / "dataset" / "shop" / "shop.inter").absolute()
    run.describe_data(files={str(file): [file.stat().st_size, file.stat().st_mtime_ns]})
    return shop


def test_a_loaded_run_has_its_users_items_and_names(fitted):
    service = Recommender.load(fitted)
    assert service.model == "AdapTauMF" and service.run_folder == fitted
    assert sorted(service.user_ids) == sorted(service.item_ids) == list(range(24))
    assert service.known("user", [3, "x", "4", 3]) == (["3", "4"], ["x"])
    assert service.known("item", 24) == ([], ["24"])
    rows = service.recommend(5, 6)
    assert list(rows.columns) == ["user", "rank", "item", "name", "score"]
    assert rows["name"].tolist() == [f"item {item}" for item in rows["item"]] and rows["rank"].tolist() == [
        *range(1, 7)
    ]
    assert rows["rank"].dtype == np.int32 and not rows["item"].isin(range(1, 24, 4)).any()
    because = service.recommend(5, 6, explain=2)["because"]
    assert all(name in {f"item {item}" for item in range(1, 24, 4)} for text in because for name in text.split("; "))
    near = service.similar_items([3, 5], 2)
    assert near["name"].tolist() == ["item 3"] * 2 + ["item 5"] * 2 and near["rank"].tolist() == [1, 2, 1, 2]
    assert near["neighbour_name"].tolist() == [f"item {item}" for item in near["neighbour"]]


def test_files_that_have_changed_count_as_seen_and_make_users_known(shop):
    relocated(shop)
    before = Recommender.load(shop).recommend(5, 24)["item"].tolist()
    assert 99 not in Recommender.load(shop).user_ids
    new_items = [(5, item) for item in range(100, 112)]
    add_lines(shop, [(5, before[0]), (99, 3), (99, 7), *new_items])
    with pytest.warns(DataWarning, match=r"12 items are new since the training .*: 100, .*, 109 …$"):
        service = Recommender.load(shop)
    assert service.recommend(5, 24)["item"].tolist() == before[1:]
    alone = Recommender.load(shop).recommend_for([3, 7], 4)
    pd.testing.assert_frame_equal(service.recommend(99, 4).drop(columns="user"), alone, atol=1e-5)
    assert 99 not in from_run(shop, with_changes=False).users


@pytest.mark.parametrize(("number", "told"), [(1, "1 item is new"), (10, "10 items are new")])
def test_a_few_new_items_are_all_named(shop, number, told):
    relocated(shop)
    add_lines(shop, [(5, 100 + item) for item in range(number)])
    with pytest.warns(DataWarning, match=rf"^{told} .*: 100(, \d+)*$") as told_of:
        Recommender.load(shop)
    (named,) = (warning.filename for warning in told_of if warning.category is DataWarning)
    assert named == __file__, "the line that loads it"


def test_of_more_than_ten_new_items_the_first_ten_are_named(shop):
    relocated(shop)
    add_lines(shop, [(5, 100 + item) for item in range(11)])
    with pytest.warns(DataWarning, match=r"^11 items are new .*: 100(, \d+){9} …$"):
        Recommender.load(shop)


def test_low_ratings_in_changed_files_hide_their_items(tmp_path):
    folder = tmp_path / "run"
    maker = Recommender("BPR", epochs=1, run_folder=str(folder), **QUICK)
    maker.fit(colours(range(24), range(24)).assign(stars=5), rating="stars", min_rating=4, name="shop")
    first, second = maker.recommend(5, 2)["item"].tolist()
    relocated(folder)
    with (folder / "dataset" / "shop" / "shop.inter").open("a", encoding="utf-8") as file:
        file.write(f"5\t{first}\t1\n")
    service = Recommender.load(folder)
    assert service.recommend(5, 1)["item"].tolist() == [second]
    assert len(service.served.seen) == len(maker.served.seen), "and are no positives"


def test_unchanged_files_are_not_read_and_unreadable_ones_are_told(shop, monkeypatch):
    relocated(shop)
    with warnings.catch_warnings():
        warnings.simplefilter("error", DataWarning)
        with monkeypatch.context() as patch:
            patch.setattr(served, "_with_changes", lambda *_: pytest.fail("read"))
            before = Recommender.load(shop).recommend(k=5)
    asked = []
    with monkeypatch.context() as patch:  # moved data is read, whatever its size and time
        patch.setattr(served, "_with_changes", lambda found, _: asked.append(1) or found)
        Recommender.load(shop, data_path=shop / "dataset")
    assert asked == [1]
    (shop / "dataset" / "shop" / "shop.inter").write_text("user_id:token\titem_id:token\n1\n")
    with pytest.warns(DataWarning, match="the data has changed since the training and cannot be read") as told_of:
        found = Recommender.load(shop).recommend(k=5)
    assert [warning.filename for warning in told_of if warning.category is DataWarning] == [__file__]
    pd.testing.assert_frame_equal(found, before)


def test_a_service_goes_over_to_an_update_and_keeps_its_history(shop):
    service = Recommender.load(shop)
    assert service.refresh() is False
    first = service.recommend(5, 3)["item"].tolist()[0]
    with pytest.warns(UserWarning, match="items 77") as told:
        service.add_history(pd.DataFrame({"who": [5, 5], "what": [first, 77]}), user="who", item="what")
    assert told[0].filename == __file__, "the line that gave them"
    second = service.recommend(6, 1)["item"].tolist()[0]
    service.add_history({6: second})
    table = colours(range(24, 30), range(24)).rename(columns={"user": "who"})
    done = service.update(table, user="who", epochs=1, check=False)
    assert done.replaced and service.served.version == done.folder and service.served.folder == shop
    assert 25 in service.user_ids and first not in service.recommend(5, 24)["item"].tolist()
    assert second not in service.recommend(6, 24)["item"].tolist()
    assert service.refresh() is False
    other = Recommender.load(shop)
    RunFolder(shop).current.unlink()
    assert other.refresh() is True and 25 not in other.user_ids


def test_an_update_says_whether_all_interactions_are_positives(shop, monkeypatch):
    asked = []
    module = "recbole_adaptau.serving.recommender.update"
    monkeypatch.setattr(module, lambda *args, **kwargs: asked.append((args, kwargs)) or "done")
    service = Recommender.load(shop)
    table = colours(range(24, 26), range(8)).assign(stars=5, day=np.arange(4))
    assert service.update(table, rating="none", epochs=2) == "done"
    service.update(table, time="day", rating="stars")
    (first, options), (second, others) = asked
    assert first[0] == shop and list(first[1]) == ["user", "item"] and options == {"epochs": 2, "all_positive": True}
    assert list(second[1]) == ["user", "item", "time", "rating"] and others == {"all_positive": False}


def test_recboles_log_is_quiet_and_as_it_was_afterwards():
    before = logging.root.manager.disable
    try:
        for level, inside in ((logging.NOTSET, logging.INFO), (logging.ERROR, logging.ERROR)):
            logging.disable(level)
            with pytest.raises(KeyError), quiet():
                assert logging.root.manager.disable == inside
                raise KeyError
            assert logging.root.manager.disable == level
    finally:
        logging.disable(before)


def test_low_ratings_hide_items_and_describe_nobody(fitted):
    service = Recommender.load(fitted)
    plain = service.recommend(5, 24)["item"].tolist()
    first, second = plain[:2]
    low = served.LowRated.of(["5", "5", "nobody", "5"], [str(first), "unknown", str(second), str(service.item_ids[0])])
    service._served = served.replace(service.served, low_rated=low)
    left = [item for item in plain if item not in (first, service.item_ids[0])]
    assert service.recommend(5, 24)["item"].tolist() == left
    assert len(service.recommend(5, 24, include_seen=True)) == 24
    assert len(service.served.without_users().low_rated) == 0
    somebody_new = service.recommend_for({"5": [service.item_ids[3]]}, 23)["item"].tolist()
    assert first in somebody_new, "somebody new of the same name has rated nothing"
    user = service.user_ids[0]  # at the first place
    (item,) = service.recommend(user, 1)["item"].tolist()
    service._served = served.replace(service.served, low_rated=served.LowRated.of([str(user)], [str(item)]))
    assert item not in service.recommend(user, 24)["item"].tolist()
