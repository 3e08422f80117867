"""Learning curves: validation figures by epoch from run folders, and published curves from a CSV file."""

import csv
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ..errors import DataError, OptionError
from ..recipe import method_name
from ..runs.folder import RunFolder
from .tables import METRICS, PROTOCOLS


@dataclass(frozen=True)
class Curve:
    """One run's figures: `values[metric][i]` was measured after epoch `epochs[i]` (the first is 0)."""

    label: str
    epochs: list[int]
    values: dict[str, list[float]]
    is_reference: bool = False


def read_runs(folders: Sequence[str | Path]) -> list[Curve]:
    """The validation curves of run folders, complete or not; runs that would look alike are told apart by path."""
    runs = [RunFolder.existing(folder) for folder in folders]
    labels = [run_label(run.settings()) for run in runs]
    times = Counter(labels)
    return [
        _read_run(run, label if times[label] == 1 else f"{label} ({run.path})")
        for run, label in zip(runs, labels, strict=True)
    ]


def run_label(settings: dict[str, Any]) -> str:
    """Method, dataset, temperature, seed and protocol in a line."""
    strategy = settings.get("tau_strategy")
    at = f" {settings['tau']}" if strategy == "fixed" else ""
    method = method_name(settings["model"], settings.get("recipe"))
    parts = [f"{method} on {settings['dataset']}", f"{strategy}{at}" if strategy else ""]
    parts += [f"seed {settings.get('seed')}", PROTOCOLS[settings.get("protocol") or "honest"]]
    return ", ".join(part for part in parts if part)


def _read_run(run: RunFolder, label: str) -> Curve:
    try:
        records = [record for record in run.read_epochs() if record.get("valid_result")]
    except (ValueError, AttributeError) as error:
        raise DataError(f"{run.epochs} is damaged: {error}") from error
    if not records:
        raise DataError(f"{run.path} has no curve: no epoch was validated there yet.")
    for metric in METRICS:
        for record in records:
            if metric not in record["valid_result"]:
                raise DataError(
                    f"{run.path} has no {metric}: it was validated by {', '.join(record['valid_result'])}. Run it with "
                    "20 in topk and with Recall and NDCG among the metrics."
                )
    values = {metric: [record["valid_result"][metric] for record in records] for metric in METRICS}
    return Curve(label, [record["epoch"] for record in records], values)


def read_references(path: str | Path, names: Sequence[str]) -> list[Curve]:
    """Published curves by name.

    Args:
        path: A CSV file with a line for each run and epoch. The columns left of `epoch` name the run, and there are
            the columns `epoch`, `recall@20` and `ndcg@20`; others are ignored.
        names: The runs wanted: values of the naming columns joined by "/", or any part of that which only one run
            has. May be empty where the file holds one run only.
    """
    found = _read_csv(Path(path))
    if not names and len(found) > 1:
        raise OptionError(f"{path} holds {len(found)} runs: choose with --reference-run one of {_listed(found)}")
    return [found[_match(name, list(found), path)] for name in names or found]


def _read_csv(path: Path) -> dict[str, Curve]:
    found: dict[str, Curve] = {}
    try:
        with path.open(encoding="utf-8", newline="") as file:
            reader = csv.DictReader(file)
            columns = [str(column) for column in reader.fieldnames or []]
            missing = [column for column in ("epoch", *METRICS) if column not in columns]
            if missing:
                raise DataError(f"{path} has no column {', '.join(missing)}; it has {', '.join(columns) or 'none'}.")
            naming = columns[: columns.index("epoch")]
            for row in reader:
                name = "/".join(row[column] or "" for column in naming) or path.stem
                curve = found.setdefault(name, Curve(name, [], {metric: [] for metric in METRICS}, True))
                try:
                    epoch, figures = int(row["epoch"]), [float(row[metric]) for metric in METRICS]
                except (TypeError, ValueError):
                    raise DataError(
                        f"{path}, line {reader.line_num}: epoch, {', '.join(METRICS)} must be numbers."
                    ) from None
                curve.epochs.append(epoch)
                for metric, figure in zip(METRICS, figures, strict=True):
                    curve.values[metric].append(figure)
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise DataError(f"--reference: {path} cannot be read as CSV: {error}") from error
    if not found:
        raise DataError(f"{path} holds no curve: there is no line below its head.")
    return found


def _match(name: str, known: list[str], path: str | Path) -> str:
    near = [entry for entry in known if name.lower() in entry.lower()]
    if name in known:
        return name
    if len(near) != 1:
        fits = f"{len(near)} runs of {path}" if near else f"no run of {path}"
        raise OptionError(f"--reference-run {name!r} fits {fits}; choose one of {_listed(near or known)}")
    return near[0]


def _listed(names: Sequence[str] | dict[str, Curve]) -> str:
    return "".join(f"\n  {name}" for name in names)
