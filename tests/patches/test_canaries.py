"""RecBole without this package still has the faults that the patches repair."""

import json
import subprocess
import sys
from importlib import metadata
from pathlib import Path

import pytest
from packaging.version import Version

from recbole_adaptau.patches.table import PATCHES

from .canaries import CANARIES, SINCE


@pytest.fixture(scope="module")
def unpatched(tmp_path_factory) -> dict:
    """What each canary says, all in one process."""
    script = Path(__file__).with_name("canaries.py")
    done = subprocess.run(
        [sys.executable, "-W", "ignore", str(script)],
        cwd=tmp_path_factory.mktemp("canaries"),
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout.splitlines()[-1])


@pytest.mark.parametrize("target", CANARIES)
def test_recbole_still_has_the_fault(unpatched, target):
    library, version = SINCE.get(target, ("recbole", "0"))
    expected = Version(metadata.version(library)) >= Version(version)
    assert unpatched[target] is expected, f"RecBole no longer has this fault, so its patch can go: {unpatched[target]}"


def test_every_bug_has_a_canary():
    assert {patch.target for patch in PATCHES if patch.kind in ("bug", "library drift")} <= CANARIES.keys()
    assert CANARIES.keys() <= {patch.target for patch in PATCHES}
