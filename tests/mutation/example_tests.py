"""For the test of mutation testing: not collected by itself."""

import os

from tests.mutation.example import added, halved, larger


def test_sum_and_maximum():
    assert added(2, 3) == 5 and larger(2, 3) == 3 and larger(3, 2) == 3


def test_half_in_a_forked_process():
    pid = os.fork()
    if pid == 0:
        os._exit(halved(6))
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 3
