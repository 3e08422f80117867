"""Bad atomic files, one by one: what the user sees, or what is cleaned and how that is counted."""

import math
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from recbole.config import Config
from recbole.data import create_dataset, data_preparation

from recbole_adaptau.data import check
from recbole_adaptau.data.check import AtomicFile, repeated_pairs, seen_before
from recbole_adaptau.errors import DataError

HEAD = "user_id:token\titem_id:token\n"
PAIRS = [(f"u{user}", f"i{(user + 2 * place) % 10}") for user in range(12) for place in range(4)]
BODY = "".join(f"{user}\t{item}\n" for user, item in PAIRS)
RATED = "user_id:token\titem_id:token\trating:float\n"
FIRST_LINE = "the first line names the columns and their types, as 'user_id:token' and 'item_id:token'"


def rated(value: str, at: int = 7) -> str:
    return RATED + "".join(f"{u}\t{i}\t{value if row == at else 3}\n" for row, (u, i) in enumerate(PAIRS))


def put(folder: Path, **files: str | bytes) -> None:
    """Write folder/odd/odd.KEY, where `__` in a key is a dot: train__inter is odd.train.inter."""
    (folder / "odd").mkdir(parents=True, exist_ok=True)
    for key, text in files.items():
        data = text.encode() if isinstance(text, str) else text
        (folder / "odd" / f"odd.{key.replace('__', '.')}").write_bytes(data)


def load(folder: Path, model: str = "AdapTauMF", **changes):
    values = {"data_path": str(folder), "load_col": None, "show_progress": False, "state": "ERROR", **changes}
    if model == "AdapTauMF":
        values |= {"topk": [1], "valid_metric": "NDCG@1"}
    config = Config(model, "odd", config_dict=values)
    dataset = create_dataset(config)
    data_preparation(config, dataset)
    return dataset


BAD_INTERACTIONS = {
    "no byte at all": ("", rf"odd\.inter: the file is empty; {FIRST_LINE}"),
    "a blank first line": ("\n" + HEAD + BODY, rf"odd\.inter: the first line is empty; {FIRST_LINE}"),
    "a heading only": (HEAD, r"odd\.inter is empty: below its first line there is no interaction"),
    "a heading without a line end": (HEAD[:-1], r"odd\.inter is empty: it ends with its first line"),
    "no heading": (BODY, rf"odd\.inter, line 1: 'u0' is not of the form name:type; {FIRST_LINE}"),
    "a heading without types": ("user_id\titem_id\n" + BODY, "line 1: 'user_id' is not of the form name:type"),
    "a heading without a name": ("user_id:token\t:token\n" + BODY, "line 1: ':token' is not of the form name:type"),
    "a heading with two types": ("user_id:token:x\titem_id:token\n" + BODY, "'user_id:token:x' is not of the form"),
    "separated by commas": (
        (HEAD + BODY).replace("\t", ","),
        r"line 1: the columns are separated by ',', but field_se",
    ),
    "separated by semicolons": ((HEAD + BODY).replace("\t", ";"), "line 1: the columns are separated by ';'"),
    "separated by spaces": ((HEAD + BODY).replace("\t", " "), "line 1: the columns are separated by spaces"),
    "separated by bars": ((HEAD + BODY).replace("\t", "|"), r"set field_separator to '\|', or rewrite the file"),
    "another separator further down": (HEAD + BODY + "u1,i5\n", r"line 50: 1 column\(s\), but the first line names 2"),
    "an unknown type": ("user_id:int\titem_id:token\n" + BODY, "column 'user_id' is of type 'int', which is none of"),
    "a misspelt type": ("user_id:tokn\titem_id:token\n" + BODY, "'tokn'.*Did you mean 'token'"),
    "numbers as ids": (
        "user_id:float\titem_id:token\n" + BODY,
        "'user_id' is of type float, but ids are of type token",
    ),
    "columns of other names": ("uid:token\tiid:token\n" + BODY, "no column 'user_id' among uid, iid.*USER_ID_FIELD"),
    "no column of items": ("user_id:token\nu1\n", "line 1: there is no column 'item_id' among user_id"),
    "the same column twice": ("user_id:token\tuser_id:token\n" + BODY, "line 1: there are two columns 'user_id'"),
    "a line too short": (HEAD + BODY + "u1\n", r"line 50: 1 column\(s\), .* names 2; 1 of 49 lines are so"),
    "a line too long": (HEAD + BODY + "u1\ti1\tx\n", r"line 50: 3 column\(s\), but the first line names 2"),
    "all lines too long": (HEAD + BODY.replace("\n", "\t5\n"), "line 2: 3 column.*; 48 of 48 lines are so"),
    "a tab at every end": (HEAD + BODY.replace("\n", "\t\n"), r"line 2: 3 column\(s\)"),
    "a line of spaces": (HEAD + "   \n" + BODY, r"line 2: 1 column\(s\)"),
    "a quote never closed": (HEAD + BODY + 'u1\t"i3\n' + BODY, "line 50: a quotation mark opens here"),
    "a quote closed lines later": (HEAD + BODY + 'u1\t"i3\nu2\ti4\nu3\ti4"\n', "line 50: a quotation mark opens here"),
    "line ends of old Macs": ((HEAD + BODY).replace("\n", "\r"), "line 1: a carriage return within the line"),
    "a return inside an id": (HEAD + BODY + "u\r1\ti1\n", "line 50: a carriage return within the line"),
    "a NUL": (HEAD + BODY + "u\x001\ti1\n", "line 50: a NUL character"),
    "Latin-1": ((HEAD + BODY + "ü\ti1\n").encode("latin-1"), "line 50: not utf-8 text; .* encoding=latin-1"),
    "Latin-1 in the heading": ("ü:token\n".encode("latin-1"), "line 1: not utf-8 text"),
    "UTF-16": ((HEAD + BODY).encode("utf-16"), r"odd\.inter: this is UTF-16 text; save it as UTF-8"),
    "bytes of anything": (bytes(range(256)) * 8, r"line 1: '\\x00.* is not of the form name:type"),
    "the padding's name": (HEAD + BODY + "u1\t[PAD]\n", r"line 50: the item_id \[PAD\] is RecBole's own"),
    "an endless id": (HEAD + BODY + "u" * 100_000 + "\ti1\n", "line 50: a user_id of more than 1,000 characters"),
    "only rows without ids": (HEAD + "NA\ti1\nu1\t\n", r"odd\.inter is empty"),
    "a rating in words": (
        rated("five"),
        "line 9: 'five' in column 'rating' is no number, but the column is of type fl",
    ),
    "no rating at all": (
        RATED + BODY.replace("\n", "\t\n"),
        r"odd\.inter: no row has a 'rating'; leave the column out",
    ),
    "a rating with a comma": (rated("3,5"), "line 9: '3,5' in column 'rating' is no number"),
    "an infinite rating": (rated("inf"), "line 9: an infinite rating"),
    "a rating beyond float64": (rated("1e999"), "line 9: ('1e999' in column 'rating' is no number|an infinite rating)"),
    "a vector in words": (rated("1 a").replace(":float", ":float_seq"), "line 9: 'a' in column 'rating' is no number"),
    "everybody has everything": (
        HEAD + "a\tx\na\ty\nb\tx\nb\ty\n",
        "2 of the 2 users of 'odd' have interacted with all",
    ),
    "a user with everything": (HEAD + BODY + "".join(f"u1\ti{k}\n" for k in range(10)), "1 of the 12 users.*user u1"),
}


@pytest.mark.parametrize("case", BAD_INTERACTIONS)
def test_bad_interactions_are_refused_with_file_and_line(tmp_path, case):
    text, message = BAD_INTERACTIONS[case]
    put(tmp_path, inter=text)
    with pytest.raises(DataError, match=message):
        load(tmp_path)


@pytest.mark.parametrize("model", ["AdapTauMF", "BPR"])
@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"USER_ID_FIELD": "user"}, "no column 'user' among user_id, item_id. Did you mean 'user_id'"),
        ({"load_col": {"inter": ["user_id"]}}, "leave out 'item_id'"),
        ({"unload_col": {"inter": ["user_id"]}}, "leave out 'user_id'"),
        ({"load_col": {"item": ["item_id"]}}, "leave out 'user_id'"),
        ({"encoding": "utf-99"}, "encoding = 'utf-99' is not an encoding"),
        ({"field_separator": ","}, r"separated by tabs, but field_separator is ','.* to '\\t'"),
        ({"val_interval": {"rating": "[3,inf)"}}, "has no column 'rating'.* only values in .3,inf. are positives"),
        ({"val_interval": {"age": "[3,inf)"}}, r"cannot be loaded with these settings: Field \[age\] not defined"),
        (
            {"user_inter_num_interval": "[900,inf)"},
            r"no interaction of '\w+' is left by user_inter_num_interval = .900,inf\): loosen",
        ),
        ({"threshold": {"rating": 3}}, "has no column 'rating'.* only values in .3,inf. are positives"),
        ({"normalize_field": ["age"]}, r"cannot be loaded with these settings: Field \[age\]"),
        (
            {"additional_feat_suffix": ["kg"]},
            r"cannot be loaded with these settings: Additional feature file .*odd\.kg",
        ),
        (
            {"eval_args": {"order": "TO"}},
            r"orders by time, but no column 'timestamp' \(TIME_FIELD\) of 'odd' was loaded",
        ),
    ],
)
def test_settings_the_data_does_not_fit_are_refused_with_the_reason(tmp_path, settings, message, model):
    put(tmp_path, inter=HEAD + BODY)
    with pytest.raises(DataError, match=message):
        load(tmp_path, model, **settings)


GOOD = {"train__inter": HEAD + BODY, "valid__inter": HEAD + "u1\ti2\n", "test__inter": HEAD + "u3\ti4\nu4\ti1\n"}
SPLIT = {"benchmark_filename": ["train", "valid", "test"]}
BAD_PARTS = {
    "a validation part of no byte": ({"valid__inter": ""}, r"odd\.valid\.inter: the file is empty"),
    "a validation part without rows": ({"valid__inter": HEAD}, r"odd\.valid\.inter is empty"),
    "a test part without rows": ({"test__inter": HEAD}, r"odd\.test\.inter is empty"),
    "a training part without rows": ({"train__inter": HEAD}, r"odd\.train\.inter is empty"),
    "a part of other columns": ({"valid__inter": "user_id:token\titem:token\nu1\ti1\n"}, "no column 'item_id'"),
    "a part of other types": ({"test__inter": "user_id:float\titem_id:token\n1\ti1\n"}, r"odd\.test.*is of type float"),
    "a test part seen in training": ({"test__inter": HEAD + "u0\ti0\n"}, r"odd\.test.*every interaction is also"),
    "a validation part seen": ({"valid__inter": HEAD + "u0\ti0\n"}, r"odd\.valid\.inter: every interaction is also"),
}  # fmt: skip


@pytest.mark.parametrize("case", BAD_PARTS)
def test_bad_parts_are_refused_with_file_and_line(tmp_path, case):
    files, message = BAD_PARTS[case]
    put(tmp_path, **GOOD | files)
    with pytest.raises(DataError, match=message):
        load(tmp_path, **SPLIT)


def pairs_of(dataset) -> list[tuple[str, str]]:
    return [
        tuple(str(dataset.id2token(field, int(row[field]))) for field in ("user_id", "item_id"))
        for _, row in dataset.inter_feat.iterrows()
    ]


def raw(folder: Path, **changes):
    """A dataset as it is before it is split, while its rows are still a table."""
    values = {"data_path": str(folder), "load_col": None, "state": "ERROR", **changes}
    return create_dataset(Config("BPR", "odd", config_dict=values))


BIG = [(f"{10**40 + int(u[1:])}", f"{10**60 + int(i[1:])}") for u, i in PAIRS]
READ_AS_MEANT = {
    "a byte order mark": (b"\xef\xbb\xbf" + (HEAD + BODY).encode(), PAIRS),
    "line ends of Windows": ((HEAD + BODY).replace("\n", "\r\n"), PAIRS),
    "both": (b"\xef\xbb\xbf" + (HEAD + BODY).replace("\n", "\r\n").encode(), PAIRS),
    "no line end at the end": ((HEAD + BODY)[:-1], PAIRS),
    "blank lines": (HEAD + "\n\n" + BODY.replace("\n", "\n\n"), PAIRS),
    "ids in quotes": (HEAD + "".join(f'"{u}"\t"{i}"\n' for u, i in PAIRS), PAIRS),
    "ids of sixty digits": (HEAD + "".join(f"{u}\t{i}\n" for u, i in BIG), BIG),
    "ids of all scripts": (HEAD + BODY.replace("u", "Ж日𝛕 ").replace("i", "é\u0301"), [
        (u.replace("u", "Ж日𝛕 "), i.replace("i", "é\u0301")) for u, i in PAIRS
    ]),
    "ids a thousand characters long": (HEAD + BODY.replace("u0\t", "u" * 1000 + "\t"), [
        ("u" * 1000 if u == "u0" else u, i) for u, i in PAIRS
    ]),
}  # fmt: skip


@pytest.mark.parametrize("case", READ_AS_MEANT)
def test_odd_but_clear_files_are_read_as_meant(tmp_path, case):
    text, pairs = READ_AS_MEANT[case]
    put(tmp_path, inter=text)
    assert pairs_of(raw(tmp_path)) == pairs
    load(tmp_path)


@pytest.mark.parametrize("encoding", ["latin-1", "utf-16", "utf-8-sig"])
def test_another_encoding_is_read_when_it_is_named(tmp_path, encoding):
    put(tmp_path, inter=(HEAD + BODY + "ü\ti1\n").encode(encoding))
    assert pairs_of(raw(tmp_path, encoding=encoding))[-1] == ("ü", "i1")


def test_rows_without_an_id_are_left_out_and_counted(tmp_path, caplog):
    """Where the split is given, RecBole would train on them as the padding; else it loses its place in the table."""
    put(tmp_path, inter=HEAD + "NA\ti1\n" + BODY + "\nu1\t\n\ti3\nnull\tnan\n")
    dataset = raw(tmp_path)
    assert pairs_of(dataset) == PAIRS
    assert "odd.inter: 4 of 52 rows left out, the first in line 2, because user_id or item_id is missing" in caplog.text
    put(tmp_path, **GOOD | {"train__inter": HEAD + BODY + "NaN\ti1\n", "test__inter": HEAD + "u3\ti4\nu4\tNone\n"})
    caplog.clear()
    dataset = raw(tmp_path, **SPLIT)
    assert dataset.file_size_list == [48, 1, 1]
    assert (dataset.inter_feat[["user_id", "item_id"]] > 0).all(axis=None)
    assert "odd.train.inter: 1 of 49 rows left out, the first in line 50" in caplog.text
    assert "odd.test.inter: 1 of 2 rows left out, the first in line 3" in caplog.text


def test_test_pairs_seen_in_training_are_left_out_and_counted(tmp_path, caplog):
    put(tmp_path, **GOOD | {"test__inter": HEAD + "u0\ti0\nu3\ti4\nu0\ti2\n"})
    dataset = raw(tmp_path, **SPLIT)
    assert dataset.file_size_list == [48, 1, 1]
    assert pairs_of(dataset) == [*PAIRS, ("u1", "i2"), ("u3", "i4")]
    assert "odd.test.inter: 2 of 3 interactions left out, because they are in training too" in caplog.text
    kept = raw(tmp_path, **SPLIT, repeatable=True)
    assert kept.file_size_list == [48, 1, 3], "where repeats are meant they stay"


def test_a_part_that_serves_twice_is_looked_over_once(tmp_path, caplog, monkeypatch):
    passes = []
    original = AtomicFile.lines
    monkeypatch.setattr(AtomicFile, "lines", lambda self, width: passes.append(self.path.name) or original(self, width))
    put(tmp_path, **GOOD | {"test__inter": HEAD + "u3\ti4\nu4\tNone\n"})
    dataset = raw(tmp_path, benchmark_filename=["train", "test", "test"])
    assert passes == ["odd.train.inter", "odd.test.inter"] and dataset.file_size_list == [48, 1, 1]
    assert caplog.text.count("rows left out") == 1


def test_repeated_interactions_are_counted_and_the_remedy_works(tmp_path, caplog):
    put(tmp_path, inter=HEAD + BODY + BODY)
    raw(tmp_path)
    assert "48 of the 96 interactions of 'odd' repeat the user and item of another" in caplog.text
    assert "rm_dup_inter=first" in caplog.text
    caplog.clear()
    assert pairs_of(raw(tmp_path, rm_dup_inter="first")) == PAIRS
    assert "repeat the user" not in caplog.text


def test_missing_numbers_are_counted(tmp_path, caplog):
    put(tmp_path, inter=rated(""))
    dataset = raw(tmp_path)
    assert "odd.inter: 1 of 48 values of 'rating' are missing; they become the mean" in caplog.text
    assert math.isclose(dataset.inter_feat["rating"][7], 3.0)


def test_uneven_lines_of_other_files_are_counted(tmp_path, caplog):
    items = "".join(f"i{k}\tname {k}\n" for k in range(10))
    put(tmp_path, inter=HEAD + BODY, item=f"item_id:token\tname:token\n{items}x\ty\tz\n")
    dataset = raw(tmp_path)
    assert "odd.item, line 12: 3 column(s), but the first line names 2; 1 of 11 lines are so" in caplog.text
    assert dataset.item_num == 12 and str(dataset.id2token("item_id", 11)) == "x"


def test_an_empty_split_is_said(tmp_path, caplog):
    put(tmp_path, inter=HEAD + BODY)
    load(tmp_path, "BPR", eval_args={"split": {"LS": "test_only"}}, state="INFO")
    assert "The validation part of 'odd' is empty: there will be no best epoch" in caplog.text


def naive_look(text: str, width: int) -> tuple[int, int, int]:
    filled = [(n, line) for n, line in enumerate(text.split("\n"), 1) if line.removesuffix("\r")]
    uneven = [n for n, line in filled if line.count("\t") + 1 != width and '"' not in line]
    return len(filled), len(uneven), uneven[0] if uneven else 0


@settings(max_examples=150, deadline=None)
@given(st.lists(st.sampled_from(["a", "b", "\t", "\n", "\r\n", '"', "é", " "]), max_size=60), st.integers(1, 40))
def test_the_pass_over_bytes_finds_what_a_loop_over_lines_finds(tmp_path_factory, pieces, block):
    text = "".join(pieces)
    path = tmp_path_factory.mktemp("look") / "x.inter"
    path.write_bytes(text.encode())
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(check, "_BLOCK", block)
        found = AtomicFile(path, "\t", "utf-8").lines(2)
    assert (found.filled, found.uneven, found.first_uneven) == naive_look(text, 2)


@given(
    st.lists(st.tuples(st.integers(1, 4), st.integers(1, 4))), st.lists(st.tuples(st.integers(1, 4), st.integers(1, 4)))
)
def test_repeats_and_overlap_equal_a_count_by_sets(train, test):
    columns = [
        tuple(np.array([pair[side] for pair in part], dtype=np.int64) for side in (0, 1)) for part in (train, test)
    ]
    assert repeated_pairs(*columns[0]) == len(train) - len(set(train))
    own, seen = seen_before(columns)
    assert not own.any() and seen.tolist() == [pair in set(train) for pair in test]


def test_a_million_rows_are_looked_over_at_once(tmp_path):
    """Bytes are scanned as arrays: a loop over lines in Python would take seconds."""
    import time

    rng = np.random.default_rng(0)
    users, items = rng.integers(0, 50_000, 1_000_000).tolist(), rng.integers(0, 50_000, 1_000_000).tolist()
    (tmp_path / "x.inter").write_text(HEAD + "".join(f"{u}\t{i}\n" for u, i in zip(users, items, strict=True)))
    started = time.process_time()
    found = AtomicFile.at(tmp_path / "x.inter", "\t", None).lines(2)
    assert found.filled == 1_000_001 and found.uneven == 0
    assert time.process_time() - started < 1.0
