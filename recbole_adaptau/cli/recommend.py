"""`recbole-adaptau recommend`: what a trained model recommends, by the ids of the data."""

import argparse
import sys
from collections.abc import Iterable, Sequence
from logging import INFO
from pathlib import Path

import pandas as pd

from ..data.text import read_text
from ..errors import DataError, OptionError
from ..serving.recommender import Recommender
from ..serving.tables import WRITERS, check_output, format_table, write_table
from .arguments import add_run_arguments
from .command import exit_code, new_parser

PROGRAM = "recbole-adaptau recommend"
EXAMPLES = f"""examples:
  {PROGRAM} RUN_FOLDER --users 1 2 3                  a table for three users
  {PROGRAM} RUN_FOLDER --output top.csv               a file for all users (.csv, .jsonl, .parquet)
  {PROGRAM} RUN_FOLDER --users-file who.txt --k 100 --output top.parquet
  {PROGRAM} RUN_FOLDER --liked 50 181 172             for somebody new, from items they like
"""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the verb; returns its exit code."""
    return exit_code("recommend", _recommend, arguments, "nothing was written", silenced=INFO)


def _recommend(words: list[str]) -> None:
    args = parser().parse_args(words)
    # All that can be wrong without the model is found before it is loaded.
    check_table_arguments(args)
    users = read_users(args.users_file) if args.users_file else args.users
    recommender = Recommender.from_run(args.run_folder, args.data_path, args.names)
    parts: Iterable[pd.DataFrame]
    if args.liked:
        liked = recommender.item_ids[known(recommender, "item", args.liked)]
        parts = [recommender.recommend_for(liked, args.k, args.include_seen)]
    else:
        places = None if users is None else known(recommender, "user", users)
        progress = args.output is not None and sys.stderr.isatty()
        parts = recommender.batches(places, args.k, args.include_seen, progress)
    show_or_write(args.output, parts)


def read_users(path: Path) -> list[str]:
    """The user ids of a file, one a line; empty lines are passed over.

    Raises:
        DataError: no such file, not text, more than an id in a line, or no id at all.
    """
    users = []
    for number, line in enumerate(read_text(path).split("\n"), start=1):
        user = line.strip()
        if "\t" in user or "," in user or not user.isprintable():
            raise DataError(f"{path}, line {number}: write one user id a line and nothing else, not {user[:60]!r}.")
        if user:
            users.append(user)
    if not users:
        raise DataError(f"{path}: no user ids; write one a line.")
    return users


def check_table_arguments(args: argparse.Namespace) -> None:
    if args.k < 1:
        raise OptionError(f"--k {args.k}: must be at least 1.")
    if args.output:
        check_output(args.output)


def show_or_write(output: Path | None, parts: Iterable[pd.DataFrame], by: str = "user") -> None:
    """Write the rows to a file, or print them, what differs in the column `by` apart from each other."""
    if output:
        print(f"{write_table(output, parts):,} rows written to {output}")
    else:
        for part in parts:
            print(format_table(part, by), end="")


def known(recommender: Recommender, kind: str, ids: Sequence[str]) -> list[int]:
    """The internal ids of those in the data; the others are reported."""
    places, unknown = recommender.known(kind, ids)
    if unknown:
        shown = ", ".join(unknown[:10]) + (", …" if len(unknown) > 10 else "")
        print(f"note: {len(unknown)} of {len(ids)} {kind}s not in the data, left out: {shown}", file=sys.stderr)
        if kind == "user":
            print("note: for somebody new, name items they like: --liked ITEM …", file=sys.stderr)
    return places


def parser() -> argparse.ArgumentParser:
    made = new_parser(
        PROGRAM,
        "The items a trained model ranks highest for each user, without those the user has seen: all that\n"
        "the data has them down for, in training, validation and test.",
        EXAMPLES,
    )
    who = made.add_mutually_exclusive_group()
    who.add_argument("--users", nargs="+", metavar="ID", help="users by their ids in the data")
    who.add_argument("--users-file", type=Path, metavar="FILE", help="a text file with one user id a line")
    who.add_argument("--all", action="store_true", help="all users (the default)")
    who.add_argument("--liked", nargs="+", metavar="ITEM", help="instead of a user: items that somebody new likes")
    made.add_argument("--include-seen", action="store_true", help="rank what the user has seen, too")
    add_table_arguments(made, k=20)
    return made


def add_table_arguments(made: argparse.ArgumentParser, k: int) -> None:
    """What a verb takes that makes a table of items from a saved run; `k` is the default number of items."""
    add_run_arguments(made)
    made.add_argument("--k", type=int, default=k, help="how many items for each (default: %(default)s)")
    made.add_argument(
        "--output", type=Path, metavar="FILE", help=f"write to a file, as its suffix says: {', '.join(WRITERS)}"
    )
    made.add_argument(
        "--names", metavar="FIELD", help="column of DATASET.item with the items' names (default: the one called so)"
    )
