"""`recbole-adaptau experiment`: several runs for one table or picture."""

import argparse
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import recbole.utils

from .. import __version__
from ..core.strategies import STRATEGIES
from ..errors import OptionError
from ..files import need_parent
from ..model import AdapTauRecommender
from ..reporting import curves, tables
from ..runs import pool
from ..studies import grid, plugin, repeat
from ..studies.paper import EXPERIMENTS
from ..studies.paper import command as paper
from ..studies.study import Study
from ..training.checkpoint import quoted
from .arguments import STOPPABLE, TAKEN, add_data_arguments, given_settings, refuse_twice
from .command import RESUMABLE, exit_code, need_matplotlib, new_parser, typed

PROGRAM = "recbole-adaptau experiment"
EXAMPLES = {
    "grid": f"""examples:
  {PROGRAM} grid --model AdapTauMF --dataset ml-100k
  {PROGRAM} grid -m AdapTauMF -d gowalla --taus 0.05 0.1 0.2 --seeds 1 2 3 --epochs=30
""",
    "repeat": f"""examples:
  {PROGRAM} repeat --model AdapTauLightGCN --dataset ml-100k --seeds 1 2 3
  {PROGRAM} repeat -m AdapTauMF -d gowalla --seeds 1 2 3 --protocol paper --preset=authors
""",
    "plugin": f"""examples:
  {PROGRAM} plugin --models BPR NGCF --dataset ml-100k --epochs=30
  {PROGRAM} plugin -d ml-1m --seeds 1 2 3 --budget_minutes=10 --adapted-epochs 15
""",
    "curves": f"""examples:
  {PROGRAM} curves runs/ml-100k/AdapTauMF/* --output curves.png
  {PROGRAM} curves RUN --reference curves.csv --reference-run gowalla/MF/adap_tau_0 --output curves.png
""",
}
PAPER_EXAMPLES = f"""examples:
  {PROGRAM} {{name}} --quick
  {PROGRAM} {{name}} --dataset ml-1m --protocol paper --seeds 2020 2021 --epochs 15
"""
SHARED = (
    "Experiments of one output folder share the runs they have in common. Each writes a page (.md), its table (.csv),\n"
    "everything (.json), and pictures."
)
TAKEN_BY_GRID = {"tau": "--taus", "tau_strategy": "--strategies"}
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
    elif args.command == "curves":
        _curves(args, rest)
    elif args.command in EXPERIMENTS:
        _paper(args, rest, words)
    else:
        _study(args, rest, words)


def _paper(args: argparse.Namespace, rest: list[str], words: list[str]) -> None:
    need_matplotlib()
    refuse_twice("--seeds", args.seeds)
    refuse_twice("--taus", getattr(args, "taus", None) or [])
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
    given = given_settings(args.config_files, rest, TAKEN | (TAKEN_BY_GRID if args.command == "grid" else {}))
    refuse_twice("--seeds", args.seeds)
    pool.check_workers(args.parallel)
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
    study.carry_out(args.parallel)
    print(study.page())


def _check_grid(args: argparse.Namespace) -> None:
    need_matplotlib()
    refuse_twice("--strategies", args.strategies)
    refuse_twice("--taus", args.taus or [])
    if args.taus and "fixed" not in args.strategies:
        raise OptionError("--taus is for the strategy fixed, which is not among --strategies.")
    if not issubclass(recbole.utils.get_model(args.model), AdapTauRecommender):
        raise OptionError(f"grid varies tau, which {args.model} does not have: choose e.g. --model AdapTauMF.")


def _curves(args: argparse.Namespace, rest: list[str]) -> None:
    if rest:
        raise OptionError(f"curves does not know {' '.join(rest)}; see {PROGRAM} curves --help.")
    if args.reference_run and not args.reference:
        raise OptionError("--reference-run needs the file it is in: add --reference FILE.csv.")
    if args.output.suffix not in (".svg", ".png", ".pdf"):
        raise OptionError(f"--output {args.output}: must end in .svg, .png or .pdf.")
    need_parent(args.output, "--output")
    need_matplotlib()
    from ..reporting.figures import curves_figure

    found = curves.read_runs(args.run_folder)
    if args.reference:
        found += curves.read_references(args.reference, args.reference_run)
    tables.write(args.output, curves_figure(found))
    print(f"written to {args.output}")


def parser() -> argparse.ArgumentParser:
    made = new_parser(
        PROGRAM,
        "Experiments over several runs, which can be stopped and continued at any time.",
        "examples:\n" + "".join(text.split("\n", 1)[1] for text in EXAMPLES.values()),
    )
    commands = made.add_subparsers(dest="command", required=True)

    def add(name: str, brief: str, description: str) -> argparse.ArgumentParser:
        return commands.add_parser(
            name,
            help=brief.replace("%", "%%"),
            description=description,
            epilog=EXAMPLES.get(name, PAPER_EXAMPLES.format(name=name)),
            formatter_class=argparse.RawDescriptionHelpFormatter,
            allow_abbrev=False,  # or --tau would be taken for --taus
        )

    _add_study_arguments(
        add(
            "grid",
            "grid search over tau beside the strategies that need none",
            "Train once at each tau and once with each adaptive strategy, for each seed; write grid.json, grid.md and\n"
            f"a picture. The best tau is chosen by validation.\n{STOPPABLE}",
        ),
        "grid",
        seeds=(2020,),
    )
    _add_study_arguments(
        add(
            "repeat",
            "the same settings with several seeds",
            "Train the same settings with several seeds; write repeat.json and repeat.md with mean and deviation, and\n"
            f"with --protocol paper the paper's figures where it has them.\n{STOPPABLE}",
        ),
        "repeat",
        seeds=repeat.SEEDS,
    )
    _add_study_arguments(
        add(
            "plugin",
            "RecBole's models before and after Adap-tau",
            "Train each of RecBole's models as it is and inside Adap-tau, for each seed; write plugin.json and\n"
            f"plugin.md with the test figures side by side.\n{STOPPABLE}",
        ),
        "plugin",
        seeds=repeat.SEEDS,
    )
    for name, experiment in EXPERIMENTS.items():
        study = add(name, experiment.brief, f"{experiment.brief}\n{STOPPABLE}\n{SHARED}")
        paper.add_arguments(study, experiment)
        add_data_arguments(study, "runs/experiment/paper/DATASET-PROTOCOL, DATASET-quick with --quick")
    commands.add_parser("list", help="the experiments of the paper, a line each")
    _add_curves_arguments(
        add(
            "curves",
            "validation figures by epoch of some runs",
            "Plot recall@20 and NDCG@20 of validation by epoch for each run folder, complete or not, and reference\n"
            "curves from a CSV file: the columns left of 'epoch' name a run, recall@20 and ndcg@20 are its figures.",
        )
    )
    return made


def _add_study_arguments(command: argparse.ArgumentParser, name: str, seeds: Sequence[int]) -> None:
    if name == "plugin":
        command.add_argument(
            "--models",
            nargs="+",
            default=list(plugin.MODELS),
            metavar="NAME",
            help=f"models of RecBole's (default: {' '.join(plugin.MODELS)})",
        )
        command.add_argument(
            "--adapted-epochs",
            type=int,
            metavar="N",
            help="epochs of the Adap-tau versions alone, over which the rate falls (default: as configured)",
        )
    else:
        command.add_argument("--model", "-m", required=True, help="model name")
    command.add_argument("--dataset", "-d", required=True, help="dataset name")
    shown = " ".join(map(str, seeds))
    command.add_argument("--seeds", type=int, nargs="+", default=list(seeds), help=f"seeds (default: {shown})")
    if name == "grid":
        taus = " ".join(map(str, grid.TAUS))
        command.add_argument("--taus", type=float, nargs="+", help=f"temperatures of the grid (default: {taus})")
        command.add_argument(
            "--strategies",
            nargs="+",
            choices=list(STRATEGIES),
            default=list(grid.STRATEGIES),
            metavar="NAME",
            help=f"of {', '.join(STRATEGIES)} (default: {' '.join(grid.STRATEGIES)})",
        )
    folder = "DATASET-PROTOCOL" if name == "plugin" else "DATASET-MODEL-PROTOCOL"
    add_data_arguments(command, f"runs/experiment/{name}/{folder}")


def _add_curves_arguments(command: argparse.ArgumentParser) -> None:
    command.add_argument("run_folder", nargs="+", metavar="RUN_FOLDER", help="what a run has left")
    command.add_argument("--reference", type=Path, metavar="CSV", help="file with reference curves")
    command.add_argument(
        "--reference-run",
        action="append",
        default=[],
        metavar="NAME",
        help="a run in that file, or a part of its name that no other has; can be repeated",
    )
    command.add_argument(
        "--output", type=Path, required=True, metavar="FILE.png", help="the picture (.png, .svg, .pdf)"
    )
