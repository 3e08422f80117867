"""The paper's main table from run folders: what a run reached, what the paper has, and whether that is reproduced."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from recbole.config import Config

from ..config.keys import idle_keys, not_compared
from ..errors import DataError, OptionError
from ..reporting.curves import Curve, read_references, read_runs
from ..reporting.tables import table
from ..runs.folder import RunFolder
from ..training.checkpoint import config_settings, plain
from .paper.summary import TITLES
from .published import reported

# Both figures must be at least this share of the paper's.
ENOUGH = 0.99
# Whatever stands below this line of the page is written by hand, and kept.
BY_HAND = "## The other claims"


@dataclass(frozen=True)
class Claim:
    """A cell of the main table, and the run that is to reproduce it.

    Attributes:
        epochs: How many the run has made.
        best_epoch: The one whose figures are given, from 0; the test set chose it, as in the paper.
        complete: Whether the run has ended; if not, its figures are those so far.
        command: What repeats it.
        minutes: Of training and validation, on the machine it ran on.
        folder: Where the run is.
    """

    dataset: str
    model: str
    strategy: str
    recall20: float
    ndcg20: float
    paper_recall20: float
    paper_ndcg20: float
    epochs: int
    best_epoch: int
    complete: bool
    seeds: list[int]
    preset: str
    command: str
    minutes: float
    version: str
    folder: Path

    @property
    def verdict(self) -> str:
        """Reproduced, in part or not; of a run that goes on only what it has reached can be said."""
        reached = [self.recall20 >= ENOUGH * self.paper_recall20, self.ndcg20 >= ENOUGH * self.paper_ndcg20]
        found = "reproduced" if all(reached) else "in part" if any(reached) else "not"
        return found if self.complete or all(reached) else f"{found}, still training"


def claims(folders: Sequence[str | Path]) -> list[Claim]:
    """What run folders say about the main table, complete or not, in the table's order."""
    found = [_claim(RunFolder.existing(folder)) for folder in folders]
    order = list(TITLES)
    return sorted(found, key=lambda one: (one.dataset, one.model, order.index(one.strategy), one.preset))


def _claim(run: RunFolder) -> Claim:
    settings = run.settings()
    model, dataset, strategy = settings["model"], settings["dataset"], str(settings.get("tau_strategy"))
    paper = reported(model, dataset, strategy)
    if paper is None or settings.get("protocol") != "paper" or settings.get("recipe", "none") != "none":
        raise DataError(
            f"{run.path} is {model} on {dataset} with tau_strategy = {strategy}, recipe = {settings.get('recipe')} and "
            f"protocol = {settings.get('protocol')}: the paper's table has no such figure. Leave the folder out."
        )
    records = run.read_epochs()
    measured = [record for record in records if record.get("valid_result")]
    if not measured:
        raise DataError(f"{run.path} has validated no epoch yet: leave the folder out until it has.")
    chooser = settings["valid_metric"].lower()
    best = max(measured, key=lambda record: float(record["valid_result"][chooser]))
    seconds = sum(record["train_seconds"] + (record.get("valid_seconds") or 0.0) for record in records)
    return Claim(
        dataset, model, strategy,
        best["valid_result"]["recall@20"], best["valid_result"]["ndcg@20"], *paper,
        len(records), best["epoch"], run.is_complete, [settings["seed"]], settings.get("preset") or "none",
        _command(settings), seconds / 60, run.read_environment().get("versions", {}).get("recbole_adaptau", "?"),
        run.path,
    )  # fmt: skip


def _command(settings: Mapping[str, Any]) -> str:
    """The shortest command for such a run: what the preset does not say already."""
    model, dataset = settings["model"], settings["dataset"]
    given = {key: settings[key] for key in ("preset", "protocol", "data_path") if settings.get(key)}
    made_of = {key: settings[key] for key in ("tau_strategy", "negatives", "loss")}

    def config(chosen: Mapping[str, Any]) -> Config:
        return Config(model, dataset, config_dict={key: repr(value) for key, value in chosen.items()})

    usual = plain(config_settings(config(given)))
    ignored = not_compared() | idle_keys(config({**given, **made_of})) | {"data_path"}
    other = {key: value for key, value in settings.items() if key not in ignored and usual.get(key) != value}
    words = [f"--{key}={value}" for key, value in {**given, **other}.items() if key != "data_path"]
    return " ".join(["recbole-adaptau train", f"-m {model} -d {dataset}", *words])


def page(found: Sequence[Claim], pictures: Iterable[str], earlier: str = "") -> str:
    """The report; what was written by hand into an earlier one stays. `pictures` are file names."""
    rows = [
        [
            one.dataset, one.model.removeprefix("AdapTau"), TITLES[one.strategy], one.preset,
            f"{one.paper_recall20:.4f} / {one.paper_ndcg20:.4f}", f"{one.recall20:.4f} / {one.ndcg20:.4f}",
            f"{100 * (one.recall20 / one.paper_recall20 - 1):+.1f} % / "
            f"{100 * (one.ndcg20 / one.paper_ndcg20 - 1):+.1f} %",
            f"{one.best_epoch} of {one.epochs}", ", ".join(map(str, one.seeds)), f"{one.minutes:.0f}",
            f"**{one.verdict}**",
        ]
        for one in found
    ]  # fmt: skip
    head = ["dataset", "backbone", "strategy", "preset", "paper", "ours", "difference", "best epoch", "seed", "minutes"]
    lines = [
        "# What of the paper is reproduced",
        "",
        "Recall@20 / NDCG@20. **Protocol `paper`: validation is the test set and chooses the epoch**, as in the "
        f"published figures. Reproduced means that both figures are at least {100 * ENOUGH:.0f} % of the paper's. "
        "Epochs count from 0. Minutes are of one core that other work may have shared.",
        "",
        "## The main table",
        *table([*head, "verdict"], rows),
        "",
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


def overlays(found: Sequence[Claim], reference: Path) -> dict[str, list[Curve]]:
    """The curves of runs with the authors' settings, each with the authors' own log: by the picture's file name."""
    made = {}
    for one in found:
        log = {"adaptive": "adap_tau_0", "adaptive_user": "adap_tau ("}.get(one.strategy)
        if one.preset != "authors" or log is None:
            continue
        backbone = one.model.removeprefix("AdapTau")
        try:
            theirs = read_references(reference, [f"{one.dataset}/{backbone}/{log}"])
        except OptionError:  # there is no log of this run
            continue
        made[f"reproduction-{one.dataset}-{backbone}-{one.strategy}.png"] = [*read_runs([one.folder]), *theirs]
    return made


def as_json(found: Sequence[Claim]) -> list[dict[str, Any]]:
    return [
        {**{key: value for key, value in asdict(one).items() if key != "folder"}, "verdict": one.verdict}
        for one in found
    ]
