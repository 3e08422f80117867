"""Environments that cannot work are refused at once, in a sentence that says what to do."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

from recbole_adaptau.errors import InstallationError
from recbole_adaptau.patches import environment
from recbole_adaptau.patches.table import INSTALL, RECBOLE

ROOT = Path(__file__).parents[2]
IMPORT = ["-c", "import recbole_adaptau"]


def site(folder: Path, recbole: str | None = RECBOLE, **versions: str) -> Path:
    """A folder of packages as pip leaves them, as far as they are looked at."""
    for name, version in versions.items():
        (folder / f"{name}-{version}.dist-info").mkdir(parents=True)
    if recbole is not None:
        (folder / "recbole").mkdir(parents=True)
        (folder / "recbole" / "__init__.py").write_text(f'__version__ = "{recbole}"\n')
    return folder


def python(folder: Path, *words: str) -> subprocess.CompletedProcess:
    """With the packages of a folder and no others (-S)."""
    path = f"{folder}:{ROOT}"
    return subprocess.run(
        [sys.executable, "-S", *words], capture_output=True, text=True, env={"PYTHONPATH": path}, cwd=folder
    )


def test_a_good_environment_is_accepted(tmp_path):
    packages = site(tmp_path, numpy="2.4.6", scipy="1.17.1", pandas="3.1.1", scikit_learn="1.9.1", torch="2.13.0+cpu")
    done = python(packages, *IMPORT)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize(
    ("packages", "sentence"),
    [
        ({"recbole": None}, f"RecBole is not installed: {INSTALL}"),
        ({"recbole": "1.1.1"}, f"RecBole 1.1.1 is installed, and {RECBOLE} is needed: {INSTALL}"),
        (
            {"numpy": "2.0.1", "scipy": "1.12.0"},
            "scipy 1.12.0 is compiled for NumPy 1, and NumPy 2.0.1 is installed: pip install --upgrade scipy",
        ),
        (
            {"numpy": "2.1.0", "scipy": "1.13.0", "scikit_learn": "1.3.0"},
            "scikit-learn 1.3.0 is compiled for NumPy 1, and NumPy 2.1.0 is installed: "
            "pip install --upgrade scikit-learn",
        ),
    ],
)
def test_a_bad_one_is_refused_with_the_remedy(tmp_path, packages, sentence):
    packages = site(tmp_path, **packages)
    imported = python(packages, *IMPORT)
    assert imported.stderr.strip().endswith(f"InstallationError: {sentence}")
    for command in (["-m", "recbole_adaptau", "train"], [str(ROOT / "run_recbole_adaptau.py")]):
        done = python(packages, *command)
        assert (done.returncode, done.stdout, done.stderr) == (2, "", f"error: {sentence}\n"), command


def test_numpy_1_goes_with_all(tmp_path):
    assert python(site(tmp_path, numpy="1.26.4", scipy="1.11.1", pandas="2.0.3"), *IMPORT).returncode == 0


def test_this_environment_is_accepted():
    environment.check()
    found = environment._versions()
    assert {"numpy", "scipy", "pandas", "torch", "recbole"} <= found.keys()
    assert issubclass(InstallationError, ImportError)


def test_an_old_python_is_told_before_anything_that_it_cannot_read():
    """The first lines of the package hold nothing that Python 3.6 has not."""
    text = (ROOT / "recbole_adaptau" / "__init__.py").read_text(encoding="utf-8")
    before = text[: text.index("from . import")]
    code = compile(before, "__init__", "exec", flags=0, dont_inherit=True)
    old = type("Old", (), {"hexversion": 0x03090000, "version": "3.9.18 (main)"})
    patched = before.replace("import sys\n", "")
    with pytest.raises(ImportError, match=r"needs Python 3\.10 to 3\.14, and this is 3\.9\.18: take another\.$"):
        exec(patched, {"sys": old})
    exec(code, {})


def test_the_versions_of_recbole_are_written_alike():
    assert re.search(r"recbole==(\S+)", (ROOT / "Makefile").read_text(encoding="utf-8"))[1] == RECBOLE
    assert f"recbole=={RECBOLE}; python_version < '3.12'" in (ROOT / "setup.py").read_text(encoding="utf-8")
