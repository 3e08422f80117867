"""What reaches training: no empty part, no stray pickle, no popularity from the test part."""

import logging
import pickle
from collections import Counter
from pathlib import Path

import numpy as np
import pytest
from recbole.config import Config
from recbole.data import create_dataset, data_preparation
from recbole.data import utils as data_utils
from recbole.sampler import RepeatableSampler, Sampler

from recbole_adaptau.errors import DataError, OptionError


def write(pairs, name="board", part=None, folder="data") -> None:
    path = Path(folder) / name / f"{name}{'.' + part if part else ''}.inter"
    path.parent.mkdir(parents=True, exist_ok=True)
    lines = ["user_id:token\titem_id:token", *(f"{user}\t{item}" for user, item in pairs)]
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")


def settings(**given) -> dict:
    return {"data_path": "data", "load_col": {"inter": ["user_id", "item_id"]}, "state": "ERROR"} | given


def test_an_empty_training_file_is_told():
    write([], part="train")
    write([("a", "x")], part="valid")
    write([("a", "y")], part="test")
    config = Config("BPR", "board", config_dict=settings(benchmark_filename=["train", "valid", "test"]))
    with pytest.raises(DataError, match=r"board\.train\.inter is empty: below its first line"):
        create_dataset(config).build()


def test_a_split_that_leaves_nothing_to_train_on_is_told():
    write([("a", "x"), ("a", "y"), ("b", "x"), ("b", "y")])
    config = Config("BPR", "board", config_dict=settings(eval_args={"split": {"RS": [0, 0.5, 0.5]}}))
    with pytest.raises(DataError, match=r"training part of 'board' is empty: eval_args .*'RS': \[0, 0.5, 0.5\]"):
        create_dataset(config).build()


def test_a_number_of_files_other_than_three_is_told():
    write([("a", "x")], part="train")
    write([("a", "y")], part="test")
    config = Config("BPR", "board", config_dict=settings(benchmark_filename=["train", "test"]))
    with pytest.raises(DataError, match="exactly three"):
        create_dataset(config).build()


def test_a_training_part_of_one_row_is_enough():
    write([("a", "x")], part="train")
    write([("a", "y")], part="valid")
    write([("a", "z")], part="test")
    config = Config("BPR", "board", config_dict=settings(benchmark_filename=["train", "valid", "test"]))
    assert [len(part) for part in create_dataset(config).build()] == [1, 1, 1]


class Leaves:
    """An object whose pickle creates a file when read."""

    def __reduce__(self):
        return open, ("unpickled", "w")


@pytest.mark.parametrize("saving", [False, True])
def test_a_stray_file_is_not_unpickled(board, saving):
    Path("saved").mkdir()
    for name in ("board-Dataset.pth", "board-for-BPR-dataloader.pth"):
        with open(Path("saved") / name, "wb") as file:
            pickle.dump(Leaves(), file)
    config = Config("BPR", "board", config_dict=board | {"save_dataset": saving, "save_dataloaders": saving})
    dataset = create_dataset(config)
    data_preparation(config, dataset)
    assert not Path("unpickled").exists()
    assert config["dataset_save_path"] is None and dataset.config is config


@pytest.mark.parametrize("key", ["dataset_save_path", "dataloaders_save_path"])
def test_a_named_pickle_needs_the_users_word(board, key):
    Path("evil.pth").write_bytes(pickle.dumps(Leaves()))
    config = Config("BPR", "board", config_dict=board | {key: "'evil.pth'"})
    with pytest.raises(OptionError, match=rf"{key} = 'evil\.pth'.*allow_pickle=True"):
        data_preparation(config, create_dataset(config))
    assert not Path("unpickled").exists()


def test_a_saved_file_is_used_when_asked(board, caplog):
    asked = board | {"save_dataset": True, "save_dataloaders": True, "allow_pickle": True}
    config = Config("BPR", "board", config_dict=dict(asked))
    data_preparation(config, create_dataset(config))
    again = Config("BPR", "board", config_dict=dict(asked))
    with caplog.at_level(logging.INFO):
        data_preparation(again, create_dataset(again))
    assert "Load filtered dataset from" in caplog.text and "Load split dataloaders from" in caplog.text


def popularity(sampler, item_count) -> dict[int, float]:
    np.random.seed(0)
    drawn = Counter(sampler._pop_sampling(20_000).tolist())
    return {item: drawn[item] / 20_000 for item in range(1, item_count)}


@pytest.mark.parametrize("repeatable", [False, True])
def test_popularity_is_counted_in_training_alone(repeatable):
    """Item x is in the training part once, and everywhere in the test part: drawn by it, it must be rare."""
    train = [("a", "x"), *((user, "y") for user in "abc"), *((user, "z") for user in "bcd")]
    write(train, part="train")
    write([("a", "w")], part="valid")
    write([(user, "x") for user in "bcd"] + [("d", "w")], part="test")
    given = settings(
        benchmark_filename=["train", "valid", "test"],
        repeatable=repeatable,
        train_neg_sample_args={"distribution": "popularity", "sample_num": 1},
    )
    config = Config("BPR", "board", config_dict=given)
    dataset = create_dataset(config)
    parts = dataset.build()
    train_sampler, _, _ = data_utils.create_samplers(config, dataset, parts)
    assert isinstance(train_sampler, RepeatableSampler if repeatable else Sampler)
    item = {token: dataset.token2id("item_id", token) for token in "xyzw"}
    drawn = popularity(train_sampler, dataset.item_num)
    assert drawn[item["w"]] == 0
    for token, share in {"x": 1 / 7, "y": 3 / 7, "z": 3 / 7}.items():
        assert drawn[item[token]] == pytest.approx(share, abs=0.02)


def test_popularity_with_no_negative_left_is_told_instead_of_looping():
    write([("a", "x"), ("a", "y"), ("b", "x")], part="train")
    write([("b", "z")], part="valid")
    write([("b", "w")], part="test")
    given = settings(
        benchmark_filename=["train", "valid", "test"],
        train_neg_sample_args={"distribution": "popularity", "sample_num": 1},
    )
    config = Config("BPR", "board", config_dict=given)
    dataset = create_dataset(config)
    with pytest.raises(DataError, match="interacted with every item of the training part"):
        data_utils.create_samplers(config, dataset, dataset.build())
