"""The paper's main table from run folders: what a run reached, what the paper has, and whether that is reproduced."""

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, fields, replace
from pathlib import Path
from typing import Any

from recbole.config import Config

from ..config.keys import idle_keys, not_compared
from ..errors import DataError, OptionError
from ..reporting.curves import Curve, read_references, read_runs
from ..runs.folder import RunFolder
from ..training.checkpoint import config_settings, plain
from .paper.summary import TITLES
from .published import reported

# Both figures must be at least this share of the paper's.
ENOUGH = 0.99
# May differ between a run and the same one under the other protocol: data, and when is validated and stopped.
OF_PROTOCOL = frozenset(("protocol", "benchmark_filename", "data_path", "eval_step", "stopping_step"))


@dataclass(frozen=True)
class Claim:
    """A cell of the main table, and the run that is to reproduce it.

    Attributes:
        epochs: How many the run has made.
        best_epoch: The one whose figures are given, from 0; the test set chose it, as in the paper.
        complete: Whether the run has ended; if not, its figures are those so far.
        command: What repeats it.
        minutes: Of training and validation, on the machine it ran on.
        folder: Where the run is; None for a claim of an earlier report.
        honest_recall20, honest_ndcg20: On test, of a run with the same settings and protocol = honest; None without it.
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
    folder: Path | None
    honest_recall20: float | None = None
    honest_ndcg20: float | None = None

    @property
    def cell(self) -> tuple[str, str, int]:
        """Where it stands in the table: dataset, backbone, and place of the strategy."""
        return self.dataset, self.model, list(TITLES).index(self.strategy)

    @property
    def verdict(self) -> str:
        """Reproduced, in part or not; of a run that goes on only what it has reached can be said."""
        reached = [self.recall20 >= ENOUGH * self.paper_recall20, self.ndcg20 >= ENOUGH * self.paper_ndcg20]
        found = "reproduced" if all(reached) else "in part" if any(reached) else "not"
        return found if self.complete or all(reached) else f"{found}, still training"


def claims(folders: Sequence[str | Path]) -> list[Claim]:
    """What run folders say about the main table, complete or not, in the table's order.

    A folder with protocol = honest adds its figures to the claim with the same settings.
    """
    runs = [RunFolder.existing(folder) for folder in folders]
    settings = {run.path: run.settings() for run in runs}
    honest = [run for run in runs if settings[run.path].get("protocol") == "honest"]
    found = [_claim(run, settings[run.path]) for run in runs if run not in honest]
    for run in honest:
        figures = _honest_figures(run, settings[run.path])
        differences = [_differences(settings[run.path], settings[one.folder]) for one in found if one.folder]
        if [] not in differences:
            nearest = min(differences, key=len, default=["there is none"])
            raise DataError(
                f"{run.path} has protocol = honest, but no given run with protocol = paper has the same settings (the "
                f"nearest differs: {', '.join(nearest[:5])}). Add that run, or leave the folder out."
            )
        found = [
            one if different else replace(one, honest_recall20=figures["recall@20"], honest_ndcg20=figures["ndcg@20"])
            for one, different in zip(found, differences, strict=True)
        ]
    return _in_order(found)


def _in_order(found: Iterable[Claim]) -> list[Claim]:
    return sorted(found, key=lambda one: (*one.cell, one.preset, one.seeds))


def with_earlier(found: Sequence[Claim], report: Path) -> list[Claim]:
    """Also the claims of an earlier reproduction.json that no given run makes anew: runs may be on other machines."""
    if not report.is_file():
        return list(found)
    known = {field.name for field in fields(Claim)}
    try:
        rows = json.loads(report.read_text(encoding="utf-8"))
        earlier = [Claim(**{key: row[key] for key in known & row.keys()}, folder=None) for row in rows]
    except (ValueError, TypeError, AttributeError) as error:
        raise DataError(f"{report} is no report of this command ({error}): move it away, or mend it.") from error
    made = {(one.cell, one.preset, *one.seeds) for one in found}
    return _in_order([*found, *(one for one in earlier if (one.cell, one.preset, *one.seeds) not in made)])


def _honest_figures(run: RunFolder, settings: Mapping[str, Any]) -> dict[str, float]:
    _paper_figures(run, settings)
    if not run.is_complete:
        raise DataError(f"{run.path} has not been tested yet: leave the folder out until the run is complete.")
    return dict(run.read_result()["test_result"])


def _differences(one: Mapping[str, Any], other: Mapping[str, Any]) -> list[str]:
    """Settings that both have, with other values; what only one has, the version of the other did not know."""
    keys = sorted((one.keys() & other.keys()) - not_compared() - OF_PROTOCOL)
    return [f"{key} = {one[key]} and {other[key]}" for key in keys if one[key] != other[key]]


def _paper_figures(run: RunFolder, settings: Mapping[str, Any]) -> tuple[float, float]:
    """The paper's recall@20 and NDCG@20 of such a run."""
    model, dataset, strategy = settings["model"], settings["dataset"], str(settings.get("tau_strategy"))
    paper = reported(model, dataset, strategy)
    if paper is None or settings.get("protocol") not in ("paper", "honest") or settings.get("recipe", "none") != "none":
        raise DataError(
            f"{run.path} is {model} on {dataset} with tau_strategy = {strategy}, recipe = {settings.get('recipe')} and "
            f"protocol = {settings.get('protocol')}: the paper's table has no such figure. Leave the folder out."
        )
    return paper


def _claim(run: RunFolder, settings: Mapping[str, Any]) -> Claim:
    paper = _paper_figures(run, settings)
    records = run.read_epochs()
    measured = [record for record in records if record.get("valid_result")]
    if not measured:
        raise DataError(f"{run.path} has validated no epoch yet: leave the folder out until it has.")
    chooser = settings["valid_metric"].lower()
    best = max(measured, key=lambda record: float(record["valid_result"][chooser]))
    # A run that its budget stopped goes on with a larger one.
    ended = run.is_complete and run.read_result().get("stopped_by") != "budget"
    seconds = sum(record["train_seconds"] + (record.get("valid_seconds") or 0.0) for record in records)
    return Claim(
        settings["dataset"], settings["model"], settings["tau_strategy"],
        best["valid_result"]["recall@20"], best["valid_result"]["ndcg@20"], *paper,
        len(records), best["epoch"], ended, [settings["seed"]], settings.get("preset") or "none",
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


def overlays(found: Sequence[Claim], reference: Path) -> dict[str, list[Curve]]:
    """The curves of runs with the authors' settings, each with the authors' own log: by the picture's file name."""
    made = {}
    for one in found:
        log = {"adaptive": "adap_tau_0", "adaptive_user": "adap_tau ("}.get(one.strategy)
        if one.preset != "authors" or log is None or one.folder is None:
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
