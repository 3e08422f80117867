"""Atomic files looked over as RecBole reads them: what it would crash on, or read as something else, is named.

Structure is checked before reading, in one pass over the bytes; values after reading, in the columns that were read.
A file is only read line by line once something is wrong with it, to say where.
"""

import codecs
import math
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from ..errors import DataError, did_you_mean

TYPES = ("token", "token_seq", "float", "float_seq")
# RecBole keeps the ids of a column as one array, each as wide as the longest: 1,000 characters are 4 GB a million.
MAX_ID = 1000
PADDING = "[PAD]"
_BLOCK = 1 << 24
_NEWLINE, _RETURN, _QUOTE = b'\n\r"'
_LONE_RETURN = "a carriage return within the line; end lines with \\n."
_EXAMPLE = "'user_id:token' and 'item_id:token'"


@dataclass
class Lines:
    """What a pass over a file found: lines that are not blank, and those with other than the right number of columns.

    Attributes:
        filled: How many are not blank, the first line included.
        uneven: How many of them have too few or too many columns.
        first_uneven: The number of the first such line, and `first_width` its number of columns.
    """

    filled: int = 0
    uneven: int = 0
    first_uneven: int = 0
    first_width: int = 0


@dataclass(frozen=True)
class AtomicFile:
    """One of RecBole's atomic files and how it is to be read.

    Attributes:
        path: The file.
        separator: What stands between two columns, RecBole's `field_separator`.
        encoding: Its encoding; `utf-8-sig` for a file of UTF-8 that starts with a byte order mark.
    """

    path: Path
    separator: str
    encoding: str

    @classmethod
    def at(cls, path: str | Path, separator: str, encoding: str | None) -> "AtomicFile":
        """The file, with a byte order mark made part of its encoding: RecBole takes it for part of the first name."""
        name = encoding or "utf-8"
        try:
            name = codecs.lookup(name).name
            "\t".encode(name)  # some codecs are not of text
        except (LookupError, UnicodeError):
            raise DataError(f"encoding = {encoding!r} is not an encoding Python knows, as utf-8 or latin-1.") from None
        with open(path, "rb") as file:
            start = file.read(3)
        if name == "utf-8" and start[:2] in (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE):
            raise DataError(f"{path}: this is UTF-16 text; save it as UTF-8, or set encoding=utf-16.")
        return cls(Path(path), separator, "utf-8-sig" if name == "utf-8" and start == codecs.BOM_UTF8 else name)

    def columns(self) -> dict[str, str]:
        """Names and types, as the first line gives them."""
        first = self._first_line()
        if not first.strip():
            raise DataError(
                f"{self.path}: {'the first line' if self.path.stat().st_size else 'the file'} is empty; the first "
                f"line names the columns and their types, as {_EXAMPLE}."
            )
        if not self.separator:
            raise DataError("field_separator is empty: set what stands between two columns, as '\\t'.")
        first, newline, _ = first.partition("\n")
        columns: dict[str, str] = {}
        for column in first.split(self.separator):
            name, _, kind = column.partition(":")
            if not name or not kind or ":" in kind:
                raise DataError(f"{self.path}, line 1: {self._not_a_column(first, column)}")
            if kind not in TYPES:
                raise DataError(
                    f"{self.path}, line 1: column '{name}' is of type '{kind}', which is none of {', '.join(TYPES)}."
                    f"{did_you_mean(kind, TYPES)} Ids are of type token."
                )
            if name in columns:
                raise DataError(f"{self.path}, line 1: there are two columns '{name}'; rename or remove one.")
            columns[name] = kind
        if not newline:
            raise DataError(f"{self.path} is empty: it ends with its first line.")
        return columns

    def lines(self, width: int) -> "Lines | None":
        """Go over all lines, the first included; refuses text of another encoding, lone \\r, and NUL.

        Args:
            width: How many columns a line should have.

        Returns:
            What was found; None for UTF-16 and its like, whose bytes cannot be looked over as those of ASCII.
        """
        if not self._like_ascii:
            return None
        found = Lines()
        for line, block in self._blocks():
            try:
                block.decode(self.encoding)
            except UnicodeDecodeError as error:
                raise DataError(
                    f"{self.path}, line {line + block.count(_NEWLINE, 0, error.start)}: not {self.encoding} text; save "
                    "the file as UTF-8, or set encoding to what it is, as encoding=latin-1."
                ) from None
            _look_over(self.path, line, block, self.separator.encode(), width, found)
        return found

    def open_quote(self) -> DataError:
        """What to say of a quotation mark that pandas takes for the start of a longer text."""
        odd = (number for number, text in self._lines() if text.count('"') % 2)
        return DataError(
            f"{self.path}, line {next(odd, '?')}: a quotation mark opens here and does not close on the line, so "
            "everything up to the next one would become a single value; remove it."
        )

    def line_of(self, row: int) -> int:
        """The line in which a row of the table stands; blank lines are no rows."""
        for place, (number, _) in enumerate(self._lines()):
            if place == row + 1:
                return number
        return 0

    def not_a_number(self, columns: dict[str, str], seq_separator: str) -> DataError | None:
        """The first value of a float column that is no number, or None if there is none."""
        for number, text in islice(self._lines(), 1, None):
            for name, value in zip(list(columns), text.split(self.separator), strict=False):
                if not columns[name].startswith("float") or not value.strip():
                    continue
                parts = [value] if columns[name] == "float" else value.split(seq_separator)
                for part in filter(None, parts):
                    if not _is_number(part):
                        return DataError(
                            f"{self.path}, line {number}: {part!r} in column '{name}' is no number, but the column is "
                            f"of type {columns[name]}; correct it, or make the column a token."
                        )
        return None

    @property
    def _like_ascii(self) -> bool:
        """Whether \\t and \\n are one byte each, as in ASCII, UTF-8 and the old encodings, but not in UTF-16."""
        return "\t\n".encode(self.encoding.removesuffix("-sig")) == b"\t\n"

    def _first_line(self) -> str:
        try:
            if not self._like_ascii:
                with open(self.path, encoding=self.encoding) as file:
                    return file.readline()
            with open(self.path, "rb") as raw:
                first = raw.readline(_BLOCK).decode(self.encoding).replace("\r\n", "\n")
        except UnicodeError:
            raise DataError(f"{self.path}, line 1: not {self.encoding} text; save the file as UTF-8.") from None
        if "\r" in first:
            raise DataError(f"{self.path}, line 1: {_LONE_RETURN}")
        return first

    def _not_a_column(self, first: str, column: str) -> str:
        """Why a heading is no `name:type`: most often another separator, or no heading at all."""
        for other, name in ((",", "','"), (";", "';'"), ("\t", "tabs"), (" ", "spaces"), ("|", "'|'")):
            if other != self.separator and all(":" in part for part in first.split(other)[:2]) and other in first:
                return (
                    f"the columns are separated by {name}, but field_separator is {self.separator!r}: set "
                    f"field_separator to {other!r}, or rewrite the file."
                )
        return (
            f"{column[:80]!r} is not of the form name:type; the first line names the columns and their types, as "
            f"{_EXAMPLE}."
        )

    def _blocks(self) -> Iterator[tuple[int, bytes]]:
        """The file in blocks of whole lines, each with the number of its first line."""
        with open(self.path, "rb") as file:
            line, rest = 1, b""
            while part := file.read(_BLOCK):
                whole, newline, tail = part.rpartition(b"\n")
                if newline:
                    yield line, rest + whole + newline
                    line, rest = line + whole.count(_NEWLINE) + 1, tail
                else:
                    rest += part
            if rest:
                yield line, rest

    def _lines(self) -> Iterator[tuple[int, str]]:
        """Lines that are not blank, with their numbers."""
        with open(self.path, encoding=self.encoding, errors="replace") as file:
            for number, text in enumerate(file, start=1):
                if text != "\n":
                    yield number, text.rstrip("\n")


def _look_over(path: Path, line: int, block: bytes, separator: bytes, width: int, found: Lines) -> None:
    data = np.frombuffer(block if block.endswith(b"\n") else block + b"\n", dtype=np.uint8)
    ends = np.flatnonzero(data == _NEWLINE)

    def number(place: int) -> int:
        return line + int(np.searchsorted(ends, place))

    returns = np.flatnonzero(data == _RETURN)
    lone = returns[data[returns + 1] != _NEWLINE] if len(returns) else returns
    if len(lone):
        raise DataError(f"{path}, line {number(lone[0])}: {_LONE_RETURN}")
    if b"\0" in block:
        raise DataError(f"{path}, line {number(block.index(0))}: a NUL character; this is no text, or damaged text.")
    lengths = np.diff(ends, prepend=-1) - 1
    filled = (lengths > 1) | ((lengths == 1) & (data[ends - 1] != _RETURN))
    found.filled += int(filled.sum())
    if len(separator) != 1:
        return
    counts = np.diff(np.searchsorted(np.flatnonzero(data == separator[0]), ends), prepend=0) + 1
    wrong = (counts != width) & filled
    if _QUOTE in block:  # within quotation marks a separator does not separate
        wrong[np.searchsorted(ends, np.flatnonzero(data == _QUOTE))] = False
    if wrong.any():
        if not found.uneven:
            place = int(np.flatnonzero(wrong)[0])
            found.first_uneven, found.first_width = line + place, int(counts[place])
        found.uneven += int(wrong.sum())


def without_missing_ids(table: pd.DataFrame, ids: Sequence[str], file: AtomicFile) -> tuple[pd.DataFrame, list[str]]:
    """The rows that have all of their ids, and a sentence on those that have not, if any."""
    missing = table[list(ids)].isna().any(axis=1).to_numpy()
    if not missing.any():
        return table, []
    first = file.line_of(int(np.flatnonzero(missing)[0]))
    note = (
        f"{file.path}: {missing.sum()} of {len(table)} rows left out, the first in line {first}, because "
        f"{' or '.join(ids)} is missing. (Empty, NA, NaN, null, None and their like are read as missing.)"
    )
    return table[~missing].reset_index(drop=True), [note]


def check_values(
    table: pd.DataFrame, columns: dict[str, str], file: AtomicFile, bounded: Collection[str] = ()
) -> list[str]:
    """Refuse ids RecBole cannot keep and numbers that are infinite; returns sentences on what it will fill in.

    Rows without a number in a bounded column are left out.
    """
    notes = []
    for name, kind in columns.items():
        if name not in table:
            continue
        if kind == "token":
            values = table[name].to_numpy()
            _refuse(file, values == PADDING, f"the {name} {PADDING} is RecBole's own for 'nothing'; rename it")
            texts = [value for value in values if isinstance(value, str)]
            if max(map(len, texts), default=0) > MAX_ID:
                long = np.array([isinstance(value, str) and len(value) > MAX_ID for value in values])
                _refuse(file, long, f"a {name} of more than {MAX_ID:,} characters; shorten it")
        elif kind == "float":
            numbers = table[name].to_numpy(dtype=np.float64)
            _refuse(file, np.isinf(numbers), f"an infinite {name}; correct it")
            missing = int(np.isnan(numbers).sum())
            if missing and missing == len(table):
                raise DataError(
                    f"{file.path}: no row has a '{name}'; leave the column out, with load_col or unload_col."
                )
            if missing:
                then = "such rows are no positives" if name in bounded else "they become the mean"
                notes.append(f"{file.path}: {missing} of {len(table)} values of '{name}' are missing; {then}.")
    return notes


def _refuse(file: AtomicFile, bad: NDArray[np.bool_], what: str) -> None:
    if bad.any():
        rows = np.flatnonzero(bad)
        raise DataError(f"{file.path}, line {file.line_of(int(rows[0]))}: {what} ({len(rows)} such row(s)).")


def _is_number(text: str) -> bool:
    """Whether float64 has a number for the text; 1e999 is beyond it."""
    try:
        return not math.isinf(float(text))
    except ValueError:
        return False


def check_topk(config: Any, items: int) -> None:
    """Refuse lists that are longer than the catalogue, where all items are ranked."""
    if max(config["topk"]) > items and "full" in config["eval_args"]["mode"].values():
        raise DataError(
            f"topk = {config['topk']}, but '{config['dataset']}' has only {items} items: set --topk and --valid_metric "
            "to a smaller k."
        )


def repeated_pairs(users: NDArray[Any], items: NDArray[Any]) -> int:
    """How many rows repeat the user and item of another row."""
    return len(users) - len(np.unique(_as_one(users, items)))


def seen_before(parts: Sequence[tuple[NDArray[Any], NDArray[Any]]]) -> list[NDArray[np.bool_]]:
    """For every part, which of its pairs the first part (training) holds too; none of the first itself.

    Shape: (users [n], items [n]) of each part → masks [n].
    """
    codes = [_as_one(users, items) for users, items in parts]
    return [np.zeros(len(codes[0]), dtype=bool), *(np.isin(code, codes[0]) for code in codes[1:])]


def _as_one(users: NDArray[Any], items: NDArray[Any]) -> NDArray[np.int64]:
    """One number for each pair; RecBole's numbers of users and of items are far below 2³¹."""
    return (users.astype(np.int64) << 32) | items.astype(np.int64)
