"""Ids as people have them: text, whole numbers, or both."""

import numpy as np
import pandas as pd
import pytest

from recbole_adaptau.serving.ids import Ids, as_text, id_list, pair_lists
from recbole_adaptau.serving.tables import write_table


def test_whole_numbers_and_text_name_the_same():
    assert [as_text(name) for name in (7, "7", 7.0, np.int32(7), np.float64(7))] == ["7"] * 5
    assert id_list(196, "users") == id_list("196", "users") == id_list([196, "196", 196.0], "users") == ["196"]
    for wrong in (None, 1.5, float("nan"), True, (1,), b"7"):
        with pytest.raises(TypeError, match="an id is text or a whole number"):
            as_text(wrong)


@pytest.mark.parametrize("given", [b"ab", {"a": 1}, pd.DataFrame({"user": [1]}), object(), None])
def test_what_is_no_sequence_of_ids_is_a_type_error(given):
    with pytest.raises(TypeError, match=r"users: give an id or a sequence of ids, not a \w+"):
        id_list(given, "users")


def test_pairs_come_in_three_forms():
    expected = ["a", "a", "b"], ["1", "2", "1"]
    assert pair_lists({"a": [1, 2], "b": 1}, "x") == expected
    assert pair_lists([("a", 1), ("a", 2), ("b", 1)], "x") == expected
    assert pair_lists(pd.DataFrame({"item": [1, 2, 1], "user": list("aab")}), "x") == expected
    for wrong in ([1, 2], ["ab", "cd"], [("a", 1), "bc"], 5, [("a", None)]):
        with pytest.raises(TypeError, match="x: give pairs"):
            pair_lists(wrong, "x")


def test_numbers_stay_numbers_until_somebody_new_has_a_name(tmp_path):
    pytest.importorskip("pyarrow", reason="the extra 'parquet' is not installed")
    ids = Ids(np.array(["[PAD]", "10", "-3"]), are_numbers=True)
    assert ids[[2, 1]].tolist() == [-3, 10] and ids[[1]].dtype == np.int64
    assert ids.places(["10", "11", "[PAD]"]).tolist() == [1, 0, 0]
    more = ids.with_more(["12", "guest"])
    assert more[[1, 3, 4]].tolist() == [10, 12, "guest"] and "guest" in more and len(ids) == 3
    table = pd.DataFrame({"user": more[[1, 4]]})
    assert write_table(tmp_path / "mixed.parquet", [table]) == 2
    assert pd.read_parquet(tmp_path / "mixed.parquet")["user"].tolist() == ["10", "guest"]
