"""Dependencies point one way: from the command down to pure tensors."""

import ast
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import recbole_adaptau

PACKAGE = Path(recbole_adaptau.__file__).parent
# A package may import those of lower or equal level. `patches` is beside all of them and may import all but `cli`.
LEVELS = {
    "errors": 0, "files": 0, "core": 1, "recipe": 2, "data": 2, "distributed": 2, "config": 3, "model": 4, "peers": 4,
    "training": 5, "runs": 6, "reporting": 7, "serving": 7, "studies": 8, "patches": 8, "cli": 9,
}  # fmt: skip
# Modules of the package itself, which tie the others together.
TOP = {"__init__", "__main__", "_moved", "errors", "files"}


def imported(path: Path) -> Iterator[str]:
    """Absolute names of all modules that a file imports, also inside functions; not those for type checkers."""
    parts = ("recbole_adaptau", *path.relative_to(PACKAGE).with_suffix("").parts)
    tree = ast.parse(path.read_text(encoding="utf-8"))
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = ".".join(parts[: len(parts) - node.level]) if node.level else ""
            module = ".".join(part for part in (base, node.module) if part)
            yield module
            yield from (f"{module}.{alias.name}" for alias in node.names)


def edges() -> set[tuple[str, str, str]]:
    """(file, its package, imported package) for every import inside the package."""
    found = set()
    for path in PACKAGE.rglob("*.py"):
        place = path.relative_to(PACKAGE)
        here = place.parts[0].removesuffix(".py")
        if here in TOP - {"errors", "files"}:
            continue
        for name in imported(path):
            inside = name.split(".")
            if inside[0] == "recbole_adaptau" and len(inside) > 1 and inside[1] in LEVELS and inside[1] != here:
                found.add((place.as_posix(), here, inside[1]))
    return found


def test_every_package_has_a_level():
    here = {path.name.removesuffix(".py") for path in PACKAGE.iterdir() if path.suffix == ".py" or path.is_dir()}
    assert here - TOP - {"__pycache__", "py.typed"} == LEVELS.keys() - TOP


def test_imports_point_down():
    assert len(edges()) > 100, "the imports are found at all"
    up = sorted(f"{file} imports {there}" for file, here, there in edges() if LEVELS[there] > LEVELS[here])
    assert up == []


def test_no_two_packages_import_each_other():
    pairs = {(here, there) for _, here, there in edges()}
    both = {(here, there) for here, there in pairs if (there, here) in pairs}
    assert both == set()


def test_core_imports_neither_recbole_nor_configuration():
    for path in (PACKAGE / "core").rglob("*.py"):
        for name in imported(path):
            assert not name.startswith("recbole.") and name != "recbole", f"{path.name} imports {name}"


def test_core_trains_without_recbole():
    """In a process of its own: what a plain PyTorch loop needs is there, and nothing of RecBole's is loaded."""
    code = """
import sys, torch
from recbole_adaptau.core.closed_form import global_tau
from recbole_adaptau.core.epoch_view import EpochView
from recbole_adaptau.core.interactions import Interactions
from recbole_adaptau.core.losses import LOSSES
from recbole_adaptau.core.negatives import NEGATIVES
from recbole_adaptau.core.strategies import STRATEGIES
assert {"softmax"} <= set(LOSSES) and {"shared"} <= set(NEGATIVES) and {"adaptive_user"} <= set(STRATEGIES)
assert not [name for name in sys.modules if name == "recbole" or name.startswith("recbole.")]
idle = {f"recbole_adaptau.patches.{name}" for name in ("environment", "hook", "table")}
assert {name for name in sys.modules if name.startswith("recbole_adaptau.patches.")} <= idle
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def test_the_top_level_is_a_handful_of_modules():
    assert {path.stem for path in PACKAGE.glob("*.py")} == TOP


@pytest.mark.parametrize("package", ["core", "recipe", "config", "model", "training"])
def test_no_package_of_the_heart_imports_a_study(package):
    assert not [file for file, here, there in edges() if here == package and there in ("studies", "reporting", "cli")]


def test_nothing_is_imported_that_python_3_10_does_not_have():
    """What the standard library has since 3.11 or later, as far as one is tempted."""
    later = {"typing.Self", "typing.Never", "typing.assert_never", "typing.override", "typing.NotRequired", "tomllib"}
    later |= {"enum.StrEnum", "datetime.UTC", "itertools.batched", "contextlib.chdir", "warnings.deprecated"}
    found = {f"{path.name}: {name}" for path in PACKAGE.rglob("*.py") for name in imported(path) if name in later}
    assert found == set()
