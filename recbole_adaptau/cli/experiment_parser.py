"""What `recbole-adaptau experiment` understands."""

import argparse
from collections.abc import Sequence
from pathlib import Path

from ..core.losses import LOSSES
from ..core.strategies import STRATEGIES
from ..studies import grid, ladder, plugin, repeat
from ..studies.paper import EXPERIMENTS
from ..studies.paper import command as paper
from .arguments import STOPPABLE, add_data_arguments
from .command import new_parser

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
    "temperature": f"""examples:
  {PROGRAM} temperature runs/experiment/grid/* --output runs/temperature
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
            "REPRODUCTION.md, reproduction.json and, with --reference, pictures of our curves and the authors'.\n"
            "Runs with --protocol=honest and otherwise the same settings are a column beside them. Rows of an\n"
            "earlier report in the same folder stay, unless the same cell, preset and seed are given again.",
        )
    )
    command = add(
        "temperature",
        "several grids side by side: each strategy beside the best fixed tau",
        "Read the folders of some `grid` experiments and write a table of the strategies beside the best fixed\n"
        "tau, a picture of NDCG@20 over tau for each grid, and one of tau_0 by epoch.",
    )
    command.add_argument("grid_folder", nargs="+", metavar="GRID_FOLDER", help="what `grid` has written")
    command.add_argument(
        "--output",
        type=Path,
        default=Path("runs/experiment/temperature"),
        help="folder; text below the line '## Notes' of its README.md is kept (default: %(default)s)",
    )
    return made


def _add_reproduction_arguments(command: argparse.ArgumentParser) -> None:
    command.add_argument("run_folder", nargs="+", metavar="RUN_FOLDER", help="runs with --protocol=paper, or honest")
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
            default="calibrated_user",
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
