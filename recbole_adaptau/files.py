"""Files that are whole or not there, and folders that one process at a time writes into."""

import contextlib
import os
import secrets
import threading
from collections.abc import Iterator
from pathlib import Path

from .errors import DataError

# Folders that a thread of this process has locked, so that a lock inside a lock of its own does not refuse it.
_held: set[tuple[int, str]] = set()


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


@contextlib.contextmanager
def alone_in(folder: Path, instead: str) -> Iterator[None]:
    """Refuse to work in a folder where another process (or thread) does; `instead` says what else to do.

    The system gives the lock back when the process ends, however it ends.
    """
    try:
        import fcntl
    except ImportError:  # Windows
        yield
        return
    key = (threading.get_ident(), os.path.realpath(folder))
    if key in _held:
        yield
        return
    handle = os.open(folder, os.O_RDONLY)
    try:
        with contextlib.suppress(OSError):  # a file system without locks
            try:
                fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                raise DataError(f"another process is filling {folder}: wait for it, or {instead}.") from None
        _held.add(key)
        yield
    finally:
        _held.discard(key)
        os.close(handle)


def _sync_folder(folder: Path) -> None:
    """Make the new name survive a power cut, where the system can do so (Windows cannot open a folder)."""
    with contextlib.suppress(OSError):
        handle = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)
