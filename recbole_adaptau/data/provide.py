"""A dataset that is missing: fetched whole, or explained in one message."""

import contextlib
import http.client
import os
import shutil
import tempfile
import urllib.request
import zipfile
import zlib
from collections.abc import Iterator, Sequence
from logging import getLogger
from pathlib import Path
from typing import Any

import recbole
import yaml
from recbole.utils.url import rename_atomic_files

from ..errors import DataError, did_you_mean

_ASK_ABOVE = 1 << 30
_CHUNK = 1 << 20
_TIMEOUT = 30.0


def need_dataset(config: Any) -> None:
    """See that the files of a configuration's dataset are there, downloading what RecBole has a download of.

    Raises:
        DataError: They are not; the message says how to provide them.
    """
    if config["stored_data"]:  # a run's own copy
        return
    name, folder = config["dataset"], Path(config["data_path"])
    if not folder.exists():
        provide(name, folder)
    need_files(name, folder, config["benchmark_filename"])


def need_files(name: str, folder: Path, parts: Sequence[str] | None) -> None:
    """Refuse a folder without the interaction files of the dataset."""
    folder = folder.absolute()
    expected = [f"{name}.{part}.inter" for part in parts] if parts else [f"{name}.inter"]
    absent = [file for file in dict.fromkeys(expected) if not (folder / file).is_file()]
    if not absent:
        return
    held = sorted(entry.name for entry in folder.iterdir()) if folder.is_dir() else []
    problem = f"the dataset '{name}' needs {' and '.join(absent)} in {folder}"
    if parts:
        problem += f" (benchmark_filename is {list(parts)})"
    found = ", ".join(held[:20]) + (f" and {len(held) - 20} more" if len(held) > 20 else "")
    problem += f", which holds {found or 'nothing'}."
    if {"train.txt", "test.txt"} <= set(held):
        problem += f" These are LightGCN's files; convert them first: `{_convert_hint(folder, name)}`."
    raise DataError(f"{problem} {_how_to_provide(folder, name)}")


def provide(name: str, folder: Path) -> None:
    """Download a dataset into its folder, or raise the one error that explains."""
    folder = folder.absolute()
    missing = f"the dataset '{name}' was looked for in {folder}, which does not exist"
    known = downloads()
    if name not in known:
        beside = folder.parent.iterdir() if folder.parent.is_dir() else ()
        near = did_you_mean(name, [*known, *(entry.name for entry in beside if entry.is_dir())])
        raise DataError(f"{missing}, and RecBole knows no download of that name.{near} {_how_to_provide(folder, name)}")
    url = known[name]
    getLogger().info(f"Prepare to download dataset [{name}] from [{url}].")
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
    getLogger().info("Downloading done.")


def downloads() -> dict[str, str]:
    """The addresses of the datasets that RecBole can download, by name."""
    listed = Path(recbole.__file__).parent / "properties" / "dataset" / "url.yaml"
    found: dict[str, str] = yaml.safe_load(listed.read_text(encoding="utf-8"))
    return found


def _convert_hint(folder: Path, name: str) -> str:
    return f"recbole-adaptau data convert --source {folder} --name {name}"


def _how_to_provide(folder: Path, name: str) -> str:
    return (
        f"To provide it: import a file of interactions (CSV, Parquet, JSON lines): `recbole-adaptau data import "
        f"--source FILE --name {name}`; or convert a folder DIR with LightGCN's train.txt and test.txt: "
        f"`{_convert_hint(Path('DIR'), name)}`; or put {name}.inter into {folder}; or set data_path to the parent of "
        f"{name}/."
    )


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
