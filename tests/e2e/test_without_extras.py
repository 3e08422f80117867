"""Training, recommending and --help need none of the packages that are extras."""

import subprocess
import sys
from pathlib import Path

import pytest

from recbole_adaptau.cli.main import main
from recbole_adaptau.errors import need
from recbole_adaptau.runs import pool

pytestmark = pytest.mark.e2e
EXTRAS = ("ray", "hyperopt", "matplotlib", "plotly", "tensorboard", "pyarrow", "faiss")
SCRIPT = f"""
import sys
for name in {EXTRAS}:
    sys.modules[name] = None  # as if it were not installed
from recbole_adaptau.cli.main import main
settings = [f"--{{key}}={{value}}" for key, value in eval(sys.argv[1]).items()]
assert main(["--help"]) == 0
assert main(["train", "--model=AdapTauMF", "--dataset=board", "--epochs=1", "--run_folder=run", *settings]) == 0
assert main(["recommend", "run", "--users", "u1", "--k", "3"]) == 0
"""


def test_training_and_recommending_need_no_extra(board):
    board["state"] = "INFO"
    done = subprocess.run([sys.executable, "-c", SCRIPT, repr(board)], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert "user u1" in done.stdout
    assert (
        "TensorBoard's events are not written: pip install 'recbole_adaptau[tensorboard]'"
        in Path("run/run.log").read_text()
    )


@pytest.mark.parametrize("extra", EXTRAS)
def test_a_missing_package_is_told_with_its_extra(monkeypatch, extra):
    monkeypatch.setitem(sys.modules, extra, None)
    with pytest.raises(ValueError, match=rf"^this needs {extra}: pip install 'recbole_adaptau\[x\]'\.$"):
        need(extra, "this needs", "x")


def test_the_features_that_need_one_say_so(monkeypatch, capsys):
    for name in EXTRAS:
        monkeypatch.setitem(sys.modules, name, None)
    commands = {
        "plot": ["analyse", "run"],
        "report": ["report", "run"],
        "tune": ["tune", "--model", "AdapTauMF", "--dataset", "ml-100k"],
        "parquet": ["recommend", "run", "--output", "top.parquet"],
    }
    for extra, words in commands.items():
        if extra == "tune":
            monkeypatch.setattr("recbole_adaptau.cli.tune.need_matplotlib", lambda: None)
        assert main(words) == 2
        assert f"pip install 'recbole_adaptau[{extra}]'" in capsys.readouterr().err, words
    with pytest.raises(ValueError, match=r"recbole_adaptau\[parallel\]"):
        list(pool.each_done([object()], print, pool.Workers(2), print, Path(), {}))


def test_a_ray_that_lacks_a_package_is_told(monkeypatch):
    Path("ray.py").write_text("import pkg_resourcez")
    monkeypatch.syspath_prepend(".")
    monkeypatch.delitem(sys.modules, "ray", raising=False)
    with pytest.raises(ValueError, match=r"Ray cannot be imported .*pkg_resourcez.*: pip install --upgrade ray"):
        list(pool.each_done([object()], print, pool.Workers(2), print, Path(), {}))
