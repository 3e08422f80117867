"""The file of user ids that `recbole-adaptau recommend` reads."""

import pytest

from recbole_adaptau.cli.recommend import read_ids
from recbole_adaptau.errors import DataError


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"1\n2,3\n", r"who\.txt, line 2: write one id a line and nothing else, not '2,3'"),
        (b"1\t5\n", r"line 1: write one id a line"),
        (b"1\n\x00\n", r"line 2: write one id"),
        (b"1\n\xff\xfe\n", r"line 2: not UTF-8"),
        (b"\n \n", "no ids"),
        (None, "cannot be read"),
    ],
)
def test_a_malformed_users_file_is_refused(tmp_path, content, message):
    path = tmp_path / "who.txt"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(DataError, match=message):
        read_ids(path)


def test_a_users_file_may_have_empty_lines_and_windows_line_ends(tmp_path):
    (tmp_path / "who.txt").write_bytes("\ufeff1\r\n\r\n u 2 \n".encode())
    assert read_ids(tmp_path / "who.txt") == ["1", "u 2"]
