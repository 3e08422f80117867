"""The command: RecBole's conventions, every configuration key as --key=value, and errors without a traceback."""

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import yaml

from ..config.yaml_files import parse_yaml
from ..distributed.launcher import PORT, TIMEOUT
from ..errors import AdapTauError, OptionError
from ..runs.folder import RunFolder
from ..runs.quick_start import resume, run_processes
from ..training.checkpoint import quoted
from .settings_help import help_lines

EXAMPLES = """examples:
  %(prog)s                                              AdapTauLightGCN on ml-100k
  %(prog)s --model=AdapTauMF --dataset=ml-1m            another model, another dataset
  %(prog)s -m AdapTauMF --tau_strategy=fixed --tau=0.2  any configuration key
  %(prog)s -m LightGCN -d ml-100k --epochs=20           a model of RecBole's own
  %(prog)s -m AdapTauNGCF -d ml-100k                    the same inside Adap-tau: AdapTau and its name
  %(prog)s --resume=runs/ml-100k/AdapTauMF/RUN          go on after an interruption
  %(prog)s -m AdapTauMF --nproc=2                       two processes, half a batch each
"""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command; returns its exit code (0 done, 2 bad input, 130 Ctrl-C, 143 SIGTERM)."""
    args, rest = _parser().parse_known_args(arguments)
    # RecBole's Config reads sys.argv by itself; what is there has been read here.
    sys.argv = sys.argv[:1]
    try:
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
            files = _existing(args.config_files.split())
            nproc = 1 if args.nproc is None else args.nproc
            result = run_processes(args.model, args.dataset, files, settings, nproc=nproc, **group)
        if result["run_folder"] is None:
            print("done; the run folder is on the machine of rank 0")
        else:
            print(summary(RunFolder(result["run_folder"])))
    except AdapTauError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    except KeyboardInterrupt as stop:
        print(str(stop) or "interrupted", file=sys.stderr)
        return getattr(stop, "exit_code", 130)
    return 0


def parse_settings(words: Sequence[str]) -> dict[str, Any]:
    """`--key=value` and `--key value` as settings; values are read as YAML, and None as in Python."""
    settings: dict[str, Any] = {}
    left = list(words)
    while left:
        word = left.pop(0)
        key, equals, value = word[2:].partition("=")
        if not word.startswith("--") or not key.isidentifier():
            raise OptionError(f"cannot read '{word}': options are written --key=value.")
        if not equals:
            if not left or left[0].startswith("--"):
                raise OptionError(f"--{key} has no value: write --{key}=value.")
            value = left.pop(0)
        if key in settings:
            raise OptionError(f"--{key} is given twice.")
        settings[key] = _value(value)
    return quoted(settings)


def summary(run: RunFolder) -> str:
    """What a run came to, in four lines."""
    result = run.read_result()
    lines = [f"{result['model']} on {result['dataset']}, seed {result['seed']}: best epoch {result['best_epoch']}"]
    metrics = result["test_result"] or {}
    lines.append("test: " + "  ".join(f"{name} {value:.4f}" for name, value in metrics.items()))
    if "tau_0" in result:
        spread = "  ".join(f"{name} {value:.4f}" for name, value in result["tau_u"].items())
        lines.append(f"tau_0: {result['tau_0']:.4f}   tau_u: {spread}")
    lines.append(f"run folder: {run.path}")
    return "\n".join(lines)


def _value(text: str) -> Any:
    if text in ("None", ""):
        return None
    try:
        return parse_yaml(text)
    except yaml.YAMLError:
        return text


def _existing(files: list[str]) -> list[str]:
    for file in files:
        if not Path(file).is_file():
            raise OptionError(f"--config_files: there is no file {Path(file).absolute()}.")
    return files


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        description="Train and test a recommender with RecBole; our models need no temperature.",
        epilog=f"{EXAMPLES}\nconfiguration keys of our models (--key=value), beside all of RecBole's:\n{help_lines()}",
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    parser.add_argument("--model", "-m", default="AdapTauLightGCN", help="model name (default: %(default)s)")
    parser.add_argument("--dataset", "-d", default="ml-100k", help="dataset name (default: %(default)s)")
    parser.add_argument("--config_files", default="", help='YAML files with settings, e.g. "a.yaml b.yaml"')
    parser.add_argument(
        "--resume", metavar="RUN_FOLDER", help="continue an interrupted run; --budget_minutes=N gives it more time"
    )
    several = parser.add_argument_group("several processes", "the batch is shared among all; see the README")
    several.add_argument("--nproc", type=int, help="processes on this machine (default: 1, or as the resumed run had)")
    several.add_argument("--world_size", type=int, default=-1, help="processes on all machines (default: nproc)")
    several.add_argument("--ip", default="localhost", help="the machine of rank 0 (default: %(default)s)")
    several.add_argument("--port", help=f"where they meet there (default: any, or {PORT} for several machines)")
    several.add_argument("--group_offset", type=int, default=0, help="rank of this machine's first process")
    several.add_argument("--rank_timeout", type=float, default=TIMEOUT, help="seconds to wait for others (%(default)s)")
    return parser
