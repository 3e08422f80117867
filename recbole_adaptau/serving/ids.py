"""Users and items by their own (external) ids."""

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
import pandas as pd


class Ids:
    """Which user or item each row of a model is.

    Attributes:
        names: [n] the ids as text; place 0 is RecBole's padding.
        are_numbers: Whether they were whole numbers in the data, and are returned as such.
    """

    def __init__(self, names: np.ndarray, are_numbers: bool = False):
        self.names, self.are_numbers = np.asarray(names, dtype=object), are_numbers
        self._places = {name: place for place, name in enumerate(self.names) if place}
        self._shown = self.names
        if are_numbers:  # also where somebody new has a name instead
            self._shown = pd.Series([0, *self.as_given(self.names[1:])]).to_numpy()

    def __len__(self) -> int:
        return len(self.names)

    def __getitem__(self, places: Any) -> np.ndarray:
        """The ids of some places, as in the data."""
        found: np.ndarray = self._shown[places]
        return found

    def __contains__(self, name: str) -> bool:
        return name in self._places

    def places(self, names: Iterable[str]) -> np.ndarray:
        """[n] the place of each; 0 for one that is unknown."""
        return np.array([self._places.get(name, 0) for name in names], dtype=np.int64)

    def as_given(self, names: Iterable[str]) -> list[Any]:
        """Ids of others as these are returned: whole numbers as such, if these are."""
        return [int(name) if self.are_numbers and name.lstrip("-").isdecimal() else name for name in names]

    def with_more(self, names: Iterable[str]) -> "Ids":
        return Ids(np.concatenate([self.names, np.array([*names], dtype=object)]), self.are_numbers)


def as_text(name: Any) -> str:
    """An id as text: 7, 7.0 (a table with gaps makes floats of whole numbers) and "7" are the same id."""
    if isinstance(name, str):
        return name
    if isinstance(name, float | np.floating) and float(name).is_integer():
        return str(int(name))
    if isinstance(name, int | np.integer) and not isinstance(name, bool):
        return str(name)
    raise TypeError(f"an id is text or a whole number, not {name!r}.")


def need_whole(name: str, value: Any) -> None:
    """Refuse what is no whole number.

    Raises:
        TypeError: With the name and the value.
    """
    if not isinstance(value, int | np.integer) or isinstance(value, bool):
        raise TypeError(f"{name} = {value!r}: must be a whole number.")


def id_list(given: Any, what: str) -> list[str]:
    """The ids that somebody names: one alone, or any sequence of them; each once, in order.

    Raises:
        TypeError: neither an id nor a sequence of ids.
    """
    if isinstance(given, str | int | float | np.integer | np.floating):
        given = [given]
    if isinstance(given, bytes | Mapping | pd.DataFrame) or not isinstance(given, Iterable):
        raise TypeError(f"{what}: give an id or a sequence of ids, not a {type(given).__name__}.")
    return list(dict.fromkeys(map(as_text, given)))


def pair_lists(given: Any, what: str, user: str = "user", item: str = "item") -> tuple[list[str], list[str]]:
    """Users and items of pairs: a table with both columns, {user: items}, or a sequence of (user, item).

    Raises:
        TypeError: none of these.
    """
    if isinstance(given, pd.DataFrame):
        missing = [name for name in (user, item) if name not in given]
        if missing:
            raise TypeError(f"{what}: the table has no column {missing[0]!r}, only {', '.join(map(str, given))}.")
        return [*map(as_text, given[user])], [*map(as_text, given[item])]
    if isinstance(given, Mapping):
        pairs = [(as_text(name), other) for name, items in given.items() for other in id_list(items, what)]
    else:
        try:
            given = list(given)
            if any(isinstance(pair, str) for pair in given):  # "ab" would be taken for a and b
                raise TypeError("text")
            pairs = [(as_text(name), as_text(other)) for name, other in given]
        except (TypeError, ValueError) as error:
            raise TypeError(f"{what}: give pairs (user, item), {{user: items}} or a table with both.") from error
    return [name for name, _ in pairs], [other for _, other in pairs]
