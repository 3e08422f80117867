"""The list of slow tests names tests that exist."""

from pathlib import Path

import pytest

from tests.conftest import SLOW

ROOT = Path(__file__).resolve().parents[1]


@pytest.mark.parametrize("name", SLOW)
def test_a_slow_test_exists(name):
    file, _, function = name.partition("::")
    assert f"def {function}" in (ROOT / file).read_text(encoding="utf-8")
