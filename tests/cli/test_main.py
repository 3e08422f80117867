"""The command itself: its verbs, their help, and what happens without a verb."""

import argparse
import ast
import re
import signal
import subprocess
import sys
from importlib import import_module
from pathlib import Path

import pytest

import recbole_adaptau
from recbole_adaptau.cli.main import VERBS, main
from recbole_adaptau.errors import OptionError
from recbole_adaptau.files import need_parent

PACKAGE = Path(recbole_adaptau.__file__).parent


def commands() -> list[list[str]]:
    """Every verb, and every subcommand of those that have some, once even if it has two names."""
    found = []
    for verb in VERBS:
        found.append([verb])
        for action in import_module(f"recbole_adaptau.cli.{verb}").parser()._actions:
            if isinstance(action, argparse._SubParsersAction):
                by_parser = {id(parser): name for name, parser in reversed(action.choices.items())}
                found += [[verb, name] for name in by_parser.values()]
    return found


COMMANDS = commands()


def test_every_verb_and_subcommand_is_among_those_checked():
    named = "train data recommend similar export update tune compare experiment analyse report bench"
    assert " ".join(words[0] for words in COMMANDS if len(words) == 1) == named
    for words in (["data", "import"], ["data", "convert"], ["experiment", "grid"], ["experiment", "repeat"],
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


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["data", "cvs"], "error: 'cvs' is not one of convert, import, csv. Did you mean 'csv'?"),
        (["bench", "sped"], "error: 'sped' is not one of speed, "),
        (["experiment", "gird"], "Did you mean 'grid'?"),
        (["data", "import"], "error: the following arguments are required: --source, --name; see recbole"),
        (["data", "import", "--source"], "argument --source: expected one argument; see recbole-adaptau data import"),
        (["data", "import", "--source", "x", "--name", "y", "--min-rating", "high"], "invalid float value: 'high'"),
        (["data", "import", "--source", "x", "--name", "y", "--stricter"], "unrecognized arguments: --stricter; see"),
        (["data", "import", "--source", "x", "--name", "y", "--item-name", "t"], "the file of items: add --items"),
        (["data", "csv", "--source", "x"], "error: the following arguments are required: --name; see recbole-adaptau"),
        (["data", "improt", "--source", "x"], "Did you mean 'import'?"),
        (["recommend", "RUN", "--all", "--output", "rsults/top.csv"], "there is no folder"),
        (["similar", "RUN", "--output", "rsults/similar.csv"], "there is no folder"),
        (["export", "RUN", "rsults/exported"], "there is no folder"),
        (["report", "RUN", "--output", "rsults/report.html"], "there is no folder"),
        (["tune", "-m", "AdapTauMF", "-d", "ml-100k", "--algo", "grid"], "'--algo grid' is not one of exhaustive,"),
        (["tune", "-m", "AdapTauMF", "-d", "ml-100k", "--max_evals", "0"],
         "error: --max_evals 0: must be the number of trials, at least 1."),
        (["tune", "-m", "AdapTauMF", "-d", "ml-100k", "--early_stop", "0"], "error: --early_stop 0: must be"),
        (["compare", "--output", "rsults/a/b"], "error: --output rsults/a/b: there is no folder"),
        (["compare", "--output", "a-file/b"], "a-file is a file, not a folder"),
        (["bench", "speed", "--output", "rsults/a"], "error: --output rsults/a: there is no folder"),
        (["experiment", "grid", "-m", "AdapTauMF", "-d", "ml-100k", "--output", "rsults/a"], "there is no folder"),
        (["experiment", "tau-sweep", "--quick", "--output", "result/a"], "Did you mean 'results'?"),
        (["experiment", "curves", "RUN", "--output", "rsults/a.png"], "there is no folder"),
        (["tune", "-m", "AdapTauMF", "-d", "ml-100k", "--output", "rsults/a"], "there is no folder"),
        (["compare", "--models", "AdapTauMF", "BPR", "--dataset", "nowhere"], "error: the dataset 'nowhere' was lo"),
        (["compare", "--models", "BPR", "--dataset", "nowhere"], "recbole-adaptau data import --source FILE --name no"),
        (["tune", "-m", "AdapTauMF", "-d", "nowhere"], "error: the dataset 'nowhere' was looked for in"),
        (["train", "-d", "nowhere"], "error: the dataset 'nowhere' was looked for in"),
        (["train", "-m", "BPR", "-d", "nowhere"], "error: the dataset 'nowhere' was looked for in"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else None,
)  # fmt: skip
def test_bad_words_are_one_sentence_and_leave_nothing(words, message, capsys):
    Path("results").mkdir()
    Path("a-file").touch()
    assert main(words) == 2
    printed = capsys.readouterr()
    assert printed.out == "" and message in printed.err
    assert printed.err.startswith("error: ") and printed.err.count("\n") == 1, "one sentence, said once"
    assert sorted(path.name for path in Path().iterdir()) == ["a-file", "results"]


def test_no_command_writes_to_the_results_of_the_repository_by_default():
    """Tables and pictures of a quick run go to runs/, whatever the command; results/ is tracked."""
    for words in COMMANDS:
        parser = import_module(f"recbole_adaptau.cli.{words[0]}").parser()
        for action in parser._actions:
            if isinstance(action, argparse._SubParsersAction) and len(words) > 1:
                parser = action.choices[words[1]]
        for option in parser._actions:
            if option.dest in ("output", "run_root"):
                place = f"{option.default} {option.help}"
                assert "results" not in place, (words, place)
    assert "BENCH  ?= speed --output runs/bench" in (PACKAGE.parent / "Makefile").read_text()


def test_below_runs_all_folders_are_made_and_elsewhere_only_the_last():
    for place in ("runs/compare/a", "new", str(Path.cwd() / "new")):
        need_parent(Path(place), "--output")
    Path("runs").mkdir()
    need_parent(Path("runs/compare/a/b"), "--output")
    with pytest.raises(OptionError, match=r"--output run/compare/a: there is no folder .*/run\. Did you mean 'runs'"):
        need_parent(Path("run/compare/a"), "--output")
    assert [path.name for path in Path().iterdir()] == ["runs"]


def test_ctrl_c_during_imports_is_no_traceback():
    """The import of a library is stopped in its middle, where an exception would become the library's own error."""
    code = """
import os, signal, sys
class Interrupted:
    def find_spec(self, name, path=None, target=None):
        if name == "torch":
            try:
                os.kill(os.getpid(), signal.SIGINT)
                for _ in range(1000): pass
            except KeyboardInterrupt:
                raise AttributeError("what a library makes of it")
sys.meta_path.insert(0, Interrupted())
signal.signal(signal.SIGINT, signal.default_int_handler)
from recbole_adaptau.cli.main import main
sys.exit(main(["train"]))
"""
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert (ran.returncode, ran.stdout, ran.stderr) == (130, "", "interrupted\n")


def test_the_handler_of_ctrl_c_is_as_before_afterwards(capsys):
    before = signal.getsignal(signal.SIGINT)
    assert main(["data"]) == 0
    assert signal.getsignal(signal.SIGINT) is before


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
