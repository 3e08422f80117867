"""`recbole-adaptau experiment`: several runs for one table or picture; see --help."""

import argparse
import shlex
import sys
from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import recbole.utils

import recbole_adaptau

from ..errors import AdapTauError, OptionError
from ..model import AdapTauRecommender
from ..reporting import curves, tables
from ..runs import pool, runner
from ..studies import grid, plugin, repeat, tuning
from ..studies.paper import EXPERIMENTS
from ..studies.paper import command as paper
from ..training.checkpoint import quoted, shielded_argv
from .arguments import PROGRAM, given_settings, parser, refuse_twice

# Settings that the command makes itself, and what to use instead.
TAKEN = {
    "model": "--model",
    "dataset": "--dataset",
    "protocol": "--protocol",
    "data_path": "--data-path",
    "seed": "--seeds",
    "run_folder": "--output",
    "run_root": "--output",
    "resume": "the same command again, which goes on by itself",
}
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
    """Run the command; returns its exit code (0 done, 2 bad input, 130 Ctrl-C, 143 SIGTERM)."""
    words = list(sys.argv[1:] if arguments is None else arguments)
    args, rest = parser().parse_known_args(words)
    command = _shown(words)
    try:
        with shielded_argv():
            if args.command == "list":
                print(paper.listing())
            elif args.command == "curves":
                _curves(args, rest)
            elif args.command in EXPERIMENTS:
                _need_matplotlib()
                refuse_twice("--seeds", args.seeds)
                refuse_twice("--taus", getattr(args, "taus", None) or [])
                paper.carry_out(args, _given(args, rest), _without(words, "--agreement"))
            else:
                _experiment(args, rest, command)
    except (AdapTauError, OSError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    except KeyboardInterrupt as stop:
        print("interrupted", file=sys.stderr)
        if args.command != "curves":
            print(f"every finished epoch is saved; go on with:\n  {command}", file=sys.stderr)
        return getattr(stop, "exit_code", 130)
    return 0


def _shown(words: Sequence[str]) -> str:
    return shlex.join([*PROGRAM.split(), *words])


def _without(words: Sequence[str], option: str) -> str:
    """The command without an option that changes only what is written."""
    kept = [
        word
        for place, word in enumerate(words)
        if word != option and not word.startswith(f"{option}=") and (place == 0 or words[place - 1] != option)
    ]
    return _shown(kept)


def _experiment(args: argparse.Namespace, rest: list[str], command: str) -> None:
    given = _given(args, rest)
    refuse_twice("--seeds", args.seeds)
    pool.check_workers(args.parallel)
    common = given | quoted({"protocol": args.protocol, "data_path": args.data_path})
    if args.command == "grid":
        _check_grid(args)
        taus = args.taus or grid.TAUS
        specs = grid.specs(args.model, args.dataset, taus, args.strategies, args.seeds, common)
    elif args.command == "tune":
        search = _search(args)
        specs = search.specs(common)
    elif args.command == "plugin":
        refuse_twice("--models", args.models)
        if args.adapted_epochs is not None and args.adapted_epochs < 1:
            raise OptionError(f"--adapted-epochs {args.adapted_epochs}: must be 1 or more.")
        specs = plugin.specs(args.models, args.dataset, args.seeds, common, args.adapted_epochs)
    else:
        specs = repeat.specs(args.model, args.dataset, args.seeds, common)
    name = f"{args.dataset}-{args.model}-{args.protocol}" if args.model else f"{args.dataset}-{args.protocol}"
    output = args.output or Path("results") / args.command / name
    configs = runner.check(specs, output)
    if args.command == "tune":
        tuning.refuse_idle_keys(specs, configs)
    about = {
        "experiment": args.command,
        "command": command,
        "version": recbole_adaptau.__version__,
        "model": args.model,
        **({"models": args.models} if args.command == "plugin" else {}),
        **({"algo": args.algo} if args.command == "tune" else {}),
        "dataset": args.dataset,
        "protocol": args.protocol,
        "tau_strategies": list(dict.fromkeys(config["tau_strategy"] for config in configs)),
        "valid_metric": configs[0]["valid_metric"],
        "seeds": args.seeds,
        "given": {key: configs[0][key] for key in given},
        "runs_asked": len(specs),
    }
    tables.refuse_others(output / f"{args.command}.json", about)
    for note in runner.without_effect(configs, given):
        print(f"note: {note}", file=sys.stderr)
    files = {"grid": grid.files, "plugin": plugin.files, "repeat": repeat.files, "tune": tuning.files}[args.command]

    def write(runs: list[dict[str, Any]]) -> None:
        for name, content in files(about, runs).items():
            tables.write(output / name, content)

    if args.command != "tune" or search.knows_all:
        runner.carry_out(specs, output, write, args.parallel)
    if args.command == "tune":
        about["best"] = search.choose(output, common, write, args.output_file)
        write(runner.records(search.asked, output))
    print((output / f"{args.command}.md").read_text(encoding="utf-8"))
    print(f"written to {output}")


def _search(args: argparse.Namespace) -> tuning.Search:
    _need_matplotlib()
    if find_spec("hyperopt") is None:
        raise OptionError("tuning needs hyperopt: pip install 'recbole_adaptau[tune]'.")
    path = tuning.params_file(args.model, args.params_file)
    return tuning.Search(
        args.model, args.dataset, path, args.algo, args.max_evals, args.early_stop, args.seeds[0], args.parallel
    )


def _check_grid(args: argparse.Namespace) -> None:
    _need_matplotlib()
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
    _need_matplotlib()
    from ..reporting.figures import curves_figure

    found = curves.read_runs(args.run_folder)
    if args.reference:
        found += curves.read_references(args.reference, args.reference_run)
    tables.write(args.output, curves_figure(found))
    print(f"written to {args.output}")


def _given(args: argparse.Namespace, rest: list[str]) -> dict[str, Any]:
    taken = TAKEN | (TAKEN_BY_GRID if args.command == "grid" else TAKEN_BY_PAPER if args.command in EXPERIMENTS else {})
    return given_settings(args.config_files, rest, taken)


def _need_matplotlib() -> None:
    if find_spec("matplotlib") is None:
        raise OptionError("pictures need matplotlib: pip install 'recbole_adaptau[plot]'.")


if __name__ == "__main__":
    sys.exit(main())
