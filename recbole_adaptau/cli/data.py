"""`recbole-adaptau data`: prepare datasets from the command line."""

import argparse
from collections.abc import Sequence
from pathlib import Path

from ..data.convert import convert_lightgcn
from ..data.csv_file import USUAL, convert_csv
from .command import exit_code, new_parser, typed

EXAMPLE = """\
example:
  recbole-adaptau data convert --source downloads/gowalla --name gowalla
  recbole-adaptau train --dataset=gowalla
"""
CSV_EXAMPLE = """\
example:
  recbole-adaptau data csv --source shop.csv --name shop
  recbole-adaptau data csv --source ratings.csv --name films --user viewer --item film --time seen_at
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
    print((convert_csv if options.command == "csv" else convert_lightgcn)(**given))
    train = [f"--dataset={options.name}"]
    if options.output != Path("dataset"):
        train.append(f"--data_path={options.output}")
    print(f"\nnext:\n  {typed('train', train)}")
    if options.command == "convert":
        paper = typed("train", [*train, "--protocol=paper"])
        print(f"  {paper}   # selects on test, only to compare with published figures")


def parser() -> argparse.ArgumentParser:
    made = new_parser("recbole-adaptau data", "Prepare datasets for RecBole.", EXAMPLE + CSV_EXAMPLE.split("\n", 1)[1])
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
        "csv",
        help="convert a CSV file of interactions (user, item, perhaps a time) to RecBole's atomic files",
        description=(
            "Convert a CSV file with a header line to RecBole's atomic files in OUTPUT/NAME. The columns may be\n"
            "separated by commas, semicolons or tabs; those that are not needed are passed over. RecBole splits\n"
            "the data when it loads it: 80 % training, 10 % validation, 10 % test of each user's, at random."
        ),
        epilog=CSV_EXAMPLE,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    convert.add_argument("--source", type=Path, required=True, metavar="DIR", help="folder with both files")
    table.add_argument("--source", type=Path, required=True, metavar="FILE", help="the CSV file")
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
    for kind, usual in USUAL.items():
        table.add_argument(f"--{kind}", metavar="COLUMN", help=f"its {kind} column (default: {', '.join(usual)})")
    return made
