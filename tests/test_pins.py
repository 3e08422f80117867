"""The pins hold together and are what is tested; setup.py allows both locks."""

import re
import runpy
import sys
import sysconfig
from functools import cache
from importlib import metadata
from importlib.metadata import Distribution, distributions
from pathlib import Path
from typing import Any

import pytest
import setuptools
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from packaging.version import Version

from recbole_adaptau.patches.table import RECBOLE

ROOT = Path(__file__).resolve().parents[1]
# Asked for by nobody but us: to test, to check, to build.
TOOLS = {
    "coverage", "hypothesis", "mypy", "polars", "pytest", "pytest-timeout", "pytest-xdist", "ruff", "setuptools",
    "wheel",
}  # fmt: skip
# What PyTorch brings where it is not the CPU-only build.
FOR_CUDA = re.compile("nvidia-|cuda-|triton")


# Extras for other programs than the tested one, whose versions are not pinned.
UNPINNED = {"mlflow", "docs"}
LOCKS = ("requirements.txt", "requirements-oldest.txt")
# The lock that this environment was made from.
LOCK = LOCKS[sys.version_info[:2] == (3, 10) or Version(metadata.version("numpy")) < Version("2")]


def pins(lock: str = LOCK) -> dict[str, Version]:
    lines = (ROOT / lock).read_text(encoding="utf-8").splitlines()
    pairs = [line.split("==") for line in lines if line and not line.startswith("#")]
    return {canonicalize_name(name): Version(number) for name, number in pairs}


def declared() -> list[Requirement]:
    """What setup.py asks for, extras included, RecBole aside: it is in no lock."""
    with pytest.MonkeyPatch.context() as patch:
        asked: dict[str, Any] = {}
        patch.setattr(setuptools, "setup", asked.update)
        runpy.run_path(str(ROOT / "setup.py"))
    extras = [extra for name, extra in asked["extras_require"].items() if name not in UNPINNED]
    texts = [*asked["install_requires"], *(text for extra in extras for text in extra)]
    return [need for need in map(Requirement, texts) if need.name != "recbole"]


@cache
def installed() -> dict[str, Distribution]:
    """What pip has put there; Ray brings packages of its own and lays them before those once it is imported."""
    return {canonicalize_name(found.name): found for found in distributions(path=[sysconfig.get_path("purelib")])}


def needs(package: str) -> list[Requirement]:
    found = [Requirement(text) for text in installed()[canonicalize_name(package)].requires or []]
    return [need for need in found if need.marker is None or need.marker.evaluate({"extra": ""})]


@pytest.mark.parametrize("package", sorted(pins()))
def test_a_pin_is_installed_and_all_it_needs_is_pinned_and_fits(package):
    assert Version(Version(installed()[package].version).public) == pins()[package]
    for need in needs(package):
        if not FOR_CUDA.match(need.name):
            assert need.specifier.contains(pins()[canonicalize_name(need.name)], prereleases=True), str(need)


@pytest.mark.parametrize("lock", LOCKS)
def test_setup_allows_every_pin(lock):
    for need in declared():
        assert need.specifier.contains(pins(lock)[canonicalize_name(need.name)]), str(need)


def test_no_pin_is_left_over():
    asked = {canonicalize_name(need.name) for package in pins() for need in needs(package)}
    asked |= {canonicalize_name(need.name) for need in declared()}
    assert set(pins()) - asked - TOOLS == set()


def test_the_oldest_lock_has_the_oldest_versions_that_setup_allows():
    lowest = {need.name: bound.version for need in declared() for bound in need.specifier if bound.operator == ">="}
    oldest = pins(LOCKS[1])
    assert {name for name, bound in lowest.items() if oldest[canonicalize_name(name)] != Version(bound)} == set()


def test_recbole_is_the_one_that_is_patched_and_what_it_imports_is_declared():
    """Of RecBole's own dependencies those are left out that no function of its imports, or that are extras."""
    assert metadata.version("recbole") == RECBOLE
    asked = {canonicalize_name(Requirement(text).name) for text in metadata.requires("recbole") or []}
    known = {canonicalize_name(need.name) for need in declared()}
    assert asked - known == {"tabulate"}
