"""The converter's facts: what it writes, how it splits, what it refuses, that RecBole reads the result."""

import os
import sys
from collections import Counter
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st
from recbole.config import Config
from recbole.data.dataset import Dataset

from recbole_adaptau.data import convert as converter
from recbole_adaptau.data import convert_lightgcn, validation_mask
from recbole_adaptau.data.text import RESERVED_TOKENS
from recbole_adaptau.errors import DataError

SHARED = Path(__file__).resolve().parents[3] / "shared" / "data"
TRAIN, TEST = "0 1 2 3 4\n1 1 2\n2 3 4 1\n", "0 5\n1 3\n"


def write_source(folder: Path, train: str | bytes | None = TRAIN, test: str | bytes | None = TEST) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    for file, text in (("train.txt", train), ("test.txt", test)):
        if text is not None:
            (folder / file).write_bytes(text.encode() if isinstance(text, str) else text)
    return folder


def pairs_of(folder: Path, part: str) -> list[tuple[str, ...]]:
    header, *lines = (folder / f"{folder.name}.{part}.inter").read_text(encoding="utf-8").splitlines()
    assert header == "user_id:token\titem_id:token"
    return [tuple(line.split("\t")) for line in lines]


def contents(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def test_planted_data_is_cleaned_counted_and_written(tmp_path: Path) -> None:
    # User 0 repeats item 2 in a line and item 1 on a second line; (1, 2) is in both files; user 9 and the
    # items 7 and 8 occur in test only; user 3 has no items.
    source = write_source(tmp_path / "raw", "0 1 2 2 3\n1 1 2\n3\n0 1 4\n\n", "0 5 7\n1 2 3\n3\n9 8\n")
    report = convert_lightgcn(source, "tiny", tmp_path / "out", valid_ratio=0.25)
    folder = tmp_path / "out" / "tiny"
    assert report.folder == folder
    assert (report.users, report.items) == (3, 7)
    assert (report.duplicates_dropped, report.overlap_dropped, report.merged_lines) == (2, 1, 1)
    assert (report.cold_test_users, report.cold_test_items) == (1, 3)
    train = [("0", "1"), ("0", "2"), ("0", "3"), ("0", "4"), ("1", "1"), ("1", "2")]
    assert pairs_of(folder, "train") == train
    assert pairs_of(folder, "test") == [("0", "5"), ("0", "7"), ("1", "3"), ("9", "8")]
    fit, valid = pairs_of(folder, "fit"), pairs_of(folder, "valid")
    assert sorted(fit + valid) == train
    assert (report.train, report.test, report.fit, report.valid) == (6, 4, len(fit), len(valid))


def test_the_sidecar_has_exactly_the_agreed_keys_and_no_machine_path(tmp_path: Path) -> None:
    folder = convert_lightgcn(write_source(tmp_path / "raw\nx: 1"), "tiny", tmp_path, 0.2, seed=7).folder
    text = (folder / "tiny.yaml").read_text(encoding="utf-8")
    assert yaml.safe_load(text) == {
        "given_split": {"paper": ["train", "test", "test"], "honest": ["fit", "valid", "test"]},
        "load_col": {"inter": ["user_id", "item_id"]},
    }
    assert str(tmp_path) not in text
    for fact in (
        "raw?x: 1",
        "3 users, 5 items",
        "train 9 ",
        "test 2.",
        "valid_ratio 0.2, seed 7",
        "--seed 7",
    ):
        assert fact in text


def test_bom_crlf_tabs_and_word_ids_are_read(tmp_path: Path) -> None:
    plain = write_source(tmp_path / "a", "u1 é b\nu2 b é c\n", "u1 c\n")
    odd = write_source(tmp_path / "b", "\ufeffu1  é\tb \r\nu2 b é c\r\n", "\ufeffu1 c\r\n")
    first = convert_lightgcn(plain, "tiny", tmp_path / "x").folder
    second = convert_lightgcn(odd, "tiny", tmp_path / "y").folder
    for part in converter.PARTS:
        assert pairs_of(first, part) == pairs_of(second, part)
    assert pairs_of(first, "train") == [("u1", "b"), ("u1", "é"), ("u2", "b"), ("u2", "c"), ("u2", "é")]


def test_validation_shares() -> None:
    # Item 0..29 all have many users, so no item needs one back and the shares are exact.
    sizes = [1, 2, 4, 14, 16, 30]
    users = np.repeat(np.arange(60), np.tile(sizes, 10))
    items = np.concatenate([np.arange(size) for size in np.tile(sizes, 10)])
    held_out = np.bincount(users[validation_mask(users, items, 0.1, 2020)], minlength=60)
    expected = {1: 0, 2: 1, 4: 1, 14: 1, 16: 2, 30: 3}
    assert held_out.tolist() == [expected[size] for size in np.tile(sizes, 10)]


def test_every_item_of_a_user_is_equally_likely_to_be_held_out() -> None:
    users, items = np.repeat(np.arange(4000), 5), np.tile(np.arange(5), 4000)
    held_out = np.bincount(items[validation_mask(users, items, 0.2, 1)], minlength=5)
    assert held_out.sum() == 4000
    assert np.abs(held_out - 800).max() < 4 * np.sqrt(4000 * 0.2 * 0.8)


def test_an_item_drawn_everywhere_keeps_one_in_fit() -> None:
    # Each user has one item of its own and one shared item: unless put back, the own item is lost in half.
    users, items = np.repeat(np.arange(50), 2), np.stack([np.zeros(50, int), np.arange(1, 51)], 1).ravel()
    mask = validation_mask(users, items, 0.5, 3)
    assert set(items[~mask]) == set(items)
    assert 0 < mask.sum() < 50


TRAINS = st.dictionaries(
    st.integers(0, 30), st.sets(st.integers(0, 12), min_size=1, max_size=13), min_size=1, max_size=12
)


@settings(max_examples=60, deadline=None)
@given(train=TRAINS, ratio=st.floats(0.01, 0.5), seed=st.integers(0, 2**32), order=st.randoms())
def test_parts_partition_train(tmp_path_factory, train, ratio, seed, order) -> None:
    root = tmp_path_factory.mktemp("given")
    lines = [f"{user} {' '.join(map(str, sorted(items)))}" for user, items in train.items()]
    # Two users that share two items: something can always be held out.
    lines += ["100 200 201", "101 200 201"]
    test = "100 300\n"  # An item train never draws, or the test part could be cleaned away whole.
    source = write_source(root / "a", "\n".join(lines), test)
    report = convert_lightgcn(source, "tiny", root / "x", ratio, seed)
    whole = {(str(user), str(item)) for user, items in train.items() for item in items}
    whole |= {(user, item) for user in ("100", "101") for item in ("200", "201")}
    fit, valid = pairs_of(report.folder, "fit"), pairs_of(report.folder, "valid")
    assert Counter(fit) + Counter(valid) == Counter(pairs_of(report.folder, "train")) == Counter(whole)
    assert {user for user, _ in fit} == {user for user, _ in whole}
    assert {item for _, item in fit} == {item for _, item in whole}
    sizes, held = Counter(user for user, _ in whole), Counter(user for user, _ in valid)
    assert all(held[user] <= max(1, round(ratio * size)) for user, size in sizes.items())

    shuffled = [line.split() for line in order.sample(lines, len(lines))]
    text = "\n".join(" ".join([user, *order.sample(items, len(items))]) for user, *items in shuffled)
    again = convert_lightgcn(write_source(root / "b" / "a", text, test), "tiny", root / "y", ratio, seed)
    assert contents(again.folder) == contents(report.folder)


def test_another_seed_gives_another_split(tmp_path: Path) -> None:
    lines = [f"{user} {' '.join(map(str, range(user % 7, 40)))}" for user in range(30)]
    source = write_source(tmp_path / "raw", "\n".join(lines), "0 99\n")
    first, second = (convert_lightgcn(source, f"s{seed}", tmp_path, seed=seed).folder for seed in (1, 2))
    assert pairs_of(first, "valid") != pairs_of(second, "valid")
    assert pairs_of(first, "train") == pairs_of(second, "train")


BAD_FILES = {
    "comma": ({"train": "0 1 2\n1,2,3\n"}, r"train\.txt, line 2: looks comma-separated"),
    "control": ({"test": "0 5\n1 \x07 3\n"}, r"test\.txt, line 2: control .*'\\x07'"),
    "old mac line ends": ({"train": "0 1 2\r1 2 3\r"}, r"train\.txt, line 1: control .*'\\r'"),
    "no-break space": ({"train": "0 1\u00a02\n"}, r"train\.txt, line 1: .*'\\xa0'"),
    "not utf-8": ({"train": b"0 1 2\n1 2 3\n2 \xff 3\n"}, r"train\.txt, line 3: not UTF-8"),
    "utf-16": ({"test": "0 5\n".encode("utf-16")}, r"test\.txt, line 1: not UTF-8"),
    "missing value": ({"train": "0 1 2\n1 NA 3\n"}, r"train\.txt, line 2: .*the id NA"),
    "padding": ({"train": "[PAD] 1 2\n"}, r"train\.txt, line 1: .*the id \[PAD\]"),
    "quote": ({"test": '0 5\n1 "3\n'}, r'test\.txt, line 2: .*the id "3'),
    "empty train": ({"train": ""}, r"train\.txt: no interactions"),
    "train without items": ({"train": "0\n1\n"}, r"train\.txt: no interactions"),
    "empty test": ({"test": "\n"}, r"test\.txt: no interactions"),
    "one item": ({"train": "0 1\n1 1\n2 1 1\n"}, r"train\.txt: all interactions are with one item"),
    "test is train": ({"test": "0 1 2\n"}, r"test\.txt: every pair is also in train"),
    "nothing to hold out": ({"train": "0 1\n1 2\n"}, r"train\.txt: nothing can be held out"),
    "no train": ({"train": None}, r"lacks train\.txt; it holds: test\.txt"),
    "no test": ({"test": None}, r"lacks test\.txt; it holds: train\.txt"),
    "neither": ({"train": None, "test": None}, r"lacks train\.txt and test\.txt; it holds: nothing"),
}


@pytest.mark.parametrize(("files", "message"), BAD_FILES.values(), ids=BAD_FILES.keys())
def test_bad_files_are_named_with_the_line(tmp_path: Path, files: dict, message: str) -> None:
    source = write_source(tmp_path / "raw", **files)
    with pytest.raises(DataError, match=message):
        convert_lightgcn(source, "tiny", tmp_path / "out")
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("name", ["", ".", "..", ".x", "a/b", "a\\b", "a..b", "-x", "a b", "a\n", "x" * 101])
def test_bad_names_are_refused(tmp_path: Path, name: str) -> None:
    with pytest.raises(DataError, match="cannot name a dataset"):
        convert_lightgcn(write_source(tmp_path / "raw"), name, tmp_path / "out")


@pytest.mark.parametrize(
    ("options", "message"),
    [({"valid_ratio": ratio}, "valid_ratio is") for ratio in (0.0, -0.1, 0.51, 1.0, float("nan"))]
    + [({"seed": -1}, "seed is -1"), ({"name": "ml-100k"}, "RecBole's own sample")],
)
def test_bad_options_are_refused(tmp_path: Path, options: dict, message: str) -> None:
    with pytest.raises(DataError, match=message):
        convert_lightgcn(write_source(tmp_path / "raw"), **{"name": "tiny", "output": tmp_path, **options})


def test_a_missing_source_suggests_the_nearest_folder(tmp_path: Path) -> None:
    write_source(tmp_path / "gowalla")
    with pytest.raises(DataError, match=r"not a folder\. Did you mean 'gowalla'"):
        convert_lightgcn(tmp_path / "gowala", "tiny", tmp_path)
    with pytest.raises(DataError, match="not a folder"):
        convert_lightgcn(tmp_path / "no" / "such", "tiny", tmp_path)


@pytest.mark.parametrize("token", sorted(RESERVED_TOKENS - {"[PAD]"}))
def test_reserved_ids_are_those_pandas_loses(tmp_path: Path, token: str) -> None:
    (tmp_path / "x.inter").write_text(f"user_id:token\titem_id:token\n1\t{token}\n")
    frame = pd.read_csv(tmp_path / "x.inter", delimiter="\t", dtype=str, engine="python")
    assert frame.isna().to_numpy().any()


def test_an_existing_folder_needs_force_and_keeps_what_is_not_ours(tmp_path: Path) -> None:
    source = write_source(tmp_path / "raw")
    folder = convert_lightgcn(source, "tiny", tmp_path, seed=1).folder
    (folder / "notes.txt").write_text("mine")
    before = contents(folder)
    with pytest.raises(DataError, match=r"exists: .*--force"):
        convert_lightgcn(source, "tiny", tmp_path, seed=2)
    assert contents(folder) == before
    write_source(tmp_path / "raw", TRAIN + "3 1 2\n")
    convert_lightgcn(source, "tiny", tmp_path, seed=2, force=True)
    assert ("3", "1") in pairs_of(folder, "train")
    assert (folder / "notes.txt").read_text() == "mine"
    assert contents(folder).keys() == before.keys()
    assert {path.name for path in tmp_path.iterdir()} == {"raw", "tiny"}
    (tmp_path / "file").write_text("")
    with pytest.raises(DataError, match="is not a folder"):
        convert_lightgcn(source, "file", tmp_path, force=True)
    with pytest.raises(DataError, match="cannot write"):
        convert_lightgcn(source, "tiny", tmp_path / "file")


def test_an_interrupt_leaves_nothing_behind(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    source, write_text = write_source(tmp_path / "raw"), Path.write_text

    def interrupted(path: Path, *args, **kwargs) -> int:
        if path.name == "tiny.fit.inter":
            raise KeyboardInterrupt
        return write_text(path, *args, **kwargs)

    monkeypatch.setattr(Path, "write_text", interrupted)
    with pytest.raises(KeyboardInterrupt):
        convert_lightgcn(source, "tiny", tmp_path / "out")
    assert list((tmp_path / "out").iterdir()) == []


def test_an_interrupted_replacement_has_no_sidecar(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    source, replace = write_source(tmp_path / "raw"), os.replace
    folder = convert_lightgcn(source, "tiny", tmp_path).folder

    def interrupted(old: Path, new: Path) -> None:
        if new.name == "tiny.valid.inter":
            raise KeyboardInterrupt
        replace(old, new)

    monkeypatch.setattr(os, "replace", interrupted)
    with pytest.raises(KeyboardInterrupt):
        convert_lightgcn(source, "tiny", tmp_path, force=True)
    assert not (folder / "tiny.yaml").exists()
    assert {path.name for path in tmp_path.iterdir()} == {"raw", "tiny"}


def recbole_parts(data_path: Path, name: str, protocol: str, monkeypatch: pytest.MonkeyPatch) -> list[Dataset]:
    monkeypatch.setattr(sys, "argv", ["pytest"])
    sidecar = yaml.safe_load((data_path / name / f"{name}.yaml").read_text(encoding="utf-8"))
    values = {
        "data_path": str(data_path),
        "benchmark_filename": sidecar["given_split"][protocol],
        "load_col": sidecar["load_col"],
    }
    return Dataset(Config(model="BPR", dataset=name, config_dict=values)).build()


@pytest.mark.parametrize("protocol", ["paper", "honest"])
def test_recbole_loads_the_parts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, protocol: str) -> None:
    report = convert_lightgcn(write_source(tmp_path / "raw", TRAIN + "é x' 1\n"), "tiny", tmp_path)
    parts = recbole_parts(tmp_path, "tiny", protocol, monkeypatch)
    sizes = {"paper": [report.train, report.test, report.test]}
    sizes["honest"] = [report.fit, report.valid, report.test]
    assert [len(part) for part in parts] == sizes[protocol]
    assert (parts[0].user_num - 1, parts[0].item_num - 1) == (report.users, report.items)
    name = {"paper": "train", "honest": "fit"}[protocol]
    users = parts[0].id2token("user_id", parts[0].inter_feat["user_id"].numpy())
    items = parts[0].id2token("item_id", parts[0].inter_feat["item_id"].numpy())
    assert list(zip(users, items, strict=True)) == pairs_of(report.folder, name)


@pytest.mark.skipif(not SHARED.is_dir(), reason="the published splits are not in ../shared/data")
@pytest.mark.parametrize(
    ("name", "users", "items", "train", "test"),
    [("ml-1m", 6_022, 3_043, 796_244, 99_455), ("gowalla", 29_858, 40_981, 810_128, 217_242)],
)
def test_published_splits_keep_their_counts(tmp_path: Path, name, users, items, train, test) -> None:
    report = convert_lightgcn(SHARED / name, name, tmp_path)
    assert (report.users, report.items, report.train, report.test) == (users, items, train, test)
    assert report.fit + report.valid == train
    assert (report.duplicates_dropped, report.overlap_dropped, report.merged_lines) == (0, 0, 0)
    assert report.valid / train == pytest.approx(0.1, abs=0.01)
