"""What all verbs have in common: exit codes, errors in one line, and a quiet end when nobody reads the output."""

import argparse
import os
import select
import shlex
import sys
from collections.abc import Callable, Sequence
from logging import NOTSET, disable
from typing import Any

from ..errors import AdapTauError, need

PROGRAM = "recbole-adaptau"
# What `exit_code` says of an interrupted study; {command} is the command as it was typed.
RESUMABLE = "every finished epoch is saved; go on with:\n  {command}"
PIPE_CLOSED = 141  # 128 + SIGPIPE, as 130 is 128 + SIGINT and 143 is 128 + SIGTERM


def exit_code(
    verb: str,
    action: Callable[[list[str]], int | None],
    arguments: Sequence[str] | None,
    interrupted: str = "",
    silenced: int = NOTSET,
) -> int:
    """Carry out a verb.

    Args:
        verb: Its name.
        action: Does the work; takes the words after the verb, and may return an exit code of its own.
        arguments: Those words; None for the program's own.
        interrupted: What to say after "interrupted"; empty for what the interruption says itself.
        silenced: Log records up to this level are dropped.

    Returns:
        0 done, 2 bad input, 130 Ctrl-C, 143 SIGTERM, 141 the reader of the output has left (`… | head`).
    """
    words = list(sys.argv[1:] if arguments is None else arguments)
    # RecBole's Config takes the program's arguments for its own.
    argv, sys.argv = sys.argv, sys.argv[:1] or [""]
    disable(silenced)
    try:
        try:
            return action(words) or 0
        finally:
            sys.stdout.flush()
    except (AdapTauError, OSError) as error:
        if isinstance(error, BrokenPipeError) and _nobody_reads():
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # Python flushes once more when it ends
            return PIPE_CLOSED
        print(f"error: {error}", file=sys.stderr)
        return 2
    except KeyboardInterrupt as stop:
        told = f"interrupted; {interrupted.format(command=typed(verb, words))}" if interrupted else str(stop)
        print(told or "interrupted", file=sys.stderr)
        return getattr(stop, "exit_code", 130)
    finally:
        disable(NOTSET)
        sys.argv = argv


def typed(verb: str, words: Sequence[str]) -> str:
    """The command as somebody would type it."""
    return shlex.join([PROGRAM, verb, *words])


def new_parser(prog: str, description: str, epilog: str, **more: Any) -> argparse.ArgumentParser:
    """A parser that leaves the lines of its texts as they are."""
    return argparse.ArgumentParser(
        prog=prog,
        description=description,
        epilog=epilog,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        **more,
    )


def need_matplotlib() -> None:
    need("matplotlib", "pictures need", "plot")


def _nobody_reads() -> bool:
    """Whether the reader of our output has left; a pipe between processes may break, too."""
    try:
        watched = select.poll()
        watched.register(sys.stdout.fileno(), 0)
        return any(event & select.POLLERR for _, event in watched.poll(0))
    except (AttributeError, OSError):  # Windows has no poll; a test's output is no file
        return False
