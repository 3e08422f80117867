"""`recbole-adaptau similar`: the items most similar to an item, as a trained model sees them."""

import argparse
from collections.abc import Iterator, Sequence
from logging import INFO

import pandas as pd

from ..errors import OptionError
from ..serving.recommender import Recommender
from .command import exit_code, new_parser
from .recommend import add_table_arguments, check_table_arguments, need_known, show_or_write, warnings_as_notes

PROGRAM = "recbole-adaptau similar"
EXAMPLES = f"""examples:
  {PROGRAM} RUN_FOLDER --items 50 181 --k 10      a table for two items
  {PROGRAM} RUN_FOLDER --output similar.csv       a file for all items (.csv, .jsonl, .parquet)
"""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the verb; returns its exit code."""
    return exit_code("similar", _similar, arguments, "nothing was written", silenced=INFO)


def _similar(words: list[str]) -> None:
    args = parser().parse_args(words)
    check_table_arguments(args)
    if not args.items and not args.output:
        raise OptionError("name items with --items ID …, or give a file for all items with --output FILE.")
    with warnings_as_notes():
        recommender = Recommender.load(args.run_folder, args.data_path, args.names)
        known = need_known(recommender, "item", args.items) if args.items else None
        parts = recommender.similar_batches(known, args.k)
        show_or_write(args.output, parts if args.output else _with_names(parts), by="item")


def _with_names(parts: Iterator[pd.DataFrame]) -> Iterator[pd.DataFrame]:
    """The rows with an item's name beside its id, where there are names, to be printed."""
    for part in parts:
        if "name" in part:
            part["item"] = part["item"].astype(str) + "  " + part.pop("name")
        yield part


def parser() -> argparse.ArgumentParser:
    made = new_parser(
        PROGRAM,
        "The items nearest to an item by the cosine of their embeddings in a trained model. Popularity has no say\n"
        "where the model has a term for it.",
        EXAMPLES,
    )
    made.add_argument("--items", nargs="+", metavar="ID", help="items by their ids in the data")
    add_table_arguments(made, k=10)
    return made
