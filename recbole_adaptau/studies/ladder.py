"""From a fixed temperature to the recipe plus, one step at a time; and every loss with every temperature."""

from collections.abc import Mapping, Sequence
from typing import Any

from ..config.recipes import open_recipe
from ..errors import AdapTauError
from ..reporting.tables import METRICS, opening, table, title
from ..runs.folder import RunFolder
from ..runs.significance import holm, paired
from .leaderboard.board import Board
from .leaderboard.entries import Entry, entries
from .leaderboard.table import rows as ranked_rows

TAUS = (0.1, 0.15, 0.2, 0.25)
# The rungs below the recipe, after the best fixed temperature.
STRATEGIES = ("adaptive", "adaptive_user", "calibrated_user")
TABLE_STRATEGIES = ("fixed", *STRATEGIES)
SOFTMAX_FAMILY = ("softmax", "bsl", "psl", "slatk")


def ladder_entries(model: str, dataset: str, strategy: str, taus: Sequence[float]) -> list[Entry]:
    """The rungs, then each part of plus alone; the first part is a rung and alone at once."""
    base = dict(entries([model], dataset)[0].trials[0])
    parts = open_recipe("plus")[0]

    def entry(label: str, *trials: Mapping[str, Any]) -> Entry:
        return Entry(model, "ladder", tuple({**base, **trial} for trial in trials), None, label=label)

    made = [entry("fixed", *({"tau_strategy": "fixed", "tau": tau} for tau in taus))]
    made += [entry(name, {"tau_strategy": name}) for name in STRATEGIES]
    for number in range(1, len(parts) + 1):
        made.append(entry(f"with-{parts[number - 1]}", {"tau_strategy": strategy, "recipe": parts[:number]}))
    made.append(entry("plus", {"tau_strategy": strategy, "recipe": "plus"}))
    made += [entry(f"alone-{part}", {"tau_strategy": strategy, "recipe": [part]}) for part in parts[1:]]
    return made


def loss_entries(
    model: str, dataset: str, losses: Sequence[str], strategies: Sequence[str], taus: Sequence[float]
) -> list[Entry]:
    """Every loss with every temperature strategy; with fixed, validation chooses among some temperatures."""
    base, made = dict(entries([model], dataset)[0].trials[0]), []
    for loss in losses:
        for strategy in strategies:
            at = [{"tau": tau} for tau in taus] if strategy == "fixed" else [{}]
            trials = tuple({**base, "loss": loss, "tau_strategy": strategy, **trial} for trial in at)
            made.append(Entry(model, "losses", trials, None, label=f"{loss}-{strategy}"))
    return made


class Ladder(Board):
    """Every rung against the one before it, and every part alone against the strategy it is added to.

    Args:
        strategy: The temperature strategy that the parts are added to.
    """

    stem = "ladder"

    def __init__(self, *args: Any, strategy: str):
        super().__init__(*args)
        self.strategy = strategy

    def rows(self, groups: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
        made = [
            {
                "rung": group["method"],
                "against": against,
                "settings": group["settings"],
                "trials": group["trials"],
                "test": {name: row["test"][name] for name in METRICS} if row["test"] else {},
                "errors": group["errors"],
            }
            for group, row, against in _with_rows(groups, self)
        ]
        folders = {group["method"]: [RunFolder(self.root / run["folder"]) for run in group["runs"]] for group in groups}
        for row in made:
            row["pair"] = _pair(folders, row["rung"], row["against"])
        for rung, p in holm({row["rung"]: row["pair"]["p"] for row in made if "p" in row["pair"]}).items():
            next(row for row in made if row["rung"] == rung)["pair"]["p_holm"] = p
        return made

    def before(self, rung: str) -> str | None:
        """The rung that another is compared with; None for the first."""
        names = [entry.name for entry in self.entries]
        if rung.startswith("alone-") or rung == next(name for name in names if name.startswith("with-")):
            return self.strategy
        place = names.index(rung)
        return names[place - 1] if place else None

    def contents(self, data: dict[str, Any]) -> dict[str, Any]:
        lines = opening(f"The ladder of {data['model']} on {data['dataset']}", data)
        head = ["rung", *map(title, METRICS), "compared with", "NDCG@20 difference, p (Holm)", "settings tried"]
        lines += table(head, [_cells(row) for row in data["rows"]])
        lines += [
            "",
            f"Test figures. `fixed` is the temperature of the grid that validates best. `with-PART` adds a part of the "
            f"recipe plus to the rung before it, from {data['strategy']} on; `plus` has user_beta 0.5 too. "
            f"`alone-PART` is {data['strategy']} with that part only. Tests are paired over users; * is p < 0.05.",
            "",
        ]
        return {"json": data, "md": "\n".join(lines)}


class LossTable(Board):
    """NDCG@20 of every loss with every temperature strategy."""

    stem = "losses"

    def contents(self, data: dict[str, Any]) -> dict[str, Any]:
        lines = opening(f"Losses and temperatures: {data['model']} on {data['dataset']}", data)
        found = {row["method"]: row for row in data["rows"]}
        body = []
        for loss in data["losses"]:
            cells = [found.get(f"{loss}-{strategy}") for strategy in data["strategies"]]
            body.append([loss, *(_figure(row, next(iter(data["rows"]))) for row in cells)])
        lines += table(["loss", *data["strategies"]], body)
        lines += [
            "",
            "Test NDCG@20. ° differs significantly from the best (paired over users, p < 0.05 after Holm).",
            "",
        ]
        for loss in data["losses"]:
            row = found.get(f"{loss}-fixed")
            if row and row["test"]:
                lines += [f"`{loss}`: tau {row['settings'].get('tau')} of {row['trials']} by validation.", ""]
        return {"json": data, "md": "\n".join(lines)}


def _with_rows(groups: Sequence[dict[str, Any]], ladder: Ladder) -> list[tuple[dict[str, Any], dict[str, Any], Any]]:
    """Each group with its row of figures and what it is compared with, in the order of the rungs."""
    figures = {row["method"]: row for row in ranked_rows(groups, ladder.root)}
    return [(group, figures[group["method"]], ladder.before(group["method"])) for group in groups]


def _pair(folders: Mapping[str, Sequence[RunFolder]], rung: str, other: str | None) -> dict[str, Any]:
    if other is None or not folders[rung] or not folders.get(other):
        return {}
    try:
        return dict(vars(paired(folders[rung], folders[other])))
    except AdapTauError as error:
        return {"error": str(error)}


def _cells(row: Mapping[str, Any]) -> list[Any]:
    pair, told = row["pair"], "–"
    if "p_holm" in pair:
        told = f"{pair['difference']:+.4f}, {pair['p_holm']:.2g}{' *' if pair['p_holm'] < 0.05 else ''}"
    elif row["errors"]:
        told = "failed: " + " ".join(row["errors"][0].replace("|", "/").split())
    return [row["rung"], *(row["test"].get(name) for name in METRICS), row["against"], told, row["trials"]]


def _figure(row: Mapping[str, Any] | None, best: Mapping[str, Any]) -> str:
    if row is None or not row["test"]:
        return "–" if row is None or not row["errors"] else "refused"
    value = row["test"]["ndcg@20"]
    told = f"{value['mean']:.4f}" + ("" if value["std"] is None else f" ± {value['std']:.4f}")
    if row["method"] == best["method"]:
        return f"**{told}**"
    return told + (" °" if (row["significance"] or {}).get("p_holm", 1.0) < 0.05 else "")
