"""What the command line of the experiments understands."""

import argparse
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from ..config.yaml_files import read_yaml
from ..core.strategies import STRATEGIES
from ..errors import OptionError
from ..studies import grid, plugin, repeat, tuning
from ..studies.paper import EXPERIMENTS
from ..studies.paper.command import add_arguments
from ..training.checkpoint import quoted
from .train import parse_settings

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
    "tune": """examples:
  python run_hyper.py --model AdapTauLightGCN --dataset ml-100k --nproc 2
  python run_hyper.py -m AdapTauMF -d ml-1m --params_file ranges.test --algo random --max_evals 20 --epochs=30
""",
    "curves": f"""examples:
  {PROGRAM} curves runs/ml-100k/AdapTauMF/* --output curves.svg
  {PROGRAM} curves RUN --reference curves.csv --reference-run gowalla/MF/adap_tau_0 --output curves.svg
""",
}
PAPER_EXAMPLES = f"""examples:
  {PROGRAM} {{name}} --quick
  {PROGRAM} {{name}} --dataset ml-1m --protocol paper --seeds 2020 2021 --epochs 15
"""
STOPPABLE = (
    "Any configuration key can be added as --key=value and goes to every run, as in the main command.\n"
    "Ctrl-C at any time: the same command goes on where it stopped, and complete runs are not made again."
)


SHARED = (
    "Experiments of one output folder share the runs they have in common. Each writes a page (.md), its table (.csv),\n"
    "everything (.json), and pictures (.png, .svg)."
)


def parser() -> argparse.ArgumentParser:
    style = argparse.RawDescriptionHelpFormatter
    made = argparse.ArgumentParser(
        prog=PROGRAM,
        description="Experiments over several runs, which can be stopped and continued at any time.",
        epilog="examples:\n" + "".join(text.split("\n", 1)[1] for text in EXAMPLES.values()),
        formatter_class=style,
    )
    commands = made.add_subparsers(dest="command", required=True)

    def add(name: str, brief: str, description: str) -> argparse.ArgumentParser:
        return commands.add_parser(
            name,
            help=brief,
            description=description,
            epilog=EXAMPLES.get(name, PAPER_EXAMPLES.format(name=name)),
            formatter_class=style,
            allow_abbrev=False,  # or --tau would be taken for --taus
        )

    search = add(
        "grid",
        "grid search over tau beside the strategies that need none",
        "Train once at each tau and once with each adaptive strategy, for each seed; write grid.json, grid.md and\n"
        f"grid.svg. The best tau is chosen by validation.\n{STOPPABLE}",
    )
    again = add(
        "repeat",
        "the same settings with several seeds",
        "Train the same settings with several seeds; write repeat.json and repeat.md with mean and deviation, and\n"
        f"with --protocol paper the paper's figures where it has them.\n{STOPPABLE}",
    )
    beside = add(
        "plugin",
        "RecBole's models before and after Adap-tau",
        "Train each of RecBole's models as it is and inside Adap-tau, for each seed; write plugin.json and\n"
        f"plugin.md with the test figures side by side.\n{STOPPABLE}",
    )
    left = add(
        "tune",
        "search learning rate, L2 and layers by validation (also: python run_hyper.py)",
        "Search the ranges of a file with RecBole's HyperTuning; write tune.json, tune.md and tune.svg. Its lines are\n"
        "RecBole's, such as 'learning_rate choice [1e-3,1e-2]' or 'reg_weight loguniform -12,-4'. The temperature\n"
        f"needs no search. The best trial is the one that validates best.\n{STOPPABLE}",
    )
    _add_tuning(left)
    for command, seeds in ((search, (2020,)), (again, repeat.SEEDS), (beside, repeat.SEEDS), (left, (2020,))):
        shown = " ".join(map(str, seeds))
        if command is beside:
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
            command.set_defaults(model=None)
        else:
            command.add_argument("--model", "-m", required=True, help="model name")
        command.add_argument("--dataset", "-d", required=True, help="dataset name")
        number = 1 if command is left else "+"
        command.add_argument("--seeds", type=int, nargs=number, default=list(seeds), help=f"seeds (default: {shown})")
        if command is search:
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
        add_data_arguments(command, "results/COMMAND/DATASET-MODEL-PROTOCOL")
    for name, experiment in EXPERIMENTS.items():
        study = add(name, experiment.brief, f"{experiment.brief}\n{STOPPABLE}\n{SHARED}")
        add_arguments(study, experiment)
        add_data_arguments(study, "results/paper/DATASET-PROTOCOL, DATASET-quick with --quick")
    commands.add_parser("list", help="the experiments of the paper, a line each")
    plot = add(
        "curves",
        "validation figures by epoch of some runs",
        "Plot recall@20 and NDCG@20 of validation by epoch for each run folder, complete or not, and reference\n"
        "curves from a CSV file: the columns left of 'epoch' name a run, recall@20 and ndcg@20 are its figures.",
    )
    plot.add_argument("run_folder", nargs="+", metavar="RUN_FOLDER", help="what a run has left")
    plot.add_argument("--reference", type=Path, metavar="CSV", help="file with reference curves")
    plot.add_argument(
        "--reference-run",
        action="append",
        default=[],
        metavar="NAME",
        help="a run in that file, or a part of its name that no other has; can be repeated",
    )
    plot.add_argument("--output", type=Path, required=True, metavar="FILE.svg", help="the picture (.svg, .png, .pdf)")
    return made


def _add_tuning(command: argparse.ArgumentParser) -> None:
    """What RecBole's own run_hyper.py takes, by the same names."""
    command.add_argument(
        "--params_file", type=Path, metavar="FILE", help="ranges (default: that of the model in properties/hyper)"
    )
    command.add_argument("--algo", choices=tuning.ALGORITHMS, default="exhaustive", help="default: %(default)s")
    command.add_argument(
        "--max_evals",
        type=int,
        default=20,
        help="trials of random and bayes (default: %(default)s); exhaustive tries all",
    )
    command.add_argument(
        "--early_stop", type=int, metavar="N", help="stop after N trials without progress (default: never)"
    )
    command.add_argument("--output_file", type=Path, metavar="FILE", help="also RecBole's list of all results")


def add_data_arguments(command: argparse.ArgumentParser, output: str, parallel: int = 0) -> None:
    """What every command over several runs understands; `parallel` is the default number of processes."""
    command.add_argument(
        "--protocol",
        choices=("honest", "paper"),
        default="honest",
        help="honest: a part of train validates; paper: the test set does (default: %(default)s)",
    )
    command.add_argument(
        "--data-path", "--data_path", default="dataset", help="folder of all datasets (default: %(default)s)"
    )
    command.add_argument(
        "--parallel",
        "--nproc",
        type=int,
        default=parallel,
        metavar="N",
        help="make N runs at a time, each in a process of its own through Ray; 0: one by one in this process "
        "(default: %(default)s)",
    )
    command.add_argument("--config_files", default="", help='YAML files with settings, e.g. "a.yaml b.yaml"')
    command.add_argument("--output", type=Path, help=f"folder of reports and runs (default: {output})")


def given_settings(config_files: str, rest: Sequence[str], taken: Mapping[str, str]) -> dict[str, Any]:
    """Further settings for every run: those of the YAML files, and over them --key=value.

    Args:
        taken: Keys that the command sets itself, and what to use instead.
    """
    settings: dict[str, Any] = {}
    for file in config_files.split():
        if not Path(file).is_file():
            raise OptionError(f"--config_files: there is no file {Path(file).absolute()}.")
        settings |= quoted(read_yaml(Path(file)))
    settings |= parse_settings(rest)
    for key in settings:
        if key in taken:
            raise OptionError(f"{key} is set for each run by this command: use {taken[key]}.")
    return settings


def refuse_twice(option: str, values: Sequence[Any]) -> None:
    for value in values:
        if list(values).count(value) > 1:
            raise OptionError(f"{option}: {value} is given twice.")
