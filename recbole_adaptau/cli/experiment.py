"""`recbole-adaptau experiment`: several runs for one table or picture."""

import argparse
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import recbole.utils

from .. import __version__
from ..errors import OptionError
from ..files import need_parent
from ..model import AdapTauRecommender
from ..reporting import curves, tables
from ..runs import pool
from ..studies import grid, ladder, plugin, repeat, reproduction, reproduction_page, temperature
from ..studies.leaderboard.entries import common as common_settings
from ..studies.paper import EXPERIMENTS
from ..studies.paper import command as paper
from ..studies.study import Study
from ..training.checkpoint import quoted
from .arguments import TAKEN, given_settings, refuse_twice
from .command import RESUMABLE, exit_code, need_matplotlib, typed
from .experiment_parser import PROGRAM, parser

TAKEN_BY_GRID = {"tau": "--taus", "tau_strategy": "--strategies"}
TAKEN_BY_LADDER = {"tau": "--taus", "tau_strategy": "--strategy", "recipe": "the command compare", "loss": "losses"}
TAKEN_BY_LOSSES = {"tau": "--taus", "tau_strategy": "--strategies", "loss": "--losses"}
TAKEN_BY_PAPER = {
    "tau": "--taus",
    "noise_ratio": "--shares",
    "noise_groups": "--shares",
    "tau_strategy": "the command grid",
    "normalization": "the experiment norm-ablation",
    "preset": "the command repeat",
}


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the verb; returns its exit code."""
    return exit_code("experiment", _experiment, arguments, RESUMABLE)


def _experiment(words: list[str]) -> None:
    args, rest = parser().parse_known_args(words)
    if args.command == "list":
        print(paper.listing())
    elif args.command in FROM_FOLDERS:
        if rest:
            raise OptionError(f"{args.command} does not know {' '.join(rest)}; see {PROGRAM} {args.command} --help.")
        need_matplotlib()
        FROM_FOLDERS[args.command](args)
    elif args.command in EXPERIMENTS:
        _paper(args, rest, words)
    elif args.command in ("ladder", "losses"):
        _boards(args, rest, words)
    else:
        _study(args, rest, words)


def _paper(args: argparse.Namespace, rest: list[str], words: list[str]) -> None:
    need_matplotlib()
    refuse_twice("--seeds", args.seeds)
    for option in ("taus", *paper.SEARCHED):
        refuse_twice(f"--{option}", getattr(args, option.replace("-", "_"), None) or [])
    given = given_settings(args.config_files, rest, TAKEN | TAKEN_BY_PAPER)
    if args.output is None:
        kind = "quick" if args.quick else args.protocol
        args.output = Path("runs/experiment/paper") / f"{args.dataset or paper.QUICK_DATASET}-{kind}"
    need_parent(args.output, "--output")
    paper.carry_out(args, given, typed("experiment", _without(words, "--agreement")))


def _without(words: list[str], option: str) -> list[str]:
    """The command without an option that changes only what is written."""
    return [
        word
        for place, word in enumerate(words)
        if word != option and not word.startswith(f"{option}=") and (place == 0 or words[place - 1] != option)
    ]


def _study(args: argparse.Namespace, rest: list[str], words: list[str]) -> None:
    taken = {"grid": TAKEN_BY_GRID, "plugin": {"recipe": "nothing: plain and plus are both run"}}.get(args.command, {})
    given = given_settings(args.config_files, rest, TAKEN | taken)
    refuse_twice("--seeds", args.seeds)
    workers = pool.Workers.checked(args.parallel, args.ray_address)
    common = given | quoted({"protocol": args.protocol, "data_path": args.data_path})
    named = f"{args.dataset}-{args.model}-{args.protocol}" if "model" in args else f"{args.dataset}-{args.protocol}"
    about: dict[str, Any] = {"command": typed("experiment", words), "version": __version__, "model": None}
    about |= {key: vars(args)[key] for key in ("model", "models", "dataset", "protocol", "seeds") if key in args}
    if args.command == "grid":
        _check_grid(args)
        specs = grid.specs(args.model, args.dataset, args.taus or grid.TAUS, args.strategies, args.seeds, common)
    elif args.command == "plugin":
        refuse_twice("--models", args.models)
        if args.adapted_epochs is not None and args.adapted_epochs < 1:
            raise OptionError(f"--adapted-epochs {args.adapted_epochs}: must be 1 or more.")
        specs = plugin.specs(args.models, args.dataset, args.seeds, common, args.adapted_epochs)
    else:
        specs = repeat.specs(args.model, args.dataset, args.seeds, common)
    files = {"grid": grid.files, "plugin": plugin.files, "repeat": repeat.files}[args.command]
    output = args.output or Path("runs/experiment") / args.command / named
    need_parent(output, "--output")
    study = Study(args.command, specs, output, given, about, files)
    study.check()
    study.carry_out(workers)
    print(study.page())


def _boards(args: argparse.Namespace, rest: list[str], words: list[str]) -> None:
    """The studies whose rows are chosen by validation like those of a leaderboard."""
    taken = TAKEN_BY_LADDER if args.command == "ladder" else TAKEN_BY_LOSSES
    given = given_settings(args.config_files, rest, TAKEN | taken)
    refuse_twice("--taus", args.taus)
    workers = pool.Workers.checked(args.parallel, args.ray_address)
    if not issubclass(recbole.utils.get_model(args.model), AdapTauRecommender):
        raise OptionError(
            f"{args.command} varies tau, which {args.model} does not have: choose e.g. --model AdapTauMF."
        )
    given |= quoted({"protocol": args.protocol, "data_path": args.data_path})
    output = args.output or Path("runs/experiment") / args.command / f"{args.dataset}-{args.model}-{args.protocol}"
    about: dict[str, Any] = {"experiment": args.command, "command": typed("experiment", words), "version": __version__}
    about |= {key: vars(args)[key] for key in ("model", "dataset", "protocol")} | {"given": dict(given), "budget": None}
    about["valid_metric"] = common_settings()["valid_metric"]
    board: ladder.Board
    if args.command == "ladder":
        found = ladder.ladder_entries(args.model, args.dataset, args.strategy, args.taus)
        board = ladder.Ladder(found, args.dataset, args.seeds, None, given, output, strategy=args.strategy)
        about["strategy"] = args.strategy
    else:
        refuse_twice("--losses", args.losses)
        refuse_twice("--strategies", args.strategies)
        found = ladder.loss_entries(args.model, args.dataset, args.losses, args.strategies, args.taus)
        board = ladder.LossTable(found, args.dataset, args.seeds, None, given, output)
        about |= {"losses": args.losses, "strategies": args.strategies}
    about["seeds"] = board.seeds
    board.carry_out(about, workers)
    print((output / f"{board.stem}.md").read_text(encoding="utf-8"))
    print(f"written to {output}: {board.stem}.md, .json and report.html")


def _check_grid(args: argparse.Namespace) -> None:
    need_matplotlib()
    refuse_twice("--strategies", args.strategies)
    refuse_twice("--taus", args.taus or [])
    if args.taus and "fixed" not in args.strategies:
        raise OptionError("--taus is for the strategy fixed, which is not among --strategies.")
    if not issubclass(recbole.utils.get_model(args.model), AdapTauRecommender):
        raise OptionError(f"grid varies tau, which {args.model} does not have: choose e.g. --model AdapTauMF.")


def _curves(args: argparse.Namespace) -> None:
    if args.reference_run and not args.reference:
        raise OptionError("--reference-run needs the file it is in: add --reference FILE.csv.")
    if args.output.suffix not in (".svg", ".png", ".pdf"):
        raise OptionError(f"--output {args.output}: must end in .svg, .png or .pdf.")
    need_parent(args.output, "--output")
    from ..reporting.figures import curves_figure

    found = curves.read_runs(args.run_folder)
    if args.reference:
        found += curves.read_references(args.reference, args.reference_run)
    tables.write(args.output, curves_figure(found))
    print(f"written to {args.output}")


def _reproduction(args: argparse.Namespace) -> None:
    from ..reporting.figures import curves_figure

    need_parent(args.output, "--output")
    report = args.output / "reproduction.json"
    found = reproduction.with_earlier(reproduction.claims(args.run_folder), report)
    for file, drawn in (reproduction.overlays(found, args.reference) if args.reference else {}).items():
        tables.write(args.output / file, curves_figure(drawn))
    pictures = sorted(picture.name for picture in args.output.glob("reproduction-*.png"))
    text = args.output / "REPRODUCTION.md"
    earlier = text.read_text(encoding="utf-8") if text.is_file() else ""
    tables.write(report, json.dumps(reproduction.as_json(found), indent=1) + "\n")
    tables.write(text, reproduction_page.page(found, pictures, earlier))
    print(f"written to {args.output}")


def _temperature(args: argparse.Namespace) -> None:
    need_parent(args.output, "--output")
    page = args.output / "README.md"
    earlier = page.read_text(encoding="utf-8") if page.is_file() else ""
    for name, content in temperature.files([temperature.Grid(folder) for folder in args.grid_folder], earlier).items():
        tables.write(args.output / name, content)
    print(page.read_text(encoding="utf-8"))
    print(f"written to {args.output}")


# Reports about what other commands have left: nothing is trained.
FROM_FOLDERS = {"curves": _curves, "reproduction": _reproduction, "temperature": _temperature}
