"""One command with a verb for each thing it does; a verb's module is imported only when it is asked for."""

import os
import signal
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from importlib import import_module

from ..errors import OptionError, did_you_mean
from .command import PROGRAM, exit_code, typed

VERBS = {
    "train": "train and test a model, ours or RecBole's",
    "data": "make a dataset from a file of interactions, or from LightGCN's train.txt and test.txt",
    "recommend": "what a trained model recommends, to a table or a file",
    "similar": "the items most similar to an item, as a trained model sees them",
    "export": "a run's embeddings, for search in a system of your own",
    "update": "next day's interactions into a run that serves",
    "tune": "search learning rate, L2 and layers by validation",
    "compare": "several models on one dataset: a leaderboard",
    "experiment": "a table or figure of the paper, a grid over tau, several seeds",
    "analyse": "pictures of what one run has learned",
    "report": "one HTML page about any runs",
    "bench": "speed, memory and scaling on this machine",
}


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a verb; returns its exit code (2: there is no such verb)."""
    return exit_code("", _main, arguments)


def _main(words: list[str]) -> int:
    if not words or words[0] in ("-h", "--help"):
        print(overview())
        return 0
    if words[0] == "--version":
        from .. import __version__

        print(f"recbole_adaptau {__version__}")
        return 0
    verb, *rest = words
    if verb.startswith("-"):
        raise OptionError(f"a verb comes first; to train a model: {typed('train', words)}")
    if verb not in VERBS:
        raise OptionError(f"'{verb}' is not one of {', '.join(VERBS)}.{did_you_mean(verb, VERBS)}")
    with _ending_at_once():
        module = import_module(f".{verb}", __package__)
    code: int = module.main(rest)
    return code


@contextmanager
def _ending_at_once() -> Iterator[None]:
    """While modules are imported, Ctrl-C ends the process: libraries make errors of their own of an interrupt there."""

    def end(*_: object) -> None:
        os.write(2, b"interrupted\n")
        os._exit(130)

    try:
        by_default = signal.getsignal(signal.SIGINT) is signal.default_int_handler
        before = signal.signal(signal.SIGINT, end) if by_default else None
    except ValueError:  # not the main thread, which alone hears signals
        before = None
    try:
        yield
    finally:
        if before is not None:
            signal.signal(signal.SIGINT, before)


def overview() -> str:
    lines = [f"  {verb:<11}{meaning}" for verb, meaning in VERBS.items()]
    return "\n".join(
        [
            f"usage: {PROGRAM} VERB …",
            "",
            "Softmax recommenders whose temperature nobody has to tune: Adap-tau for RecBole.",
            "",
            *lines,
            "",
            f"{PROGRAM} VERB --help explains each, {PROGRAM} --version names the version.",
            "python -m recbole_adaptau VERB is the same command.",
        ]
    )
