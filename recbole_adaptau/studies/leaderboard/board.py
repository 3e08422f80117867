"""The runs of one leaderboard, and the files written about them."""

import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import recbole.utils

from ...errors import AdapTauError, OptionError
from ...reporting import tables
from ...reporting.html.page import write_report
from ...runs import runner
from ...runs.folder import RunFolder
from ...runs.pool import Workers
from .entries import FIRST_SEED, Entry, common
from .table import as_csv, markdown, rows


class Board:
    """The runs of one leaderboard: every setting to try with the first seed, then the best with the others.

    Args:
        found: The models and the settings to try.
        seeds: How many seeds.
        budget: Minutes of training for each model, over all of its runs; None for no limit.
        given: Settings for every run, strings quoted.
        root: The folder of the runs and the reports.
    """

    stem = "leaderboard"  # of the reports' names

    def __init__(
        self,
        found: Sequence[Entry],
        dataset: str,
        seeds: int,
        budget: float | None,
        given: Mapping[str, Any],
        root: Path,
    ):
        self.entries, self.dataset, self.budget, self.given, self.root = found, dataset, budget, given, root
        self.seeds = [FIRST_SEED + number for number in range(seeds)]
        self.refused: dict[str, str] = {}

    def carry_out(self, about: Mapping[str, Any], workers: Workers) -> bool:
        """Make the runs and write the reports and report.html; returns whether a model failed.

        Args:
            about: What the reports say of the leaderboard beside its rows.
            workers: How many runs at a time, and where.
        """
        tables.refuse_others(self.root / f"{self.stem}.json", dict(about))
        self.check()
        for specs in (self.first_runs, self.further_runs):
            runner.carry_out(specs(), self.root, lambda _: self.write(about), workers, go_on=True)
        self.write(about)
        write_report(self.folders(), self.root / "report.html", title=f"{self.stem.capitalize()} on {self.dataset}")
        return any(group["errors"] for group in self.groups())

    def write(self, about: Mapping[str, Any]) -> None:
        """Write the reports of what is complete so far."""
        groups = self.groups()
        data = {
            **about,
            "runs_asked": len(self._possible()) * len(self.seeds),
            "runs": [run for group in groups for run in group["runs"]],
            "rows": self.rows(groups),
        }
        for kind, content in self.contents(data).items():
            tables.write(self.root / f"{self.stem}.{kind}", content)

    def rows(self, groups: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
        """The rows of the reports."""
        return rows(groups, self.root)

    def contents(self, data: dict[str, Any]) -> dict[str, Any]:
        """The reports by the ends of their names."""
        return {"json": data, "md": markdown(data), "csv": as_csv(data)}

    def check(self) -> None:
        """Say which models cannot be run at all, before anything is; the others are checked by the runner."""
        for entry in self.entries:
            try:
                recbole.utils.get_model(entry.model)
                for spec in self._first(entry):
                    spec.config(runner.folder_of(spec, self.root).path)
            except AdapTauError as error:
                self.refused[entry.name] = str(error)
                print(f"note: {entry.name} is left out: {error}", file=sys.stderr)
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
        for name, error in self.refused.items():
            run = RunFolder(self.root / "runs" / name)
            run.fail(AdapTauError(error))
            found.append(run.path)
        return found

    def _group(self, entry: Entry) -> dict[str, Any]:
        best = self._best(entry) if entry.name not in self.refused else None
        errors = [self.refused[entry.name]] if entry.name in self.refused else []
        runs = []
        if entry.name not in self.refused:
            specs = self._chosen(entry) or self._first(entry)
            errors += [error for spec in specs if (error := self._error(spec))]
            runs = runner.records(self._chosen(entry), self.root)
        return {
            "model": entry.model,
            "method": entry.name,
            "loss": entry.loss,
            "label": entry.label,
            "published": entry.published,
            "source": entry.source,
            "settings": dict(entry.trials[best or 0]),
            "temperatures_tried": entry.temperatures_tried,
            "trials": len(entry.trials),
            "lent": self.given.get("fast_propagation", common()["fast_propagation"]),
            "errors": errors,
            "runs": runs,
        }

    def _possible(self) -> list[Entry]:
        return [entry for entry in self.entries if entry.name not in self.refused]

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
