"""A short run of every fuzz target; `python -m tests.soak.fuzz` is the long one."""

import pytest

from tests.soak.fuzz import TARGETS, fuzz

CASES = {"converter": 150, "CSV file": 150, "atomic file": 150, "YAML file": 300, "command line": 300, "settings": 60}


@pytest.mark.parametrize("name", TARGETS)
def test_whatever_comes_in_is_refused_by_an_error_of_ours_or_holds(name, tmp_path, capsys):
    tried, accepted = fuzz(name, tmp_path, CASES[name])
    assert tried >= CASES[name] / 2, "enough different cases"
    assert 0 < accepted < tried, "some get through and some do not"
