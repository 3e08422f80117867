"""The run folder: everything one run leaves behind, in plain formats that anything can read.

config.yaml, environment.json, data.json (what tells the data from other data), interactions.npz (all interactions by
part, with the ids: the folder is enough to recommend from), epochs.jsonl (a line an epoch),
temperatures.npz, tested.npz (what each user of the test was recommended), result.json (there when the run is complete),
error.json (there when it failed), launches.txt (a line for each start by torchrun or --nproc), best.pth, last.pth,
run.log and tensorboard/. After an update, versions/ with a run folder each, and current.json, which names the one that
recommends.
"""

import hashlib
import io
import json
import math
import os
import platform
import traceback
import zipfile
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import numpy as np
import torch
import yaml
from recbole.config import Config

from ..data.names import item_names
from ..data.stored import RunData, source_files
from ..distributed.ranks import world_size
from ..errors import AdapTauError, CheckpointError, DataError, did_you_mean
from ..files import alone_in, need_writable, remove_leftovers, write_whole
from ..training.checkpoint import config_settings, plain, saved_settings

PACKAGES = ("recbole", "torch", "numpy", "scipy", "pandas", "recbole_adaptau")


class RunFolder:
    """Paths and contents of one run."""

    def __init__(self, folder: str | Path):
        self.path = Path(folder)
        self.config = self.path / "config.yaml"
        self.environment = self.path / "environment.json"
        self.data = self.path / "data.json"
        self.interactions = self.path / "interactions.npz"
        self.epochs = self.path / "epochs.jsonl"
        self.temperatures = self.path / "temperatures.npz"
        self.tested = self.path / "tested.npz"
        self.result = self.path / "result.json"
        self.error = self.path / "error.json"
        self.launches = self.path / "launches.txt"
        self.best = self.path / "best.pth"
        self.last = self.path / "last.pth"
        self.versions = self.path / "versions"
        self.current = self.path / "current.json"

    @classmethod
    def existing(cls, folder: str | Path) -> "RunFolder":
        """A folder that a run has written, or a clear error."""
        run = cls(folder)
        if not run.config.is_file():
            if (run.path.parent / run.config.name).is_file():
                raise DataError(f"{folder} is not a run folder but lies in one: give {run.path.parent}.")
            beside = run.path.parent.iterdir() if not run.path.exists() and run.path.parent.is_dir() else ()
            near = did_you_mean(run.path.name, (path.name for path in beside if (path / run.config.name).is_file()))
            missing = "it has no config.yaml" if run.path.exists() else "there is no such folder"
            below = [str(config.parent) for config in sorted(run.path.glob(f"*/{run.config.name}"))[:3]]
            hint = f" Runs below it: {', '.join(below)}." if below else near
            raise DataError(f"{str(folder) or repr(folder)} is not a run folder: {missing}.{hint}")
        return run

    @classmethod
    def serving(cls, folder: str | Path) -> "RunFolder":
        """What recommends for a run: the version that `update` has put in its place last, or the run itself."""
        run = cls.existing(folder)
        if not run.current.is_file():
            return run
        try:
            name = json.loads(run.current.read_text(encoding="utf-8"))["version"]
        except (ValueError, KeyError, TypeError) as error:
            raise DataError(f"{run.current} is damaged ({error}); delete it to go back to the run itself.") from error
        if not isinstance(name, str) or Path(name).name != name:
            raise DataError(f"{run.current} names no version below {run.versions}: {name!r}.")
        return cls.existing(run.versions / name)

    def put_in_place(self, version: str) -> None:
        """Have a folder below `versions` recommend for this run from now on."""
        _write(self.current, json.dumps({"version": version}))

    @property
    def is_complete(self) -> bool:
        return self.result.is_file()

    def result_stamp(self) -> int:
        """When the result was written, to see whether it is again; 0 for a run that is not complete."""
        return self.result.stat().st_mtime_ns if self.is_complete else 0

    def can_go_on(self, budget: float | None) -> bool:
        """Whether a complete run was stopped by a smaller budget than these minutes (None for no limit)."""
        if self.read_result().get("stopped_by") != "budget":
            return False
        had = self.settings().get("budget_minutes")
        return had is not None and (budget is None or budget > had)

    def refuse_if_used(self) -> None:
        """Raise if another run has written here: two runs in one folder would be told apart by nothing."""
        used = [path.name for path in (self.config, self.epochs, self.last, self.result) if path.exists()]
        if used:
            raise DataError(
                f"{self.path} already holds a run ({', '.join(used)}): continue it with recbole-adaptau train "
                f"--resume={self.path}, or give another run_folder."
            )

    @contextmanager
    def alone(self) -> Iterator[None]:
        """For as long as a run writes here: the folder is there, can be written to, and is nobody else's meanwhile."""
        need_writable(self.path, "run_folder")
        with alone_in(self.path, "give another run_folder"):
            yield

    def begin(self, config: Config) -> None:
        """Write down what is run, and on what; the data's place as a whole path, so that any folder can resume."""
        if not config["resume"]:
            self.refuse_if_used()
        remove_leftovers(self.path)
        settings = config_settings(config)
        if "data_path" in settings:
            settings["data_path"] = os.path.join(os.path.abspath(settings["data_path"]), "")
        _write(self.config, yaml.safe_dump(settings, sort_keys=True, allow_unicode=True))
        _write(self.environment, json.dumps(environment(config), indent=1))
        self.error.unlink(missing_ok=True)

    def add_launch(self, launch: str) -> None:
        """Write down that a launch starts the run, or starts it again."""
        self.path.mkdir(parents=True, exist_ok=True)
        with _explained(self.launches), self.launches.open("a", encoding="utf-8") as file:
            file.write(f"{launch}\n")

    def read_launches(self) -> list[str]:
        return self.launches.read_text(encoding="utf-8").splitlines() if self.launches.is_file() else []

    def keep_data(self, dataset: Any) -> None:
        """Write down which users and items the rows of the model's tables are, and what they were trained on."""
        data = RunData.of(dataset.parts, item_names(dataset)) if hasattr(dataset, "parts") else None
        if data is not None and not self.interactions.is_file():
            self.write_interactions(data)
        _write(self.data, json.dumps({**_ids(dataset), "files": source_files(dataset), **self.about_data()}, indent=1))

    def write_interactions(self, data: RunData) -> None:
        _write_arrays(self.interactions, data.arrays())

    def about_data(self) -> dict[str, Any]:
        """What data.json says; empty for a run from before it was written."""
        if not self.data.is_file():
            return {}
        try:
            return dict(json.loads(self.data.read_text(encoding="utf-8")))
        except (ValueError, TypeError) as error:
            raise DataError(f"{self.data} is damaged: {error}") from error

    def describe_data(self, **entries: Any) -> None:
        """Add to data.json: `id_types` says that ids of users or items are whole numbers ("int"), and not text."""
        _write(self.data, json.dumps({**self.about_data(), **entries}, indent=1))

    def refuse_other_ids(self, dataset: Any) -> None:
        """Raise if the rows would now be others than at training: every result would be somebody else's."""
        if not self.data.is_file():  # a run from before this was written down
            return
        trained, now = self.about_data(), _ids(dataset)
        if any(trained.get(key) != now[key] for key in now):
            raise CheckpointError(
                f"the dataset {dataset.dataset_name} is not the one that {self.path} was trained on: it had "
                f"{trained['users']} users and {trained['items']} items, and now there are {now['users']} and "
                f"{now['items']}, or in another order. Bring the old data back, or train again."
            )

    def settings(self) -> dict[str, Any]:
        """The settings from which the same configuration can be built again."""
        try:
            settings = dict(yaml.safe_load(self.config.read_text(encoding="utf-8")))
        except (yaml.YAMLError, TypeError, ValueError) as error:
            raise DataError(f"{self.config} is damaged: {error}") from error
        return saved_settings(settings)

    def read_environment(self) -> dict[str, Any]:
        """What it ran on; nothing for a run from before that was written down."""
        return json.loads(self.environment.read_text(encoding="utf-8")) if self.environment.is_file() else {}

    def add_epoch(self, record: dict[str, Any]) -> None:
        with _explained(self.epochs), self.epochs.open("a", encoding="utf-8") as file:
            file.write(json.dumps(plain(record)) + "\n")
            file.flush()
            os.fsync(file.fileno())

    def read_epochs(self) -> list[dict[str, Any]]:
        """The records of all epochs; a last line that was cut short does not count."""
        if not self.epochs.is_file():
            return []
        *lines, _ = self.epochs.read_text(encoding="utf-8").split("\n")
        try:
            return [json.loads(line) for line in lines]
        except ValueError as error:
            raise DataError(f"{self.epochs} is damaged: {error}") from error

    def seconds_by_epoch(self) -> list[float]:
        """How long each epoch took, with its validation."""
        return [record["train_seconds"] + record.get("valid_seconds", 0.0) for record in self.read_epochs()]

    def keep_epochs_before(self, epoch: int) -> None:
        """Forget the records of epochs that will be trained again after resuming."""
        kept = [record for record in self.read_epochs() if record["epoch"] < epoch]
        _write(self.epochs, "".join(json.dumps(record) + "\n" for record in kept))

    def write_temperatures(self, users: np.ndarray, tau_u: np.ndarray, tau_0: float) -> None:
        """Each user's temperature beside the user's own (external) id."""
        _write_arrays(self.temperatures, {"user": users.astype(str), "tau_u": tau_u, "tau_0": np.asarray(tau_0)})

    def read_temperatures(self) -> dict[str, np.ndarray]:
        return _read_arrays(self.temperatures)

    def write_tested(self, arrays: dict[str, np.ndarray]) -> None:
        """What `tested.tested_users` gives."""
        _write_arrays(self.tested, arrays)

    def read_tested(self) -> dict[str, np.ndarray]:
        if not self.tested.is_file():
            raise DataError(f"{self.path} has no {self.tested.name}: it is not complete, or ranked only some items.")
        return _read_arrays(self.tested)

    def finish(self, result: dict[str, Any]) -> None:
        _write(self.result, json.dumps(_finite(plain(result)), indent=1))

    def fail(self, error: Exception) -> None:
        """Leave word of what ended the run."""
        self.path.mkdir(parents=True, exist_ok=True)
        told = str(error) if isinstance(error, AdapTauError) else f"{type(error).__name__}: {error}"
        where = "".join(traceback.format_exception(error))
        _write(self.error, json.dumps({"error": told, "traceback": where}, indent=1))

    def read_error(self) -> str | None:
        """What ended the run, if something did."""
        if not self.error.is_file():
            return None
        try:
            return str(json.loads(self.error.read_text(encoding="utf-8"))["error"])
        except (ValueError, KeyError, TypeError) as error:
            raise DataError(f"{self.error} is damaged: {error}") from error

    def read_result(self) -> dict[str, Any]:
        try:
            return _finite(json.loads(self.result.read_text(encoding="utf-8")))
        except ValueError as error:
            raise DataError(f"{self.result} is damaged ({error}); delete it and resume the run.") from error


def environment(config: Config) -> dict[str, Any]:
    """The machine and the versions a run was made with."""
    versions = {}
    for package in PACKAGES:
        try:
            versions[package] = version(package)
        except PackageNotFoundError:  # our own package, run from a checkout
            versions[package] = "not installed"
    return {
        "python": platform.python_version(),
        "system": platform.platform(),
        "processor": platform.processor() or platform.machine(),
        "cores": os.cpu_count(),
        "torch_threads": torch.get_num_threads(),
        "processes": world_size(),
        "device": str(config["device"]),
        "versions": versions,
    }


def read_interactions(path: Path) -> RunData:
    """The interactions.npz of a run folder."""
    if not path.is_file():
        raise DataError(f"there is no {path}: the run's interactions are not there any more.")
    return RunData.read(_read_arrays(path))


def _finite(value: Any) -> Any:
    """JSON has no infinity and no NaN: both become None, as the score of a run without an epoch."""
    if isinstance(value, dict):
        return {key: _finite(entry) for key, entry in value.items()}
    if isinstance(value, list | tuple):
        return [_finite(entry) for entry in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


def _ids(dataset: Any) -> dict[str, Any]:
    tokens = [dataset.field2id_token[field] for field in (dataset.uid_field, dataset.iid_field)]
    digest = hashlib.sha256("\0\0".join("\0".join(map(str, part)) for part in tokens).encode()).hexdigest()
    return {"users": len(tokens[0]) - 1, "items": len(tokens[1]) - 1, "sha256 of their ids": digest}


def _write_arrays(path: Path, arrays: dict[str, np.ndarray]) -> None:
    content = io.BytesIO()
    np.savez_compressed(content, **arrays)  # type: ignore[arg-type]
    _write(path, content.getbuffer())


def _read_arrays(path: Path) -> dict[str, np.ndarray]:
    try:
        with np.load(path, allow_pickle=False) as file:
            return dict(file)
    except (ValueError, EOFError, zipfile.BadZipFile, zlib.error) as error:
        raise DataError(f"{path} is damaged: {error}") from error


def _write(path: Path, content: "str | memoryview[int]") -> None:
    with _explained(path):
        write_whole(path, content.encode() if isinstance(content, str) else content)


@contextmanager
def _explained(path: Path) -> Iterator[None]:
    """Say what a failed write means for the run."""
    try:
        yield
    except OSError as error:
        raise DataError(
            f"could not write {path.absolute()}: {error.strerror or error}. What was there before is whole: make room, "
            f"then go on with recbole-adaptau train --resume={path.parent}."
        ) from error
