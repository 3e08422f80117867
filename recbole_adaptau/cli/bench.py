"""`recbole-adaptau bench`: speed, temperatures, scaling, ranks, serving, and what reaches quality first."""

import argparse
import json
from collections.abc import Iterator, Sequence
from logging import CRITICAL
from pathlib import Path
from typing import Any

from .. import __version__
from ..files import need_parent
from .command import exit_code, need_matplotlib, new_parser, typed

EXAMPLE = """examples:
  recbole-adaptau bench speed --dataset gowalla ml-1m
  recbole-adaptau bench losses --dataset electronic
  recbole-adaptau bench temperature --dataset electronic gowalla
  recbole-adaptau bench scaling --model AdapTauMF
  recbole-adaptau bench negatives --dataset ml-1m --epochs 15
  recbole-adaptau bench quality --dataset ml-1m --peer LightGCN --budget 40
  recbole-adaptau bench ranks --dataset gowalla
  recbole-adaptau bench serving runs/gowalla/AdapTauMF/RUN
"""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the verb; returns its exit code."""
    # RecBole's log of every model built here is of no interest.
    return exit_code("bench", _bench, arguments, "what was saved is kept, and the same command goes on", CRITICAL)


def _bench(words: list[str]) -> None:
    args = parser().parse_args(words)
    if args.command == "point":
        print(json.dumps(_point(json.loads(args.point))))
        return
    need_matplotlib()
    from ..studies.speed import report

    need_parent(Path(args.output), "--output")
    about = {"machine": report.machine(), "version": __version__}
    command = typed("bench", words)
    for name, found in _measured(args):
        data = about | found
        text = getattr(report, f"{args.command}_text")(data, command)
        draw = getattr(report, f"{args.command}_figure", None)  # not every report has one
        report.write(name, Path(args.output), data, text, draw and draw(data))
        print(text)


def _measured(args: argparse.Namespace) -> Iterator[tuple[str, dict[str, Any]]]:
    """The name of each report, and what was measured for it."""
    from ..studies.speed import losses, negatives, quality, ranks, scaling, serving, speed, temperature

    if args.command == "speed":
        for dataset in args.dataset:
            yield f"speed-{dataset}", speed.measure(dataset, args.data_path, args.rounds, args.seconds)
    elif args.command == "losses":
        for dataset in args.dataset:
            yield f"losses-{dataset}", losses.measure(dataset, args.data_path, args.rounds, args.seconds)
    elif args.command == "temperature":
        for dataset in args.dataset:
            found = temperature.measure(dataset, args.data_path, args.model, args.rounds, args.seconds)
            yield f"temperature-{args.model}-{dataset}", found
    elif args.command == "serving":
        data = serving.measure(args.run_folder, args.k, args.rounds)
        yield f"serving-{data['dataset']}", data
    elif args.command == "ranks":
        yield f"ranks-{args.dataset}", ranks.study(args.dataset, args.data_path, args.batches)
    elif args.command == "scaling":
        yield f"scaling-{args.model}", scaling.study(args.model)
    elif args.command == "quality":
        data = (
            quality.of_saved(args.runs, args.peer)
            if args.runs
            else quality.study(
                args.dataset, args.data_path, args.peer, args.models, args.budget, args.seed, Path(args.run_root)
            )
        )
        yield f"time-to-quality-{data['dataset']}", data
    else:
        data = negatives.study(args.dataset, args.data_path, args.epochs, args.seed, Path(args.run_root))
        yield f"negatives-{args.dataset}", data


def _point(task: dict[str, Any]) -> Any:
    """One measurement in a process of its own, whose memory nothing else has touched."""
    from ..studies.speed import scaling, speed

    if "scale" in task:
        return scaling.measure_point(task["scale"])
    return speed.training_memory(task["train"], task["dataset"], task["data_path"])


def parser() -> argparse.ArgumentParser:
    made = new_parser(
        "recbole-adaptau bench",
        "Speed and memory, as ratios measured in one run. Let nothing else run meanwhile.",
        EXAMPLE,
    )
    commands = made.add_subparsers(dest="command", required=True)
    speed = commands.add_parser("speed", help="our epochs and evaluation beside RecBole's and a roofline")
    losses = commands.add_parser("losses", help="an epoch of each loss beside the softmax")
    temperature = commands.add_parser("temperature", help="what setting the temperatures takes of an epoch")
    for timed in (speed, losses, temperature):
        timed.add_argument("--dataset", nargs="+", default=["ml-100k"], help="datasets (default: ml-100k)")
        timed.add_argument("--data_path", default="dataset/", help="where they lie (default: %(default)s)")
        timed.add_argument("--rounds", type=int, default=5, help="how often each is timed (default: %(default)s)")
        timed.add_argument("--seconds", type=float, default=3.0, help="about so long a turn (default: %(default)s)")
    scaling = commands.add_parser("scaling", help="cost against users, items, interactions, negatives and d")
    ours = ("AdapTauMF", "AdapTauLightGCN")
    for either in (scaling, temperature):
        either.add_argument("--model", choices=ours, default="AdapTauMF", help="which model (default: %(default)s)")
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
    ranks = commands.add_parser("ranks", help="1, 2 and 4 processes: time, memory, bytes sent, and k machines")
    ranks.add_argument("--dataset", default="ml-100k", help="dataset (default: %(default)s)")
    ranks.add_argument("--data_path", default="dataset/", help="where it lies (default: %(default)s)")
    ranks.add_argument("--batches", type=int, default=30, help="batches that are timed (default: %(default)s)")
    serving = commands.add_parser("serving", help="the top k of all users of a saved run")
    serving.add_argument("run_folder", metavar="RUN_FOLDER", help="what a run has left")
    serving.add_argument("--k", type=int, default=20, help="how many items for each (default: %(default)s)")
    serving.add_argument("--rounds", type=int, default=3, help="how often it is timed (default: %(default)s)")
    for command in (speed, losses, temperature, scaling, negatives, quality, ranks, serving):
        command.add_argument("--output", default="runs/bench", help="where the report goes (default: %(default)s)")
    commands.add_parser("point", help=argparse.SUPPRESS).add_argument("point")
    return made
