"""`recbole-adaptau update`: next day's interactions into a run that serves."""

import argparse
from collections.abc import Sequence
from logging import INFO
from pathlib import Path

from ..data.columns import NONE, USUAL
from ..data.frames import read_pairs
from ..serving.update import EPOCHS, HELD_OUT, update
from .command import exit_code, new_parser
from .recommend import warnings_as_notes

PROGRAM = "recbole-adaptau update"
WORSE = 3  # exit code
EXAMPLES = f"""examples:
  {PROGRAM} runs/shop new.parquet
  {PROGRAM} runs/shop orders.csv --user buyer --item article --time day --epochs 3

exit codes: 0 the new model recommends now, or there was nothing new; {WORSE} it is worse, and the old one stays
"""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the verb; returns its exit code."""
    return exit_code("update", _update, arguments, "the run recommends as before", silenced=INFO)


def _update(words: list[str]) -> int:
    args = parser().parse_args(words)
    with warnings_as_notes():
        rows = read_pairs(args.file, args.user, args.item, args.time, args.rating)
        all_positive = args.rating == NONE
        done = update(args.run_folder, rows, args.epochs, args.held_out, not args.unchecked, all_positive)
    print(done)
    return 0 if done.replaced or not done.interactions else WORSE


def parser() -> argparse.ArgumentParser:
    made = new_parser(
        PROGRAM,
        "Train a run further on with new interactions, users and items, from the weights that serve now. A share\n"
        "of what is new is held out: if the new model is no worse on it than the old one, it takes its place, at\n"
        "once and whole. Whoever recommends from the folder meanwhile gets the old model or the new one.",
        EXAMPLES,
    )
    made.add_argument("run_folder", metavar="RUN_FOLDER", help="what a run has left, e.g. runs/shop")
    made.add_argument(
        "file", type=Path, metavar="FILE", help="new interactions, CSV, JSON lines or Parquet; known ones do not matter"
    )
    for kind in USUAL:
        made.add_argument(f"--{kind}", metavar="COLUMN", help=f"its {kind} column, if it does not have a usual name")
    made.add_argument("--epochs", type=int, default=EPOCHS, help="how long to train (default: %(default)s)")
    made.add_argument(
        "--held-out", type=float, default=HELD_OUT, metavar="SHARE", help="share to compare on (default: %(default)s)"
    )
    made.add_argument("--unchecked", action="store_true", help="put the new model in place without comparing")
    return made
