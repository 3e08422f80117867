"""Faster loading that loads the same."""

import numpy as np
import pandas as pd
import pytest
import torch
from recbole.config import Config
from recbole.data import create_dataset, data_preparation
from recbole.data.dataset import dataset as datasets
from recbole.sampler import sampler as samplers

FILE = """user_id:token\titem_id:token\trating:float\ttimestamp:float\ttags:token_seq
001\tÅse\t4.1\t1e9\ta b
2\t"quoted\tx"\t0.1\t3\tc
3\t7.0\t\t123456789.123456789\t
"""


def test_the_c_parser_reads_what_the_python_parser_reads(tmp_path):
    path = tmp_path / "x.inter"
    path.write_text(FILE.replace('"quoted\tx"', "quoted"), encoding="utf-8")
    columns = ["user_id:token", "item_id:token", "rating:float", "timestamp:float", "tags:token_seq"]
    options = {"usecols": columns, "dtype": {c: np.float64 if "float" in c else str for c in columns}, "encoding": None}
    fast = datasets.pd.read_csv(path, delimiter="\t", engine="python", **options)
    slow = pd.read_csv(path, delimiter="\t", engine="python", **options).fillna({"tags:token_seq": ""})
    slow = slow.astype({column: object for column in columns if "token" in column})
    pd.testing.assert_frame_equal(fast, slow, check_exact=True)
    assert fast["user_id:token"][0] == "001" and fast["item_id:token"][2] == "7.0"


@pytest.mark.parametrize("body", ["1\t2\n1\t2\t3\t4\n", "1\t2\t\n1\t2\t\n", "1\t2\t3\n1\t2\t3\n"])
def test_fields_too_many_shift_no_column_and_lose_no_line(tmp_path, body):
    """pandas alone takes the first field for an index where all lines have one more, or drops the line."""
    path = tmp_path / "x.item"
    path.write_text(f"a:token\tb:token\n{body}")
    columns = ["a:token", "b:token"]
    read = datasets.pd.read_csv
    table = read(path, delimiter="\t", engine="python", usecols=columns, dtype=dict.fromkeys(columns, str))
    assert table.to_numpy().tolist() == [["1", "2"], ["1", "2"]]


def test_ml_100k_is_the_same_dataset(monkeypatch):
    monkeypatch.setattr("sys.argv", ["test"])
    fast = create_dataset(Config("BPR", "ml-100k"))
    monkeypatch.setattr(datasets, "pd", pd)
    slow = create_dataset(Config("BPR", "ml-100k"))
    pd.testing.assert_frame_equal(fast.inter_feat, slow.inter_feat, check_exact=True)


@pytest.mark.parametrize("repeats", [1, 2])
def test_used_ids_are_what_recbole_collects(board, repeats, monkeypatch):
    monkeypatch.setattr("sys.argv", ["test"])
    dataset = create_dataset(
        Config("BPR", "board", config_dict={k: v for k, v in board.items() if k not in ("topk", "valid_metric")})
    )
    parts = dataset.build()
    sampler = samplers.Sampler(["train", "valid", "test"], parts)
    for _ in range(repeats):
        ours = sampler.get_used_ids()
    last = [set() for _ in range(dataset.user_num)]
    for phase, part in zip(("train", "valid", "test"), parts, strict=True):
        pairs = torch.stack([part.inter_feat["user_id"], part.inter_feat["item_id"]]).T.tolist()
        for user, item in pairs:
            last[user].add(item)
        assert [set(items) for items in ours[phase]] == last
    other = dataset.copy(dataset.inter_feat[:5])
    again = samplers.Sampler(["train"], [other]).get_used_ids()
    assert sum(len(items) for items in again["train"]) == 5, "another split is not answered from memory"


def test_history_and_positives_are_each_users_own(board, monkeypatch):
    monkeypatch.setattr("sys.argv", ["test"])
    settings = {k: v for k, v in board.items() if k not in ("topk", "valid_metric")}
    config = Config("BPR", "board", config_dict=settings)
    train, _, test = data_preparation(config, create_dataset(config))
    known: dict[int, set[int]] = {}
    for part in (train._dataset, test._dataset):
        for user, item in zip(part.inter_feat["user_id"].tolist(), part.inter_feat["item_id"].tolist(), strict=True):
            known.setdefault(user, set()).add(item)
    for user in test.uid_list.tolist():
        history, positive = test.uid2history_item[user], test.uid2positive_item[user]
        assert history.dtype == positive.dtype == torch.int64
        assert set(positive.tolist()) <= known[user] and not set(history.tolist()) & set(positive.tolist())
        assert len(history) == len(set(history.tolist())) == 5 and test.uid2items_num[user] == len(positive) == 1
