"""Text files from outside, and which ids survive in RecBole's."""

from collections.abc import Iterable
from pathlib import Path

from ..errors import DataError

_RESERVED = "#N/A #NA -1.#IND -1.#QNAN -NaN -nan 1.#IND 1.#QNAN <NA> N/A NA NULL NaN None n/a nan null [PAD]"
# RecBole reads these back as a missing value (pandas' defaults) or uses them itself (the padding id).
RESERVED_TOKENS = frozenset(_RESERVED.split())


def unreadable(token: str) -> bool:
    """Whether RecBole would read the id back as something else."""
    return '"' in token or token in RESERVED_TOKENS


def read_text(path: Path) -> str:
    """A file's text, which must be UTF-8, with or without a byte-order mark."""
    try:
        data = path.read_bytes()
    except OSError as error:
        raise DataError(f"{path}: cannot be read ({error.strerror}).") from error
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise DataError(f"{path}, line {line}: not UTF-8 text; save the file as UTF-8.") from error


def counts(folder: Path, rows: Iterable[tuple[str, int, str]]) -> str:
    """What a conversion wrote and dropped: labels, counts and notes as a small table."""
    lines = [f"{label:<20}{count:>12,}  {note}".rstrip() for label, count, note in rows]
    return "\n".join([f"written to {folder}", *lines])
