"""Reading the LightGCN text format: a line is a user id and its item ids, separated by spaces."""

from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from ..errors import DataError
from .text import read_text, unreadable


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
    for number, line in enumerate(read_text(path).split("\n"), start=1):
        tokens = _split_line(line, f"{path}, line {number}")
        if tokens:
            users.append(user_tokens.code(tokens[0]))
            lengths.append(len(tokens) - 1)
            items.extend(map(item_tokens.code, tokens[1:]))
    if not items:
        raise DataError(f"{path}: no interactions; each line is a user id and its item ids, as '0 12 7'.")
    codes = np.array(users, dtype=np.int64)
    return np.repeat(codes, lengths), np.array(items, dtype=np.int64), len(codes) - len(np.unique(codes))


def _split_line(line: str, where: str) -> list[str]:
    line = line.removesuffix("\r").replace("\t", " ")
    if not line.isprintable():
        bad = next(char for char in line if not char.isprintable())
        raise DataError(f"{where}: control or invisible character {bad!a}; remove it.")
    if "," in line:
        raise DataError(f"{where}: looks comma-separated; separate the ids by spaces, as '0 12 7'.")
    tokens = line.split()
    for token in filter(unreadable, tokens):
        raise DataError(f"{where}: RecBole cannot read the id {token} back; rename it.")
    return tokens
