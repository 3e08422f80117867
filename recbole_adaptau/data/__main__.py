"""`python -m recbole_adaptau.data`: prepare datasets from the command line."""

import argparse
import shlex
import sys
from collections.abc import Sequence
from pathlib import Path

from recbole_adaptau.data.convert import ConversionReport, convert_lightgcn
from recbole_adaptau.errors import AdapTauError

EXAMPLE = """\
example:
  python -m recbole_adaptau.data convert --source downloads/gowalla --name gowalla
  python run_recbole_adaptau.py --dataset=gowalla
"""


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command; returns the exit code (2 for a fault in what was given)."""
    parser = _parser()
    options = parser.parse_args(argv)
    if options.command is None:
        parser.print_help()
        return 0
    try:
        report = convert_lightgcn(
            source=options.source,
            name=options.name,
            output=options.output,
            valid_ratio=options.valid_ratio,
            seed=options.seed,
            force=options.force,
        )
    except (AdapTauError, OSError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print("interrupted: the conversion is not complete", file=sys.stderr)
        return 130
    print(format_report(report))
    print(f"\nnext:\n{_next_commands(options.name, options.output)}")
    return 0


def format_report(report: ConversionReport) -> str:
    """The counts as a small table, with what each cleaning step removed."""
    rows = [
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
    lines = [f"{label:<20}{count:>12,}  {note}".rstrip() for label, count, note in rows]
    return "\n".join([f"written to {report.folder}", *lines])


def _next_commands(name: str, output: Path) -> str:
    command = ["python", "run_recbole_adaptau.py", f"--dataset={name}"]
    if output != Path("dataset"):
        command.append(f"--data_path={output}")
    return "\n".join(
        f"  {shlex.join(line)}{note}"
        for line, note in (
            (command, ""),
            ([*command, "--protocol=paper"], "   # selects on test, only to compare with published figures"),
        )
    )


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m recbole_adaptau.data",
        description="Prepare datasets for RecBole.",
        epilog=EXAMPLE,
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
    convert.add_argument("--source", type=Path, required=True, metavar="DIR", help="folder with both files")
    convert.add_argument("--name", required=True, help="name of the dataset, later --dataset=NAME")
    convert.add_argument(
        "--output", type=Path, default=Path("dataset"), help="folder of all datasets (default: %(default)s)"
    )
    convert.add_argument(
        "--valid_ratio",
        type=float,
        default=0.1,
        help="share of each user's train items held out, above 0 and at most 0.5 (default: %(default)s)",
    )
    convert.add_argument("--seed", type=int, default=2020, help="seed of that draw (default: %(default)s)")
    convert.add_argument("--force", action="store_true", help="replace the converted files of an existing OUTPUT/NAME")
    return parser


if __name__ == "__main__":
    sys.exit(main())
