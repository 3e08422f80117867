"""`recbole-adaptau data`: prepare datasets from the command line."""

import argparse
from collections.abc import Sequence
from pathlib import Path

from ..data.columns import NAMES, USUAL, Columns
from ..data.convert import convert_lightgcn
from ..data.importer import import_file
from ..errors import OptionError
from .command import Parser, exit_code, new_parser, typed

EXAMPLE = """\
example:
  recbole-adaptau data convert --source downloads/gowalla --name gowalla
  recbole-adaptau train --dataset=gowalla
"""
IMPORT = ["import", "csv"]  # the second is what it was called before version 0.4
IMPORT_EXAMPLE = """\
example:
  recbole-adaptau data import --source shop.csv --name shop
  recbole-adaptau data import --source ratings.csv.gz --name films --rating stars --min-rating 4 --items movies.csv
  recbole-adaptau data import --source ratings.dat --name ml --no-header --user 1 --item 2 --rating 3 --time 4
"""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the verb; returns its exit code."""
    return exit_code("data", _data, arguments, "the conversion is not complete")


def _data(words: list[str]) -> None:
    options = parser().parse_args(words)
    if options.command is None:
        parser().print_help()
        return
    given = {key: value for key, value in vars(options).items() if key != "command"}
    if options.command in IMPORT:
        if options.item_name and not options.items:
            raise OptionError("--item-name is about the file of items: add --items FILE.")
        columns = Columns(**{kind: given.pop(kind) for kind in USUAL})
        print(import_file(columns=columns, **given))
    else:
        print(convert_lightgcn(**given))
    train = [f"--dataset={options.name}"]
    if options.output != Path("dataset"):
        train.append(f"--data_path={options.output}")
    print(f"\nnext:\n  {typed('train', train)}")
    if options.command == "convert":
        paper = typed("train", [*train, "--protocol=paper"])
        print(f"  {paper}   # selects on test, only to compare with published figures")


def parser() -> Parser:
    made = new_parser(
        "recbole-adaptau data", "Prepare datasets for RecBole.", EXAMPLE + IMPORT_EXAMPLE.split("\n", 1)[1]
    )
    commands = made.add_subparsers(dest="command", title="commands")
    convert = commands.add_parser(
        "convert",
        help="convert train.txt and test.txt (LightGCN text format) to RecBole's atomic files",
        description=(
            "Convert DIR/train.txt and DIR/test.txt to RecBole's atomic files in OUTPUT/NAME.\n"
            "Each line is a user id and its item ids, separated by spaces. The split is kept as given;\n"
            "a validation part is carved out of train."
        ),
        epilog=EXAMPLE,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    table = commands.add_parser(
        IMPORT[0],
        aliases=IMPORT[1:],
        help="import a file of interactions (CSV, JSON lines, Parquet) as RecBole's atomic files",
        description=(
            "Import a file of interactions to RecBole's atomic files in OUTPUT/NAME: delimited text, JSON lines or\n"
            "Parquet, plain or compressed (gzip, bz2, xz, zstd); the content tells which. Columns that are not needed\n"
            "are passed over. Every interaction is a positive, unless --min-rating says otherwise. The data is split\n"
            "when it is trained on: of each user's 80 % train, 10 % validate, 10 % test, at random (train --split)."
        ),
        epilog=IMPORT_EXAMPLE,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    convert.add_argument("--source", type=Path, required=True, metavar="DIR", help="folder with both files")
    table.add_argument("--source", type=Path, required=True, metavar="FILE", help="the file of interactions")
    for command in (convert, table):
        command.add_argument("--name", required=True, help="name of the dataset, later --dataset=NAME")
        command.add_argument(
            "--output", type=Path, default=Path("dataset"), help="folder of all datasets (default: %(default)s)"
        )
        command.add_argument(
            "--force", action="store_true", help="replace the converted files of an existing OUTPUT/NAME"
        )
    convert.add_argument(
        "--valid_ratio",
        type=float,
        default=0.1,
        help="share of each user's train items held out, above 0 and at most 0.5 (default: %(default)s)",
    )
    convert.add_argument("--seed", type=int, default=2020, help="seed of that draw (default: %(default)s)")
    _add_import_arguments(table)
    return made


def _add_import_arguments(table: argparse.ArgumentParser) -> None:
    for kind, usual in USUAL.items():
        unused = "; none: do not use one" if kind in ("time", "rating") else ""
        shown = f"{', '.join(usual[:4])} and the like"
        table.add_argument(f"--{kind}", metavar="COLUMN", help=f"its {kind} column (default: {shown}{unused})")
    table.add_argument(
        "--min-rating",
        type=float,
        metavar="N",
        help="rows with a rating below N, or without one, are no positives; they count as seen",
    )
    table.add_argument("--delimiter", metavar="TEXT", help="what separates the columns of text (default: found out)")
    table.add_argument(
        "--no-header", action="store_false", dest="header", help="the first line is data; columns are called 1, 2, ..."
    )
    table.add_argument(
        "--strict", action="store_true", help="refuse rows without a user or an item, else dropped and counted"
    )
    table.add_argument(
        "--items", type=Path, metavar="FILE", help="a second file with a row for each item: id, name, and more"
    )
    table.add_argument(
        "--item-name", metavar="COLUMN", help=f"its column of names (default: {', '.join(NAMES[:3])} and the like)"
    )
