"""What a run of mutation testing has found: the survivors, and a table of files in Markdown."""

import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from .mutants import Mutant

NOTICED = ("killed", "timeout")
Known = Mapping[str, Mapping[str, Any]]
COLUMNS = ("file", "mutants", "killed", "equivalent", "surviving", "share")


@dataclass
class Row:
    """How many mutants of a file were noticed, change nothing, live on, or were never tried."""

    killed: int = 0
    equivalent: int = 0
    surviving: int = 0
    untried: int = 0

    def __add__(self, other: "Row") -> "Row":
        return Row(*(mine + theirs for mine, theirs in zip(vars(self).values(), vars(other).values(), strict=True)))

    def share(self) -> str:
        """Killed of those that are not equivalent."""
        of = self.killed + self.surviving
        return f"{100 * self.killed / of:.1f} %" if of else "–"

    def cells(self, name: str, before: str) -> list[str]:
        counts = (sum(vars(self).values()), self.killed, self.equivalent, self.surviving)
        return [name, *map(str, counts), self.share(), *([before] if before else [])]


def read(results: Path) -> dict[str, dict[str, Any]]:
    """The last result of each mutant, by its key."""
    lines = results.read_text(encoding="utf-8").splitlines() if results.exists() else []
    return {result["key"]: result for result in map(json.loads, lines)}


def fate(mutant: Mutant, known: Known, equivalent: Callable[[Any], bool]) -> str:
    """Which count of a row the mutant belongs to."""
    status = known.get(mutant.key, {}).get("status", "unknown")
    if status in NOTICED:
        return "killed"
    if equivalent(mutant):
        return "equivalent"
    return "untried" if status == "unknown" else "surviving"


def survivors(every: Iterable[Mutant], known: Known, equivalent: Callable[[Any], bool]) -> list[str]:
    return [
        f"{mutant.file}:{mutant.line} {mutant.function} [{known[mutant.key]['status']}] {mutant.text}"
        for mutant in every
        if fate(mutant, known, equivalent) == "surviving"
    ]


def table(
    areas: Mapping[str, Iterable[Mutant]], known: Known, equivalent: Callable[[Any], bool], before: Mapping[str, str]
) -> list[str]:
    """A row for each file, area and for all, with the shares of an earlier run if `before` has them."""
    columns = [*COLUMNS, *(["share before"] if before else [])]
    lines = ["| " + " | ".join(columns) + " |", "|---" * len(columns) + "|"]
    total = Row()
    for area, found in areas.items():
        rows: dict[str, Row] = {}
        for mutant in found:
            rows.setdefault(mutant.file, Row())
            rows[mutant.file] += Row(**{fate(mutant, known, equivalent): 1})
        whole = sum(rows.values(), Row())
        total += whole
        rows = {file.removeprefix("recbole_adaptau/"): row for file, row in rows.items()}
        if len(rows) > 1:
            rows[f"**{area}**"] = whole
        lines += ["| " + " | ".join(row.cells(name, before.get(name, "–") if before else "")) + " |"
                  for name, row in rows.items()]  # fmt: skip
    lines.append("| " + " | ".join(total.cells("**all**", before.get("**all**", "–") if before else "")) + " |")
    return [*lines, f"\n{total.untried} not tried."] if total.untried else lines


def shares(page: Path) -> dict[str, str]:
    """The shares of a table that was printed earlier, by file."""
    cells = [line.strip("|").split("|") for line in page.read_text(encoding="utf-8").splitlines() if "|" in line]
    return {row[0].strip(): row[5].strip() for row in cells}
