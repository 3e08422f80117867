"""`recbole-adaptau data`: prepare datasets from the command line."""

import argparse
import shlex
import sys
from collections.abc import Sequence
from pathlib import Path

from ..data.convert import ConversionReport, convert_lightgcn
from ..data.csv_file import USUAL, CsvReport, convert_csv
from ..errors import AdapTauError

EXAMPLE = """\
example:
  recbole-adaptau data convert --source downloads/gowalla --name gowalla
  python run_recbole_adaptau.py --dataset=gowalla
"""
CSV_EXAMPLE = """\
example:
  recbole-adaptau data csv --source shop.csv --name shop
  recbole-adaptau data csv --source ratings.csv --name films --user viewer --item film --time seen_at
"""


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command; returns the exit code (2 for a fault in what was given)."""
    parser = _parser()
    options = parser.parse_args(argv)
    if options.command is None:
        parser.print_help()
        return 0
    try:
        given = {key: value for key, value in vars(options).items() if key != "command"}
        report = (convert_csv if options.command == "csv" else convert_lightgcn)(**given)
    except (AdapTauError, OSError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print("interrupted: the conversion is not complete", file=sys.stderr)
        return 130
    print(format_report(report))
    print(f"\nnext:\n{_next_commands(options.name, options.output, given_split=options.command == 'convert')}")
    return 0


def format_report(report: ConversionReport | CsvReport) -> str:
    """The counts as a small table, with what each cleaning step removed."""
    rows = _csv_rows(report) if isinstance(report, CsvReport) else _lightgcn_rows(report)
    lines = [f"{label:<20}{count:>12,}  {note}".rstrip() for label, count, note in rows]
    return "\n".join([f"written to {report.folder}", *lines])


def _csv_rows(report: CsvReport) -> list[tuple[str, int, str]]:
    times = report.columns.get("time")
    return [
        ("users", report.users, f"column {report.columns['user']}"),
        ("items", report.items, f"column {report.columns['item']}"),
        ("interactions", report.interactions, f"with times, column {times}" if times else "without times"),
        ("duplicates dropped", report.duplicates_dropped, "further rows of the same user and item"),
    ]


def _lightgcn_rows(report: ConversionReport) -> list[tuple[str, int, str]]:
    return [
        ("users", report.users, ""),
        ("items", report.items, ""),
        ("train", report.train, "interactions, = fit + valid"),
        ("  fit", report.fit, ""),
        ("  valid", report.valid, ""),
        ("test", report.test, ""),
        ("duplicates dropped", report.duplicates_dropped, "an item repeated for a user"),
        ("overlap dropped", report.overlap_dropped, "test pairs that are also in train"),
        ("lines merged", report.merged_lines, "further lines of a user"),
        ("cold test users", report.cold_test_users, "in test only, kept"),
        ("cold test items", report.cold_test_items, "in test only, kept"),
    ]


def _next_commands(name: str, output: Path, given_split: bool) -> str:
    command = ["python", "run_recbole_adaptau.py", f"--dataset={name}"]
    if output != Path("dataset"):
        command.append(f"--data_path={output}")
    lines = [shlex.join(command)]
    if given_split:
        paper = shlex.join([*command, "--protocol=paper"])
        lines.append(f"{paper}   # selects on test, only to compare with published figures")
    return "\n".join(f"  {line}" for line in lines)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="recbole-adaptau data",
        description="Prepare datasets for RecBole.",
        epilog=EXAMPLE + CSV_EXAMPLE.split("\n", 1)[1],
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    commands = parser.add_subparsers(dest="command", title="commands")
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
    return parser


if __name__ == "__main__":
    sys.exit(main())
