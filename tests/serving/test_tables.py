"""Tables written part by part, whole or not at all."""

import json
import os
import stat

import numpy as np
import pandas as pd
import pytest
import torch

from recbole_adaptau.errors import OptionError
from recbole_adaptau.serving.index import write_index
from recbole_adaptau.serving.tables import check_output, format_table, whole_file, write_table

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


def test_text_is_written_as_people_read_it_and_lines_as_they_are(tmp_path):
    write_table(tmp_path / "table.jsonl", PARTS)
    assert "é" in (tmp_path / "table.jsonl").read_text(encoding="utf-8")
    write_table(tmp_path / "table.csv", [pd.DataFrame({"user": ["a\r\nb"]})])
    assert (tmp_path / "table.csv").read_bytes() == b'user\n"a\r\nb"\n'


def test_what_is_no_place_for_a_table_is_refused(tmp_path):
    (tmp_path / "folder.csv").mkdir()
    with pytest.raises(OptionError, match=r"folder\.csv is a folder; give the name of a file"):
        check_output(tmp_path / "folder.csv")
    with pytest.raises(OptionError, match=r"must end in one of"):
        write_table(tmp_path / "table.txt", PARTS)


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
    assert (
        text.count("user ") == 3
        and text.index("user a") < text.index("user é") < text.index("user 007")
        and "-2.2500" in text
    )
    assert format_table(PARTS[0].iloc[:0]) == ""
    few = pd.DataFrame({"user": ["b", "a", "b"], "rank": [1, 1, 2], "score": [0.5, -2.25, 1.5]})
    assert format_table(few) == (
        "user b\n rank  score\n    1 0.5000\n    2 1.5000\n\nuser a\n rank   score\n    1 -2.2500\n\n"
    )


def test_a_file_is_as_readable_as_any_other_whatever_its_writer_does(tmp_path):
    """safetensors makes files for their owner alone, which a service under another account cannot read."""
    before = os.umask(0o022)
    try:
        with whole_file(tmp_path / "made") as temporary:
            temporary.unlink()
            os.close(os.open(temporary, os.O_CREAT | os.O_WRONLY, 0o600))
    finally:
        os.umask(before)
    assert stat.S_IMODE((tmp_path / "made").stat().st_mode) == 0o644
