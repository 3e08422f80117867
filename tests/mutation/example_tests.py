"""For the test of mutation testing: not collected by itself."""

from tests.mutation.example import added, larger


def test_sum_and_maximum():
    assert added(2, 3) == 5 and larger(2, 3) == 3 and larger(3, 2) == 3
