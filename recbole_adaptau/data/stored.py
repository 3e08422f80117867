"""The interactions of a run as it keeps them: ids, rows and parts as they were at training."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from recbole.data.dataset import Dataset
from recbole.utils import FeatureSource, FeatureType, ModelType

from ..errors import DataError
from .low_rated import LowRated

PARTS = ("train", "valid", "test")


@dataclass(frozen=True)
class RunData:
    """Interactions by internal ids, and which user or item each id is.

    Attributes:
        user_ids: [n_users] external ids; place 0 is RecBole's padding.
        item_ids: [n_items] the same for items.
        users: [R] of every interaction: those of training first, then validation, then test.
        items: [R] likewise.
        sizes: How many interactions each part has.
        numbers: [R] further columns, as a timestamp, by name.
        names: [n_items] the items' names, "" where there is none; None where the data has no names.
        low_rated: Pairs that are no positives because of their rating, by external ids.
    """

    user_ids: np.ndarray
    item_ids: np.ndarray
    users: np.ndarray
    items: np.ndarray
    sizes: tuple[int, int, int]
    numbers: dict[str, np.ndarray] = field(default_factory=dict)
    names: np.ndarray | None = None
    low_rated: LowRated = field(default_factory=LowRated.of)

    def __post_init__(self) -> None:
        rows = len(self.users)
        fits = sum(self.sizes) == len(self.items) == rows and all(len(c) == rows for c in self.numbers.values())
        for ids, places in ((self.user_ids, self.users), (self.item_ids, self.items)):
            fits = fits and (rows == 0 or (places.min() > 0 and places.max() < len(ids)))
        if not fits or (self.names is not None and len(self.names) != len(self.item_ids)):
            raise DataError("the interactions that the run has kept do not fit together.")

    @classmethod
    def of(cls, parts: list[Any], names: np.ndarray | None = None) -> "RunData | None":
        """Of the three parts of a RecBole dataset; None where the model reads more than users, items and numbers."""
        train = parts[0]
        if train.config["MODEL_TYPE"] not in (ModelType.GENERAL, ModelType.TRADITIONAL):
            return None
        tables = [part.inter_feat for part in parts]
        kept = {
            name: np.concatenate([np.asarray(table[name]) for table in tables])
            for name in tables[0].columns
            if name in (train.uid_field, train.iid_field) or train.field2type.get(name) == FeatureType.FLOAT
        }
        users, items = (kept.pop(name).astype(np.int32) for name in (train.uid_field, train.iid_field))
        user_ids, item_ids = (
            np.asarray(train.field2id_token[n]).astype(str) for n in (train.uid_field, train.iid_field)
        )
        train_rows, valid_rows, test_rows = map(len, tables)
        low_rated = getattr(train, "low_rated", LowRated.of())
        return cls(user_ids, item_ids, users, items, (train_rows, valid_rows, test_rows), kept, names, low_rated)

    def arrays(self) -> dict[str, np.ndarray]:
        """For a file; `read` is the way back."""
        found = {name: getattr(self, name) for name in ("user_ids", "item_ids", "users", "items")}
        found |= {"sizes": np.asarray(self.sizes), **{f"number:{name}": value for name, value in self.numbers.items()}}
        found |= self.low_rated.arrays()
        return found if self.names is None else {**found, "names": self.names.astype(str)}

    @classmethod
    def read(cls, arrays: Mapping[str, np.ndarray]) -> "RunData":
        try:
            numbers = {name.partition(":")[2]: value for name, value in arrays.items() if name.startswith("number:")}
            train, valid, test = map(int, arrays["sizes"])
            user_ids, item_ids, users, items = (arrays[name] for name in ("user_ids", "item_ids", "users", "items"))
            names, low_rated = arrays.get("names"), LowRated.read(arrays)
            return cls(user_ids, item_ids, users, items, (train, valid, test), numbers, names, low_rated)
        except (KeyError, ValueError, TypeError) as error:
            raise DataError(f"the interactions that the run has kept are incomplete ({error!r}).") from error

    @property
    def training(self) -> tuple[np.ndarray, np.ndarray]:
        """Users and items of the training part."""
        return self.users[: self.sizes[0]], self.items[: self.sizes[0]]

    def frame(self) -> pd.DataFrame:
        """All interactions by external ids: user, item and the further columns."""
        return pd.DataFrame({"user": self.user_ids[self.users], "item": self.item_ids[self.items], **self.numbers})

    def all_training(self, but_test: bool = False) -> "RunData":
        """The same with every interaction in the training part; `but_test`, with the validation part alone added."""
        test = self.sizes[2] if but_test else 0
        return replace(self, sizes=(len(self.users) - test, 0, test))


class StoredDataset(Dataset):
    """RecBole's dataset from what a run has kept, whatever its files hold now."""

    def __init__(self, config: Any, data: RunData):
        self.stored, self.low_rated = data, data.low_rated
        super().__init__(config)

    def _from_scratch(self) -> None:
        self._get_preset()
        self._get_field_from_config()
        data = self.stored
        self.user_feat = self.item_feat = None
        self.inter_feat = pd.DataFrame({self.uid_field: data.users, self.iid_field: data.items, **data.numbers})
        for name in self.inter_feat:
            kind = FeatureType.TOKEN if name in (self.uid_field, self.iid_field) else FeatureType.FLOAT
            self.set_field_property(name, kind, FeatureSource.INTERACTION, 1)
        for name, ids in ((self.uid_field, data.user_ids), (self.iid_field, data.item_ids)):
            self.field2id_token[name] = ids
            self.field2token_id[name] = {token: place for place, token in enumerate(ids)}
        self._init_alias()
        self.feat_name_list = self._build_feat_name_list()

    def build(self) -> list[Any]:
        """The three parts of the run."""
        self._change_feat_format()
        ends = np.cumsum(self.stored.sizes)
        starts = [0, *ends[:-1]]
        return with_parts([self.copy(self.inter_feat[start:end]) for start, end in zip(starts, ends, strict=True)])


def with_parts(parts: list[Any]) -> list[Any]:
    """The parts of a dataset, of which the first knows all: a trainer is given them one by one."""
    parts[0].parts = parts
    return parts


def source_files(dataset: Any) -> dict[str, list[int]]:
    """Size and time of the files that a dataset's interactions were read from, by path; to see whether they changed."""
    names = dataset.benchmark_filename_list
    folder, name = Path(dataset.dataset_path), dataset.dataset_name
    files = [folder / f"{name}{part}.inter" for part in ([""] if not names else [f".{part}" for part in names])]
    return {str(file.absolute()): _stamp(file) for file in files if file.is_file()}


def changed_files(source: Mapping[str, list[int]]) -> bool:
    """Whether a file of `source_files` is another by now; one that is gone has not changed."""
    return any(Path(file).is_file() and _stamp(Path(file)) != stamp for file, stamp in source.items())


def _stamp(file: Path) -> list[int]:
    status = file.stat()
    return [status.st_size, status.st_mtime_ns]
