"""The mutants themselves: that faults are put in, one at a time, and that a test can notice each."""

import json
import subprocess
import sys
from pathlib import Path

import yaml

from tests.mutation import report
from tests.mutation.__main__ import AREAS, ROOT, _settled
from tests.mutation.mutants import mutants
from tests.mutation.plugin import module_name

SOURCE = '''"""A module."""

LIMIT = 3


def bounded(values, most=LIMIT):
    """Text + text."""
    total = 0
    for value in values[1:]:
        if value > 2 and not value == most:
            total += max(value, 1)
    if total < 0:
        raise ValueError(f"{total + 1}")
    return total
'''


def test_every_mutant_is_valid_and_differs_in_one_place(tmp_path):
    file = tmp_path / "module.py"
    file.write_text(SOURCE)
    found = mutants(file, tmp_path)
    texts = {mutant.text for mutant in found}
    assert texts >= {
        "value > 2 → value >= 2", "value > 2 → value <= 2", "value == most → value != most", "1: → :", "2 → 3",
        "not value == most → value == most", "total += max(value, 1) → pass", "max(value, 1) → min(value, 1)",
        "value > 2 and (not value == most) → value > 2 or not value == most", "total < 0 → total <= 0",
    }  # fmt: skip
    assert not any("text" in text or "LIMIT" in text for text in texts), "neither docstrings nor declarations"
    assert len({mutant.key for mutant in found}) == len(found)
    results = []
    for number in range(len(found)):
        mutant = mutants(file, tmp_path)[number]
        space: dict = {}
        exec(mutant.compiled("module"), space)
        try:
            results.append([space["bounded"](given) for given in ([9, 5, 2, 1], [0, 3], [4, 3, 2.5, 7])])
        except ValueError:
            results.append([])
    unchanged: dict = {}
    exec(SOURCE, unchanged)
    before = [unchanged["bounded"](given) for given in ([9, 5, 2, 1], [0, 3], [4, 3, 2.5, 7])]
    assert sum(result != before for result in results) > len(results) / 2


def test_the_runner_tells_killed_survivors_and_what_no_test_executes(tmp_path):
    """On a small project of its own, from the command line to the kept results; again, nothing is tried twice."""
    package, tests = ROOT / "tests" / "mutation" / "example.py", ROOT / "tests" / "mutation" / "example_tests.py"
    results = tmp_path / "results.jsonl"
    command = [sys.executable, "-m", "pytest", "-n0", "-p", "tests.mutation.plugin", "-pno:cacheprovider"]
    options = [f"--mutate={package}", f"--mutation-results={results}", "--mutation-tests=x", str(tests)]
    subprocess.run([*command, *options], cwd=ROOT, check=True, capture_output=True)
    found = {result["text"]: result["status"] for result in map(yaml.safe_load, results.read_text().splitlines())}
    assert found == {
        "a + b → a - b": "killed",
        "a > b → a >= b": "survived",
        "a > b → a <= b": "killed",
        "a // 2 → a * 2": "killed",
        "2 → 3": "killed",
        "a * b → a / b": "uncovered",
    }


def test_the_table_counts_every_mutant_once_and_shows_an_earlier_share(tmp_path):
    """Of six: three noticed, one equivalent, one alive, one not tried; the last result of each counts."""
    for name in ("one.py", "two.py"):
        (tmp_path / name).write_text("def f(a, b):\n    return a > b\n\n\ndef g(a):\n    return a + a\n")
    first, second = (mutants(tmp_path / name, tmp_path) for name in ("one.py", "two.py"))
    found = [*first, *second]
    statuses = ["killed", "timeout", "survived", "killed", "survived"]
    rows = [{"key": found[0].key, "status": "survived"}]
    rows += [{"key": mutant.key, "status": status} for mutant, status in zip(found, statuses, strict=False)]
    (tmp_path / "results.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    known = report.read(tmp_path / "results.jsonl")
    printed = report.table({"maths": found}, known, found[2].__eq__, {})
    (tmp_path / "before.md").write_text("\n".join(printed).replace("50.0 %", "12.5 %"))
    assert printed[2:] == [
        "| one.py | 3 | 2 | 1 | 0 | 100.0 % |",
        "| two.py | 3 | 1 | 0 | 1 | 50.0 % |",
        "| **maths** | 6 | 3 | 1 | 1 | 75.0 % |",
        "| **all** | 6 | 3 | 1 | 1 | 75.0 % |",
        "\n1 not tried.",
    ]
    again = report.table({"maths": found}, known, found[2].__eq__, report.shares(tmp_path / "before.md"))
    assert again[0].endswith("| share | share before |") and again[3].endswith("| 50.0 % | 12.5 % |")
    assert report.survivors(found, known, found[2].__eq__) == ["two.py:2 f [survived] a > b → a <= b"]


def test_a_survivor_is_tried_again_with_other_tests_or_more_time():
    survived = {"status": "survived", "tests": "x", "budget": 10.0}
    assert _settled(survived, "x", 10.0) and not _settled(survived, "y", 10.0) and not _settled(survived, "x", 11.0)
    assert _settled({**survived, "status": "killed"}, "y", 99.0) and not _settled(None, "x", 1.0)


def test_the_areas_and_the_equivalent_mutants_exist():
    for sources, tests in AREAS.items():
        assert all((ROOT / "recbole_adaptau" / source).exists() for source in sources)
        assert all((ROOT / "tests" / test).exists() for test in tests)
    listed = yaml.safe_load((Path(__file__).parent / "equivalent.yaml").read_text(encoding="utf-8"))
    for file, functions in listed.items():
        known = {(mutant.function, mutant.text) for mutant in mutants(ROOT / file, ROOT)}
        for function, texts in functions.items():
            for text, reason in texts.items():
                assert (function, text) in known and len(reason.split()) >= 3, f"{file}: {function}: {text}"


def test_a_package_is_mutated_under_its_own_name():
    """As `recipe.__init__` it would be a second module, and one that finds none of the package's files."""
    assert module_name(ROOT / "recbole_adaptau" / "recipe" / "__init__.py") == "recbole_adaptau.recipe"
    assert module_name(ROOT / "recbole_adaptau" / "recipe" / "base.py") == "recbole_adaptau.recipe.base"
