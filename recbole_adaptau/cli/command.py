"""What all verbs have in common: exit codes, errors in one line, and a quiet end when nobody reads the output."""

import argparse
import os
import re
import select
import shlex
import sys
from collections.abc import Callable, Sequence
from logging import NOTSET, disable
from typing import Any, NoReturn

from ..errors import AdapTauError, OptionError, did_you_mean, need

PROGRAM = "recbole-adaptau"
# What `exit_code` says of an interrupted study; {command} is the command as it was typed.
RESUMABLE = "every finished epoch is saved; go on with:\n  {command}"
HIDDEN = "point"  # a subcommand of bench that only bench itself uses
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


class Parser(argparse.ArgumentParser):
    """Refuses in one sentence, with the nearest name, instead of argparse's list of everything."""

    def error(self, message: str) -> NoReturn:
        choice = re.fullmatch(r"argument (\S+): invalid choice: '(.*)' \(choose from (.*)\)", message, re.S)
        if choice:
            names = [name.strip(" '") for name in choice[3].split(",")]
            known = ", ".join(name for name in names if name != HIDDEN)
            what = choice[2] if choice[1] == "command" else f"{choice[1]} {choice[2]}"
            message = f"'{what}' is not one of {known}.{did_you_mean(choice[2], names)}"
        else:
            message = f"{message}; see {self.prog} --help."
        raise OptionError(message)


def new_parser(prog: str, description: str, epilog: str, **more: Any) -> Parser:
    """A parser that leaves the lines of its texts as they are."""
    return Parser(
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
