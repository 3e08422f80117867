"""`recbole-adaptau experiment`: several runs for one table or picture."""

import argparse
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import recbole.utils

from .. import __version__
from ..core.losses import LOSSES
from ..core.strategies import STRATEGIES
from ..errors import OptionError
from ..files import need_parent
from ..model import AdapTauRecommender
from ..reporting import curves, tables
from ..runs import pool
from ..studies import grid, ladder, plugin, repeat, reproduction
from ..studies.leaderboard.entries import common as common_settings
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
    "reproduction": f"""examples:
  {PROGRAM} reproduction runs/gowalla/AdapTauMF/* --reference results/authors-curves.csv
""",
    "ladder": f"""examples:
  {PROGRAM} ladder --model AdapTauMF --dataset ml-100k
  {PROGRAM} ladder -m AdapTauLightGCN -d electronic --strategy calibrated_user --taus 0.15 0.2 0.25
""",
    "losses": f"""examples:
  {PROGRAM} losses --model AdapTauMF --dataset ml-100k
  {PROGRAM} losses -m AdapTauMF -d electronic --losses softmax slatk --strategies fixed calibrated_user
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
    elif args.command in ("curves", "reproduction"):
        if rest:
            raise OptionError(f"{args.command} does not know {' '.join(rest)}; see {PROGRAM} {args.command} --help.")
        need_matplotlib()
        (_curves if args.command == "curves" else _reproduction)(args)
    elif args.command in EXPERIMENTS:
        _paper(args, rest, words)
    elif args.command in ("ladder", "losses"):
        _boards(args, rest, words)
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
    found = reproduction.claims(args.run_folder)
    pictures = reproduction.overlays(found, args.reference) if args.reference else {}
    for file, drawn in pictures.items():
        tables.write(args.output / file, curves_figure(drawn))
    text = args.output / "REPRODUCTION.md"
    earlier = text.read_text(encoding="utf-8") if text.is_file() else ""
    tables.write(args.output / "reproduction.json", json.dumps(reproduction.as_json(found), indent=1) + "\n")
    tables.write(text, reproduction.page(found, pictures, earlier))
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
            "Train each of RecBole's models as it is, inside plain Adap-tau and with the recipe plus, at one learning\n"
            "rate and batch, for each seed; write plugin.json and plugin.md with the figures side by side.\n"
            f"{STOPPABLE}",
        ),
        "plugin",
        seeds=repeat.SEEDS,
    )
    _add_board_arguments(
        add(
            "ladder",
            "from a fixed temperature to the recipe plus, one step at a time",
            "Train the best fixed tau of a grid, the adaptive strategies, each part of the recipe plus on top of the\n"
            "one before, and each part alone; write ladder.json, ladder.md with paired tests, and report.html.\n"
            f"{STOPPABLE}",
        ),
        "ladder",
    )
    _add_board_arguments(
        add(
            "losses",
            "every loss with every temperature strategy",
            "Train each loss with each temperature strategy, a fixed tau chosen by validation; write losses.json,\n"
            f"losses.md and report.html.\n{STOPPABLE}",
        ),
        "losses",
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
    _add_reproduction_arguments(
        add(
            "reproduction",
            "the paper's main table from finished and unfinished runs",
            "Compare runs of the paper's method (--protocol=paper, no recipe) with the paper's main table; write\n"
            "REPRODUCTION.md, reproduction.json and, with --reference, pictures of our curves and the authors'.",
        )
    )
    return made


def _add_reproduction_arguments(command: argparse.ArgumentParser) -> None:
    command.add_argument("run_folder", nargs="+", metavar="RUN_FOLDER", help="runs with --protocol=paper")
    command.add_argument("--reference", type=Path, metavar="CSV", help="the authors' curves, to be drawn beside ours")
    place = Path("runs/experiment/reproduction")
    command.add_argument("--output", type=Path, default=place, help="folder (default: %(default)s)")


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


def _add_board_arguments(command: argparse.ArgumentParser, name: str) -> None:
    command.add_argument("--model", "-m", default="AdapTauMF", help="model name (default: %(default)s)")
    command.add_argument("--dataset", "-d", default="ml-100k", help="dataset name (default: %(default)s)")
    command.add_argument("--seeds", type=int, default=3, metavar="N", help="how many seeds (default: %(default)s)")
    taus = " ".join(map(str, ladder.TAUS))
    command.add_argument(
        "--taus", type=float, nargs="+", default=list(ladder.TAUS), help=f"fixed temperatures (default: {taus})"
    )
    if name == "ladder":
        command.add_argument(
            "--strategy",
            choices=ladder.STRATEGIES,
            default="adaptive_user",
            help="temperature strategy that the parts are added to (default: %(default)s)",
        )
    else:
        command.add_argument(
            "--losses",
            nargs="+",
            choices=list(LOSSES),
            default=list(ladder.SOFTMAX_FAMILY),
            metavar="NAME",
            help=f"of {', '.join(LOSSES)} (default: {' '.join(ladder.SOFTMAX_FAMILY)})",
        )
        command.add_argument(
            "--strategies",
            nargs="+",
            choices=list(STRATEGIES),
            default=list(ladder.TABLE_STRATEGIES),
            metavar="NAME",
            help=f"of {', '.join(STRATEGIES)} (default: {' '.join(ladder.TABLE_STRATEGIES)})",
        )
    add_data_arguments(command, f"runs/experiment/{name}/DATASET-MODEL-PROTOCOL")


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
