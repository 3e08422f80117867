"""Runs the fast part of the suite on every supported Python of this machine, and writes docs/matrix.md: `make matrix`.

Each Python has an environment of its own, made by the Makefile. Where pip finds no CPU-only PyTorch, an environment
takes several gigabytes. Nothing but Python itself is needed to run this script.
"""

import argparse
import json
import os
import re
import shlex
import shutil
import subprocess
import sys
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
PAGE, RESULTS = ROOT / "docs" / "matrix.md", ROOT / "results" / "compatibility" / "matrix"
SUPPORTED = ("3.10", "3.11", "3.12", "3.13", "3.14")
# All that meets other libraries, short of training on real data.
FAST = [
    "-m",
    "not e2e",
    *(f"tests/{name}" for name in ("patches", "data", "serving", "training", "distributed", "recipe")),
]
FAST += ["tests/test_imports.py", "tests/test_pins.py"]
LIBRARIES = ("torch", "numpy", "pandas", "scipy", "ray")


def find_python(version: str) -> str | None:
    """On PATH, or among pyenv's."""
    candidates = [shutil.which(f"python{version}")]
    pyenv = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv")) / "versions"
    candidates += [str(path / "bin" / "python") for path in sorted(pyenv.glob(f"{version}.*"), reverse=True)]
    for python in filter(None, candidates):
        asked = subprocess.run(
            [python, "-c", "import sys; print('%d.%d' % sys.version_info[:2])"], capture_output=True, text=True
        )
        if asked.stdout.strip() == version:
            return python
    return None


def megabytes(folder: Path) -> int:
    return round(sum(path.lstat().st_size for path in folder.resolve().rglob("*") if path.is_file()) / 1e6)


def measure(version: str, python: str, environments: Path, words: list[str]) -> dict:
    """Make the environment, run the tests in it, and count."""
    folder = environments / version
    made = subprocess.run(["make", f"PYTHON={python}", f"VENV={folder}", f"{folder}/.ready"], cwd=ROOT)
    if made.returncode != 0:
        return {"python": version, "error": "cannot be installed"}
    inside = str(folder / "bin" / "python")
    start = time.monotonic()
    # The checkout goes before an installed package of the same name.
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    environment.pop("PYTHONDONTWRITEBYTECODE", None)  # or every process compiles PyTorch again
    tested = subprocess.run(
        [inside, "-m", "pytest", "-p", "no:cacheprovider", *FAST, *words],
        cwd=ROOT,
        env=environment,
        capture_output=True,
        text=True,
    )
    minutes = (time.monotonic() - start) / 60
    (environments / f"{version}.log").write_text(tested.stdout + tested.stderr, encoding="utf-8")
    closing = (tested.stdout.strip().splitlines() or [""])[-1]
    counts = {word: int(number) for number, word in re.findall(r"(\d+) (passed|failed|skipped|error)", closing)}
    ask = f"from importlib.metadata import version; print(*map(version, {LIBRARIES!r}))"
    versions = subprocess.run([inside, "-c", ask], capture_output=True, text=True).stdout.split()
    return {
        "python": version,
        "versions": dict(zip(LIBRARIES, versions, strict=True)),
        "counts": counts,
        "minutes": round(minutes, 1),
        "megabytes": megabytes(folder),
    }


def page() -> str:
    """The whole of docs/matrix.md, from what the last runs have left."""
    lines = [
        "# Tested versions of Python",
        "",
        "Written by `make matrix`: the fast part of the suite on every supported Python of one machine, each with an",
        "environment of its own. The fast part is",
        f"`pytest {shlex.join(FAST)}`.",
        "Python 3.10 has the lock `requirements-oldest.txt`, the others `requirements.txt`. Megabytes are those of the",
        "environment; PyTorch's CUDA packages are most of it where pip found no CPU-only build.",
        "",
        "| Python | " + " | ".join(LIBRARIES) + " | passed | failed | skipped | minutes | MB |",
        "|---" * (len(LIBRARIES) + 6) + "|",
    ]
    for version in SUPPORTED:
        file = RESULTS / f"{version}.json"
        if not file.is_file():
            lines.append(f"| {version} |" + " |" * len(LIBRARIES) + " not run |  |  |  |  |")
            continue
        told = json.loads(file.read_text(encoding="utf-8"))
        if "error" in told:
            lines.append(f"| {version} |" + " |" * len(LIBRARIES) + f" {told['error']} |  |  |  |  |")
            continue
        counts = told["counts"]
        cells = [version, *told["versions"].values(), counts.get("passed", 0)]
        cells += [counts.get("failed", 0) + counts.get("error", 0), counts.get("skipped", 0)]
        lines.append(f"| {' | '.join(map(str, [*cells, told['minutes'], told['megabytes']]))} |")
    lines += [
        "",
        "What a Python that was not run would install: `uv pip compile requirements.txt --python-version 3.14",
        "--only-binary :all:` finds a wheel of every package for 3.14 (tried in November 2026).",
    ]
    return "\n".join([*lines, ""])


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--python", nargs="*", default=SUPPORTED, choices=SUPPORTED, help="only these versions")
    parser.add_argument("--environments", type=Path, default=ROOT / ".matrix", help="where they are made")
    given, words = parser.parse_known_args()
    given.environments.mkdir(parents=True, exist_ok=True)
    RESULTS.mkdir(parents=True, exist_ok=True)
    failed = False
    for version in given.python:
        python = find_python(version)
        if python is None:
            print(f"Python {version}: not on this machine")
            continue
        told = measure(version, python, given.environments.absolute(), words)
        (RESULTS / f"{version}.json").write_text(json.dumps(told, indent=1) + "\n", encoding="utf-8")
        failed |= "error" in told or bool(told["counts"].get("failed") or told["counts"].get("error"))
    PAGE.write_text(page(), encoding="utf-8")
    print(page())
    sys.exit(failed)
