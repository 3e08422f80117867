"""A dataset that is missing: fetched whole, or explained in one message (issue 1989)."""

import contextlib
import http.client
import os
import shutil
import tempfile
import urllib.request
import zipfile
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import torch
import yaml
from recbole.data.dataset import dataset as datasets
from recbole.utils.url import rename_atomic_files

from ..distributed import ranks
from ..errors import DataError, did_you_mean

_ASK_ABOVE = 1 << 30
_CHUNK = 1 << 20
_TIMEOUT = 30.0


def _convert_hint(folder: Path, name: str) -> str:
    return f"recbole-adaptau data convert --source {folder} --name {name}"


def _how_to_provide(folder: Path, name: str) -> str:
    return (
        f"To provide it: put {name}.inter into {folder}; or convert a folder DIR with LightGCN's train.txt "
        f"and test.txt: `{_convert_hint(Path('DIR'), name)}`; or set data_path to the parent of {name}/."
    )


def _known_names(dataset: Any) -> list[str]:
    """The datasets next to the one looked for, and those that RecBole can download."""
    parent = Path(dataset.dataset_path).absolute().parent
    here = [entry.name for entry in parent.iterdir() if entry.is_dir()] if parent.is_dir() else []
    listed = Path(datasets.__file__).parents[2] / "properties" / "dataset" / "url.yaml"
    return [*yaml.safe_load(listed.read_text(encoding="utf-8")), *here]


@contextlib.contextmanager
def _folder_that_appears_whole(folder: Path) -> Iterator[Path]:
    """A working folder beside `folder` that takes its name only if the block succeeds.

    A half-made folder would make the next run fail in another way, as RecBole downloads only what is absent.
    """
    made_parent = not folder.parent.exists()
    folder.parent.mkdir(parents=True, exist_ok=True)
    working = Path(tempfile.mkdtemp(prefix=f".{folder.name}.", dir=folder.parent))
    try:
        yield working
        working.chmod(0o777 & ~_umask())
        os.replace(working, folder)
    finally:
        shutil.rmtree(working, ignore_errors=True)
        if made_parent and not folder.exists():
            with contextlib.suppress(OSError):
                folder.parent.rmdir()


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask


def _may_download(size: int) -> bool:
    """Ask, as RecBole does, before more than a gigabyte; nobody to ask means no."""
    if size <= _ASK_ABOVE:
        return True
    try:
        return input(f"This will download {size / _ASK_ABOVE:.2f}GB. Will you proceed? (y/N)\n").lower() == "y"
    except EOFError:
        return False


def _fetch(url: str, target: Path) -> None:
    """Copy `url` to `target`; a server need not say how long its answer is."""
    with urllib.request.urlopen(url, timeout=_TIMEOUT) as answer, open(target, "wb") as file:
        size = int(answer.headers.get("Content-Length") or 0)
        if not _may_download(size):
            raise OSError(f"it takes {size / _ASK_ABOVE:.2f} GB and nobody agreed to that")
        shutil.copyfileobj(answer, file, _CHUNK)
    if size and target.stat().st_size != size:
        raise OSError(f"the connection ended after {target.stat().st_size} of {size} bytes")


def _provide(dataset: Any) -> None:
    """Download `dataset` into its folder, or raise the one error that explains."""
    folder, name = Path(dataset.dataset_path).absolute(), dataset.dataset_name
    missing = f"the dataset '{name}' was looked for in {folder}, which does not exist"
    try:
        url = dataset._get_download_url("url")
    except ValueError as error:
        near = did_you_mean(name, _known_names(dataset))
        raise DataError(
            f"{missing}, and RecBole knows no download of that name.{near} {_how_to_provide(folder, name)}"
        ) from error
    dataset.logger.info(f"Prepare to download dataset [{name}] from [{url}].")
    try:
        with _folder_that_appears_whole(folder) as working:
            archive = working / (url.rpartition("/")[2] or "archive.zip")
            _fetch(url, archive)
            with zipfile.ZipFile(archive) as content:
                content.extractall(working)
            archive.unlink()
            rename_atomic_files(str(working), archive.stem, name)
    except (
        OSError,
        ValueError,
        http.client.HTTPException,
        zipfile.BadZipFile,
        zlib.error,
        EOFError,
    ) as error:
        raise DataError(
            f"{missing}, and its download from {url} failed: {error or type(error).__name__}. "
            f"{_how_to_provide(folder, name)}"
        ) from error
    dataset.logger.info("Downloading done.")


def load_data(original: Any, self: Any, token: str, dataset_path: str) -> None:
    """All processes wait for one another, whether they still find the folder absent or not.

    RecBole's wait only if they do, and one that comes late leaves the others waiting.
    """
    if ranks.is_active():
        try:
            if self.config["local_rank"] == 0 and not os.path.exists(dataset_path):
                _provide(self)
        finally:
            torch.distributed.barrier()
    original(self, token, dataset_path)


def download(original: Any, self: Any) -> None:
    if self.config["local_rank"] != 0:
        raise DataError(f"the dataset '{self.dataset_name}' could not be provided by the process that tried to.")
    _provide(self)


def load_inter_feat(original: Any, self: Any, token: str, dataset_path: str) -> None:
    parts = self.benchmark_filename_list
    expected = [f"{token}.inter"] if parts is None else [f"{token}.{part}.inter" for part in parts]
    folder = Path(dataset_path).absolute()
    absent = [file for file in expected if not (folder / file).is_file()]
    if not absent:
        original(self, token, dataset_path)
        return
    held = sorted(entry.name for entry in folder.iterdir()) if folder.is_dir() else []
    problem = f"the dataset '{token}' needs {' and '.join(absent)} in {folder}"
    if parts is not None:
        problem += f" (benchmark_filename is {list(parts)})"
    found = ", ".join(held[:20]) + (f" and {len(held) - 20} more" if len(held) > 20 else "")
    problem += f", which holds {found or 'nothing'}."
    if {"train.txt", "test.txt"} <= set(held):
        problem += f" These are LightGCN's files; convert them first: `{_convert_hint(folder, token)}`."
    raise DataError(f"{problem} {_how_to_provide(folder, token)}")
