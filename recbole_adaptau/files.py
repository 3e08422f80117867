"""Files that are whole or not there, and folders that one process at a time writes into."""

import contextlib
import os
import secrets
import time
from collections.abc import Iterator
from pathlib import Path

from filelock import FileLock, Timeout

from .errors import DataError, OptionError, did_you_mean

LOCK = ".lock"  # in a folder that is being written to; gone when its writer is done


def write_whole(path: Path, content: "bytes | memoryview[int]") -> None:
    """Write `content` to `path` so that a reader finds the old file or the new one, never a part.

    It is written beside its place, forced to disk and then renamed. An OSError leaves the old file as it was, and
    nothing else behind.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(f".{path.name}.{secrets.token_hex(4)}.tmp")
    try:
        with open(temporary, "xb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, path)
    finally:
        with contextlib.suppress(OSError):
            temporary.unlink(missing_ok=True)
    _sync_folder(path.parent)


def remove_leftovers(folder: Path) -> None:
    """Delete what `write_whole` could not rename because its process was killed."""
    for path in folder.glob(".*.tmp"):
        path.unlink(missing_ok=True)


def need_writable(folder: Path, key: str) -> None:
    """Make the folder, or say at the start of a run that nothing can be written there."""
    probe = folder / f".probe.{secrets.token_hex(4)}.tmp"
    try:
        folder.mkdir(parents=True, exist_ok=True)
        probe.touch(exist_ok=False)
        probe.unlink()
    except OSError as error:
        raise DataError(
            f"cannot write to {folder.absolute()}: {error.strerror or error}. Give another place with --{key}=FOLDER."
        ) from error


def need_parent(path: Path, option: str) -> None:
    """Refuse a place whose parent folder does not exist: only the last part of a path is made, or a typing error would
    make folders anywhere. Below `runs/`, where commands write by default, all are made.
    """
    missing = next((place for place in reversed(path.absolute().parents) if not place.is_dir()), None)
    if missing is None or (Path("runs").absolute() in (missing, *missing.parents) and not missing.exists()):
        return
    if missing.exists():
        raise OptionError(f"{option} {path}: {missing} is a file, not a folder.")
    beside = [place.name for place in missing.parent.iterdir() if place.is_dir()]
    raise OptionError(
        f"{option} {path}: there is no folder {missing}.{did_you_mean(missing.name, beside)} Make it first, or correct "
        "the path."
    )


@contextlib.contextmanager
def alone_in(folder: Path, instead: str) -> Iterator[None]:
    """Refuse to work in a folder where another process (or thread) does; `instead` says what else to do.

    The system gives the lock back when the process ends, however it ends. A thread may lock a folder again inside a
    lock of its own.
    """
    file = Path(os.path.realpath(folder), LOCK)
    lock = FileLock(file, timeout=0, is_singleton=True, fallback_to_soft=False)
    try:
        lock.acquire()
    except Timeout:
        raise DataError(f"another process is filling {folder}: wait for it, or {instead}.") from None
    except OSError:  # a file system without locks
        yield
        return
    try:
        yield
    finally:
        if lock.lock_counter == 1:  # the outermost: removed while it is held, so that nobody else's is
            with contextlib.suppress(OSError):
                file.unlink()
        lock.release()


def await_writer(folder: Path, seconds: float) -> None:
    """Wait, but not for ever, for the end of another process that fills a folder."""
    deadline = time.monotonic() + seconds
    while folder.is_dir() and time.monotonic() < deadline:
        try:
            with alone_in(folder, ""):
                return
        except DataError:
            time.sleep(0.5)


def _sync_folder(folder: Path) -> None:
    """Make the new name survive a power cut, where the system can do so (Windows cannot open a folder)."""
    with contextlib.suppress(OSError):
        handle = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)
