"""Mutation testing: `python -m tests.mutation [FILE ...] [--changed [REVISION]]`; `make mutate` runs all of it.

Each mutant is one small fault in one function. A mutant that no test notices either shows a missing test or changes
nothing that anybody can see; the latter are listed with their reasons in equivalent.yaml. Results are kept, and only
what can have changed is tried again: mutants of changed functions, and survivors if a test has changed.
"""

import argparse
import hashlib
import os
import re
import subprocess
import sys
import tempfile
from functools import cache
from pathlib import Path
from typing import Any

import yaml

from . import report
from .mutants import Mutant, mutants

ROOT = Path(__file__).parents[2]
# Files (or folders) with the tests that are to notice a fault in them.
AREAS: dict[tuple[str, ...], tuple[str, ...]] = {
    ("core",): ("core", "contract", "model/test_heart.py", "model/test_authors.py"),
    ("recipe",): ("recipe", "contract/test_recipe_parts.py", "model/test_heart.py"),
    ("model",): ("model", "recipe", "contract/test_backbones.py", "config/test_loading.py", "peers/test_simple.py"),
    ("peers",): ("peers", "model/test_heart.py"),
    ("training/batches.py", "training/evaluation.py", "training/toplists.py", "training/trainer.py"): ("training",),
    ("training/checkpoint.py",): (
        "training/test_checkpoint.py",
        "training/test_plain_data.py",
        "patches/test_checkpoint.py",
        "patches/test_malicious.py",
    ),
    ("runs/significance.py", "runs/tested.py"): ("runs/test_significance.py", "runs/test_tested.py"),
    ("data/noise.py", "data/positives.py"): ("data/test_noise.py", "data/test_positives.py"),
    ("distributed",): ("distributed",),
    ("serving",): ("serving",),
}


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m tests.mutation", description=__doc__)
    parser.add_argument("files", nargs="*", type=Path, help="files or folders of the package; else all of the areas")
    parser.add_argument("--changed", nargs="?", const="main", metavar="REVISION", help="only lines changed since then")
    parser.add_argument(
        "--results",
        type=lambda path: Path(path).resolve(),
        default=ROOT / "runs/mutation/results.jsonl",
        help="kept results",
    )
    parser.add_argument("--jobs", type=int, default=len(os.sched_getaffinity(0)), help="mutants tried at once")
    parser.add_argument("--budget", type=float, default=10.0, help="seconds of tests for a mutant, the fastest first")
    parser.add_argument("--sample", type=int, default=1, metavar="N", help="only about one mutant in N")
    parser.add_argument("--tests", nargs="+", type=Path, help="these tests alone, instead of all of the area")
    parser.add_argument("--table", action="store_true", help="only show what is known")
    parser.add_argument("--before", type=Path, metavar="FILE", help="show also the shares of a table printed earlier")
    return parser


def main() -> int:
    options = _parser().parse_args()
    chosen = [path.resolve() for path in options.files] or [ROOT / "recbole_adaptau"]
    changed = _changed_lines(options.changed) if options.changed else None
    options.results.parent.mkdir(parents=True, exist_ok=True)
    areas: dict[str, list[Mutant]] = {}
    for sources, tests in AREAS.items():
        files = [file for source in sources for file in _files(ROOT / "recbole_adaptau" / source)]
        files = [file for file in files if any(file.is_relative_to(path) for path in chosen)]
        found = [m for file in files for m in mutants(file, ROOT)]
        if changed is not None:
            found = [m for m in found if changed.get(m.file, set()) & set(m.lines)]
        found = [m for m in found if int(m.key, 16) % options.sample == 0]
        if found:
            areas.setdefault(Path(sources[0]).parts[0], []).extend(found)
        if found and not options.table:
            _try(found, options.tests or [ROOT / "tests" / test for test in tests], options)
    known = report.read(options.results)
    alive = report.survivors((m for found in areas.values() for m in found), known, _equivalent)
    print(*alive, "", sep="\n")
    before = report.shares(options.before) if options.before else {}
    print(*report.table(areas, known, _equivalent, before), sep="\n")
    return bool(alive)


def _try(found: list[Mutant], tests: list[Path], options: Any) -> None:
    """Run the tests of an area for those of its mutants of which no result is known."""
    digest = hashlib.sha1(b"".join(file.read_bytes() for test in tests for file in _files(test))).hexdigest()[:16]
    known = report.read(options.results)
    left = [m for m in found if not _settled(known.get(m.key), digest, options.budget) and not _equivalent(m)]
    if not left:
        return
    with tempfile.TemporaryDirectory() as folder:
        keys = Path(folder) / "keys"
        keys.write_text("\n".join(m.key for m in left))
        files = [f"--mutate={ROOT / file}" for file in dict.fromkeys(m.file for m in left)]
        arguments = [f"--mutants={keys}", f"--mutation-results={options.results}", f"--mutation-tests={digest}"]
        arguments += [f"--mutation-jobs={options.jobs}", f"--budget={options.budget}"]
        arguments += ["-n0", "-pno:cacheprovider", "--tb=no"]
        command = [sys.executable, "-m", "pytest", "-p", "tests.mutation.plugin", *arguments, *files, *map(str, tests)]
        subprocess.run(command, cwd=ROOT, check=True)


@cache
def _listed() -> dict[str, Any]:
    return yaml.safe_load((Path(__file__).parent / "equivalent.yaml").read_text(encoding="utf-8"))


def _equivalent(mutant: Mutant) -> bool:
    return mutant.text in _listed().get(mutant.file, {}).get(mutant.function, {})


def _settled(result: dict[str, Any] | None, tests: str, budget: float) -> bool:
    """Whether trying again gives the same: a survivor may be noticed by other tests, or with more time for them."""
    if result is None:
        return False
    return result["status"] in report.NOTICED or (result["tests"] == tests and result.get("budget", 0.0) >= budget)


def _changed_lines(revision: str) -> dict[str, set[int]]:
    """The lines of each file that are new since a revision."""
    command = ["git", "diff", "--unified=0", "--relative", revision, "--", "*.py"]
    text = subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True).stdout
    lines: dict[str, set[int]] = {}
    for line in text.splitlines():
        if line.startswith("+++ b/"):
            file = lines.setdefault(line[6:], set())
        elif match := re.match(r"@@ -\S+ \+(\d+)(?:,(\d+))? @@", line):
            start, number = int(match[1]), int(match[2] or 1)
            file.update(range(start, start + number))
    return lines


def _files(path: Path) -> list[Path]:
    return sorted(path.rglob("*.py")) if path.is_dir() else [path]


if __name__ == "__main__":
    sys.exit(main())
