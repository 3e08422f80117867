"""Next day's interactions: which are new, which are held out, and when the new model takes the place of the old."""

import json
import shutil
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from recbole_adaptau import Recommender
from recbole_adaptau.data.low_rated import LowRated
from recbole_adaptau.data.stored import RunData
from recbole_adaptau.errors import DataError, OptionError
from recbole_adaptau.runs.folder import RunFolder, read_interactions
from recbole_adaptau.serving import update as updating
from recbole_adaptau.serving.update import Update, ndcg, update
from tests.helpers import build
from tests.serving.conftest import colours


def run_data(seed: int, names: bool = False) -> RunData:
    """Six users and seven items with random pairs, each once."""
    rng = np.random.default_rng(seed)
    user_ids, item_ids = (np.array(["[PAD]", *map(str, range(number))]) for number in (6, 7))
    users, items = np.nonzero(rng.random((6, 7)) < 0.4)
    sizes = (len(users) - len(users) // 3, len(users) // 3, 0)
    shown = np.array(["", *(f"item {item}" for item in range(7))]) if names else None
    return RunData(user_ids, item_ids, (users + 1).astype(np.int32), (items + 1).astype(np.int32), sizes, {}, shown)


def new_table(seed: int, with_time: bool, size: int = 40) -> pd.DataFrame:
    """Pairs of known and unknown users and items, some of them more than once."""
    rng = np.random.default_rng(seed + 1)
    table = pd.DataFrame({"user": rng.integers(0, 12, size), "item": rng.integers(0, 11, size), "other": 1})
    return table.assign(time=rng.permutation(size).astype(float)) if with_time else table


seeds, times = st.integers(0, 10**6), st.booleans()


@settings(max_examples=50)
@given(seeds, times)
def test_new_rows_are_the_unknown_pairs_each_once_the_earliest(seed, with_time):
    data, table = run_data(seed), new_table(seed, with_time)
    before = table.copy()
    known = {(str(u - 1), str(i - 1)) for u, i in zip(data.users, data.items, strict=True)}
    order = sorted(range(len(table)), key=lambda row: table["time"][row]) if with_time else range(len(table))
    wanted = {}
    for row in order:
        pair = str(table["user"][row]), str(table["item"][row])
        if pair not in known:
            wanted.setdefault(pair, table["time"][row] if with_time else None)
    found = updating._new_rows(data, table)
    assert list(zip(found["user"], found["item"], strict=True)) == list(wanted)
    assert list(found.index) == list(range(len(found)))
    assert found.columns.tolist() == ["user", "item", *(["time"] if with_time else [])]
    assert not with_time or found["time"].tolist() == list(wanted.values())
    pd.testing.assert_frame_equal(table, before)


def test_of_many_new_rows_at_the_same_time_the_order_stays():
    rows = np.arange(2000)
    table = pd.DataFrame({"user": "new", "item": rows, "time": rows % 3})
    found = updating._new_rows(run_data(0), table)
    assert found["item"].tolist() == [str(item) for part in range(3) for item in rows[part::3]]


@settings(max_examples=50)
@given(seeds, times, st.sampled_from([0.1, 0.2, 0.5]))
def test_held_out_rows_are_last_ones_of_different_users_whom_the_rest_knows(seed, with_time, share):
    data = run_data(seed)
    rows = updating._new_rows(data, new_table(seed, with_time))
    mask = updating._held_out(data, rows, share, seed)
    assert mask.dtype == bool and mask.shape == (len(rows),) and mask.sum() <= round(len(rows) * share)
    held, rest = rows[mask], rows[~mask]
    assert not held["user"].duplicated().any()
    for kind, ids in (("user", data.user_ids), ("item", data.item_ids)):
        assert set(held[kind]) <= {*ids, *rest[kind]}
    if with_time:
        last = rows.groupby("user")["time"].transform("max")
        assert (held["time"] == last[mask]).all()
    assert np.array_equal(updating._held_out(data, rows, share, seed), mask)
    # Where everybody and everything is known, as many are held out as may be.
    every = replace(data, user_ids=np.array([*map(str, range(12))]), item_ids=np.array([*map(str, range(11))]))
    assert updating._held_out(every, rows, share, seed).sum() == min(round(len(rows) * share), rows["user"].nunique())


def test_what_is_held_out_follows_the_seed_in_users_and_without_times_in_items():
    data, rows = run_data(0), colours(range(40), range(40)).astype(str)
    data = replace(data, user_ids=np.array([*map(str, range(40))]), item_ids=np.array([*map(str, range(40))]))
    chosen = [updating._held_out(data, rows, 0.05, seed) for seed in range(4)]
    assert len({tuple(rows[mask]["user"]) for mask in chosen}) == 4 and all(mask.sum() == 20 for mask in chosen)
    everybody = [rows[updating._held_out(data, rows, 0.5, seed)] for seed in range(4)]
    assert len({tuple(held["item"]) for held in everybody}) == 4 and all(len(held) == 40 for held in everybody)


@settings(max_examples=30)
@given(seeds, times, st.booleans())
def test_merged_data_keeps_the_old_places_and_puts_held_out_rows_last(seed, with_time, names):
    data = run_data(seed, names)
    rows = updating._new_rows(data, new_table(seed, with_time))
    mask = updating._held_out(data, rows, 0.5, seed)
    merged = updating._merged(data, rows[~mask], rows[mask])
    for kind in ("user", "item"):
        old, ids = getattr(data, f"{kind}_ids"), getattr(merged, f"{kind}_ids")
        assert ids[: len(old)].tolist() == old.tolist() and len(set(ids)) == len(ids)
        assert set(ids[len(old) :]) == set(rows[kind]) - set(old)
    assert merged.sizes == (len(data.users) + (~mask).sum(), 0, mask.sum())
    pairs = list(zip(merged.user_ids[merged.users], merged.item_ids[merged.items], strict=True))
    wanted = [*zip(data.user_ids[data.users], data.item_ids[data.items], strict=True)]
    for part in (rows[~mask], rows[mask]):
        wanted += zip(part["user"], part["item"], strict=True)
    assert pairs == wanted and merged.users.dtype == merged.items.dtype == np.int32 and merged.numbers == {}
    if names:
        extra = len(merged.item_ids) - len(data.item_ids)
        assert merged.names.tolist() == [*data.names, *[""] * extra]
    else:
        assert merged.names is None


def test_ratings_from_the_least_on_are_positives():
    table = pd.DataFrame({"user": [1, 2, 3, 4], "item": [5, 6, 7, 8], "rating": [3.0, 4.0, 5.0, 3.9]})
    positives, low = updating._by_rating(table, 4.0, "run", False)
    assert positives["user"].tolist() == [2, 3]
    assert low.user_ids[low.users].tolist() == ["1", "4"] and low.item_ids[low.items].tolist() == ["5", "8"]
    for least, all_positive in ((None, False), (4.0, True)):
        positives, low = updating._by_rating(table, least, "run", all_positive)
        assert len(positives) == 4 and len(low) == 0
    with pytest.raises(OptionError, match="run learned from ratings of at least 4, and the new interactions have none"):
        updating._by_rating(table.drop(columns="rating"), 4.0, "run", False)


@pytest.mark.parametrize("k", [3, 20, 99])
def test_ndcg_is_that_of_a_loop_over_the_ranking(board, k):
    built = build("AdapTauMF", {**board, "recipe": "plus"})
    built.model.begin_epoch(0)
    recommender = Recommender.of(built.model, built.dataset)
    ranked = {user: recommender.recommend(user, 48)["item"].tolist() for user in ("u3", "u5", "u8")}
    wanted = {"u3": {ranked["u3"][place] for place in (1, 2, 7, 30)}, "u5": {"unknown"}, "nobody": {"i1"}}
    wanted["u8"] = {ranked["u8"][0], "unknown"}
    users = ["u5", "u3", "nobody", "u8"]
    expected = []
    for user in users:
        ideal = sum(1 / np.log2(rank + 1) for rank in range(1, min(len(wanted[user]), k, 48) + 1))
        gained = sum(
            1 / np.log2(rank + 1) for rank, item in enumerate(ranked.get(user, [])[:k], 1) if item in wanted[user]
        )
        expected.append(gained / ideal)
    assert max(expected) > 0 and ndcg(recommender.served, users, wanted, k).tolist() == pytest.approx(expected)


NEXT_DAY = pd.concat([colours(range(24, 72), range(26)), colours(range(24), range(24, 28))], ignore_index=True)


def test_an_update_trains_from_what_serves_and_compares_both_on_the_held_out_rows(shop):
    config = RunFolder(shop).config
    config.write_text(yaml.safe_dump({**yaml.safe_load(config.read_text()), "stop_epoch": 1}))
    service = Recommender.load(shop)
    done = service.update(NEXT_DAY, epochs=3, held_out=0.2)
    version = RunFolder(done.folder)
    data, first = read_interactions(version.interactions), read_interactions(RunFolder(shop).interactions)
    assert (done.interactions, done.users, done.items, done.low_rated) == (len(NEXT_DAY), 48, 4, 0)
    held = data.frame()[-data.sizes[2] :]
    assert done.checked == data.sizes[2] == held["user"].nunique() > updating.FEWEST_USERS
    assert len(data.users) == len(first.users) + len(NEXT_DAY)
    settings = version.settings()
    assert settings["epochs"] == 3 and settings["resume"] is False and len(version.read_epochs()) == 3
    assert settings["warm_start"] == str(shop.absolute()) and settings["stop_epoch"] is None
    assert version.about_data()["id_types"] == {"user": "int", "item": "int"}
    assert version.about_data()["files"] == RunFolder(shop).about_data()["files"]
    # Both rankings by what anybody can ask for, without what the training part has.
    training = data.frame()[: -data.sizes[2]].astype(int)
    seen = training.groupby("user")["item"].agg(set)
    old, new = plain_load(shop), Recommender.load(version.path)
    old.add_history(training[training["item"].isin(old.item_ids)])
    values = {}
    for name, recommender in (("old", old), ("new", new)):
        found = []
        for user, item in held.astype(int).itertuples(index=False):
            ranked = recommender.recommend(user, len(recommender.item_ids), include_seen=True)["item"]
            left = [other for other in ranked if other not in seen[user]][:20]
            found.append(1 / np.log2(left.index(item) + 2) if item in left else 0.0)
        values[name] = np.array(found)
    assert done.old == pytest.approx(values["old"].mean()) and done.new == pytest.approx(values["new"].mean())
    error = np.std(values["new"] - values["old"], ddof=1) / np.sqrt(len(held))
    assert done.error == pytest.approx(error) and done.replaced == (done.new >= done.old - 2 * error)
    assert f"NDCG@20 of {done.checked} held-out users: {done.old:.4f} before, {done.new:.4f} now" in str(done)


def plain_load(shop) -> Recommender:
    """The run itself, whatever recommends in its place."""
    copy = shop.parent / "copy"
    shutil.copytree(shop, copy, ignore=shutil.ignore_patterns("versions", "current.json"))
    return Recommender.load(copy)


@pytest.fixture
def untrained(monkeypatch):
    """An update without its training and its comparison: gives both models' figures as the test sets them."""
    figures = {"old": np.zeros(9), "new": np.zeros(9)}
    monkeypatch.setattr(updating, "_train", lambda *_: None)
    monkeypatch.setattr(updating, "_compared", lambda *_: (figures["old"], figures["new"]))
    return figures


@pytest.mark.parametrize(("worse", "replaced"), [(0.0, True), (1e-9, False), (-3.0, True)])
def test_a_model_takes_the_place_unless_it_is_behind_by_two_standard_errors(shop, untrained, worse, replaced):
    """Differences of mean −2 and standard deviation 3 over nine users: two standard errors are 2."""
    untrained["old"] = np.linspace(4.0, 12.0, 9)
    untrained["new"] = untrained["old"] + np.array([1.0] * 4 + [-5.0] * 4 + [-2.0]) - worse
    done = update(shop, NEXT_DAY)
    assert (done.old, done.checked) == (8.0, 9)
    assert (done.new, done.error) == (pytest.approx(6.0 - worse), pytest.approx(1.0))
    assert done.replaced is replaced and done.folder.parent == shop / "versions"
    assert RunFolder(shop).current.is_file() is replaced
    assert ("the new model recommends now" if replaced else "worse, and the old one stays") in str(done)
    if replaced:
        assert json.loads(RunFolder(shop).current.read_text()) == {"version": done.folder.name}


def test_without_the_check_nothing_is_held_out_and_older_versions_go(shop, untrained, monkeypatch):
    monkeypatch.setattr(updating, "_compared", lambda *_: pytest.fail("compared"))
    monkeypatch.setattr(updating.time, "strftime", lambda _: "now")
    folders = []
    for day in range(3):
        done = update(shop, colours(range(24), range(24 + 4 * day, 28 + 4 * day)), check=False)
        assert (done.old, done.new, done.error, done.checked, done.replaced) == (0.0, 0.0, 0.0, 0, True)
        assert "NDCG" not in str(done) and "24 new interactions, 0 new users, 4 new items" in str(done)
        data = read_interactions(RunFolder(done.folder).interactions)
        assert data.sizes == (len(data.users), 0, 0)
        # As `run_recbole_adaptau` would have left it.
        for path in (RunFolder(shop).config, RunFolder(shop).data):
            shutil.copy(path, done.folder)
        folders.append(done.folder)
    assert [folder.name for folder in folders] == ["now-1", "now-2", "now-3"]
    assert {*(shop / "versions").iterdir()} == {*folders[1:]}, "what serves, and what did before"


def test_low_ratings_are_kept_and_nothing_new_is_said(shop, untrained):
    config = RunFolder(shop).config
    settings = yaml.safe_load(config.read_text())
    config.write_text(yaml.safe_dump({**settings, "val_interval": {settings["RATING_FIELD"]: "[4,inf)"}}))
    table = NEXT_DAY.assign(rating=np.where(NEXT_DAY["item"] % 8 < 4, 5.0, 1.0))
    nothing = update(shop, colours(range(24), range(24)).assign(rating=5.0))
    assert nothing == Update(0, 0, 0, 0.0, 0.0, 0.0, 0, False, None) and "nothing new" in str(nothing)
    done = update(shop, table, held_out=0.5)
    assert done.interactions == (table["rating"] == 5).sum() and done.low_rated == (table["rating"] == 1).sum()
    data = read_interactions(RunFolder(done.folder).interactions)
    assert len(data.low_rated) == done.low_rated and f"{done.low_rated} with a low rating count as seen" in str(done)


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"epochs": 0}, OptionError, "epochs = 0: must be at least 1"),
        ({"epochs": 1.5}, TypeError, "epochs = 1.5: must be a whole number"),
        ({"held_out": 0}, OptionError, "held_out = 0: must be above 0 and at most 0.5"),
        ({"held_out": 0.51}, OptionError, "held_out = 0.51: must be"),
        ({"held_out": "x"}, OptionError, "held_out = 'x': must be"),
    ],
)
def test_options_of_an_update_are_checked_first(options, error, message):
    with pytest.raises(error, match=message):
        update("nowhere", NEXT_DAY, **options)


def test_too_few_held_out_users_are_refused_with_the_remedy(shop, untrained):
    rows = colours(range(24, 53), range(12))
    with pytest.raises(DataError, match=r"only 9 users can be held out of 87 new .*\(30\): wait for more, or update"):
        update(shop, rows)
    one = colours(range(24, 25), range(24))
    with pytest.raises(DataError, match="only 1 user can be held out of 6 new interactions"):
        update(shop, one, held_out=0.2)
    exactly = colours(range(24, 54), range(12))  # 30 users with three each, 90 rows
    with pytest.raises(DataError, match=r"only 29 users .*: hold out more \(--held-out 0\.5\)"):
        update(shop, exactly, held_out=29 / 90)
    assert not (shop / "versions").exists()
    assert update(shop, exactly, epochs=1, held_out=0.5).replaced
    RunFolder(shop).current.unlink()
    RunFolder(shop).interactions.unlink()
    with pytest.raises(DataError, match="has kept no interactions"):
        update(shop, exactly)


def test_low_rated_pairs_are_each_once():
    assert len(LowRated.of(["a", "a", "b"], ["x", "x", "x"])) == 2
