"""Tables written part by part, so that a million users need no more memory than a batch of them."""

import json
import os
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO, Any

import pandas as pd

from ..errors import OptionError, need

Writer = Callable[[Path, Iterable[pd.DataFrame]], int]


@contextmanager
def whole_file(path: Path) -> Iterator[Path]:
    """A place to write to that becomes `path` when the block ends well, and vanishes when it does not."""
    path.parent.mkdir(parents=True, exist_ok=True)
    # The suffix stays at the end, for writers that go by it.
    temporary = path.with_name(f".{os.getpid()}.{path.name}")
    try:
        # Some writers make files that only their owner can read; this one is as readable as any other.
        temporary.touch()
        mode = temporary.stat().st_mode
        yield temporary
        temporary.chmod(mode)
        os.replace(temporary, path)
    finally:
        with suppress(OSError):
            temporary.unlink(missing_ok=True)


def check_output(path: Path) -> None:
    """Refuse a file that cannot be written, before the work is done."""
    if path.suffix not in WRITERS:
        raise OptionError(f"{path}: the name must end in one of {', '.join(WRITERS)}, which says how it is written.")
    if path.is_dir():
        raise OptionError(f"{path} is a folder; give the name of a file.")
    if path.suffix == ".parquet":
        need("pyarrow", "Parquet files need", "parquet")


def write_table(path: Path, parts: Iterable[pd.DataFrame]) -> int:
    """Write the parts (at least one, all with the same columns) as one table; returns its number of rows."""
    check_output(path)
    with whole_file(path) as temporary:
        return WRITERS[path.suffix](temporary, parts)


def format_table(rows: pd.DataFrame, by: str = "user") -> str:
    """Rows of a table for the eye, what differs in the column `by` apart from each other; no rows, no text."""
    if by not in rows:
        return rows.to_string(index=False, float_format="%.4f") + "\n" if len(rows) else ""
    return "".join(
        f"{by} {value}\n{format_table(own.drop(columns=by), by)}\n" for value, own in rows.groupby(by, sort=False)
    )


def _write_csv(path: Path, parts: Iterable[pd.DataFrame]) -> int:
    def write(file: IO[str], part: pd.DataFrame, first: bool) -> None:
        part.to_csv(file, index=False, header=first)

    return _write_text(path, parts, write)


def _write_json_lines(path: Path, parts: Iterable[pd.DataFrame]) -> int:
    def write(file: IO[str], part: pd.DataFrame, first: bool) -> None:
        for row in part.to_dict("records"):
            file.write(json.dumps(row, ensure_ascii=False) + "\n")

    return _write_text(path, parts, write)


def _write_text(path: Path, parts: Iterable[pd.DataFrame], write: Callable[[IO[str], pd.DataFrame, bool], None]) -> int:
    rows = 0
    with path.open("w", encoding="utf-8", newline="") as file:
        for number, part in enumerate(parts):
            write(file, part, number == 0)
            rows += len(part)
    return rows


def _write_parquet(path: Path, parts: Iterable[pd.DataFrame]) -> int:
    import pyarrow as pa
    import pyarrow.parquet as pq

    rows, writer = 0, None
    try:
        for part in parts:
            if writer is None:
                writer = pq.ParquetWriter(path, pa.schema([(name, _arrow_type(part[name])) for name in part]))
            mixed = {name: str for name in part if part[name].dtype == object}  # whole numbers and names as ids
            writer.write_table(pa.Table.from_pandas(part.astype(mixed), schema=writer.schema, preserve_index=False))
            rows += len(part)
    finally:
        if writer is not None:
            writer.close()
    return rows


def _arrow_type(column: pd.Series) -> Any:
    import pyarrow as pa

    is_text = column.dtype == object or pd.api.types.is_string_dtype(column)
    return pa.string() if is_text else pa.from_numpy_dtype(column.dtype)


WRITERS: dict[str, Writer] = {".csv": _write_csv, ".jsonl": _write_json_lines, ".parquet": _write_parquet}
