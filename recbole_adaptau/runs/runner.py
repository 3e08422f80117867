"""The one runner: a list of runs, each in a folder of its own, that can be stopped and started again at any time."""

import ast
import copy
import os
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any, TextIO

import yaml
from recbole.config import Config
from tqdm import tqdm

from ..config.keys import idle_keys, not_compared, notes
from ..data.provide import need_dataset
from ..errors import AdapTauError, DataError, OptionError
from ..files import alone_in, await_writer
from ..recipe import method_name
from ..training.checkpoint import config_settings, quoted, saved_settings
from .folder import RunFolder
from .pool import Bars, Sent, Workers, each_done, read_files, write_files
from .quick_start import resume, run_recbole_adaptau
from .significance import METRICS

IN_THIS_PROCESS = Workers()
# Seconds that a run waits for the process that filled its folder before it: Ray's processes end after their raylet.
PREDECESSOR = 120.0
# One bar over all runs instead of RecBole's log of each; --state=INFO brings the log back.
QUIET = {"state": "'ERROR'", "show_progress": False}


@dataclass(frozen=True)
class Spec:
    """One run to be made.

    Attributes:
        name: Its folder's name, made from `varied`.
        varied: The settings in which it differs from the other runs of the experiment.
        given: Settings common to all of them, strings quoted (as `cli.parse_settings` returns them).
    """

    name: str
    model: str
    dataset: str
    varied: Mapping[str, Any]
    given: Mapping[str, Any] = field(default_factory=dict)

    def settings(self, folder: Path) -> dict[str, Any]:
        """What RecBole's Config is given; a copy, for Config writes into it."""
        own = quoted({**self.varied, "run_folder": str(folder)})
        return copy.deepcopy({**QUIET, **self.given, **own})

    @property
    def budget(self) -> float | None:
        """Minutes that the run may take; None for no limit."""
        return {**self.given, **self.varied}.get("budget_minutes")

    def config(self, folder: Path) -> Config:
        return Config(self.model, self.dataset, None, {**self.settings(folder), "record_run": True})


def folder_of(spec: Spec, root: Path) -> RunFolder:
    return RunFolder(root / "runs" / spec.name)


def is_done(spec: Spec, root: Path) -> bool:
    """Whether the run is complete; one that a smaller budget has stopped is not."""
    run = folder_of(spec, root)
    return run.is_complete and not run.can_go_on(spec.budget)


def check(specs: Sequence[Spec], root: Path) -> list[Config]:
    """Each run's configuration, or an error: before anything is written or trained, for all of them."""
    configs = [spec.config(folder_of(spec, root).path) for spec in specs]
    for spec, config in zip(specs, configs, strict=True):
        _refuse_without_metrics(config)
        refuse_if_changed(folder_of(spec, root), config)
    missing = (config for spec, config in zip(specs, configs, strict=True) if not is_done(spec, root))
    for config in {config["data_path"]: config for config in missing}.values():
        need_dataset(config)
    return configs


def without_effect(configs: Sequence[Config], given: Mapping[str, Any]) -> list[str]:
    """Sentences on settings that the user gave and that change nothing in any of the runs."""
    by_run = [notes(config) for config in configs]
    common = [note for note in by_run[0] if all(note in others for others in by_run)]
    return [note for note in common if any(f"'{key}'" in note or note.startswith(f"{key} =") for key in given)]


def carry_out(
    specs: Sequence[Spec],
    root: Path,
    report: Callable[[list[dict[str, Any]]], None],
    workers: Workers = IN_THIS_PROCESS,
    go_on: bool = False,
) -> None:
    """Make every run that is not complete, going on with those that were interrupted.

    Args:
        specs: The runs, already seen by `check`.
        root: The experiment's folder; the runs go to root/runs.
        report: Called with the records of all complete runs, at the start and after each further run.
        workers: How many runs at a time, and where.
        go_on: Whether a run that fails leaves its error in its folder and lets the others go on; the same command
            tries it again.
    """
    root.mkdir(parents=True, exist_ok=True)
    stream = sys.stderr  # RecBole's colours replace it when the first run starts, and the bars would be lost
    with alone_in(root, "give another --output"):
        if go_on:
            _set_damaged_aside([folder_of(spec, root) for spec in specs], stream)
        missing = [spec for spec in specs if not is_done(spec, root)]
        there = len(specs) - len(missing)
        if there:
            tqdm.write(f"{there} of {len(specs)} runs are complete already", file=stream)
            report(records(specs, root))
        with Bars(len(specs), there, stream).shown() as bars:

            def begun(spec: Spec) -> None:
                bars.begin(spec.name, folder_of(spec, root))

            make = partial(_make, root=root.absolute())
            for spec, files, error in each_done(missing, make, workers, begun, root.absolute(), _datasets(missing)):
                run = folder_of(spec, root)
                write_files(files or {}, run.path)  # of a machine without our storage
                if error is not None:
                    if not go_on:
                        raise error
                    run.fail(error)
                done = records(specs, root)
                report(done)
                bars.end(spec.name, _said(spec, done, error))


def _set_damaged_aside(runs: Sequence[RunFolder], stream: TextIO) -> None:
    """A result that cannot be read is made again, from the checkpoints of its run."""
    for run in runs:
        try:
            run.read_result()
        except FileNotFoundError:
            continue
        except DataError as error:
            run.result.rename(run.result.with_suffix(".damaged"))
            tqdm.write(f"note: {error} It is set aside, and the run tested again.", file=stream)


def _said(spec: Spec, done: list[dict[str, Any]], error: Exception | None) -> str:
    """What a run came to, in a line."""
    if error is not None:
        return f"{spec.name} failed: {error!r}"
    (last,) = (record for record in done if record["name"] == spec.name)
    return (
        f"{spec.name}: validation NDCG@20 {last['best_valid_result']['ndcg@20']:.4f}, best epoch "
        f"{last['best_epoch']}, {last['seconds']:,.1f} s"
    )


def records(specs: Sequence[Spec], root: Path) -> list[dict[str, Any]]:
    """What the complete ones among the runs came to, in their order."""
    return [_record(spec, folder_of(spec, root), root) for spec in specs if is_done(spec, root)]


def _record(spec: Spec, run: RunFolder, root: Path) -> dict[str, Any]:
    result = run.read_result()
    kept = ("best_epoch", "epochs", "train_seconds", "valid_seconds", "best_valid_score", "valid_score_bigger")
    recipe = result.get("recipe", "none")
    return {
        "name": spec.name,
        "model": spec.model,
        "recipe": recipe,
        "method": method_name(spec.model, recipe),
        "folder": run.path.relative_to(root).as_posix(),
        "settings": dict(spec.varied),
        "seed": result["seed"],
        "protocol": result["protocol"] or "honest",
        "seconds": result["train_seconds"] + result["valid_seconds"],
        **{key: result[key] for key in kept},
        **{key: result.get(key) for key in ("stopped_by", "seconds_to_best", "parameters", "peak_memory_mb")},
        **({"tau_0": result["tau_0"]} if "tau_0" in result else {}),
        "best_valid_result": result["best_valid_result"],
        "test_result": result["test_result"],
        "environment": run.read_environment(),
    }


def _make(spec: Spec, sent: Sent | None, root: Path) -> dict[str, bytes] | None:
    """Make a run, or go on with it; elsewhere without our storage, its files are what comes back."""
    if sent is not None and not sent.mark.is_file():
        return _make_apart(spec, sent, root)
    run = folder_of(spec, root)
    if sent is not None:
        await_writer(run.path, PREDECESSOR)
    try:
        if run.config.is_file():
            resume(run.path, budget_minutes=spec.budget)
        else:
            run_recbole_adaptau(spec.model, spec.dataset, None, spec.settings(run.path))
    except AdapTauError as error:
        raise type(error)(f"{spec.name}: {error}") from error
    return None


def _make_apart(spec: Spec, sent: Sent, root: Path) -> dict[str, bytes]:
    with tempfile.TemporaryDirectory() as place:
        given = dict(spec.given)
        if spec.dataset in sent.folders:
            sent.unpack(spec.dataset, Path(place, "data", spec.dataset))
            given |= quoted({"data_path": f"{place}/data"})
        _make(replace(spec, given=given), None, Path(place))
        files = read_files(folder_of(spec, Path(place)).path)
    at_home = str(_data_path(spec).absolute()), str(root)
    for there, here in zip((f"{place}/data", place), at_home, strict=True):
        files["config.yaml"] = files["config.yaml"].replace(there.encode(), here.encode())
    return files


def _data_path(spec: Spec) -> Path:
    return Path(ast.literal_eval(str(spec.given.get("data_path", "'dataset'"))))


def _datasets(specs: Sequence[Spec]) -> dict[str, Path]:
    """The folders of the datasets, by name; ml-100k is RecBole's own."""
    return {spec.dataset: _data_path(spec) / spec.dataset for spec in specs}


def _refuse_without_metrics(config: Config) -> None:
    computed = {f"{str(metric).lower()}@{k}" for metric in config["metrics"] for k in config["topk"]}
    missing = [metric for metric in METRICS if metric not in computed]
    if missing:
        raise OptionError(
            f"the reports need {' and '.join(METRICS)}, but topk = {config['topk']} and metrics = {config['metrics']} "
            f"leave out {' and '.join(missing)}: add e.g. --topk=[10,20] --metrics=[Recall,NDCG] "
            "--valid_metric=NDCG@20."
        )


def refuse_if_changed(run: RunFolder, config: Config, option: str = "--output") -> None:
    """Raise if the folder holds a run with other settings: its figures would stand under a false name.

    A larger budget is no other setting: the run goes on with it, or was done before it mattered.
    """
    if not run.config.is_file():
        run.refuse_if_used()
        return
    asked, stored = _comparable(config), run.settings()
    first = ("model", "dataset", "protocol")
    asked_budget, had = asked.get("budget_minutes"), stored.get("budget_minutes")
    if had is not None and (asked_budget is None or asked_budget > had):
        stored["budget_minutes"] = asked_budget
    ignored = not_compared() | idle_keys(config)
    keys = sorted((asked.keys() | stored.keys()) - ignored, key=lambda key: (key not in first, key))
    changes = [
        f"{key} = {stored.get(key)!r} there and {asked.get(key)!r} now"
        for key in keys
        if stored.get(key) != asked.get(key)
    ]
    if changes:
        shown = "; ".join(changes[:5]) + (f"; and {len(changes) - 5} more" if len(changes) > 5 else "")
        state = "a finished run" if run.is_complete else "an interrupted run"
        raise DataError(
            f"{run.path} holds {state} with other settings ({shown}): give another {option}, repeat the command with "
            "the settings of that run, or delete that folder."
        )


def _comparable(config: Config) -> dict[str, Any]:
    """The settings as a run folder's config.yaml gives them back."""
    settings = saved_settings(config_settings(config))
    if "data_path" in settings:
        settings["data_path"] = os.path.join(os.path.abspath(settings["data_path"]), "")
    return yaml.safe_load(yaml.safe_dump(settings))
