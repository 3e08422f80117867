"""What goes into the parts of a dataset: nothing empty, nothing from a stray file, false positives where asked for."""

import os
from pathlib import Path
from typing import Any

from recbole.data import utils as data_utils

from ..data.noise import with_noise
from ..data.stored import StoredDataset, with_parts
from ..errors import DataError, OptionError, refusals_explained
from ..runs.folder import read_interactions


def build(original: Any, self: Any) -> list[Any]:
    names = self.benchmark_filename_list
    if names is None and self.config["eval_args"]["order"] == "TO" and self.time_field not in self.inter_feat:
        raise DataError(
            f"eval_args orders by time, but no column '{self.time_field}' (TIME_FIELD) of '{self.dataset_name}' "
            f"was loaded: name it in load_col, as {{'inter': ['{self.uid_field}', '{self.iid_field}', "
            f"'{self.time_field}']}}; if the data has no times, use --split=random (order RO)."
        )
    with refusals_explained(f"the dataset '{self.dataset_name}' cannot be split with these settings", DataError):
        parts: list[Any] = original(self)
    if names is not None and len(parts) != 3:
        raise DataError(
            f"benchmark_filename is {names}: it takes exactly three names, for training, validation and "
            "test, in that order; the same name may stand for validation and test."
        )
    if len(parts[0].inter_feat) == 0:
        sizes = ", ".join(str(len(part.inter_feat)) for part in parts)
        how = f"eval_args {self.config['eval_args']}" if names is None else f"benchmark_filename {list(names)}"
        raise DataError(
            f"the training part of '{self.dataset_name}' is empty: {how} split it into {sizes} "
            "interactions for training, validation and test. Give the first part a larger share, name "
            "the right file first, or loosen the filters (user_inter_num_interval and the like)."
        )
    for name, part, result in zip(("validation", "test"), parts[1:], ("best epoch", "test figures"), strict=True):
        if len(part.inter_feat) == 0:
            self.logger.warning(f"The {name} part of '{self.dataset_name}' is empty: there will be no {result}.")
    return with_parts(with_noise(parts, self.config))


def create_dataset(original: Any, config: Any) -> Any:
    if config["stored_data"]:
        return StoredDataset(config, read_interactions(Path(config["stored_data"])))
    if _may_unpickle(config, "save_dataset", "dataset_save_path"):
        return original(config)
    # RecBole looks at this path alone when it is set; nothing can exist below a file.
    config["dataset_save_path"] = os.path.join(data_utils.__file__, "none")
    try:
        return original(config)
    finally:
        config["dataset_save_path"] = None


def load_split_dataloaders(original: Any, config: Any) -> tuple[Any, Any, Any] | None:
    return original(config) if _may_unpickle(config, "save_dataloaders", "dataloaders_save_path") else None


def _may_unpickle(config: Any, saving: str, path: str) -> bool:
    """Only with `allow_pickle`, and then only if saving is on or a path is set."""
    if config["allow_pickle"]:
        return bool(config[saving] or config[path])
    if config[path]:
        raise OptionError(
            f"{path} = {config[path]!r}: RecBole's saved data is a pickle, which can run any code when it is read. "
            "If you made the file yourself, add allow_pickle=True; otherwise leave it out."
        )
    return False
