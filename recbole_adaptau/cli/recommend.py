"""`recbole-adaptau recommend`: what a trained model recommends, by the ids of the data."""

import argparse
import sys
import warnings
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from logging import INFO
from pathlib import Path
from typing import Any

import pandas as pd

from ..data.frames import read_pairs
from ..data.text import read_text
from ..errors import DataError, DataWarning, OptionError
from ..files import need_parent
from ..serving.recommender import Recommender
from ..serving.tables import WRITERS, check_output, format_table, write_table
from .arguments import add_run_arguments
from .command import exit_code, new_parser

PROGRAM = "recbole-adaptau recommend"
PAIRS = "a CSV, JSON lines or Parquet file with user and item"
EXAMPLES = f"""examples:
  {PROGRAM} RUN_FOLDER --users 1 2 3                  a table for three users
  {PROGRAM} RUN_FOLDER --output top.csv               a file for all users (.csv, .jsonl, .parquet)
  {PROGRAM} RUN_FOLDER --users-file who.txt --k 100 --output top.parquet
  {PROGRAM} RUN_FOLDER --liked 50 181 172             for somebody new, from items they like
  {PROGRAM} RUN_FOLDER --users 1 --deny sold_out.txt --explain 2
"""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the verb; returns its exit code."""
    return exit_code("recommend", _recommend, arguments, "nothing was written", silenced=INFO)


def _recommend(words: list[str]) -> None:
    args = parser().parse_args(words)
    # All that can be wrong without the model is found before it is loaded.
    check_table_arguments(args)
    users = read_ids(args.users_file) if args.users_file else args.users
    if not (users or args.liked or args.liked_file or args.all or args.output):
        raise OptionError("say for whom: --users ID …, --users-file FILE or --all; or give a file with --output FILE.")
    filters: dict[str, Any] = {name: read_ids(given) for name in ("allow", "deny") if (given := getattr(args, name))}
    filters |= {name: read_pairs(given) for name in ("exclude", "candidates") if (given := getattr(args, name))}
    liked = read_pairs(args.liked_file) if args.liked_file else args.liked
    with warnings_as_notes():
        recommender = Recommender.load(args.run_folder, args.data_path, args.names)
        options = {**filters, "k": args.k, "include_seen": args.include_seen, "explain": args.explain}
        parts: Iterable[pd.DataFrame]
        if liked is not None:
            parts = [recommender.recommend_for(liked, **options)]
        else:
            known = None if users is None else need_known(recommender, "user", users)
            parts = recommender.batches(known, progress=args.output is not None and sys.stderr.isatty(), **options)
        show_or_write(args.output, parts)


@contextmanager
def warnings_as_notes() -> Iterator[None]:
    """What we warn of is a line for whoever uses the command; other libraries' warnings are for programmers."""

    def show(message: Any, *_: Any, **__: Any) -> None:
        print(f"note: {message}", file=sys.stderr)

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        warnings.simplefilter("always", DataWarning)
        warnings.showwarning = show
        yield


def read_ids(path: Path) -> list[str]:
    """The ids of a file, one a line; empty lines are passed over.

    Raises:
        DataError: no such file, not text, more than an id in a line, or no id at all.
    """
    ids = []
    for number, line in enumerate(read_text(path).split("\n"), start=1):
        name = line.strip()
        if "\t" in name or "," in name or not name.isprintable():
            raise DataError(f"{path}, line {number}: write one id a line and nothing else, not {name[:60]!r}.")
        if name:
            ids.append(name)
    if not ids:
        raise DataError(f"{path}: no ids; write one a line.")
    return ids


def check_table_arguments(args: argparse.Namespace) -> None:
    if args.k < 1:
        raise OptionError(f"--k {args.k}: must be at least 1.")
    if getattr(args, "explain", 0) < 0:
        raise OptionError(f"--explain {args.explain}: must be at least 0.")
    if args.output:
        check_output(args.output)
        need_parent(args.output, "--output")


def show_or_write(output: Path | None, parts: Iterable[pd.DataFrame], by: str = "user") -> None:
    """Write the rows to a file, or print them, what differs in the column `by` apart from each other."""
    if output:
        print(f"{write_table(output, parts):,} rows written to {output}")
    else:
        for part in parts:
            print(format_table(part, by), end="")


def need_known(recommender: Recommender, kind: str, ids: Sequence[str]) -> list[str]:
    """Those of the ids that are in the data; the others are reported, and that there is none is an error."""
    known, unknown = recommender.known(kind, ids)
    shown = ", ".join(unknown[:10]) + (", …" if len(unknown) > 10 else "")
    instead = " For somebody new, name items they like: --liked ITEM …" if kind == "user" else ""
    if not known:
        raise DataError(f"none of the {kind}s is in the data: {shown}.{instead}")
    if unknown:
        print(
            f"note: {len(unknown)} of {len(ids)} {kind}s not in the data, left out: {shown}.{instead}", file=sys.stderr
        )
    return known


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
    who.add_argument("--all", action="store_true", help="all users (the default with --output)")
    who.add_argument("--liked", nargs="+", metavar="ITEM", help="instead of a user: items that somebody new likes")
    who.add_argument(
        "--liked-file", type=Path, metavar="FILE", help=f"many new users: {PAIRS}, what each of them likes"
    )
    made.add_argument("--include-seen", action="store_true", help="rank what the user has seen, too")
    made.add_argument("--allow", type=Path, metavar="FILE", help="only the items of a text file with one id a line")
    made.add_argument("--deny", type=Path, metavar="FILE", help="none of the items of such a file")
    made.add_argument("--exclude", type=Path, metavar="FILE", help=f"none of these for single users: {PAIRS}")
    made.add_argument("--candidates", type=Path, metavar="FILE", help=f"only these for each user: {PAIRS}")
    made.add_argument(
        "--explain", type=int, default=0, metavar="N", help="name up to N of a user's own items as reasons for each"
    )
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
