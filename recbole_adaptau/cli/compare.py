"""`recbole-adaptau compare`: how good is it, what does it cost, on my data?"""

import argparse
import shlex
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import recbole.utils

import recbole_adaptau

from ..errors import AdapTauError, OptionError
from ..reporting import tables
from ..runs import runner
from ..runs.folder import RunFolder
from ..runs.pool import check_workers
from ..studies.leaderboard.entries import FIRST_SEED, MODELS, Entry, common, entries
from ..studies.leaderboard.table import as_csv, markdown, rows
from ..training.checkpoint import quoted, shielded_argv
from .arguments import add_data_arguments, given_settings, refuse_twice

PROGRAM = "recbole-adaptau compare"
EXAMPLES = f"""examples:
  {PROGRAM}                                                   eight models on ml-100k, three seeds
  {PROGRAM} --models AdapTauMF BPR ItemKNN --seeds 1          any of RecBole's general models
  {PROGRAM} --dataset ml-1m --seeds 1 --budget 40 --parallel 2
  {PROGRAM} --models AdapTauMF --epochs=5                     any configuration key, for all models

The folder of the results holds leaderboard.md, .csv, .json, report.html and the runs.
Ctrl-C at any time: the same command goes on where it stopped, and complete runs are not made again.
"""
TAKEN = {key: "the command's own option" for key in ("model", "dataset", "protocol", "data_path")} | {
    "seed": "--seeds", "run_folder": "--output", "run_root": "--output", "resume": "the same command again",
    "budget_minutes": "--budget",
}  # fmt: skip


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command; returns its exit code (0 done, 1 some model failed, 2 bad input, 130 Ctrl-C, 143 SIGTERM)."""
    words = list(sys.argv[1:] if arguments is None else arguments)
    args, rest = _parser().parse_known_args(words)
    command = shlex.join([*PROGRAM.split(), *words])
    try:
        with shielded_argv():
            return 1 if _leaderboard(args, rest, command) else 0
    except (AdapTauError, OSError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    except KeyboardInterrupt as stop:
        print(f"interrupted; every finished epoch is saved; go on with:\n  {command}", file=sys.stderr)
        return getattr(stop, "exit_code", 130)


def _leaderboard(args: argparse.Namespace, rest: list[str], command: str) -> bool:
    """Make the runs and write the reports; returns whether a model failed."""
    given = given_settings(args.config_files, rest, TAKEN)
    refuse_twice("--models", args.models)
    check_workers(args.parallel)
    if args.seeds < 1:
        raise OptionError(f"--seeds {args.seeds}: must be the number of seeds, at least 1.")
    if args.budget is not None and args.budget <= 0:
        raise OptionError(f"--budget {args.budget}: must be minutes above 0.")
    given |= quoted({"protocol": args.protocol, "data_path": args.data_path})
    output = args.output or Path("results") / "leaderboard" / f"{args.dataset}-{args.protocol}"
    board = Board(entries(args.models, args.dataset), args, given, output)
    about = {
        "experiment": "leaderboard",
        "command": command,
        "version": recbole_adaptau.__version__,
        "dataset": args.dataset,
        "protocol": args.protocol,
        "budget": args.budget,
        "valid_metric": common()["valid_metric"],
        "seeds": board.seeds,
        "given": {key: given[key] for key in given},
        "model": "leaderboard",
    }
    tables.refuse_others(output / "leaderboard.json", about)
    board.check()

    def write(_: list[dict[str, Any]]) -> None:
        groups = board.groups()
        data = {**about, "runs_asked": board.runs_asked(), "runs": [run for group in groups for run in group["runs"]]}
        data["rows"] = rows(groups, output)
        for name, content in (("json", data), ("md", markdown(data)), ("csv", as_csv(data))):
            tables.write(output / f"leaderboard.{name}", content)

    runner.carry_out(board.first_runs(), output, write, args.parallel, go_on=True)
    runner.carry_out(board.further_runs(), output, write, args.parallel, go_on=True)
    write([])
    from ..reporting.html.page import write_report

    write_report(board.folders(), output / "report.html", title=f"Leaderboard on {args.dataset}")
    print((output / "leaderboard.md").read_text(encoding="utf-8"))
    print(f"written to {output}: leaderboard.md, .csv, .json and report.html")
    return any(group["errors"] for group in board.groups())


class Board:
    """The runs of one leaderboard: every setting to try with the first seed, then the best with the others."""

    def __init__(self, found: Sequence[Entry], args: argparse.Namespace, given: Mapping[str, Any], root: Path):
        self.entries, self.dataset, self.given, self.root = found, args.dataset, given, root
        self.seeds = [FIRST_SEED + number for number in range(args.seeds)]
        self.budget: float | None = args.budget
        self.refused: dict[str, str] = {}

    def check(self) -> None:
        """Say which models cannot be run at all, before anything is; the others are checked by the runner."""
        for entry in self.entries:
            try:
                recbole.utils.get_model(entry.model)
                for spec in self._first(entry):
                    spec.config(runner.folder_of(spec, self.root).path)
            except AdapTauError as error:
                self.refused[entry.model] = str(error)
                print(f"note: {entry.model} is left out: {error}", file=sys.stderr)
        if len(self.refused) == len(self.entries):
            raise OptionError("none of the models can be run.")
        configs = runner.check(self.first_runs(), self.root)
        for note in runner.without_effect(configs, self.given):
            print(f"note: {note}", file=sys.stderr)

    def first_runs(self) -> list[runner.Spec]:
        return [spec for entry in self._possible() for spec in self._first(entry)]

    def further_runs(self) -> list[runner.Spec]:
        """Of models that have a complete first run: the settings that validated best, with the other seeds."""
        made = []
        for entry in self._possible():
            best = self._best(entry)
            made += [] if best is None else [self._spec(entry, best, seed) for seed in self.seeds[1:]]
        return made

    def runs_asked(self) -> int:
        return len(self._possible()) * len(self.seeds)

    def groups(self) -> list[dict[str, Any]]:
        """What `table.rows` wants to know of each model."""
        return [self._group(entry) for entry in self.entries]

    def folders(self) -> list[Path]:
        """The folders of the rows' runs, and of runs and models that failed."""
        found = []
        for entry in self._possible():
            for spec in self._chosen(entry) or self._first(entry):
                run = runner.folder_of(spec, self.root)
                found += [run.path] if run.path.exists() else []
        for model, error in self.refused.items():
            run = RunFolder(self.root / "runs" / model)
            run.fail(AdapTauError(error))
            found.append(run.path)
        return found

    def _group(self, entry: Entry) -> dict[str, Any]:
        best = self._best(entry) if entry.model not in self.refused else None
        errors = [self.refused[entry.model]] if entry.model in self.refused else []
        runs = []
        if entry.model not in self.refused:
            specs = self._chosen(entry) or self._first(entry)
            errors += [error for spec in specs if (error := self._error(spec))]
            runs = runner.records(self._chosen(entry), self.root)
        return {
            "model": entry.model,
            "source": entry.source,
            "settings": dict(entry.trials[best or 0]),
            "temperatures_tried": entry.temperatures_tried,
            "trials": len(entry.trials),
            "lent": self.given.get("fast_propagation", common()["fast_propagation"]),
            "errors": errors,
            "runs": runs,
        }

    def _possible(self) -> list[Entry]:
        return [entry for entry in self.entries if entry.model not in self.refused]

    def _spec(self, entry: Entry, trial: int, seed: int) -> runner.Spec:
        runs = len(entry.trials) + len(self.seeds) - 1
        return entry.spec(trial, self.dataset, seed, self.given, None if self.budget is None else self.budget / runs)

    def _first(self, entry: Entry) -> list[runner.Spec]:
        return [self._spec(entry, trial, self.seeds[0]) for trial in range(len(entry.trials))]

    def _chosen(self, entry: Entry) -> list[runner.Spec]:
        best = self._best(entry)
        return [] if best is None else [self._spec(entry, best, seed) for seed in self.seeds]

    def _best(self, entry: Entry) -> int | None:
        """The trial that validated best, once every trial is complete or has failed."""
        specs = self._first(entry)
        done = {record["name"]: record for record in runner.records(specs, self.root)}
        if not done or any(spec.name not in done and not self._error(spec) for spec in specs):
            return None
        sign = 1.0 if next(iter(done.values()))["valid_score_bigger"] else -1.0
        scores = {n: sign * done[spec.name]["best_valid_score"] for n, spec in enumerate(specs) if spec.name in done}
        return max(scores, key=lambda trial: scores[trial])

    def _error(self, spec: runner.Spec) -> str | None:
        return runner.folder_of(spec, self.root).read_error()


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog=PROGRAM,
        description="Train several models on one dataset with the same split, evaluator, early stopping and\n"
        "embedding size, each with its published settings for that data or the best of three by\n"
        "validation; write a leaderboard.",
        epilog=EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    parser.add_argument("--dataset", "-d", default="ml-100k", help="dataset name (default: %(default)s)")
    parser.add_argument(
        "--models", "-m", nargs="+", default=list(MODELS), metavar="NAME", help=f"default: {' '.join(MODELS)}"
    )
    parser.add_argument(
        "--seeds", type=int, default=3, metavar="N", help=f"how many seeds, from {FIRST_SEED} on (default: %(default)s)"
    )
    parser.add_argument(
        "--budget", type=float, metavar="MINUTES", help="training time of each model, over all of its runs"
    )
    add_data_arguments(parser, "results/leaderboard/DATASET-PROTOCOL", parallel=1)
    return parser


if __name__ == "__main__":
    sys.exit(main())
