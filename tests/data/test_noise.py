"""Noise: exactly the asked share, never a true positive nor an item to be found, the same for the same seed."""

from collections import Counter
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from recbole_adaptau.data.noise import draw_absent, noise_counts, user_groups
from recbole_adaptau.errors import DataError, OptionError

from ..conftest import write_inter
from ..helpers import build


@given(st.data(), st.integers(2, 40), st.integers(0, 2**32 - 1))
def test_drawn_values_are_absent_different_and_as_many_as_asked(data, size, seed):
    present = sorted(data.draw(st.sets(st.integers(1, size))))
    number = data.draw(st.integers(0, size - len(present)))
    drawn = draw_absent(np.array(present, dtype=np.int64), size, number, np.random.default_rng(seed))
    assert len(set(drawn)) == len(drawn) == number
    assert set(drawn) <= set(range(1, size + 1)) - set(present)


def test_every_absent_value_is_equally_likely():
    rng, times = np.random.default_rng(0), 6000
    found = Counter(int(value) for _ in range(times) for value in draw_absent(np.array([2, 3, 6]), 7, 2, rng))
    assert set(found) == {1, 4, 5, 7}
    for count in found.values():  # half of the times each; five standard deviations are 194
        assert abs(count - times / 2) < 200


@given(st.lists(st.integers(0, 5000), min_size=1), st.integers(0, 100))
def test_counts_are_the_share_rounded_with_halves_up(positives, percent):
    counts = noise_counts(np.array(positives), np.full(len(positives), percent / 100))
    for count, number in zip(counts, positives, strict=True):
        assert count == (Fraction(percent, 100) * number + Fraction(1, 2)).__floor__()


@given(st.integers(2, 200), st.integers(1, 9), st.integers(0, 2**31))
def test_groups_of_users_differ_by_one_at_most_and_follow_the_seed(n_users, number, seed):
    groups = user_groups(n_users, number, seed)
    sizes = np.bincount(groups[1:], minlength=number)
    assert groups[0] == -1 and sizes.max() - sizes.min() <= 1 and sizes.sum() == n_users - 1
    assert (groups == user_groups(n_users, number, seed)).all()


def test_another_seed_makes_other_groups():
    assert len({tuple(user_groups(50, 4, seed)) for seed in range(5)}) == 5


def pairs(part):
    return list(
        zip(part._dataset.inter_feat["user_id"].tolist(), part._dataset.inter_feat["item_id"].tolist(), strict=True)
    )


@pytest.mark.parametrize("model", ["AdapTauMF", "BPR"])
@settings(max_examples=8, deadline=None)
@given(ratio=st.sampled_from([0.1, 0.25, 0.5, 1.0]), seed=st.integers(0, 10**6))
def test_a_dataset_gets_noise_in_training_only(model, board_once, ratio, seed):
    clean = build(model, {**board_once, "seed": seed})
    noisy = build(model, {**board_once, "seed": seed, "noise_ratio": ratio})
    again = build(model, {**board_once, "seed": seed, "noise_ratio": ratio})
    before, after = pairs(clean.train), pairs(noisy.train)
    assert pairs(noisy.valid) == pairs(clean.valid) and pairs(noisy.test) == pairs(clean.test)
    assert after[: len(before)] == before
    added = after[len(before) :]
    # Everybody has ten training positives.
    assert Counter(user for user, _ in added) == {user: int(ratio * 10 + 0.5) for user in range(1, 49)}
    known = {*before, *pairs(clean.valid), *pairs(clean.test)}
    assert len(set(added)) == len(added) and not set(added) & known and all(0 < item <= 48 for _, item in added)
    assert pairs(again.train) == after
    other = build(model, {**board_once, "seed": seed + 1, "noise_ratio": ratio})
    assert pairs(other.train) != after
    # In validation and test they are history, as the true positives are.
    for loader in (noisy.valid, noisy.test):
        for user, item in added[:20]:
            assert item in loader.uid2history_item[user] and item not in loader.uid2positive_item[user]


@pytest.fixture(scope="module")
def board_once(tmp_path_factory):
    """The checkerboard of conftest, once for all examples."""
    from ..conftest import checkerboard

    folder = tmp_path_factory.mktemp("data")
    for part, rows in zip(("train", "valid", "test"), checkerboard(), strict=True):
        write_inter(folder, "board", rows, part)
    return {
        "data_path": str(folder),
        "benchmark_filename": ["train", "valid", "test"],
        "load_col": {"inter": ["user_id", "item_id"]},
        "state": "ERROR",
        "topk": [5],
        "valid_metric": "NDCG@5",
        "metrics": ["NDCG"],
    }


def test_groups_get_their_own_shares(board_once):
    shares = [0.0, 0.2, 0.5]
    clean, noisy = (build("AdapTauMF", {**board_once, "seed": 7, **more}) for more in ({}, {"noise_groups": shares}))
    added = Counter(user for user, _ in pairs(noisy.train)[len(pairs(clean.train)) :])
    groups = user_groups(49, 3, 7)
    assert {user: added[user] for user in range(1, 49)} == {
        user: int(shares[groups[user]] * 10) for user in range(1, 49)
    }


def test_other_fields_of_a_noisy_row_are_the_users_own(tmp_path):
    folder = tmp_path / "data" / "rated"
    folder.mkdir(parents=True)
    rows = [f"u{user}\ti{(user + step) % 30}\t{user}" for step in range(12) for user in range(10)]  # not by user
    for part, lines in {"train": rows[:100], "valid": rows[100:110], "test": rows[110:]}.items():
        text = "\n".join(["user_id:token\titem_id:token\trating:float", *lines]) + "\n"
        (folder / f"rated.{part}.inter").write_text(text)
    built = build(
        "AdapTauMF",
        {
            "data_path": str(tmp_path / "data"),
            "benchmark_filename": ["train", "valid", "test"],
            "load_col": {"inter": ["user_id", "item_id", "rating"]},
            "noise_ratio": 0.5,
            "state": "ERROR",
        },
        "rated",
    )
    data = built.train._dataset
    assert len(data.inter_feat) == 10 * (10 + 5)
    users = [int(token[1:]) for token in data.id2token("user_id", data.inter_feat["user_id"])]
    assert data.inter_feat["rating"].tolist() == users and Counter(users) == dict.fromkeys(range(10), 15)


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"noise_ratio": 1.5}, "noise_ratio = 1.5: must be a number from 0 to 1"),
        ({"noise_ratio": -0.1}, "noise_ratio = -0.1"),
        ({"noise_ratio": True}, "noise_ratio = True"),
        ({"noise_groups": []}, r"noise_groups = \[\]: must be a list"),
        ({"noise_groups": [0.1, 2]}, "noise_groups = "),
        ({"noise_groups": 0.3}, "noise_groups = 0.3"),
        ({"noise_ratio": 0.1, "noise_groups": [0.1]}, "one share for all users, or one for each group"),
    ],
)
@pytest.mark.parametrize("model", ["AdapTauMF", "BPR"])
def test_bad_shares_are_refused_before_data_is_loaded(given, said, model):
    with pytest.raises(OptionError, match=said):
        build(model, given, "no-such-data")


def test_a_user_without_enough_items_left_is_named(tmp_path):
    rows = [("full", f"i{item}") for item in range(9)] + [("other", f"i{item}") for item in range(8, 12)]
    write_inter(tmp_path / "data", "small", rows, "train")
    for part in ("valid", "test"):
        write_inter(tmp_path / "data", "small", [("full", "i9"), ("other", "i0")], part)
    given = {
        "data_path": str(tmp_path / "data"),
        "benchmark_filename": ["train", "valid", "test"],
        "load_col": {"inter": ["user_id", "item_id"]},
        "noise_ratio": 0.5,
        "state": "ERROR",
        "topk": [5],
        "valid_metric": "NDCG@5",
    }
    with pytest.raises(DataError, match="user full should get 5 false positives, but only 2 items are left"):
        build("AdapTauMF", given, "small")


def noisy_parts(tmp_path, train, late, ratio):
    """The rows of the training part with noise; `late` are validation and test."""
    write_inter(tmp_path / "data", "small", train, "train")
    for part in ("valid", "test"):
        write_inter(tmp_path / "data", "small", late, part)
    given = {
        "data_path": str(tmp_path / "data"),
        "benchmark_filename": ["train", "valid", "test"],
        "load_col": {"inter": ["user_id", "item_id"]},
        "noise_ratio": ratio,
        "state": "ERROR",
        "topk": [2],
        "valid_metric": "NDCG@2",
    }
    data = build("AdapTauMF", given, "small").train._dataset
    columns = (data.id2token(name, data.inter_feat[name]) for name in ("user_id", "item_id"))
    return [*zip(*columns, strict=True)]


def test_every_item_that_is_left_can_be_drawn_the_last_one_too(tmp_path):
    """Twelve users with the same eight of twelve items get three of the other four."""
    train = [(f"u{user}", f"i{item}") for user in range(12) for item in range(8)]
    train += [("other", f"i{item}") for item in (8, 9, 10, 11)]
    found = noisy_parts(tmp_path, train, [("other", "i1")], 0.375)[len(train) :]
    drawn = [item for user, item in found if user != "other"]
    assert len(drawn) == 36 and set(drawn) == {"i8", "i9", "i10", "i11"}
    own = [item for user, item in found if user == "other"]
    assert len(own) == 2 and not set(own) & {"i1", "i8", "i9", "i10", "i11"}


def test_users_without_a_training_positive_get_no_noise(tmp_path):
    train = [("a", f"i{item}") for item in range(4)] + [("b", f"i{item}") for item in range(4, 12)]
    found = noisy_parts(tmp_path, train, [("late", "i1"), ("a", "i9")], 0.25)[len(train) :]
    assert Counter(user for user, _ in found) == {"a": 1, "b": 2}


@pytest.mark.parametrize("given", [{"noise_ratio": 0.1}, {"noise_groups": [0.0, 0.1]}])
def test_sequences_get_no_noise(given):
    with pytest.raises(OptionError, match="are for sets of items; GRU4Rec reads sequences"):
        build("GRU4Rec", {**given, "train_neg_sample_args": None}, "no-such-data")
