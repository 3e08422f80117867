"""`recbole-adaptau recommend`: what a trained model recommends, by the ids of the data."""

import argparse
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path

import pandas as pd

from ..data.text import read_text
from ..errors import DataError, OptionError
from ..serving.recommender import Recommender
from ..serving.tables import WRITERS, check_output, format_table, write_table
from .command import exit_code

__all__ = ["Recommender", "main"]

PROGRAM = "recbole-adaptau recommend"
EXAMPLES = f"""examples:
  {PROGRAM} RUN_FOLDER --users 1 2 3                  a table for three users
  {PROGRAM} RUN_FOLDER --output top.csv               a file for all users (.csv, .jsonl, .parquet)
  {PROGRAM} RUN_FOLDER --users-file who.txt --k 100 --output top.parquet
  {PROGRAM} RUN_FOLDER --liked 50 181 172             for somebody new, from items they like
"""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command; returns its exit code (0 done, 2 bad input, 130 interrupted)."""
    args = _parser().parse_args(arguments)
    return exit_code(lambda: _recommend(args), "nothing was written")


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


def _recommend(args: argparse.Namespace) -> None:
    # All that can be wrong without the model is found before it is loaded.
    if args.k < 1:
        raise OptionError(f"--k {args.k}: must be at least 1.")
    if args.output:
        check_output(args.output)
    users = read_users(args.users_file) if args.users_file else args.users
    recommender = Recommender.from_run(args.run_folder, args.data_path, args.names)
    parts: Iterable[pd.DataFrame]
    if args.liked:
        liked = recommender.item_ids[_known(recommender, "item", args.liked)]
        parts = [recommender.recommend_for(liked, args.k, args.include_seen)]
    else:
        places = None if users is None else _known(recommender, "user", users)
        progress = args.output is not None and sys.stderr.isatty()
        parts = recommender.batches(places, args.k, args.include_seen, progress)
    if args.output:
        rows = write_table(args.output, parts)
        print(f"{rows:,} rows written to {args.output}")
    else:
        for part in parts:
            print(format_table(part), end="")


def _known(recommender: Recommender, kind: str, ids: Sequence[str]) -> list[int]:
    """The internal ids of those in the data; the others are reported."""
    places, unknown = recommender.known(kind, ids)
    if unknown:
        shown = ", ".join(unknown[:10]) + (", …" if len(unknown) > 10 else "")
        print(f"note: {len(unknown)} of {len(ids)} {kind}s not in the data, left out: {shown}", file=sys.stderr)
        if kind == "user":
            print("note: for somebody new, name items they like: --liked ITEM …", file=sys.stderr)
    return places


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog=PROGRAM,
        description="The items a trained model ranks highest for each user, without those the user has seen: all that\n"
        "the data has them down for, in training, validation and test.",
        epilog=EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("run_folder", metavar="RUN_FOLDER", help="what a run has left, e.g. runs/ml-100k/AdapTauMF/RUN")
    who = parser.add_mutually_exclusive_group()
    who.add_argument("--users", nargs="+", metavar="ID", help="users by their ids in the data")
    who.add_argument("--users-file", type=Path, metavar="FILE", help="a text file with one user id a line")
    who.add_argument("--all", action="store_true", help="all users (the default)")
    who.add_argument("--liked", nargs="+", metavar="ITEM", help="instead of a user: items that somebody new likes")
    parser.add_argument("--k", type=int, default=20, help="how many items for each (default: %(default)s)")
    parser.add_argument("--include-seen", action="store_true", help="rank what the user has seen, too")
    parser.add_argument(
        "--output", type=Path, metavar="FILE", help=f"write to a file, as its suffix says: {', '.join(WRITERS)}"
    )
    parser.add_argument(
        "--names", metavar="FIELD", help="column of DATASET.item with the items' names (default: the one called so)"
    )
    parser.add_argument(
        "--data-path", "--data_path", metavar="DIR", help="folder of all datasets, if it has moved since training"
    )
    return parser


if __name__ == "__main__":
    sys.exit(main())
