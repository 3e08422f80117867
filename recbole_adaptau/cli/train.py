"""`recbole-adaptau train`: RecBole's conventions, every configuration key as --key=value."""

import argparse
import os
import shlex
import sys
from collections.abc import Sequence
from typing import Any

from recbole.utils import ModelType, get_model

from ..distributed import ranks
from ..distributed.launcher import TIMEOUT, Rank
from ..errors import OptionError
from ..runs.folder import RunFolder
from ..runs.quick_start import resume, run_processes, run_recbole_adaptau
from ..runs.refit import VALIDATION, refit, resume_refit
from ..runs.temperature_check import temperature_advice
from .arguments import existing, parse_settings
from .command import exit_code, new_parser, typed
from .settings_help import help_lines

MODEL, DATASET = "AdapTauLightGCN", "ml-100k"
EXAMPLES = """examples:
  %(prog)s                                              AdapTauLightGCN on ml-100k
  %(prog)s --model=AdapTauMF --dataset=ml-1m            another model, another dataset
  %(prog)s -m AdapTauMF --tau_strategy=fixed --tau=0.2  any configuration key
  %(prog)s -m LightGCN -d ml-100k --epochs=20           a model of RecBole's own
  %(prog)s -m AdapTauNGCF -d ml-100k                    the same inside Adap-tau: AdapTau and its name
  %(prog)s -d ml-100k --min-rating=4 --kcore=5 --split=time --valid=0.1 --test=0.2
  %(prog)s --resume=runs/ml-100k/AdapTauMF/RUN          go on after an interruption
  %(prog)s -m AdapTauMF --refit                         for production: validate, then train on everything
  %(prog)s -m AdapTauMF -d gowalla --refit=validation   to compare with figures of models without a validation part
  %(prog)s -m AdapTauMF --nproc=2                       two processes, half a batch each
  torchrun --standalone --nproc-per-node=2 -m recbole_adaptau train -m AdapTauMF        the same
"""
# What --refit adds to the training part.
EVERYTHING, KEEPING_TEST = "everything", "validation"
# How RecBole and version 0.2 named the machines; torchrun does that now.
GONE = ("world_size", "ip", "port", "group_offset")


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the verb; returns its exit code."""
    code = exit_code("train", _train, arguments)
    if ranks.is_active():  # left only by an error, and its threads may wait for a rank that is no more
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)
    return code


def _train(words: list[str]) -> None:
    args, rest = parser().parse_known_args(words)
    if gone := [key for key in GONE if getattr(args, key) is not None]:
        raise OptionError(f"--{gone[0]} is torchrun's business. On each machine: {_torchrun(args, words)}")
    rank = Rank.of_process()
    if args.refit and rank is not None:
        raise OptionError("--refit makes two runs and starts their processes itself: use --nproc in place of torchrun.")
    settings = parse_settings(rest)
    launched = {"max_restarts": args.max_restarts, "rank_timeout": args.rank_timeout}
    if args.resume:
        given = [f"--{name}" for name in ("model", "dataset", "config_files") if getattr(args, name)]
        if given:
            raise OptionError(f"--resume takes the model, data and settings of its run; remove {', '.join(given)}.")
        if args.refit:
            refuse_settings(settings)
            resume_refit(args.resume, args.refit == KEEPING_TEST, nproc=args.nproc, **launched)
            print(summary(RunFolder(args.resume)))
            return
        budget = settings.pop("budget_minutes", ...)
        refuse_settings(settings)
        before = RunFolder(args.resume).result_stamp()
        result = resume(args.resume, nproc=args.nproc, budget_minutes=budget, **launched)
        if before and RunFolder(args.resume).result_stamp() == before and (rank is None or rank.rank == 0):
            print("this run is complete; nothing was trained")
    else:
        if args.verbose:
            settings["verbose"] = True
        settings["strict_keys"] = list(settings)
        run = args.model or MODEL, args.dataset or DATASET, existing(args.config_files), settings
        if args.refit:
            result = refit(*run, args.refit == KEEPING_TEST, nproc=args.nproc or 1, **launched)
        elif args.nproc is None and not args.max_restarts:
            result = run_recbole_adaptau(*run, rank_timeout=args.rank_timeout)
        else:
            result = run_processes(*run, nproc=1 if args.nproc is None else args.nproc, **launched)
    if rank is None or rank.rank == 0:
        print(summary(RunFolder(result["run_folder"])))


def refuse_settings(settings: dict[str, Any]) -> None:
    if settings:
        wrong = ", ".join(settings)
        raise OptionError(f"--resume takes the settings of its run; remove {wrong}. Only budget_minutes may change.")


def _torchrun(args: argparse.Namespace, words: list[str]) -> str:
    """The command for torchrun that does what RecBole's options asked for."""
    nproc = args.nproc or 1
    machines = max(int(args.world_size or nproc) // nproc, 1)
    options = [f"--{name}" for name in (*GONE, "nproc")]
    ours = [word for place, word in enumerate(words) if word.partition("=")[0] not in options
            and not (place and words[place - 1] in options)]  # fmt: skip
    where = f"{args.ip or 'HOST'}:{args.port or 29500}"
    return shlex.join(
        ["torchrun", f"--nnodes={machines}", f"--nproc-per-node={nproc}", "--rdzv-backend=c10d",
         f"--rdzv-endpoint={where}", "--rdzv-id=RUN", "-m", "recbole_adaptau", "train", *ours]
    )  # fmt: skip


def summary(run: RunFolder) -> str:
    """What a run came to, in a few lines, what to do next, and a line if its temperature does not suit the data."""
    result = run.read_result()
    method = result.get("method", result["model"])
    validated = result.get(VALIDATION, result)
    how = f"best epoch {validated['best_epoch']}"
    if validated is not result:
        on = "training and validation part" if result["test_result"] else "everything"
        how += f", refit on {on} for {result['epochs']} epochs"
    lines = [f"{method} on {result['dataset']}, seed {result['seed']}: {how}"]
    lines.append(f"{'test' if validated is result else 'test before the refit'}: {_told(validated['test_result'])}")
    if validated is not result and result["test_result"]:
        lines.append(f"test: {_told(result['test_result'])}")
    if "tau_0" in result:
        spread = "  ".join(f"{name} {value:.4f}" for name, value in result["tau_u"].items())
        lines.append(f"tau_0: {result['tau_0']:.4f}   tau_u: {spread}")
    lines.append(f"run folder: {run.path}")
    if get_model(result["model"]).type == ModelType.GENERAL:  # others cannot rank all items for a user
        lines.append(f"next: {typed('recommend', [str(run.path), '--output', 'recommendations.csv'])}")
    if advice := temperature_advice(result):
        lines.append(advice)
    return "\n".join(lines)


def _told(figures: dict[str, float | None] | None) -> str:
    told = (f"{name} {value:.4f}" for name, value in (figures or {}).items() if value is not None)
    return "  ".join(told) or "no test part"


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
        "--verbose", action="store_true", help="RecBole's whole log, not only a line an epoch; run.log always has it"
    )
    made.add_argument(
        "--resume", metavar="RUN_FOLDER", help="continue an interrupted run; --budget_minutes=N gives it more time"
    )
    made.add_argument(
        "--refit",
        nargs="?",
        const=EVERYTHING,
        choices=(EVERYTHING, KEEPING_TEST),
        help="validate, then train again for the best number of epochs: on everything (default), or on training and "
        "validation part, and test; with --resume, go on with that",
    )
    several = made.add_argument_group(
        "several processes", "the batch is shared among all; on several machines torchrun starts them (docs/SCALE.md)"
    )
    several.add_argument("--nproc", type=int, help="processes on this machine (default: 1, or as the resumed run had)")
    several.add_argument(
        "--max-restarts",
        "--max_restarts",
        type=int,
        default=0,
        metavar="N",
        help="when a process dies, start all again from the last whole epoch, at most so often (default: %(default)s)",
    )
    several.add_argument("--rank_timeout", type=float, default=TIMEOUT, help="seconds to wait for others (%(default)s)")
    for key in GONE:
        several.add_argument(f"--{key}", help=argparse.SUPPRESS)
    return made
