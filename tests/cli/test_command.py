"""The exit codes and the one line that each verb ends with."""

import errno
import logging
import os
import subprocess
import sys

import pytest

from recbole_adaptau.cli.command import RESUMABLE, exit_code
from recbole_adaptau.errors import DataError
from recbole_adaptau.training.interrupt import Stopped


def failing(error):
    def action(words):
        raise error

    return action


@pytest.mark.parametrize(
    ("error", "code", "line"),
    [
        (DataError("no such data"), 2, "error: no such data"),
        (OSError(errno.ENOSPC, "No space left on device"), 2, "error: [Errno 28] No space left on device"),
        (BrokenPipeError(errno.EPIPE, "between processes"), 2, "error: [Errno 32] between processes"),
        (KeyboardInterrupt(), 130, "interrupted"),
        (Stopped(15, "interrupted; go on with: x"), 143, "interrupted; go on with: x"),
    ],
)
def test_what_the_user_is_to_read_is_one_line(error, code, line, capsys):
    assert exit_code("train", failing(error), []) == code
    assert capsys.readouterr().err == f"{line}\n"


def test_an_interrupted_study_shows_the_command_as_typed(capsys):
    assert exit_code("compare", failing(KeyboardInterrupt()), ["--output", "my folder"], RESUMABLE) == 130
    assert capsys.readouterr().err == (
        "interrupted; every finished epoch is saved; go on with:\n  recbole-adaptau compare --output 'my folder'\n"
    )


def test_a_fault_of_the_program_keeps_its_traceback():
    with pytest.raises(ZeroDivisionError):
        exit_code("train", lambda words: 1 // 0, [])


def test_arguments_and_logs_are_as_before_afterwards(monkeypatch):
    monkeypatch.setattr(sys, "argv", ["program", "--epochs=3"])
    seen = []

    def action(words):
        seen.append((words, sys.argv, logging.getLogger().isEnabledFor(logging.CRITICAL)))
        return 1

    assert exit_code("bench", action, None, silenced=logging.CRITICAL) == 1
    assert seen == [(["--epochs=3"], ["program"], False)]
    assert sys.argv == ["program", "--epochs=3"] and logging.getLogger().isEnabledFor(logging.CRITICAL)


@pytest.mark.parametrize(
    "action",
    ["lambda words: [print('a line') for _ in range(100_000)] and None", "lambda words: print('a line')",
     "lambda words: print('a line') or sys.exit(0)"],
    ids=["many lines", "a line that is still buffered", "help"],
)  # fmt: skip
@pytest.mark.parametrize("unbuffered", ["", "1"])
def test_output_that_nobody_reads_ends_it_quietly(action, unbuffered):
    code = f"import sys; from recbole_adaptau.cli.command import exit_code; sys.exit(exit_code('data', {action}, []))"
    read, write = os.pipe()
    os.close(read)
    env = {**os.environ, "PYTHONUNBUFFERED": unbuffered}
    ran = subprocess.run([sys.executable, "-c", code], stdout=write, stderr=subprocess.PIPE, text=True, env=env)
    os.close(write)
    assert (ran.returncode, ran.stderr) == (141, "")
