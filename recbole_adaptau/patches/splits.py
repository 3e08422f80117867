"""What goes into the parts of a dataset: nothing empty, nothing from a stray file."""

import os
from typing import Any

from recbole.data import utils as data_utils
from recbole.data.dataset import dataset as datasets

from ..errors import DataError, OptionError
from .patching import replace_everywhere


def refuse_empty_training_part() -> None:
    """Raise where the data is split, not epochs later in a division by zero or an endless sampling loop."""
    build = datasets.Dataset.build

    def build_checked(self: Any) -> list[Any]:
        parts = build(self)
        names = self.benchmark_filename_list
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
        return parts

    datasets.Dataset.build = build_checked


def unpickle_only_when_asked() -> None:
    """Read saved datasets and loaders only with `allow_pickle`, and then only if saving is on or a path is set.

    RecBole unpickles `<dataset>-Dataset.pth` and `<dataset>-for-<model>-dataloader.pth` from checkpoint_dir
    whenever they are there: an old file, or a stranger's, silently takes the place of the data, and its code runs.
    """
    create, load_loaders = data_utils.create_dataset, data_utils.load_split_dataloaders

    def create_dataset(config: Any) -> Any:
        if _may_unpickle(config, "save_dataset", "dataset_save_path"):
            return create(config)
        # RecBole looks at this path alone when it is set; nothing can exist below a file.
        config["dataset_save_path"] = os.path.join(data_utils.__file__, "none")
        try:
            return create(config)
        finally:
            config["dataset_save_path"] = None

    def load_split_dataloaders(config: Any) -> tuple[Any, Any, Any] | None:
        return load_loaders(config) if _may_unpickle(config, "save_dataloaders", "dataloaders_save_path") else None

    replace_everywhere(create, create_dataset)
    replace_everywhere(load_loaders, load_split_dataloaders)


def _may_unpickle(config: Any, saving: str, path: str) -> bool:
    if config["allow_pickle"]:
        return bool(config[saving] or config[path])
    if config[path]:
        raise OptionError(
            f"{path} = {config[path]!r}: RecBole's saved data is a pickle, which can run any code when it is read. "
            "If you made the file yourself, add allow_pickle=True; otherwise leave it out."
        )
    return False
