"""The pins hold together, are what is tested, and those held back on purpose are listed with their reason."""

import ast
import re
import sysconfig
from functools import cache
from importlib.metadata import Distribution, distributions
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from packaging.version import Version

ROOT = Path(__file__).resolve().parents[1]
# Asked for by nobody but us: to test, to check, to build.
TOOLS = {"hypothesis", "mypy", "pytest", "pytest-timeout", "pytest-xdist", "ruff", "wheel"}


# Extras for other programs than the tested one, whose versions are not pinned.
UNPINNED = {"mlflow", "docs"}


def pins() -> dict[str, Version]:
    lines = (ROOT / "requirements.txt").read_text(encoding="utf-8").splitlines()
    pairs = [line.split("==") for line in lines if line and not line.startswith("#")]
    return {canonicalize_name(name): Version(number) for name, number in pairs}


def declared() -> list[Requirement]:
    """What setup.py asks for, extras included."""
    found = []
    for node in ast.walk(ast.parse((ROOT / "setup.py").read_text(encoding="utf-8"))):
        if isinstance(node, ast.keyword) and node.arg == "install_requires":
            found += ast.literal_eval(node.value)
        elif isinstance(node, ast.keyword) and node.arg == "extras_require":
            extras = ast.literal_eval(node.value)
            found += [text for name, group in extras.items() if name not in UNPINNED for text in group]
    return [Requirement(text) for text in found]


@cache
def installed() -> dict[str, Distribution]:
    """What pip has put there; Ray brings packages of its own and lays them before those once it is imported."""
    return {canonicalize_name(found.name): found for found in distributions(path=[sysconfig.get_path("purelib")])}


def needs(package: str) -> list[Requirement]:
    found = [Requirement(text) for text in installed()[canonicalize_name(package)].requires or []]
    return [need for need in found if need.marker is None or need.marker.evaluate({"extra": ""})]


def has_upper_bound(need: Requirement) -> bool:
    return any(part.operator in ("<", "<=", "==", "~=") for part in need.specifier)


@pytest.mark.parametrize("package", sorted(pins()))
def test_a_pin_is_installed_and_all_it_needs_is_pinned_and_fits(package):
    assert Version(Version(installed()[package].version).public) == pins()[package]
    for need in needs(package):
        assert need.specifier.contains(pins()[canonicalize_name(need.name)], prereleases=True), str(need)


def test_setup_and_pins_agree_and_no_pin_is_left_over():
    for need in declared():
        assert need.specifier.contains(pins()[canonicalize_name(need.name)]), str(need)
    asked = {canonicalize_name(need.name) for package in pins() for need in needs(package)}
    asked |= {canonicalize_name(need.name) for need in declared()}
    assert set(pins()) - asked - TOOLS == set()


def test_every_pin_that_is_held_back_is_listed_with_its_reason():
    text = (ROOT / "docs" / "RELIABILITY.md").read_text(encoding="utf-8")
    rows = dict(re.findall(r"^\| `([\w.-]+==[\w.-]+)` \| (.+) \|$", text, re.M))
    held = {canonicalize_name(need.name) for need in [*declared(), *needs("recbole")] if has_upper_bound(need)}
    assert set(rows) == {f"{name}=={pins()[name]}" for name in held}
    assert all(len(reason.split()) >= 4 for reason in rows.values())
