"""The wheel, installed elsewhere and used from an unrelated folder."""

import os
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
pytestmark = pytest.mark.e2e


def pip(*words):
    return subprocess.run(
        [sys.executable, "-m", "pip", "--disable-pip-version-check", *words], capture_output=True, text=True
    )


@pytest.fixture(scope="module")
def wheel(tmp_path_factory):
    """Built from a copy of what git would ship, so that nothing is written into the checkout."""
    source, out = tmp_path_factory.mktemp("source") / "repo", tmp_path_factory.mktemp("wheel")
    wanted = ("recbole_adaptau", "properties", "setup.py", "pyproject.toml", "README.md")
    source.mkdir()
    for name in wanted:
        copy = shutil.copytree if (ROOT / name).is_dir() else shutil.copy
        copy(ROOT / name, source / name)
    made = pip("wheel", "--no-deps", "--no-build-isolation", "--wheel-dir", str(out), str(source))
    assert made.returncode == 0, made.stderr
    (file,) = out.glob("*.whl")
    return file


def test_properties_travel_in_the_wheel(wheel):
    names = set(zipfile.ZipFile(wheel).namelist())
    for path in (path for path in (ROOT / "properties").rglob("*") if path.is_file()):
        assert f"recbole_adaptau/{path.relative_to(ROOT).as_posix()}" in names
    assert "recbole_adaptau/py.typed" in names
    assert not any(name.startswith(("tests", "properties")) for name in names)


def test_installed_it_trains_from_an_unrelated_folder(wheel, tmp_path):
    site, elsewhere = tmp_path / "site", tmp_path / "elsewhere"
    elsewhere.mkdir()
    installed = pip("install", "--no-deps", "--target", str(site), str(wheel))
    assert installed.returncode == 0, installed.stderr
    code = (
        "import recbole_adaptau, sys; assert recbole_adaptau.__file__.startswith(sys.argv[1]), recbole_adaptau;"
        "from recbole_adaptau.cli.train import main;"
        "sys.exit(main(['-m', 'AdapTauLightGCN', '--epochs=1', '--preset=paper', '--show_progress=False']))"
    )
    run = subprocess.run(
        [sys.executable, "-c", code, str(site)],
        cwd=elsewhere,
        env={**os.environ, "PYTHONPATH": str(site)},
        capture_output=True,
        text=True,
    )
    assert run.returncode == 0, run.stderr[-3000:]
    assert "run folder: runs/ml-100k/AdapTauLightGCN/" in run.stdout
    assert (site / "bin" / "recbole-adaptau").is_file()


def test_an_unsupported_python_is_told_so_at_install(wheel, tmp_path):
    for name in ("python3.9", "python3.8", "python3.7"):
        python = shutil.which(name)
        if python and subprocess.run([python, "-m", "pip", "--version"], capture_output=True).returncode == 0:
            break
    else:
        pytest.skip(reason="no unsupported Python with pip on PATH to try it with")
    words = ["-m", "pip", "install", "--no-deps", f"--target={tmp_path / 'x'}", str(wheel)]
    refused = subprocess.run([python, *words], capture_output=True, text=True)
    assert refused.returncode != 0 and not (tmp_path / "x").exists()
    assert "requires a different Python" in refused.stderr and ">=3.10" in refused.stderr
