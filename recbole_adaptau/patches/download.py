"""Several processes and a dataset that is missing (issue 1989); `data.provide` fetches it, or explains."""

import os
from pathlib import Path
from typing import Any

import torch

from ..data.provide import need_files, provide
from ..distributed import ranks
from ..errors import DataError


def load_data(original: Any, self: Any, token: str, dataset_path: str) -> None:
    """All processes wait for one another, whether they still find the folder absent or not.

    RecBole's wait only if they do, and one that comes late leaves the others waiting.
    """
    if ranks.is_active():
        try:
            if self.config["local_rank"] == 0 and not os.path.exists(dataset_path):
                provide(self.dataset_name, Path(dataset_path))
        finally:
            torch.distributed.barrier()
    original(self, token, dataset_path)


def download(original: Any, self: Any) -> None:
    if self.config["local_rank"] != 0:
        raise DataError(f"the dataset '{self.dataset_name}' could not be provided by the process that tried to.")
    provide(self.dataset_name, Path(self.dataset_path))


def load_inter_feat(original: Any, self: Any, token: str, dataset_path: str) -> None:
    need_files(token, Path(dataset_path), self.benchmark_filename_list)
    original(self, token, dataset_path)
