"""`recbole-adaptau bench`: speed, scaling, serving, and what reaches quality first."""

import argparse
import json
import shlex
import sys
from collections.abc import Sequence
from logging import NOTSET, disable
from pathlib import Path

import recbole_adaptau

from ..errors import AdapTauError

EXAMPLE = """examples:
  recbole-adaptau bench speed --dataset gowalla ml-1m
  recbole-adaptau bench scaling --model AdapTauMF
  recbole-adaptau bench negatives --dataset ml-1m --epochs 15
  recbole-adaptau bench quality --dataset ml-1m --peer LightGCN --budget 40
  recbole-adaptau bench serving runs/gowalla/AdapTauMF/RUN
"""


def main(arguments: Sequence[str] | None = None) -> int:
    words = list(sys.argv[1:] if arguments is None else arguments)
    args = _parser().parse_args(words)
    disable()  # RecBole's log of every model built here is of no interest
    try:
        from ..studies.speed import negatives, quality, report, scaling, serving, speed

        command = shlex.join(["recbole-adaptau", "bench", *words])
        about = {"machine": report.machine(), "version": recbole_adaptau.__version__}
        output = Path(args.output) if args.command != "point" else Path()
        if args.command == "point":
            task = json.loads(args.point)
            print(
                json.dumps(
                    scaling.measure_point(task["scale"])
                    if "scale" in task
                    else speed.training_memory(task["train"], task["dataset"], task["data_path"])
                )
            )
        elif args.command == "speed":
            for dataset in args.dataset:
                data = about | speed.measure(dataset, args.data_path, args.rounds, args.seconds)
                text, figure = report.speed_text(data, command), report.speed_figure(data)
                report.write(f"speed-{dataset}", output, data, text, figure)
                print(text)
        elif args.command == "serving":
            data = about | serving.measure(args.run_folder, args.k, args.rounds)
            text = report.serving_text(data, command)
            report.write(f"serving-{data['dataset']}", output, data, text)
            print(text)
        elif args.command == "scaling":
            data = about | scaling.study(args.model)
            text, figure = report.scaling_text(data, command), report.scaling_figure(data)
            report.write(f"scaling-{args.model}", output, data, text, figure)
            print(text)
        elif args.command == "quality":
            found = (
                quality.of_saved(args.runs, args.peer)
                if args.runs
                else quality.study(
                    args.dataset, args.data_path, args.peer, args.models, args.budget, args.seed, Path(args.run_root)
                )
            )
            data = about | found
            text, figure = report.quality_text(data, command), report.quality_figure(data)
            report.write(f"time-to-quality-{data['dataset']}", output, data, text, figure)
            print(text)
        else:
            data = about | negatives.study(args.dataset, args.data_path, args.epochs, args.seed, Path(args.run_root))
            text, figure = report.negatives_text(data, command), report.negatives_figure(data)
            report.write(f"negatives-{args.dataset}", output, data, text, figure)
            print(text)
    except AdapTauError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        kept = args.command in ("negatives", "quality")
        print(f"interrupted; {'the same command goes on' if kept else 'nothing was written'}", file=sys.stderr)
        return 130
    finally:
        disable(NOTSET)
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="recbole-adaptau bench",
        description="Speed and memory, as ratios measured in one run. Let nothing else run meanwhile.",
        epilog=EXAMPLE,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    commands = parser.add_subparsers(dest="command", required=True)
    speed = commands.add_parser("speed", help="our epochs and evaluation beside RecBole's and a roofline")
    speed.add_argument("--dataset", nargs="+", default=["ml-100k"], help="datasets (default: ml-100k)")
    speed.add_argument("--data_path", default="dataset/", help="where they lie (default: %(default)s)")
    speed.add_argument("--rounds", type=int, default=5, help="how often each is timed (default: %(default)s)")
    speed.add_argument("--seconds", type=float, default=3.0, help="about so long a turn (default: %(default)s)")
    scaling = commands.add_parser("scaling", help="cost against users, items, interactions, negatives and d")
    ours = ("AdapTauMF", "AdapTauLightGCN")
    scaling.add_argument("--model", choices=ours, default="AdapTauMF", help="which model (default: %(default)s)")
    negatives = commands.add_parser("negatives", help="time to quality of each kind of negatives")
    negatives.add_argument("--dataset", default="ml-100k", help="dataset (default: %(default)s)")
    negatives.add_argument("--data_path", default="dataset/", help="where it lies (default: %(default)s)")
    negatives.add_argument("--epochs", type=int, default=15, help="epochs of each run (default: %(default)s)")
    negatives.add_argument("--seed", type=int, default=2020, help="seed (default: %(default)s)")
    negatives.add_argument("--run_root", default="runs/negatives", help="where the runs go (default: %(default)s)")
    quality = commands.add_parser("quality", help="how soon our models pass a peer's best validation NDCG@20")
    quality.add_argument("--dataset", default="ml-100k", help="dataset (default: %(default)s)")
    quality.add_argument("--data_path", default="dataset/", help="where it lies (default: %(default)s)")
    quality.add_argument("--peer", default="LightGCN", help="one of RecBole's models (default: %(default)s)")
    quality.add_argument("--models", nargs="+", default=["AdapTauMF", "AdapTauLightGCN"], help="ours (default: both)")
    quality.add_argument(
        "--budget", type=float, metavar="MINUTES", help="of training, for each run (default: no bound)"
    )
    quality.add_argument(
        "--runs", nargs="+", metavar="RUN_FOLDER", help="saved runs to compare, the peer's among them; trains nothing"
    )
    quality.add_argument("--seed", type=int, default=2020, help="seed (default: %(default)s)")
    quality.add_argument("--run_root", default="runs/quality", help="where the runs go (default: %(default)s)")
    serving = commands.add_parser("serving", help="the top k of all users of a saved run")
    serving.add_argument("run_folder", metavar="RUN_FOLDER", help="what a run has left")
    serving.add_argument("--k", type=int, default=20, help="how many items for each (default: %(default)s)")
    serving.add_argument("--rounds", type=int, default=3, help="how often it is timed (default: %(default)s)")
    for command in (speed, scaling, negatives, quality, serving):
        command.add_argument("--output", default="results/speed", help="where the report goes (default: %(default)s)")
    commands.add_parser("point", help=argparse.SUPPRESS).add_argument("point")
    return parser


if __name__ == "__main__":
    sys.exit(main())
