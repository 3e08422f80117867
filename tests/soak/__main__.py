"""`make soak`, or `python -m tests.soak`: the trials that take too long for the test suite."""

import argparse
import sys
import tempfile
from pathlib import Path

from tests.conftest import write_board
from tests.soak import cluster, kills, memory, ranks


def main() -> int:
    """Run the trials; returns 0 if everything survived."""
    args = _parser().parse_args()
    good = True
    with tempfile.TemporaryDirectory(prefix="soak-") as folder:
        root = Path(folder)
        write_board(root)
        if args.what in ("kills", "all"):
            combinations = kills.FEW if args.few else kills.ALL
            table, survived = kills.soak(root, combinations, args.kills, args.seed)
            print(f"\nSIGKILL and resume\n\n{table}\n", flush=True)
            good &= survived
        if args.what in ("ranks", "all"):
            table, survived = ranks.soak(root, args.kills, args.seed, args.few)
            print(f"\nranks, agents and commands killed\n\n{table}\n", flush=True)
            good &= survived
        if args.what in ("cluster", "all"):
            told, whole = cluster.soak(root)
            print(f"\na raylet killed below a leaderboard: {told}\n", flush=True)
            good &= whole
        if args.what in ("memory", "all"):
            names = list(memory.RUNS)[:1] if args.few else list(memory.RUNS)
            table, flat = memory.soak(root, names, args.epochs)
            print(f"\nmemory over {args.epochs} epochs: {'flat' if flat else 'IT GROWS'}\n\n{table}\n", flush=True)
            good &= flat
    return 0 if good else 1


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m tests.soak", description=__doc__)
    parser.add_argument(
        "what",
        nargs="?",
        default="all",
        choices=["all", "kills", "ranks", "cluster", "memory"],
        help="default: %(default)s",
    )
    parser.add_argument("--kills", type=int, default=3, help="kills of each run (default: %(default)s)")
    parser.add_argument("--seed", type=int, default=1, help="decides when runs are killed (default: %(default)s)")
    parser.add_argument("--epochs", type=int, default=200, help="epochs of the memory runs (default: %(default)s)")
    parser.add_argument("--few", action="store_true", help="six of 24 combinations, one of four and of six runs")
    return parser


if __name__ == "__main__":
    sys.exit(main())
