"""What importing this package does, and what it leaves to later."""

import pkgutil
import re
import subprocess
import sys
from pathlib import Path

import pytest

import recbole_adaptau
from recbole_adaptau import _moved, core
from recbole_adaptau.cli.main import VERBS

PACKAGE = Path(recbole_adaptau.__file__).parent


def python(*words: str) -> subprocess.CompletedProcess:
    return subprocess.run([sys.executable, "-W", "ignore", *words], capture_output=True, text=True)


def loaded_by(code: str) -> set[str]:
    """The modules that a fresh process has after the code."""
    done = python("-c", f"import sys\n{code}\nprint(*sys.modules)")
    assert done.returncode == 0, done.stderr
    return set(done.stdout.split())


def test_importing_the_package_imports_neither_torch_nor_recbole_and_is_quick():
    assert not loaded_by("import recbole_adaptau") & {"recbole", "torch", "numpy", "yaml"}
    code = "import time; start = time.process_time(); import recbole_adaptau; print(time.process_time() - start)"
    assert min(float(python("-c", code).stdout) for _ in range(3)) < 0.1


def test_core_is_plain_pytorch():
    names = [module.name for module in pkgutil.iter_modules(core.__path__)]
    loaded = loaded_by("\n".join(f"import recbole_adaptau.core.{name}" for name in names))
    assert "recbole_adaptau.core.closed_form" in loaded and "torch" in loaded
    ours = {name.split(".")[1] for name in loaded if name.startswith("recbole_adaptau.")}
    assert "recbole" not in loaded and ours <= {"core", "errors", "files", "patches", "_moved"}


def test_public_names_are_there_and_listed():
    assert set(recbole_adaptau.__all__) <= set(dir(recbole_adaptau))
    for name in recbole_adaptau.__all__:
        assert callable(getattr(recbole_adaptau, name)) and getattr(recbole_adaptau, name).__name__ == name
    with pytest.raises(AttributeError, match="has no attribute 'run_recbole_adapttau'"):
        recbole_adaptau.run_recbole_adapttau  # noqa: B018


def test_the_version_is_in_one_place():
    assert re.fullmatch(r"\d+\.\d+\.\d+", recbole_adaptau.__version__)
    done = python(str(PACKAGE.parent / "setup.py"), "--version")
    assert done.stdout.strip().endswith(recbole_adaptau.__version__), done.stderr
    for path in (PACKAGE.parent / "setup.py", PACKAGE.parent / "pyproject.toml"):
        assert recbole_adaptau.__version__ not in path.read_text(encoding="utf-8")


def test_everything_that_moved_is_where_it_is_said_to_be():
    for old, new in _moved.MODULES.items():
        place = PACKAGE / new.replace(".", "/")
        assert place.with_suffix(".py").is_file() or (place / "__init__.py").is_file(), new
        assert not (PACKAGE / f"{old.replace('.', '/')}.py").is_file(), old
    assert set(_moved.VERBS.values()) <= set(VERBS)


@pytest.mark.parametrize(
    ("statement", "new"),
    [
        ("import recbole_adaptau.loss", r"recbole_adaptau\.loss has moved .* recbole_adaptau\.core\.losses\."),
        ("from recbole_adaptau import loss", r"recbole_adaptau\.core\.losses"),
        ("from recbole_adaptau.temperature.strategies import STRATEGIES", r"recbole_adaptau\.core\."),
        (
            "from recbole_adaptau.runs import RunFolder",
            r"recbole_adaptau\.runs has moved .* recbole_adaptau\.runs\.folder",
        ),
        ("import recbole_adaptau.experiments.grid", r"recbole_adaptau\.studies.*`recbole-adaptau experiment`"),
        ("import recbole_adaptau.experiments", r"recbole_adaptau\.studies"),
        ("from recbole_adaptau.data import __main__", r"`recbole-adaptau data`"),
    ],
)
def test_an_old_import_names_the_new_place(statement, new):
    with pytest.raises(ModuleNotFoundError, match=new):
        exec(statement, {})


def test_names_that_never_were_are_missing_as_ever():
    with pytest.raises(ModuleNotFoundError, match=r"No module named 'recbole_adaptau\.no_such'"):
        exec("import recbole_adaptau.no_such", {})


@pytest.mark.parametrize("old, verb", [("recommend", "recommend"), ("experiments", "experiment"), ("data", "data")])
def test_an_old_command_names_the_new_verb(old, verb):
    done = python("-m", f"recbole_adaptau.{old}", "--help")
    assert done.returncode != 0 and f"`recbole-adaptau {verb}`" in done.stderr
