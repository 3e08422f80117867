"""Plain settings for positives and splits: what they mean in RecBole's, and what contradicts itself."""

import logging

import numpy as np
import pytest
from recbole.config import Config
from recbole.data import create_dataset, data_preparation

from recbole_adaptau.errors import DataError, OptionError
from tests.conftest import write_inter


def config(model: str = "AdapTauMF", dataset: str = "ml-100k", **settings) -> Config:
    return Config(model, dataset, config_dict={"state": "ERROR", **settings})


def dataset(**settings):
    return create_dataset(config(**settings))


def ratings_of(data) -> np.ndarray:
    return np.asarray(data.inter_feat["rating"])


@pytest.mark.parametrize("model", ["AdapTauMF", "BPR"])
@pytest.mark.parametrize("settings", [{"min_rating": 4}, {"threshold": {"rating": 4}}, {"min_rating": 3.5}])
def test_low_ratings_are_no_positives(model, settings, caplog):
    """ml-100k has 55,375 ratings of 4 and 5 (counted with awk); RecBole's threshold alone leaves all 100,000."""
    caplog.set_level(logging.INFO)
    data = dataset(model=model, normalize_all=False, **settings)
    assert len(data) == 55_375 and ratings_of(data).min() == 4
    least = "3.5" if settings.get("min_rating") == 3.5 else "4"
    assert "positives: 55,375 of 100,000 interactions" in caplog.text
    assert f"; 44,625 left out because their rating is not in [{least},inf) (they count as seen)" in caplog.text
    assert len(data.low_rated) == 44_625


def test_without_a_bound_the_log_says_that_every_rating_counts(caplog):
    caplog.set_level(logging.INFO)
    assert len(dataset()) == 100_000
    assert "positives: 100,000 of 100,000 interactions; every rating counts as one (--min-rating=N" in caplog.text


def test_what_other_filters_leave_out_is_counted_apart(caplog):
    caplog.set_level(logging.INFO)
    data = dataset(min_rating=4, kcore=20)
    users, items = (np.asarray(data.inter_feat[field]) for field in ("user_id", "item_id"))
    assert min(np.bincount(users)[1:].min(), np.bincount(items)[1:].min()) >= 20
    left = 55_375 - len(data)
    assert f"positives: {len(data):,} of 100,000" in caplog.text
    assert f"; {left:,} left out by user_inter_num_interval = [20,inf), item_inter" in caplog.text


@pytest.mark.parametrize("names", [["train", "valid", "test"], ["train", "test", "test"]])
def test_of_a_given_split_each_file_counts_once(board, names, caplog):
    caplog.set_level(logging.INFO)
    create_dataset(config(**{**board, "dataset": "board", "benchmark_filename": names, "state": "INFO"}))
    if names[1] == "valid":
        assert "positives: 576 interactions, split as given: train 480, valid 48, test 48" in caplog.text
        assert "both validates and tests" not in caplog.text
    else:
        told = "positives: 528 interactions, split as given: train 480, test 48; 'test' both validates and tests"
        assert told in caplog.text


def parts(**settings) -> list:
    made = config(**settings)
    return [loader._dataset for loader in data_preparation(made, create_dataset(made))]


def test_split_by_time_tests_on_each_users_latest():
    train, valid, test = parts(split="time", valid=0.1, test=0.2)
    sizes = np.array([len(part) for part in (train, valid, test)]) / 100_000
    assert np.allclose(sizes, (0.7, 0.1, 0.2), atol=0.01)
    for earlier, later in ((train, valid), (valid, test)):
        users = np.intersect1d(earlier.inter_feat["user_id"], later.inter_feat["user_id"])
        for user in users[:200]:
            last = earlier.inter_feat["timestamp"][earlier.inter_feat["user_id"] == user].max()
            assert last <= later.inter_feat["timestamp"][later.inter_feat["user_id"] == user].min()


def test_leave_one_out_leaves_one_out():
    train, valid, test = parts(split="leave-one-out")
    assert len(valid) == len(test) == 943 and len(train) == 100_000 - 2 * 943
    assert (np.bincount(np.asarray(test.inter_feat["user_id"]))[1:] == 1).all()


def test_shares_alone_split_at_random():
    made = config(test=0.2)
    assert made["eval_args"]["split"] == {"RS": [0.7, 0.1, 0.2]} and made["eval_args"]["order"] == "RO"
    assert made["eval_args"]["mode"] == {"valid": "full", "test": "full"}


def test_columns_that_are_needed_are_loaded():
    made = config(load_col={"inter": ["user_id", "item_id"]}, split="time", min_rating=4)
    assert made["load_col"] == {"inter": ["user_id", "item_id", "timestamp", "rating"]}


def test_the_settings_of_a_run_mean_the_same_when_they_are_read_again():
    """A run folder keeps both the plain settings and RecBole's."""
    made = config(split="time", valid=0.1, test=0.2, kcore=5, min_rating=4)
    keys = ("eval_args", "user_inter_num_interval", "val_interval", "load_col", "split", "valid", "test", "kcore")
    again = config(**{key: made[key] for key in (*keys, "item_inter_num_interval", "min_rating")})
    assert all(again[key] == made[key] for key in keys)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"split": "tme"}, "split = 'tme' is not one of random, time, leave-one-out. Did you mean 'time'"),
        ({"split": "leave-one-out", "test": 0.1}, "leave-one-out has no shares"),
        ({"valid": 0.6, "test": 0.5}, "valid = 0.6 and test = 0.5 leave nothing to train on"),
        ({"valid": 1.0}, "valid = 1.0: must be a number from 0 to below 1"),
        ({"test": -0.1}, "test = -0.1: must be"),
        ({"test": "10%"}, "test = '10%': must be a number"),
        ({"kcore": 0}, "kcore = 0: must be a whole number of at least 1"),
        ({"kcore": 2.5}, "kcore = 2.5: must be a whole number"),
        ({"min_rating": "four"}, "min_rating = 'four': must be a number"),
        ({"min_rating": 4, "val_interval": {"rating": "[3,inf)"}}, "min_rating = 4.* and val_interval = .* same col"),
        ({"kcore": 5, "user_inter_num_interval": "[10,inf)"}, r"kcore = 5 means user_inter_num_interval = \[5,inf"),
        ({"split": "time", "eval_args": {"order": "RO"}}, "split = time means eval_args with order = TO, but"),
        ({"threshold": 4}, r"threshold = 4: must name one column and a number, as \{'rating': 4\}"),
        ({"threshold": {"rating": "high"}}, "threshold = .* must name one column and a number"),
        ({"threshold": {"rating": 4, "timestamp": 1}}, "threshold = .* must name one column"),
    ],
)  # fmt: skip
@pytest.mark.parametrize("model", ["AdapTauMF", "BPR"])
def test_what_contradicts_itself_is_refused(model, settings, message):
    with pytest.raises(OptionError, match=message):
        config(model, **settings)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"split": "time"}, r"no column 'timestamp' .*use --split=random"),
        (
            {"min_rating": 4},
            r"has no column 'rating' \(RATING_FIELD\), of which only values in \[4,inf\) are positives",
        ),
    ],
)
def test_data_without_the_column_is_refused(tmp_path, settings, message):
    write_inter(tmp_path, "odd", [(f"u{k % 9}", f"i{k}") for k in range(60)])
    with pytest.raises(DataError, match=message):
        parts(dataset="odd", data_path=str(tmp_path), load_col={"inter": ["user_id", "item_id"]}, **settings)


@pytest.mark.parametrize("settings", [{"split": "time"}, {"kcore": 5}, {"min_rating": 4}, {"threshold": {"rating": 4}}])
def test_a_given_split_is_neither_filtered_nor_split_again(board, settings):
    """RecBole leaves all filters out there, without a word."""
    with pytest.raises(OptionError, match=f"{next(iter(settings))}: 'board' has a given split .train, valid, test"):
        config(dataset="board", **board, **settings)


def test_models_with_labels_keep_recboles_threshold(caplog):
    caplog.set_level(logging.INFO)
    settings = {"threshold": {"rating": 4}, "eval_args": {"mode": "labeled"}, "metrics": ["AUC"], "valid_metric": "AUC"}
    data = dataset(model="FM", train_neg_sample_args=None, **settings)
    assert len(data) == 100_000 and int(np.asarray(data.inter_feat["label"]).sum()) == 55_375
    assert "positives: 55,375 of 100,000 interactions, by threshold = {'rating': 4}" in caplog.text
