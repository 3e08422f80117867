"""`recbole-adaptau report RUN_FOLDER…`: a page about runs, also while they are going on."""

import argparse
import sys
import webbrowser
from collections.abc import Sequence
from pathlib import Path

from ..files import need_parent
from .command import exit_code, new_parser

PROGRAM = "recbole-adaptau report"
EXAMPLES = f"""examples:
  {PROGRAM} runs/ml-100k --open                       every run below a folder
  {PROGRAM} runs/compare/ml-100k-honest/runs --output board.html
"""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the verb; returns its exit code."""
    return exit_code("report", _report, arguments)


def _report(words: list[str]) -> None:
    args = parser().parse_args(words)
    need_parent(args.output, "--output")
    from ..reporting.html.page import write_report  # after --help, which needs no PyTorch

    data = write_report(args.run_folder, args.output, args.title)
    for problem in data["skipped"]:
        print(f"note: left out: {problem}", file=sys.stderr)
    size = args.output.stat().st_size / 1e6
    print(f"{len(data['runs'])} runs written to {args.output} ({size:.1f} MB)")
    if args.open:
        webbrowser.open(args.output.absolute().as_uri())


def parser() -> argparse.ArgumentParser:
    made = new_parser(
        PROGRAM,
        "Write one HTML file about some runs: leaderboard, learning curves, temperatures, recall by\n"
        "popularity, settings. It needs no network. Runs that cannot be read are named and left out.",
        EXAMPLES,
    )
    made.add_argument("run_folder", nargs="+", metavar="RUN_FOLDER", help="a run's folder, or one with runs below it")
    made.add_argument("--output", type=Path, default=Path("report.html"), help="the file (default: %(default)s)")
    made.add_argument("--title", default="Runs", help="heading of the page (default: %(default)s)")
    made.add_argument("--open", action="store_true", help="open it in the browser")
    return made
