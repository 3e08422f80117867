"""When RecBole is set up: not with this package, but with RecBole, whoever imports it."""

import subprocess
import sys

import pytest

READY = """
from recbole.trainer import Trainer
from recbole.utils import get_model, get_trainer, ModelType
assert get_model("AdapTauNGCF").__name__ == "AdapTauNGCF", "our models are known"
assert Trainer._save_checkpoint.__module__.startswith("recbole_adaptau"), "RecBole is repaired"
from recbole_adaptau.runs import runner
assert runner.Config._knows_adaptau
"""


@pytest.mark.parametrize(
    "first",
    [
        "import sys, recbole_adaptau\nassert not {'torch', 'recbole', 'numpy'} & sys.modules.keys()",
        "from recbole_adaptau.peers.simgcl import SimGCL\nassert SimGCL.__mro__[1].__module__.startswith('recbole.')",
    ],
    ids=["RecBole after the package", "RecBole through one of our modules"],
)
def test_recbole_is_set_up_when_it_is_imported(first):
    ran = subprocess.run([sys.executable, "-c", first + READY], capture_output=True, text=True)
    assert ran.returncode == 0, ran.stderr


def test_an_unknown_name_is_an_attribute_error():
    import recbole_adaptau

    with pytest.raises(AttributeError, match="'recbole_adaptau' has no attribute 'nothing'"):
        _ = recbole_adaptau.nothing
    assert all(callable(getattr(recbole_adaptau, name)) for name in recbole_adaptau.__all__)
