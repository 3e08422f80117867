"""Tables in the files people have: delimited text, JSON lines and Parquet, plain or compressed, a part at a time."""

import bz2
import csv
import gzip
import io
import itertools
import json
import lzma
import re
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import IO, Any

import pandas as pd

from ..errors import DataError, OptionError, did_you_mean

ROWS = 200_000  # at a time: a few dozen megabytes
_SAMPLE = 1 << 16
_DELIMITERS = (",", ";", "\t", "|", "::")
_NAMES = {"\t": "tabs", " ": "spaces"}
_TEXTS = {"tab": "\t", "\\t": "\t", "space": " ", "comma": ",", "semicolon": ";", "pipe": "|"}
_COMPRESSED = {b"\x1f\x8b": "gzip", b"BZh": "bz2", b"\xfd7zXZ\x00": "xz", b"\x28\xb5\x2f\xfd": "zstd"}


class Reader(ABC):
    """A table in a file.

    Attributes:
        path: The file.
        columns: Its columns' names; numbers from "1" on where the file has no header.
    """

    def __init__(self, path: Path, columns: Sequence[str]):
        self.path, self.columns = path, [str(column).strip() for column in columns]
        for column in self.columns:
            if self.columns.count(column) > 1:
                raise DataError(f"{path}: two columns are called '{column}'; rename one.")

    @abstractmethod
    def parts(self, columns: Sequence[str]) -> Iterator[pd.DataFrame]:
        """Some columns of all rows, a part at a time, with the number of the row as the index.

        Values are text as it stands, or numbers and dates where the format has them; "" and None are missing ones.
        """

    @abstractmethod
    def place(self, row: int) -> str:
        """Where a row stands, as a person finds it; may read the file up to there."""

    def looks_headless(self) -> bool:
        """Whether the names of the columns look like values."""
        return False


def open_table(path: Path, delimiter: str | None = None, header: bool = True) -> Reader:
    """Open a file of any of the formats, which its content tells.

    Args:
        path: The file.
        delimiter: What separates the columns of text; None to find out.
        header: Whether the first line of text names the columns.

    Raises:
        DataError: There is no such file, or it is of no known format.
        OptionError: The delimiter cannot be one.
    """
    if not path.is_file():
        siblings = [entry.name for entry in path.parent.iterdir()] if path.parent.is_dir() else []
        what = "is a folder, not a file" if path.is_dir() else "does not exist"
        raise DataError(f"'{path}' {what}.{did_you_mean(path.name, siblings)}")
    try:
        with open(path, "rb") as file:
            magic = file.read(8)
    except OSError as error:
        raise DataError(f"{path}: cannot be read ({error.strerror}).") from error
    if magic[:4] == b"PAR1":
        return ParquetReader(path)
    if magic[:2] == b"PK":
        raise DataError(f"{path} is a ZIP archive or an Excel workbook: unpack it, or save the sheet as CSV.")
    if magic[:2] in (b"\xff\xfe", b"\xfe\xff"):
        raise DataError(f"{path}: this is UTF-16 text; save it as UTF-8.")
    with open_text(path) as file:
        start = file.read(_SAMPLE)
    stem = path.name.lower()
    for suffix in (".gz", ".bz2", ".xz", ".zst"):
        stem = stem.removesuffix(suffix)
    if start.lstrip()[:1] == "[" and stem.endswith((".json", ".jsonl", ".ndjson")):
        raise DataError(f"{path} is one JSON list; write one object a line (JSON lines).")
    if start.lstrip()[:1] == "{" or stem.endswith((".jsonl", ".ndjson")):
        return JsonReader(path)
    return TextReader(path, start, delimiter, header)


@contextmanager
def open_text(path: Path) -> Iterator[IO[str]]:
    """A file's text, decompressed; every fault of the file is a DataError with its line."""
    try:
        with _open_bytes(path) as raw, io.TextIOWrapper(raw, encoding="utf-8-sig", newline="") as text:
            yield text
    except UnicodeDecodeError:
        raise DataError(f"{path}, line {_line_of_bad_text(path)}: not UTF-8 text; save the file as UTF-8.") from None
    except (EOFError, gzip.BadGzipFile, lzma.LZMAError, OSError) as error:
        reason = getattr(error, "strerror", None) or str(error).partition("\n")[0]
        raise DataError(f"{path}: cannot be read ({reason}).") from error


def _open_bytes(path: Path) -> Any:
    with open(path, "rb") as file:
        magic = file.read(8)
    kind = next((kind for start, kind in _COMPRESSED.items() if magic.startswith(start)), None)
    if kind == "zstd":
        need_pyarrow(path, "files compressed by zstd")
        import pyarrow

        return pyarrow.input_stream(str(path), compression="zstd")
    opener: Any = {"gzip": gzip.open, "bz2": bz2.open, "xz": lzma.open, None: open}[kind]
    return opener(path, "rb")


def need_pyarrow(path: Path, what: str) -> None:
    if find_spec("pyarrow") is None:
        raise OptionError(f"{path}: {what} need pyarrow: pip install 'recbole_adaptau[parquet]'.")


def _line_of_bad_text(path: Path) -> int:
    with _open_bytes(path) as raw:
        for number, line in enumerate(io.BufferedReader(raw) if not hasattr(raw, "readline") else raw, start=1):
            try:
                line.decode("utf-8-sig" if number == 1 else "utf-8")
            except UnicodeDecodeError:
                return number
    return 0


class TextReader(Reader):
    """Delimited text, as CSV."""

    def __init__(self, path: Path, start: str, delimiter: str | None, header: bool):
        self.delimiter = _checked(delimiter) if delimiter is not None else _sniffed(path, start)
        self.header = header
        first = next((row for row in _split(io.StringIO(start, newline=""), self.delimiter) if row), None)
        if first is None:
            raise DataError(f"{path}: the file is empty.")
        if len(first) < 2:
            raise DataError(
                f"{path}: its first line has one column, {first[0][:60]!r}; columns are separated by ',', ';', '|', "
                "'::', a tab or a space (data import: or by what --delimiter says)."
            )
        self._first = [cell.strip() for cell in first]
        super().__init__(path, self._first if header else [str(number + 1) for number in range(len(first))])

    def looks_headless(self) -> bool:
        return self.header and any(re.fullmatch(r"[-+]?\d+(\.\d+)?", cell) for cell in self._first)

    def parts(self, columns: Sequence[str]) -> Iterator[pd.DataFrame]:
        if len(self.delimiter) > 1:  # pandas is slow with these
            yield from self._split_parts(list(columns))
            return
        options: Any = {
            "sep": self.delimiter,
            "header": 0 if self.header else None,
            "dtype": str,
            "keep_default_na": False,
            "skipinitialspace": self.delimiter != " ",
            "chunksize": ROWS,
        }
        if not self.header:
            options["names"] = self.columns
        with open_text(self.path) as file:
            counted = _Counted(file, self.delimiter)
            try:
                with pd.read_csv(counted, **options) as tables:
                    for table in tables:
                        # Rows longer than the header make pandas take the first columns for an index.
                        if not isinstance(table.index, pd.RangeIndex):
                            raise pd.errors.ParserError("the rows have more columns than the header")
                        table.columns = pd.Index(self.columns)
                        yield table[list(columns)]
            except pd.errors.ParserError as error:
                raise self._fault() or DataError(f"{self.path}: not a table ({str(error).strip()}).") from error
            except pd.errors.EmptyDataError:
                raise DataError(f"{self.path}: the file is empty.") from None
        # pandas fills short rows up without a word.
        if not counted.is_even(len(self.columns)) and (fault := self._fault()):
            raise fault

    def _split_parts(self, columns: list[str]) -> Iterator[pd.DataFrame]:
        with open_text(self.path) as file:
            rows = (row for row in _split(file, self.delimiter) if row)
            if self.header:
                next(rows)
            start = 0
            while part := list(itertools.islice(rows, ROWS)):
                if any(len(row) != len(self.columns) for row in part) and (fault := self._fault()):
                    raise fault
                index = pd.RangeIndex(start, start + len(part))
                yield pd.DataFrame(part, columns=self.columns, index=index, dtype=object)[columns].fillna("")
                start += len(part)

    def _fault(self) -> DataError | None:
        """The first row that is longer or shorter than the first, or in which a quotation mark does not close."""
        wide, line, row, marks = len(self.columns), 1, [], 0
        with open_text(self.path) as file:
            counted = _Counted(file, self.delimiter)
            rows = _split(counted, self.delimiter)
            for row in rows:
                many_lines = any(cell.count("\n") > 20 for cell in row)
                if many_lines or (counted.quotes - marks) % 2:
                    return DataError(f"{self.path}, line {line}: a quotation mark opens here and does not close.")
                if row and len(row) != wide and (len(row) > 1 or row[0].strip()):
                    return DataError(
                        f"{self.path}, line {line}: {len(row)} column(s), but the first line has {wide}; the columns "
                        f"are separated by {_NAMES.get(self.delimiter, repr(self.delimiter))}."
                    )
                line, marks = rows.line_num + 1, counted.quotes
        return None

    def place(self, row: int) -> str:
        with open_text(self.path) as file:
            rows, line, found = _split(file, self.delimiter), 1, -1 if self.header else 0
            for cells in rows:
                if cells:
                    if found == row:
                        break
                    found += 1
                line = rows.line_num + 1
        return f"line {line}"


class _Counted:
    """Text that counts, as it is read, what tells whether all rows have as many columns."""

    def __init__(self, file: IO[str], delimiter: str):
        self._file, self._delimiter = file, delimiter
        self._delimiters = self._ends = self.quotes = 0
        self._last = "\n"

    def read(self, size: int = -1) -> str:
        return self._count(self._file.read(size))

    def __iter__(self) -> Iterator[str]:
        return map(self._count, self._file)

    def __next__(self) -> str:
        return self._count(next(self._file))

    def _count(self, text: str) -> str:
        self._delimiters += text.count(self._delimiter)
        self._ends += text.count("\n")
        self.quotes += text.count('"')
        self._last = text[-1:] or self._last
        return text

    def is_even(self, columns: int) -> bool:
        """True if every row surely has that many columns; else it takes a closer look."""
        rows = self._ends + (self._last != "\n")
        return not self.quotes and self._delimiters == rows * (columns - 1)


class _Split:
    """Rows of text split by a delimiter of several characters, with `csv.reader`'s attribute."""

    def __init__(self, file: Iterable[str], delimiter: str):
        self._file, self._delimiter, self.line_num = file, delimiter, 0

    def __iter__(self) -> Iterator[list[str]]:
        for line in self._file:
            self.line_num += 1
            line = line.rstrip("\r\n")
            yield line.split(self._delimiter) if line else []


def _split(file: Iterable[str], delimiter: str) -> Any:
    """Rows as lists of cells, [] for an empty line, and in `line_num` the number of the line read last."""
    if len(delimiter) > 1:
        return _Split(file, delimiter)
    csv.field_size_limit(1 << 30)
    return csv.reader((line.replace("\0", "") for line in file), delimiter=delimiter)


def _checked(delimiter: str) -> str:
    delimiter = _TEXTS.get(delimiter, delimiter)
    if not delimiter or set(delimiter) & set('\n\r"\0') or (len(delimiter) == 1 and delimiter.isalnum()):
        raise OptionError(f"--delimiter {delimiter!r}: must be what separates two columns, as ',', ';', tab or '::'.")
    return delimiter


def _sniffed(path: Path, start: str) -> str:
    """What separates the columns: what splits the most of the first lines into as many columns as the first line."""
    lines = [line for line in start.splitlines()[:21] if line.strip()]
    if len(start) == _SAMPLE and len(lines) > 1:
        lines.pop()  # may be cut short
    best, score = ",", (0.0, 1)
    for delimiter in (*_DELIMITERS, " "):
        rows = [row for row in _split(io.StringIO("\n".join(lines)), delimiter) if row]
        if not rows or len(rows[0]) < 2 or (delimiter == " " and score[1] > 1):
            continue
        found = (sum(len(row) == len(rows[0]) for row in rows) / len(rows), len(rows[0]))
        if found > score:
            best, score = delimiter, found
    return best


class JsonReader(Reader):
    """JSON lines: an object a line."""

    def __init__(self, path: Path):
        first = next(self._objects(path), None)
        if first is None:
            raise DataError(f"{path}: the file is empty.")
        super().__init__(path, list(first[1]))

    def parts(self, columns: Sequence[str]) -> Iterator[pd.DataFrame]:
        rows, objects = 0, self._objects(self.path)
        while part := list(itertools.islice(objects, ROWS)):
            table = {}
            for column in columns:
                values = [entry.get(column) for _, entry in part]
                wrong = next((row for row, value in enumerate(values) if isinstance(value, list | dict | bool)), None)
                if wrong is not None:
                    raise DataError(
                        f"{self.path}, line {part[wrong][0]}: '{column}' is {json.dumps(values[wrong])[:60]}, neither "
                        "text nor a number."
                    )
                table[column] = pd.Series([_plain_text(value) for value in values], dtype=object)
            made = pd.DataFrame(table)
            made.index = pd.RangeIndex(rows, rows + len(part))
            yield made
            rows += len(part)

    def place(self, row: int) -> str:
        return f"line {next(itertools.islice(self._objects(self.path), row, None), (0,))[0]}"

    @staticmethod
    def _objects(path: Path) -> Iterator[tuple[int, dict[str, Any]]]:
        with open_text(path) as file:
            for number, line in enumerate(file, start=1):
                if not line.strip():
                    continue
                try:
                    entry = json.loads(line)
                except (ValueError, RecursionError) as error:
                    raise DataError(f"{path}, line {number}: not JSON ({error}); write one object a line.") from None
                if not isinstance(entry, dict):
                    raise DataError(f'{path}, line {number}: not a JSON object, as {{"user": "a", "item": "x"}}.')
                yield number, entry


def _plain_text(value: Any) -> str:
    """A JSON value as text, whole numbers without a decimal point."""
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    return "" if value is None else str(value)


class ParquetReader(Reader):
    """Parquet."""

    def __init__(self, path: Path):
        need_pyarrow(path, "Parquet files")
        import pyarrow.parquet

        try:
            self._file = pyarrow.parquet.ParquetFile(path)
        except (pyarrow.ArrowException, OSError) as error:
            raise DataError(f"{path}: not a whole Parquet file ({str(error).partition(chr(10))[0]}).") from error
        super().__init__(path, self._file.schema_arrow.names)

    def parts(self, columns: Sequence[str]) -> Iterator[pd.DataFrame]:
        import pyarrow

        named = dict(zip(self.columns, self._file.schema_arrow.names, strict=True))
        for column in columns:
            kind = self._file.schema_arrow.field(named[column]).type
            if pyarrow.types.is_nested(kind) or pyarrow.types.is_boolean(kind) or pyarrow.types.is_binary(kind):
                raise DataError(f"{self.path}: column '{column}' is of type {kind}, neither text, a number nor a date.")
        rows = 0
        try:
            for batch in self._file.iter_batches(batch_size=ROWS, columns=[named[column] for column in columns]):
                table = batch.select([named[column] for column in columns]).to_pandas(integer_object_nulls=True)
                table.columns = pd.Index(columns)
                table.index = pd.RangeIndex(rows, rows + len(table))
                yield table
                rows += len(table)
        except (pyarrow.ArrowException, OSError) as error:
            raise DataError(f"{self.path}: damaged ({str(error).partition(chr(10))[0]}).") from error

    def place(self, row: int) -> str:
        return f"row {row + 1}"
