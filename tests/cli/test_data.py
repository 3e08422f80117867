"""`recbole-adaptau data`: what it prints, and what it says when something is wrong."""

import subprocess
import sys
from pathlib import Path

import pytest

from recbole_adaptau.cli import data as command

CONVERT = ["convert", "--source", "raw", "--name", "tiny", "--output", "out"]


@pytest.fixture
def source():
    Path("raw").mkdir()
    Path("raw/train.txt").write_text("0 1 2 3 4\n1 1 2\n2 3 4 1\n")
    Path("raw/test.txt").write_text("0 5\n1 3\n")


def test_a_conversion_prints_the_report_and_what_to_run_next(source, capsys):
    assert command.main(CONVERT) == 0
    printed = capsys.readouterr().out
    assert "\n  recbole-adaptau train --dataset=tiny --data_path=out\n" in printed
    assert "\n  recbole-adaptau train --dataset=tiny --data_path=out --protocol=paper   # selects on test" in printed
    assert ["users", "3"] in [line.split() for line in printed.splitlines()]
    assert command.main(CONVERT) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.startswith("error: ") and captured.err.count("\n") == 1


def test_an_interrupt_has_its_exit_code(source, monkeypatch, capsys):
    def interrupted(*_, **__):
        raise KeyboardInterrupt

    monkeypatch.setattr(Path, "write_text", interrupted)
    assert command.main(CONVERT) == 130
    assert capsys.readouterr().err == "interrupted; the conversion is not complete\n"


def test_an_import_is_reported_and_goes_on_to_training(capsys):
    Path("shop.csv").write_text("user,item\na,x\na,x\nb,y\n", encoding="utf-8")
    arguments = ["import", "--source", "shop.csv", "--name", "shop"]
    assert command.main(arguments) == 0
    printed = capsys.readouterr().out
    rows = [line.split()[:3] for line in printed.splitlines()]
    assert ["users", "2", "column"] in rows and ["duplicates", "dropped", "1"] in rows
    assert "recbole-adaptau train --dataset=shop\n" in printed and "--protocol" not in printed
    for wrong in (arguments, ["import", "--source", "shpo.csv", "--name", "b"]):
        assert command.main(wrong) == 2
        assert capsys.readouterr().err.startswith("error: ")


def test_without_a_command_help_is_shown(capsys):
    assert command.main([]) == 0
    printed = capsys.readouterr().out
    assert "convert" in printed and "example:" in printed


def test_it_fails_without_a_traceback_and_needs_no_pytorch():
    code = f"""
import sys
from recbole_adaptau.cli.main import main
assert main({["data", *CONVERT]}) == 2
assert not {{"torch", "recbole"}} & sys.modules.keys()
"""
    failed = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert failed.returncode == 0 and failed.stdout == "", failed.stderr
    assert failed.stderr.startswith("error: source") and "Traceback" not in failed.stderr


def test_the_older_name_of_import_is_the_same_command(capsys):
    Path("shop.csv").write_text("user,item\na,x\nb,y\n", encoding="utf-8")
    printed = []
    for word in ("import", "csv"):
        assert command.main([word, "--source", "shop.csv", "--name", "shop", "--force"]) == 0
        printed.append((capsys.readouterr().out, Path("dataset/shop/shop.inter").read_text(encoding="utf-8")))
    assert printed[0] == printed[1] and "a\tx\n" in printed[0][1]
