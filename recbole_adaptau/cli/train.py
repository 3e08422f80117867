"""`recbole-adaptau train`: RecBole's conventions, every configuration key as --key=value."""

import argparse
from collections.abc import Sequence

from recbole.utils import ModelType, get_model

from ..distributed.launcher import PORT, TIMEOUT
from ..errors import OptionError
from ..runs.folder import RunFolder
from ..runs.quick_start import resume, run_processes
from ..runs.temperature_check import temperature_advice
from .arguments import existing, parse_settings
from .command import exit_code, new_parser, typed
from .settings_help import help_lines

EXAMPLES = """examples:
  %(prog)s                                              AdapTauLightGCN on ml-100k
  %(prog)s --model=AdapTauMF --dataset=ml-1m            another model, another dataset
  %(prog)s -m AdapTauMF --tau_strategy=fixed --tau=0.2  any configuration key
  %(prog)s -m LightGCN -d ml-100k --epochs=20           a model of RecBole's own
  %(prog)s -m AdapTauNGCF -d ml-100k                    the same inside Adap-tau: AdapTau and its name
  %(prog)s -d ml-100k --min-rating=4 --kcore=5 --split=time --valid=0.1 --test=0.2
  %(prog)s --resume=runs/ml-100k/AdapTauMF/RUN          go on after an interruption
  %(prog)s -m AdapTauMF --nproc=2                       two processes, half a batch each
"""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the verb; returns its exit code."""
    return exit_code("train", _train, arguments)


def _train(words: list[str]) -> None:
    args, rest = parser().parse_known_args(words)
    settings = parse_settings(rest)
    group = {key: getattr(args, key) for key in ("world_size", "ip", "port", "group_offset", "rank_timeout")}
    if args.resume:
        budget = settings.pop("budget_minutes", ...)
        if settings:
            wrong = ", ".join(settings)
            raise OptionError(
                f"--resume takes the settings of its run; remove {wrong}. Only budget_minutes may change."
            )
        result = resume(args.resume, nproc=args.nproc, budget_minutes=budget, **group)
    else:
        nproc = 1 if args.nproc is None else args.nproc
        if args.verbose:
            settings["verbose"] = True
        settings["strict_keys"] = list(settings)
        result = run_processes(args.model, args.dataset, existing(args.config_files), settings, nproc=nproc, **group)
    if result["run_folder"] is None:
        print("done; the run folder is on the machine of rank 0")
    else:
        print(summary(RunFolder(result["run_folder"])))


def summary(run: RunFolder) -> str:
    """What a run came to, in a few lines, what to do next, and a line if its temperature does not suit the data."""
    result = run.read_result()
    method = result.get("method", result["model"])
    lines = [f"{method} on {result['dataset']}, seed {result['seed']}: best epoch {result['best_epoch']}"]
    metrics = result["test_result"] or {}
    lines.append("test: " + "  ".join(f"{name} {value:.4f}" for name, value in metrics.items()))
    if "tau_0" in result:
        spread = "  ".join(f"{name} {value:.4f}" for name, value in result["tau_u"].items())
        lines.append(f"tau_0: {result['tau_0']:.4f}   tau_u: {spread}")
    lines.append(f"run folder: {run.path}")
    if get_model(result["model"]).type == ModelType.GENERAL:  # others cannot rank all items for a user
        lines.append(f"next: {typed('recommend', [str(run.path), '--output', 'recommendations.csv'])}")
    if advice := temperature_advice(result):
        lines.append(advice)
    return "\n".join(lines)


def parser() -> argparse.ArgumentParser:
    made = new_parser(
        "recbole-adaptau train",
        "Train and test a recommender with RecBole; our models need no temperature.",
        f"{EXAMPLES}\nconfiguration keys of our models (--key=value), beside all of RecBole's:\n{help_lines()}",
        allow_abbrev=False,
    )
    made.add_argument("--model", "-m", default="AdapTauLightGCN", help="model name (default: %(default)s)")
    made.add_argument("--dataset", "-d", default="ml-100k", help="dataset name (default: %(default)s)")
    made.add_argument("--config_files", default="", help='YAML files with settings, e.g. "a.yaml b.yaml"')
    made.add_argument(
        "--verbose", action="store_true", help="RecBole's whole log, not only a line an epoch; run.log always has it"
    )
    made.add_argument(
        "--resume", metavar="RUN_FOLDER", help="continue an interrupted run; --budget_minutes=N gives it more time"
    )
    several = made.add_argument_group("several processes", "the batch is shared among all")
    several.add_argument("--nproc", type=int, help="processes on this machine (default: 1, or as the resumed run had)")
    several.add_argument("--world_size", type=int, default=-1, help="processes on all machines (default: nproc)")
    several.add_argument("--ip", default="localhost", help="the machine of rank 0 (default: %(default)s)")
    several.add_argument("--port", help=f"where they meet there (default: any, or {PORT} for several machines)")
    several.add_argument("--group_offset", type=int, default=0, help="rank of this machine's first process")
    several.add_argument("--rank_timeout", type=float, default=TIMEOUT, help="seconds to wait for others (%(default)s)")
    return made
