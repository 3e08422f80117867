"""The names of items, from a dataset's .item file."""

from types import SimpleNamespace

import pytest

from recbole_adaptau.data.names import item_names
from recbole_adaptau.errors import DataError


def dataset_with(tmp_path, text: str | None) -> SimpleNamespace:
    if text is not None:
        (tmp_path / "d.item").write_text(text, encoding="utf-8")
    return SimpleNamespace(
        dataset_path=str(tmp_path), dataset_name="d", iid_field="item_id",
        config={"field_separator": "\t", "encoding": None}, field2id_token={"item_id": ["[PAD]", "b", "a", "c"]},
    )  # fmt: skip


def test_names_follow_the_items_and_not_the_file(tmp_path):
    text = 'item_id:token\tyear:float\tmovie_title:token_seq\na\t1\tNaN\nb\t2\t"Quoted" title\n'
    assert item_names(dataset_with(tmp_path, text)).tolist() == ["", '"Quoted" title', "NaN", ""]
    assert item_names(dataset_with(tmp_path, text), "year").tolist() == ["", "2", "1", ""]
    with pytest.raises(DataError, match=r"has no column titel; it has item_id, year, movie_title.*'movie_title'"):
        item_names(dataset_with(tmp_path, text), "titel")
    assert item_names(dataset_with(tmp_path, "item_id:token\tyear:float\na\t1\n")) is None


def test_without_an_item_file_there_are_no_names(tmp_path):
    assert item_names(dataset_with(tmp_path, None)) is None
    with pytest.raises(DataError, match="which is not there"):
        item_names(dataset_with(tmp_path, None), "title")
