"""A short form of `make soak`; the trials run in processes forked from one that has imported everything once."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = [pytest.mark.e2e, pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork and SIGKILL")]


def test_killed_runs_go_on_to_the_same_bits():
    done = subprocess.run(
        [sys.executable, "-m", "tests.soak", "kills", "--few", "--kills=1"],
        cwd=Path(__file__).parents[2],
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stdout + done.stderr[-2000:]
    assert re.search(r"6 of 6 runs ended with the bits of the run that was never stopped", done.stdout)
    assert re.search(r"\*\*all\*\* \| \*\*[3-6]\*\*", done.stdout), done.stdout
