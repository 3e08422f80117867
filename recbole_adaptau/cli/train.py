"""`recbole-adaptau train`: RecBole's conventions, every configuration key as --key=value."""

import argparse
from collections.abc import Sequence
from typing import Any

from ..distributed.launcher import PORT, TIMEOUT
from ..errors import OptionError
from ..runs.folder import RunFolder
from ..runs.quick_start import resume, run_processes
from ..runs.refit import VALIDATION, refit, resume_refit
from ..runs.temperature_check import temperature_advice
from .arguments import existing, parse_settings
from .command import exit_code, new_parser
from .settings_help import help_lines

MODEL, DATASET = "AdapTauLightGCN", "ml-100k"
EXAMPLES = """examples:
  %(prog)s                                              AdapTauLightGCN on ml-100k
  %(prog)s --model=AdapTauMF --dataset=ml-1m            another model, another dataset
  %(prog)s -m AdapTauMF --tau_strategy=fixed --tau=0.2  any configuration key
  %(prog)s -m LightGCN -d ml-100k --epochs=20           a model of RecBole's own
  %(prog)s -m AdapTauNGCF -d ml-100k                    the same inside Adap-tau: AdapTau and its name
  %(prog)s --resume=runs/ml-100k/AdapTauMF/RUN          go on after an interruption
  %(prog)s -m AdapTauMF --refit                         for production: validate, then train on everything
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
        given = [f"--{name}" for name in ("model", "dataset", "config_files") if getattr(args, name)]
        if given:
            raise OptionError(f"--resume takes the model, data and settings of its run; remove {', '.join(given)}.")
        if args.refit:
            refuse_settings(settings)
            resume_refit(args.resume, nproc=args.nproc, **group)
            print(summary(RunFolder(args.resume)))
            return
        budget = settings.pop("budget_minutes", ...)
        refuse_settings(settings)
        complete = RunFolder.existing(args.resume).is_complete
        stamp = _stamp(args.resume)
        result = resume(args.resume, nproc=args.nproc, budget_minutes=budget, **group)
        if complete and _stamp(args.resume) == stamp:
            print("this run is complete; nothing was trained")
    else:
        nproc = 1 if args.nproc is None else args.nproc
        settings["strict_keys"] = list(settings)
        model, dataset = args.model or MODEL, args.dataset or DATASET
        train = refit if args.refit else run_processes
        result = train(model, dataset, existing(args.config_files), settings, nproc=nproc, **group)
    if result["run_folder"] is None:
        print("done; the run folder is on the machine of rank 0")
    else:
        print(summary(RunFolder(result["run_folder"])))


def refuse_settings(settings: dict[str, Any]) -> None:
    if settings:
        wrong = ", ".join(settings)
        raise OptionError(f"--resume takes the settings of its run; remove {wrong}. Only budget_minutes may change.")


def _stamp(run_folder: str) -> int:
    """Of the result, to see whether it was written again."""
    return RunFolder(run_folder).result.stat().st_mtime_ns if RunFolder(run_folder).is_complete else 0


def summary(run: RunFolder) -> str:
    """What a run came to, in four lines, and a fifth if its temperature does not suit the data."""
    result = run.read_result()
    method = result.get("method", result["model"])
    validated = result.get(VALIDATION, result)
    how = f"best epoch {validated['best_epoch']}"
    if validated is not result:
        how += f", refit on everything for {result['epochs']} epochs"
    lines = [f"{method} on {result['dataset']}, seed {result['seed']}: {how}"]
    metrics = {name: value for name, value in (validated["test_result"] or {}).items() if value is not None}
    told = "  ".join(f"{name} {value:.4f}" for name, value in metrics.items())
    before = "test" if validated is result else "test before the refit"
    lines.append(f"{before}: {told or 'no test part'}")
    if "tau_0" in result:
        spread = "  ".join(f"{name} {value:.4f}" for name, value in result["tau_u"].items())
        lines.append(f"tau_0: {result['tau_0']:.4f}   tau_u: {spread}")
    lines.append(f"run folder: {run.path}")
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
    made.add_argument("--model", "-m", help=f"model name (default: {MODEL})")
    made.add_argument("--dataset", "-d", help=f"dataset name (default: {DATASET})")
    made.add_argument("--config_files", default="", help='YAML files with settings, e.g. "a.yaml b.yaml"')
    made.add_argument(
        "--resume", metavar="RUN_FOLDER", help="continue an interrupted run; --budget_minutes=N gives it more time"
    )
    made.add_argument(
        "--refit",
        action="store_true",
        help="validate, then train on all interactions for the best number of epochs; with --resume, go on with that",
    )
    several = made.add_argument_group("several processes", "the batch is shared among all")
    several.add_argument("--nproc", type=int, help="processes on this machine (default: 1, or as the resumed run had)")
    several.add_argument("--world_size", type=int, default=-1, help="processes on all machines (default: nproc)")
    several.add_argument("--ip", default="localhost", help="the machine of rank 0 (default: %(default)s)")
    several.add_argument("--port", help=f"where they meet there (default: any, or {PORT} for several machines)")
    several.add_argument("--group_offset", type=int, default=0, help="rank of this machine's first process")
    several.add_argument("--rank_timeout", type=float, default=TIMEOUT, help="seconds to wait for others (%(default)s)")
    return made
