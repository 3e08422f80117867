"""From a list of runs to the reports about them: what the studies over several runs have in common."""

import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from recbole.config import Config

from ..reporting import tables
from ..runs import runner
from ..runs.pool import Workers
from ..runs.runner import Spec


@dataclass
class Study:
    """Runs of one kind, and the files written about them.

    Attributes:
        name: The kind of study; its reports are called so.
        specs: The runs.
        output: The folder of the runs and the reports.
        given: Settings that the user gave for every run.
        about: What the reports say of the study beside its runs; `check` completes it.
        files: The reports by file name, from `about` and the records of the complete runs.
    """

    name: str
    specs: Sequence[Spec]
    output: Path
    given: Mapping[str, Any]
    about: dict[str, Any]
    files: Callable[[dict[str, Any], Sequence[dict[str, Any]]], dict[str, Any]]

    def check(self) -> list[Config]:
        """Refuse, before anything is trained, what cannot be run or a folder that holds another study."""
        configs = runner.check(self.specs, self.output)
        self.about |= {
            "experiment": self.name,
            "tau_strategies": list(dict.fromkeys(config["tau_strategy"] for config in configs)),
            "valid_metric": configs[0]["valid_metric"],
            "given": {key: configs[0][key] for key in self.given},
            "runs_asked": len(self.specs),
        }
        tables.refuse_others(self.output / f"{self.name}.json", self.about)
        for note in runner.without_effect(configs, self.given):
            print(f"note: {note}", file=sys.stderr)
        return configs

    def carry_out(self, workers: Workers) -> None:
        """Make the runs that are not complete; the reports are written after each."""
        runner.carry_out(self.specs, self.output, self.write, workers)

    def write(self, records: Sequence[dict[str, Any]]) -> None:
        for name, content in self.files(self.about, records).items():
            tables.write(self.output / name, content)

    def page(self) -> str:
        """What is printed at the end."""
        text = (self.output / f"{self.name}.md").read_text(encoding="utf-8")
        return f"{text}\nwritten to {self.output}"
