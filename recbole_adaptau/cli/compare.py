"""`recbole-adaptau compare`: how good is each model on my data, and what does it cost?"""

import argparse
from collections.abc import Sequence
from pathlib import Path

from .. import __version__
from ..errors import OptionError
from ..files import need_parent
from ..runs.pool import Workers
from ..studies.leaderboard.board import Board
from ..studies.leaderboard.entries import FIRST_SEED, MODELS, common, entries
from ..training.checkpoint import quoted
from .arguments import TAKEN, add_data_arguments, given_settings, refuse_twice
from .command import RESUMABLE, exit_code, new_parser, typed

PROGRAM = "recbole-adaptau compare"
EXAMPLES = f"""examples:
  {PROGRAM}                                                   {len(MODELS)} models on ml-100k, three seeds
  {PROGRAM} --models AdapTauMF BPR ItemKNN --seeds 1          any of RecBole's general models
  {PROGRAM} --dataset ml-1m --seeds 1 --budget 40 --parallel 2
  {PROGRAM} --models AdapTauMF --epochs=5                     any configuration key, for all models

The folder of the results holds leaderboard.md, .csv, .json, report.html and the runs.
Ctrl-C at any time: the same command goes on where it stopped, and complete runs are not made again.
"""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the verb; returns its exit code (1: some model failed)."""
    return exit_code("compare", _compare, arguments, RESUMABLE)


def _compare(words: list[str]) -> int:
    args, rest = parser().parse_known_args(words)
    given = given_settings(args.config_files, rest, TAKEN | {"model": "--models", "budget_minutes": "--budget"})
    refuse_twice("--models", args.models)
    workers = Workers.checked(args.parallel, args.ray_address)
    if args.seeds < 1:
        raise OptionError(f"--seeds {args.seeds}: must be the number of seeds, at least 1.")
    if args.budget is not None and args.budget <= 0:
        raise OptionError(f"--budget {args.budget}: must be minutes above 0.")
    given |= quoted({"protocol": args.protocol, "data_path": args.data_path})
    output = args.output or Path("runs/compare") / f"{args.dataset}-{args.protocol}"
    need_parent(output, "--output")
    board = Board(entries(args.models, args.dataset), args.dataset, args.seeds, args.budget, given, output)
    about = {
        "experiment": "leaderboard",
        "command": typed("compare", words),
        "version": __version__,
        "dataset": args.dataset,
        "protocol": args.protocol,
        "budget": args.budget,
        "valid_metric": common()["valid_metric"],
        "seeds": board.seeds,
        "given": dict(given),
        "model": "leaderboard",
    }
    failed = board.carry_out(about, workers)
    print((output / "leaderboard.md").read_text(encoding="utf-8"))
    print(f"written to {output}: leaderboard.md, .csv, .json and report.html")
    return 1 if failed else 0


def parser() -> argparse.ArgumentParser:
    made = new_parser(
        PROGRAM,
        "Train several models on one dataset with the same split, evaluator, early stopping and\n"
        "embedding size, each with its published settings for that data or the best of three by\n"
        "validation; write a leaderboard.",
        EXAMPLES,
        allow_abbrev=False,
    )
    made.add_argument("--dataset", "-d", default="ml-100k", help="dataset name (default: %(default)s)")
    made.add_argument(
        "--models", "-m", nargs="+", default=list(MODELS), metavar="NAME", help=f"default: {' '.join(MODELS)}"
    )
    made.add_argument(
        "--seeds", type=int, default=3, metavar="N", help=f"how many seeds, from {FIRST_SEED} on (default: %(default)s)"
    )
    made.add_argument(
        "--budget", type=float, metavar="MINUTES", help="training time of each model, over all of its runs"
    )
    add_data_arguments(made, "runs/compare/DATASET-PROTOCOL", parallel=1)
    return made
