"""From a CSV file to RecBole's files: what is read, kept and refused."""

from pathlib import Path

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st
from recbole.config import Config
from recbole.data.dataset import Dataset

import recbole_adaptau
from recbole_adaptau.data import convert_csv
from recbole_adaptau.errors import DataError

assert recbole_adaptau.__version__


def converted(text: str | bytes, **options) -> list[tuple[str, ...]]:
    Path("x.csv").write_bytes(text.encode() if isinstance(text, str) else text)
    folder = convert_csv(Path("x.csv"), "tiny", Path("out"), force=True, **options).folder
    return [tuple(line.split("\t")) for line in (folder / "tiny.inter").read_text(encoding="utf-8").splitlines()]


def test_columns_order_ids_and_times_are_kept_and_repeats_are_not():
    rows = converted("price,Item_ID,USER,timestamp\n3,i 1,007,50\n4,i 1,007,40\n5,i2,é,9\n")
    assert rows == [
        ("user_id:token", "item_id:token", "timestamp:float"),
        ("007", "i 1", "40"),
        ("é", "i2", "9"),
    ]
    assert yaml.safe_load(Path("out/tiny/tiny.yaml").read_text()) == {
        "load_col": {"inter": ["user_id", "item_id", "timestamp"]}
    }


@pytest.mark.parametrize(
    "text", ["user;item\na;x\nb;y\n", "\ufeffuser\titem\r\na\tx\r\nb\ty\r\n", 'user, item\n"a", x\nb,y']
)
def test_separators_byte_order_marks_and_quotes(text):
    assert converted(text)[1:] == [("a", "x"), ("b", "y")]


def test_columns_can_be_named_and_dates_are_read():
    rows = converted(
        "who,what,day\na,x,1970-01-02\nb,y,1970-01-01T01:00:00+01:00\n", user="who", item="what", time="day"
    )
    assert rows[1:] == [("a", "x", "86400.0"), ("b", "y", "0.0")]


@settings(max_examples=25, deadline=None)
@given(st.lists(st.tuples(st.integers(0, 5), st.integers(0, 5), st.integers(0, 9)), min_size=1))
def test_the_earliest_of_each_pair_stays(rows):
    text = "user,item,time\n" + "".join(f"{user},{item},{time}\n" for user, item, time in rows)
    earliest: dict[tuple[int, int], int] = {}
    for user, item, time in rows:
        earliest[user, item] = min(time, earliest.get((user, item), time))
    found = {(int(user), int(item)): float(time) for user, item, time in converted(text)[1:]}
    assert found == earliest


def test_recbole_reads_what_was_written():
    converted("user,item,time\n" + "".join(f"u{k % 7},i{k % 5} é,{k}.5\n" for k in range(35)))
    config = Config("BPR", "tiny", config_dict={"data_path": "out", "state": "ERROR"})
    dataset = Dataset(config)
    assert (dataset.user_num, dataset.item_num, dataset.inter_num) == (8, 6, 35)
    assert "i3 é" in dataset.field2token_id["item_id"]


@pytest.mark.parametrize(
    ("text", "options", "message"),
    [
        ("buyer,item\na,x\n", {}, r"no column that is called user_id or user.*has: buyer, item.*--user COLUMN"),
        ("user,thing\na,x\n", {}, r"--item COLUMN"),
        ("user,item\na,x\n", {"time": "when"}, "has no column 'when'; it has: user, item"),
        ("user,items\na,x\n", {"item": "item"}, "has no column 'item'.*Did you mean 'items'"),
        ("user,item\na,x\n", {"item": "user"}, "must be different columns"),
        ("1,2\n3,4\n", {}, "it has: 1, 2"),
        ("user,user ,item\na,b,x\n", {}, "two columns of the header line are called 'user'"),
        ("", {}, "not a table with a header line"),
        ("user,item\n", {}, "no interactions below the header line"),
        ("user,item\na,x\nb,y,z\n", {}, "not a table"),
        ("user,item\na,x,1\nb,y,z\n", {}, "rows have more columns than the header"),
        ("user,item\na,x\n,y\n", {}, r"line 3, column user: the id is empty"),
        ("user,item\na,x\nb,nan\n", {}, r"line 3, column item: RecBole cannot read the id 'nan' back"),
        ('user,item\na,"x\ty"\n', {}, r"line 2, column item: RecBole cannot read"),
        ("user,item,time\na,x,1\nb,y,soon\n", {}, r"line \d, column time: .* is neither a number nor a date"),
        (b"user,item\na,\xff\n", {}, "line 2: not UTF-8"),
    ],
)
def test_what_cannot_be_used_is_refused_and_leaves_nothing(text, options, message):
    with pytest.raises(DataError, match=f"(?s){message}"):
        converted(text, **options)
    assert not Path("out").exists()
