"""Reading the LightGCN text format: a line is a user id and its item ids, separated by spaces."""

from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from recbole_adaptau.errors import DataError

_RESERVED = "#N/A #NA -1.#IND -1.#QNAN -NaN -nan 1.#IND 1.#QNAN <NA> N/A NA NULL NaN None n/a nan null [PAD]"
# RecBole reads these back as a missing value (pandas' defaults) or uses them itself (the padding id).
RESERVED_TOKENS = frozenset(_RESERVED.split())


class Tokens:
    """Numbers the ids of one kind (users or items) across both files."""

    def __init__(self) -> None:
        self._codes: dict[str, int] = {}

    def code(self, token: str) -> int:
        return self._codes.setdefault(token, len(self._codes))

    def canonical(self) -> tuple[list[str], NDArray[np.int64]]:
        """The tokens in an order that no file's line order can change, and each code's place in it."""
        # Shorter first sorts integers by value and still orders any other tokens.
        ordered = sorted(self._codes, key=lambda token: (len(token), token))
        place = np.empty(len(ordered), dtype=np.int64)
        place[[self._codes[token] for token in ordered]] = np.arange(len(ordered))
        return ordered, place


def read_pairs(
    path: Path, user_tokens: Tokens, item_tokens: Tokens
) -> tuple[NDArray[np.int64], NDArray[np.int64], int]:
    """One file's pairs as codes, as they stand, and how many lines repeat an earlier line's user."""
    users: list[int] = []
    items: list[int] = []
    lengths: list[int] = []
    for number, line in enumerate(_text(path).split("\n"), start=1):
        tokens = _split_line(line, f"{path}, line {number}")
        if tokens:
            users.append(user_tokens.code(tokens[0]))
            lengths.append(len(tokens) - 1)
            items.extend(map(item_tokens.code, tokens[1:]))
    if not items:
        raise DataError(f"{path}: no interactions; each line is a user id and its item ids, as '0 12 7'.")
    codes = np.array(users, dtype=np.int64)
    return np.repeat(codes, lengths), np.array(items, dtype=np.int64), len(codes) - len(np.unique(codes))


def _text(path: Path) -> str:
    try:
        data = path.read_bytes()
    except OSError as error:
        raise DataError(f"{path}: cannot be read ({error.strerror}).") from error
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise DataError(f"{path}, line {line}: not UTF-8 text; save the file as UTF-8.") from error


def _split_line(line: str, where: str) -> list[str]:
    line = line.removesuffix("\r").replace("\t", " ")
    if not line.isprintable():
        bad = next(char for char in line if not char.isprintable())
        raise DataError(f"{where}: control or invisible character {bad!a}; remove it.")
    if "," in line:
        raise DataError(f"{where}: looks comma-separated; separate the ids by spaces, as '0 12 7'.")
    tokens = line.split()
    if '"' in line or not RESERVED_TOKENS.isdisjoint(tokens):
        bad = next(token for token in tokens if '"' in token or token in RESERVED_TOKENS)
        raise DataError(f"{where}: RecBole cannot read the id {bad} back; rename it.")
    return tokens
