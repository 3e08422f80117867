"""The command itself: its verbs, their help, and what happens without a verb."""

import argparse
import ast
import re
import subprocess
import sys
from importlib import import_module
from pathlib import Path

import pytest

import recbole_adaptau
from recbole_adaptau.cli.main import VERBS, main

PACKAGE = Path(recbole_adaptau.__file__).parent


def commands() -> list[list[str]]:
    """Every verb, and every subcommand of those that have some."""
    found = []
    for verb in VERBS:
        found.append([verb])
        for action in import_module(f"recbole_adaptau.cli.{verb}").parser()._actions:
            if isinstance(action, argparse._SubParsersAction):
                found += [[verb, name] for name in action.choices]
    return found


COMMANDS = commands()


def test_every_verb_and_subcommand_is_among_those_checked():
    named = "train data recommend similar export update tune compare experiment analyse report bench"
    assert " ".join(words[0] for words in COMMANDS if len(words) == 1) == named
    for words in (["data", "csv"], ["data", "convert"], ["experiment", "grid"], ["experiment", "repeat"],
                  ["experiment", "plugin"], ["experiment", "curves"], ["experiment", "list"],
                  ["experiment", "noise-global"], ["bench", "speed"]):  # fmt: skip
        assert words in COMMANDS


@pytest.mark.parametrize("words", COMMANDS, ids=" ".join)
def test_help_of_every_command(words, capsys):
    with pytest.raises(SystemExit) as stop:
        main([*words, "--help"])
    printed = capsys.readouterr()
    assert stop.value.code == 0 and printed.err == ""
    assert printed.out.startswith(f"usage: recbole-adaptau {' '.join(words)} ")
    # An unescaped % would either raise or leave its doubled form behind.
    assert "%%" not in printed.out and "%(" not in printed.out


@pytest.mark.parametrize("word", ["--help", "--version", None])
def test_the_overview_imports_nothing_that_is_slow(word):
    code = f"""
import sys
from recbole_adaptau.cli.main import main
assert main({[word] if word else []}) == 0
assert not {{"torch", "recbole", "numpy", "pandas"}} & sys.modules.keys()
assert not [name for name in sys.modules if name.startswith("recbole_adaptau.cli.") and name[20:] in {list(VERBS)}]
"""
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert ran.returncode == 0, ran.stderr
    if word == "--version":
        assert ran.stdout == f"recbole_adaptau {recbole_adaptau.__version__}\n"
    else:
        assert re.findall(r"^  (\w+) +\w", ran.stdout, re.M) == list(VERBS)


def test_python_m_is_the_same_command():
    ran = subprocess.run([sys.executable, "-m", "recbole_adaptau", "--version"], capture_output=True, text=True)
    assert ran.stdout == f"recbole_adaptau {recbole_adaptau.__version__}\n", ran.stderr


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--model=AdapTauMF", "--dataset", "my data"],
         "error: a verb comes first; to train a model: recbole-adaptau train --model=AdapTauMF --dataset 'my data'\n"),
        (["recomend", "run"], "error: 'recomend' is not one of train, data,"),
        (["recomend", "run"], "Did you mean 'recommend'?\n"),
    ],
)  # fmt: skip
def test_without_a_verb_it_says_which(words, message, capsys):
    assert main(words) == 2
    assert message in capsys.readouterr().err


def texts() -> list[tuple[str, str]]:
    """All text in the package that a program may print, docstrings included."""
    return [
        (path.relative_to(PACKAGE).as_posix(), node.value)
        for path in PACKAGE.rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.Constant) and isinstance(node.value, str)
    ]


def test_every_hint_names_a_command_that_pip_installs():
    found = texts()
    assert sum("recbole-adaptau " in text for _, text in found) > 20
    for file, text in found:
        assert not re.search(r"python (\S+\.py|-m recbole_adaptau\.)", text), f"{file}: {text}"
        for word in re.findall(r"recbole-adaptau ([\w-]+)", text):
            assert word in {*VERBS, "VERB", "--help", "--version"}, f"{file}: there is no verb {word}: {text}"
