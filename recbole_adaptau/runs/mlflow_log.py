"""A finished run in MLflow: its settings, its figures by epoch and its files."""

import math
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from ..errors import OptionError
from .folder import RunFolder

# Of a run folder, what is worth keeping elsewhere: not the weights to resume from, nor TensorBoard's events.
ARTEFACTS = (
    "config.yaml",
    "environment.json",
    "epochs.jsonl",
    "result.json",
    "run.log",
    "temperatures.npz",
    "best.pth",
)


def need_mlflow() -> None:
    if find_spec("mlflow") is None:
        raise OptionError("log_mlflow = True needs MLflow: pip install 'recbole_adaptau[mlflow]'.")


def log_run(run: RunFolder) -> str:
    """Write a complete run folder to MLflow, where its environment variables say; returns MLflow's id of the run.

    `MLFLOW_TRACKING_URI` and `MLFLOW_EXPERIMENT_NAME` are MLflow's own.
    """
    need_mlflow()
    import mlflow

    result = run.read_result()
    with mlflow.start_run(run_name=f"{result['method']} {result['dataset']} seed {result['seed']}") as active:
        mlflow.log_params({key: str(value)[:500] for key, value in sorted(run.settings().items())})
        for record in run.read_epochs():
            mlflow.log_metrics(_figures(record), step=record["epoch"])
        summary = {"best_valid_score": result["best_valid_score"], "best_epoch": result["best_epoch"]}
        tested = {f"test_{name}": value for name, value in (result["test_result"] or {}).items()}
        mlflow.log_metrics(_figures({**summary, **tested}))
        for name in ARTEFACTS:
            if Path(run.path, name).is_file():
                mlflow.log_artifact(str(run.path / name))
    return str(active.info.run_id)


def _figures(record: dict[str, Any]) -> dict[str, float]:
    """The finite numbers of a record, also of a record within it; MLflow has no @ in names."""
    found: dict[str, float] = {}
    for key, value in record.items():
        if isinstance(value, dict):
            found |= {f"valid_{name}" if key == "valid_result" else name: x for name, x in _figures(value).items()}
        elif isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value) and key != "epoch":
            found[key.replace("@", "_at_")] = float(value)
    return found
