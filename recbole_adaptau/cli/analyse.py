"""`recbole-adaptau analyse RUN_FOLDER`: what a saved run has learned, as pictures and a page."""

import argparse
from collections.abc import Sequence
from pathlib import Path

from ..files import need_parent
from .command import exit_code, need_matplotlib, new_parser

PROGRAM = "recbole-adaptau analyse"
EXAMPLES = f"""examples:
  {PROGRAM} runs/ml-100k/AdapTauMF/RUN
  {PROGRAM} RUN_FOLDER --against OTHER --output pictures
"""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the verb; returns its exit code."""
    return exit_code("analyse", _analyse, arguments)


def _analyse(words: list[str]) -> None:
    args = parser().parse_args(words)
    need_matplotlib()
    from ..reporting.analysis import files  # after --help, which needs no PyTorch
    from ..reporting.saved_run import SavedRun
    from ..reporting.tables import write

    output = args.output or args.run_folder / "analysis"
    need_parent(output, "--output")
    for name, content in files(SavedRun(args.run_folder), SavedRun(args.against) if args.against else None).items():
        write(output / name, content)
    print((output / "analysis.md").read_text(encoding="utf-8"))
    print(f"written to {output}")


def parser() -> argparse.ArgumentParser:
    made = new_parser(
        PROGRAM,
        "Draw what a saved run has learned: norms and recall by popularity of the items and, for our models,\n"
        "the temperatures by epoch, and tau_u by number of positives and by mean popularity of a user's items.",
        EXAMPLES,
    )
    made.add_argument("run_folder", type=Path, metavar="RUN_FOLDER", help="what a run has left")
    made.add_argument("--against", type=Path, metavar="OTHER", help="another run: a paired test over their test users")
    made.add_argument("--output", type=Path, help="where the pictures go (default: RUN_FOLDER/analysis)")
    return made
