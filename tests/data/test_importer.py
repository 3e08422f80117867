"""From the files people have to RecBole's: what is read, kept, counted and refused."""

import bz2
import gzip
import json
import lzma
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st
from recbole.config import Config
from recbole.data.dataset import Dataset

import recbole_adaptau
from recbole_adaptau.data import Columns, import_file
from recbole_adaptau.data import readers as readers_module
from recbole_adaptau.data.check import AtomicFile
from recbole_adaptau.errors import AdapTauError, DataError

assert recbole_adaptau.__version__
COLUMNS = ("user", "item", "time", "rating")


def imported(text: str | bytes, file: str = "x.csv", **options):
    """The rows of the atomic file below its header, and the report."""
    Path(file).write_bytes(text.encode() if isinstance(text, str) else text)
    columns = Columns(**{kind: options.pop(kind) for kind in COLUMNS if kind in options})
    report = import_file(Path(file), "tiny", Path("out"), columns, force=True, **options)
    head, *rows = (report.folder / "tiny.inter").read_text(encoding="utf-8").splitlines()
    assert len(head.split("\t")) == len(rows[0].split("\t"))
    return [tuple(row.split("\t")) for row in rows], report


def rows_of(text: str | bytes, **options) -> list[tuple[str, ...]]:
    return imported(text, **options)[0]


def test_columns_order_ids_and_times_are_kept_and_repeats_are_not():
    rows, report = imported("price,Item_ID,USER,timestamp\n3,i 1,007,50\n4,i 1,007,40\n5,i2,é,9\n")
    assert rows == [("007", "i 1", "40"), ("é", "i2", "9")]
    assert (report.rows, report.duplicates_dropped) == (3, 1)
    assert yaml.safe_load(Path("out/tiny/tiny.yaml").read_text()) == {
        "load_col": {"inter": ["user_id", "item_id", "timestamp"]}
    }


@pytest.mark.parametrize(
    "text",
    [
        "user;item\na;x\nb;y\n",
        "\ufeffuser\titem\r\na\tx\r\nb\ty\r\n",
        'user, item\n"a", x\nb,y',
        "user|item\na|x\nb|y\n",
        "user::item\na::x\nb::y\n",
        "user item\na x\nb y\n",
        " user , item \n  a ,x  \nb\t, y\n",
        "\n\nuser,item\n\na,x\n   \n\nb,y\n\n",
        "user;item;price\na;x;3,5\nb;y;4,5\n",
    ],
)
def test_the_delimiter_is_found_and_white_space_is_stripped(text):
    assert rows_of(text) == [("a", "x"), ("b", "y")]


def test_a_delimiter_can_be_named():
    assert rows_of("user~item,s\na~x\n", item="item,s", delimiter="~") == [("a", "x")]
    assert rows_of("user\titem\na\tx\n", delimiter="tab") == [("a", "x")]


def test_a_file_without_a_header_has_numbered_columns():
    rows = rows_of(
        "1::1193::5::978300760\n1::661::3::978302109\n", header=False, user="1", item="2", rating="3", time="4"
    )
    assert rows == [("1", "1193", "978300760", "5"), ("1", "661", "978302109", "3")]


@pytest.mark.parametrize(
    "columns",
    ["userId,movieId", "customer_id,product_id", "Customer ID,StockCode", "reviewerID,asin", "visitorid,itemid"],
)
def test_usual_names_are_recognised(columns):
    assert rows_of(f"{columns},amount\na,x,9\nb,y,9\n") == [("a", "x"), ("b", "y")]


PAIRS = [("a", "x"), ("b", "y"), ("a", "y")]
CSV = "user,item\n" + "".join(f"{user},{item}\n" for user, item in PAIRS)


@pytest.mark.parametrize("compress", [gzip.compress, bz2.compress, lzma.compress])
def test_compressed_text_is_read_whatever_its_name(compress):
    assert rows_of(compress(CSV.encode())) == PAIRS


def test_zstd_and_parquet_are_read():
    pyarrow = pytest.importorskip("pyarrow", reason="the extra 'parquet' is not installed")
    with pyarrow.output_stream("x.csv.zst", compression="zstd") as file:
        file.write(CSV.encode())
    assert rows_of(Path("x.csv.zst").read_bytes(), file="x.csv.zst") == PAIRS
    table = pd.DataFrame(
        {
            "user": pd.Series([3, None, 10**15], dtype=object).astype("Int64"),
            "item": ["x", "y", " z "],
            "rating": [4.5, 1, 2],
            "time": pd.to_datetime([86400, 0, 1], unit="s"),
            "tags": [["no"], ["no"], ["no"]],
        }
    )
    table.to_parquet("x.parquet")
    rows, report = imported(Path("x.parquet").read_bytes(), file="x.parquet")
    assert rows == [("3", "x", "86400", "4.5"), (str(10**15), "z", "1", "2.0")]
    assert (report.without_id, report.first_without_id) == (1, "row 2")


def test_json_lines_are_read():
    lines = [{"user": "a", "item": 7, "more": [1]}, {"item": "x", "user": 12.0}, {"user": None, "item": "y"}]
    rows, report = imported("\n".join(map(json.dumps, lines)), file="x.jsonl")
    assert rows == [("a", "7"), ("12", "x")] and report.without_id == 1 and report.first_without_id == "line 3"


def test_columns_can_be_named_and_dates_are_read():
    rows = rows_of("who,what,day\na,x,1970-01-02\nb,y,1970-01-01T01:00:00+01:00\n", user="who", item="what", time="day")
    assert rows == [("a", "x", "86400"), ("b", "y", "0")]


def test_rows_without_an_id_are_dropped_and_counted_or_refused():
    text = "user,item\na,x\n\n,y\nb,NaN\nc, \nb,y\n"
    rows, report = imported(text)
    assert rows == [("a", "x"), ("b", "y")]
    assert report.without_id == 3 and "no user or no item; the first in line 4" in str(report)
    with pytest.raises(DataError, match="line 4, column user: the id is missing"):
        imported(text, strict=True)


RATED = "user,item,rating,time\na,x,5,1\na,y,3.5,2\nb,x,4,3\nb,y,,4\na,x,1,0\n"


def test_ratings_are_kept_and_low_ones_are_no_positives_where_said(caplog):
    rows, report = imported(RATED)
    assert [row[-1] for row in rows] == ["3.5", "4.0", "", "1.0"], "the earliest of a pair, whatever its rating"
    assert "every one is a positive whatever its rating" in str(report)
    rows, report = imported(RATED, min_rating=4)
    assert rows == [("a", "x", "1", "5.0"), ("a", "y", "2", "3.5"), ("b", "x", "3", "4.0"), ("b", "y", "4", "")]
    assert (report.interactions, report.users, report.items) == (2, 2, 1)
    assert (report.below_rating, report.without_rating, report.duplicates_dropped) == (1, 1, 1)
    assert "positives are those with rating of at least 4" in str(report)
    sidecar = yaml.safe_load(Path("out/tiny/tiny.yaml").read_text())
    assert sidecar["load_col"]["inter"][-1] == "rating" and sidecar["min_rating"] == 4
    data = Dataset(Config("BPR", "tiny", config_dict={"data_path": "out", "state": "ERROR"}))
    assert (len(data), data.user_num, data.item_num) == (2, 3, 2), "RecBole is given the positives alone"
    told = [record.message for record in caplog.records if "values of 'rating' are missing" in record.message]
    assert len(told) == 1 and told[0].endswith("are missing; such rows are no positives.")
    low = data.low_rated
    assert {*zip(low.user_ids[low.users], low.item_ids[low.items], strict=True)} == {("a", "y"), ("b", "y")}
    assert rows_of(RATED, rating="none", time="none") == [("a", "x"), ("a", "y"), ("b", "x"), ("b", "y")]


def test_a_second_file_describes_the_items():
    Path("items.csv").write_text(
        'product_id;title;price;kind of\nx;"Tea ""green""\t12";3.5;hot\ny;Pot;4;\nx;again;1;\n;nobody;1;\nz;Cup;2;a\n'
    )
    _, report = imported(CSV, items=Path("items.csv"))
    assert Path("out/tiny/tiny.item").read_text().splitlines() == [
        "item_id:token\titem_name:token_seq\tprice:float\tkind_of:token",
        "x\tTea 'green' 12\t3.5\thot",
        "y\tPot\t4\t",
        "z\tCup\t2\ta",
    ]
    assert (report.named_items, report.items_file_rows_dropped) == (2, 2)
    file = AtomicFile.at("out/tiny/tiny.item", "\t", None)
    assert file.lines(len(file.columns())).uneven == 0, "RecBole can read it"


@settings(max_examples=25, deadline=None)
@given(st.lists(st.tuples(st.integers(0, 5), st.integers(0, 5), st.integers(0, 9)), min_size=1), st.integers(1, 4))
def test_the_earliest_of_each_pair_stays_however_the_file_is_read(rows, size):
    text = "user,item,time\n" + "".join(f"{user},{item},{time}\n" for user, item, time in rows)
    earliest: dict[tuple[int, int], int] = {}
    for user, item, time in rows:
        earliest[user, item] = min(time, earliest.get((user, item), time))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(readers_module, "ROWS", size)
        found = {(int(user), int(item)): int(time) for user, item, time in rows_of(text)}
    assert found == earliest


def test_recbole_reads_what_was_written():
    imported("user,item,time\n" + "".join(f"u{k % 7},i{k % 5} é,{k}.5\n" for k in range(35)))
    config = Config("BPR", "tiny", config_dict={"data_path": "out", "state": "ERROR"})
    dataset = Dataset(config)
    assert (dataset.user_num, dataset.item_num, dataset.inter_num) == (8, 6, 35)
    assert "i3 é" in dataset.field2token_id["item_id"]


MANY = [f"u{k},i{k % 7},{k}" for k in range(100)]


def changed(line: int, text: str) -> str:
    """A file of a hundred rows whose line of that number is another."""
    lines = ["user,item,time", *MANY]
    lines[line - 1] = text
    return "\n".join(lines) + "\n"


@pytest.mark.parametrize(
    ("text", "options", "message"),
    [
        ("buyers,item\na,x\n", {}, r"no column is called user_id.*has: buyers, item\. Name it: --user COLUMN, as"),
        ("user,thing\na,x\n", {}, r"--item COLUMN, as --item 'thing'"),
        ("user,item\na,x\n", {"time": "when"}, "has no column 'when'; it has: user, item"),
        ("user,items\na,x\n", {"item": "item"}, "has no column 'item'.*Did you mean 'items'"),
        ("user,item\na,x\n", {"item": "user"}, "must be different columns"),
        ("user,item\na,x\n", {"user": "none"}, "has no column 'none'"),
        ("1,2\n3,4\n", {}, r"the first line looks like data, .*\(it has: 1, 2\); add --no-header .* --user 1 --item 2"),
        ("1,2\n3,4\n", {"header": False, "user": "1"}, "--item COLUMN, as --item '2'"),
        ("user,user ,item\na,b,x\n", {}, "two columns are called 'user'"),
        ("", {}, "the file is empty"),
        ("\n\n", {}, "the file is empty"),
        ("user,item\n", {}, "no interactions below the header"),
        ("user\na\n", {}, "its first line has one column, 'user'; columns are separated by .* --delimiter says"),
        ("user,item\na,x\n", {"delimiter": "::"}, "its first line has one column"),
        ("user,item\na,x\n", {"delimiter": "\n"}, r"--delimiter '\\n': must be what separates two columns"),
        ("user,item\na,x\n", {"delimiter": ""}, "--delimiter '': must be"),
        ("user,item\na,x\nb,y,z\n", {}, r"line 3: 3 column\(s\), but the first line has 2"),
        ("user,item\n\n\na,x\n\nb,y,z\n", {}, r"line 6: 3 column\(s\)"),
        ("user,item\na,x,1\nb,y,z\n", {}, r"line 2: 3 column\(s\), but the first line has 2"),
        ("user,item,x\na,x,1\nb,y\n", {}, r"line 3: 2 column\(s\), but the first line has 3"),
        ('user,item,note\na,x,"two\nlines"\nb,y\n', {}, r"line 4: 2 column\(s\)"),
        ('user,item\na,x\nb,"y\nc,z\n', {}, r"line 3: a quotation mark opens here"),
        (changed(71, "u70,i0,soon"), {}, r"x\.csv, line 71, column time: 'soon' is not a number"),
        (changed(71, "u70,i0,"), {}, r"line 71, column time: '' is not a number, .*--time none"),
        (changed(71, "u70,i0,inf"), {}, r"line 71, column time: 'inf' is not a number"),
        (changed(40, "u70,i0,4,5"), {}, r"line 40: 4 column\(s\), but the first line has 3"),
        (changed(40, "u70"), {}, r"line 40: 1 column\(s\), but the first line has 3"),
        (changed(40, 'u"70,i0,1'), {}, r"""line 40, column user: RecBole cannot read the id 'u"70' back"""),
        ("user,item,day\na,x,2024-01-01\nb,y,2024-13-01\n", {"time": "day"}, "line 3, column day: .* is not a date"),
        ("user,item,rating\na,x,5\nb,y,five\n", {}, "line 3, column rating: 'five' is not a number; .*--rating none"),
        ("user,item\na,x\n", {"min_rating": 4}, "--min-rating 4: .* has no column that is called rating"),
        (RATED, {"min_rating": 9}, "none of its 5 rows have a user and an item, and a rating of at least 9"),
        ("user,item\n,x\nNA,y\n", {}, "none of its 2 rows have a user and an item"),
        ('user,item\na,"x\ty"\n', {}, r"line 2, column item: RecBole cannot read"),
        ("user,item\na,[PAD]\n", {}, r"line 2, column item: RecBole cannot read the id '\[PAD\]'"),
        (b"user,item\na,x\nb,\xff\n", {}, "line 3: not UTF-8"),
        ("user,item\na,x\n".encode("utf-16"), {}, "this is UTF-16 text"),
        (b"PK\x03\x04....", {}, "a ZIP archive or an Excel workbook"),
        (gzip.compress(CSV.encode() * 99, mtime=0)[:40], {}, "cannot be read"),
        (b"PAR1....PAR1", {}, "not a whole Parquet file"),
        ('{"user": "a", "item": "x"}\n{"user": "b"\n', {}, "line 2: not JSON"),
        ('{"user": "a", "item": "x"}\n[1]\n', {}, "line 2: not a JSON object"),
        ('{"user": "a", "item": "x"}\n{"user": "a", "item": ["x"]}\n', {}, r"line 2: 'item' is \[.x.\], neither text"),
        ('{"who": "a", "item": "x"}\n', {}, "--user COLUMN, as --user 'who'"),
        (CSV, {"items": Path("nothing.csv")}, r"'nothing.csv' does not exist"),
        (CSV, {"items": Path("other.csv")}, "none of its 1 items is among the interactions"),
        (CSV, {"items": Path("other.csv"), "item_name": "titel"}, "no column 'titel'.*Did you mean 'title'"),
        (CSV, {"items": Path("odd.csv")}, "no column is called item_id, product_id or the like"),
    ],
)  # fmt: skip
def test_what_cannot_be_used_is_refused_and_leaves_nothing(text, options, message):
    Path("other.csv").write_text("item_id,title\nq,Q\n")
    Path("odd.csv").write_text("number,title\nq,Q\n")
    with pytest.raises(AdapTauError, match=f"(?s){message}"):
        imported(text, **options)
    assert not Path("out").exists()


def test_a_json_list_is_refused():
    with pytest.raises(DataError, match="one JSON list; write one object a line"):
        imported('[{"user": 1, "item": 2}]', file="x.json")


def test_without_pyarrow_the_extra_is_named(monkeypatch):
    monkeypatch.setattr(readers_module, "find_spec", lambda name: None)
    for start, what in ((b"PAR1", "Parquet files"), (b"\x28\xb5\x2f\xfd", "files compressed by zstd")):
        with pytest.raises(AdapTauError, match=rf"{what} need pyarrow: pip install 'recbole_adaptau\[parquet\]'"):
            imported(start + b"....")


def test_only_the_last_folder_of_the_output_is_made():
    Path("x.csv").write_text(CSV)
    with pytest.raises(AdapTauError, match=r"output datset/of/mine: there is no folder .*datset\. "):
        import_file(Path("x.csv"), "tiny", Path("datset/of/mine"))
    assert not Path("datset").exists()
    assert import_file(Path("x.csv"), "tiny", Path("new")).folder.is_dir()


@settings(max_examples=30, deadline=None)
@given(st.lists(st.sampled_from(["1", "22", "a b", "é", "007", "1e3"]), min_size=1, max_size=20))
def test_every_format_gives_the_same_rows(ids):
    table = pd.DataFrame({"user": ids, "item": np.roll(ids, 1)})
    table.to_csv("t.csv", index=False)
    table.to_json("t.jsonl", orient="records", lines=True)
    found = [rows_of(Path(file).read_bytes(), file=file) for file in ("t.csv", "t.jsonl")]
    assert found[0] == found[1] == list(dict.fromkeys(map(tuple, table.itertuples(index=False))))
