"""What of the paper is reproduced, as a page."""

from collections.abc import Iterable, Sequence
from itertools import product
from pathlib import Path

from ..reporting.tables import table
from .paper.summary import TITLES, grouped
from .published import reported
from .reproduction import ENOUGH, Claim

# The cells of the main table that have a row, also where no run is given.
DATASETS, MODELS = ("gowalla", "ml-1m"), ("AdapTauLightGCN", "AdapTauMF")
# Whatever stands below this line of the page is written by hand, and kept.
BY_HAND = "## The other claims"


def _figures(recall: float | None, ndcg: float | None) -> str:
    return "–" if recall is None or ndcg is None else f"{recall:.4f} / {ndcg:.4f}"


def _row(one: Claim) -> list[str]:
    return [
        one.dataset, one.model.removeprefix("AdapTau"), TITLES[one.strategy], one.preset,
        _figures(one.paper_recall20, one.paper_ndcg20), _figures(one.recall20, one.ndcg20),
        f"{100 * (one.recall20 / one.paper_recall20 - 1):+.1f} % / {100 * (one.ndcg20 / one.paper_ndcg20 - 1):+.1f} %",
        _figures(one.honest_recall20, one.honest_ndcg20), f"{one.best_epoch} of {one.epochs}",
        ", ".join(map(str, one.seeds)), f"{one.minutes:.0f}", f"**{one.verdict}**",
    ]  # fmt: skip


def _row_without_run(dataset: str, model: str, strategy: str) -> list[str]:
    """A cell of the paper's table for which no run is given: marked, not left out."""
    paper = _figures(*(reported(model, dataset, strategy) or (None, None)))
    return [dataset, model.removeprefix("AdapTau"), TITLES[strategy], "–", paper, *["–"] * 6, "not run"]


def orders(found: Sequence[Claim]) -> list[str]:
    """The strategies of each column of the table by NDCG@20, the paper's and ours, as far as they were run."""
    lines = []
    for (dataset, model), column in grouped(found, lambda one: (one.dataset, one.model)).items():
        best = {one.strategy: one for one in sorted(column, key=lambda one: one.ndcg20)}.values()
        if len(best) < 2:
            continue
        paper = " > ".join(TITLES[one.strategy] for one in sorted(best, key=lambda one: -one.paper_ndcg20))
        ours = " > ".join(TITLES[one.strategy] for one in sorted(best, key=lambda one: -one.ndcg20))
        said = "ours the same" if ours == paper else f"ours {ours}"
        lines.append(f"- {dataset}, {model.removeprefix('AdapTau')}: paper {paper}; {said}.")
    return ["Order of the strategies by NDCG@20, best preset of each:", *lines, ""] if lines else []


def page(found: Sequence[Claim], pictures: Iterable[str], earlier: str = "") -> str:
    """The report; what was written by hand into an earlier one stays. `pictures` are file names."""
    rows = [(one.cell, _row(one)) for one in found]
    run = {one.cell for one in found}
    for dataset, model, (place, strategy) in product(DATASETS, MODELS, enumerate(TITLES)):
        if (dataset, model, place) not in run:
            rows.append(((dataset, model, place), _row_without_run(dataset, model, strategy)))
    rows.sort(key=lambda pair: pair[0])
    head = ["dataset", "backbone", "strategy", "preset", "paper", "ours", "difference", "ours, `honest`", "best epoch"]
    lines = [
        "# What of the paper is reproduced",
        "",
        "Recall@20 / NDCG@20. **Protocol `paper`: validation is the test set and chooses the epoch**, as in the "
        f"published figures. Reproduced means that both figures are at least {100 * ENOUGH:.0f} % of the paper's. "
        "The column `honest` has the test figures of a run with the same settings whose epoch a part of train chooses. "
        "Epochs count from 0. Minutes are of one core that other work may have shared.",
        "",
        "## The main table",
        *table([*head, "seed", "minutes", "verdict"], [row for _, row in rows]),
        "",
        *orders(found),
        "The commands, in this order:",
        "```",
        *(one.command for one in found),
        "```",
        "This page, `reproduction.json` and the pictures are made by "
        "`recbole-adaptau experiment reproduction RUN_FOLDER …`.",
    ]
    for file in pictures:
        title = " ".join(Path(file).stem.split("-")[1:])
        lines += ["", f"Our run, epoch by epoch, and the authors' log ({title}):", "", f"![{title}]({file})"]
    _, line, kept = earlier.partition(f"\n{BY_HAND}")
    return "\n".join([*lines, ""]) + (line + kept)
