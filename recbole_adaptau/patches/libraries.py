"""What RecBole uses of NumPy 1, pandas 2, SciPy 1.12 and hyperopt 0.2.5, with later versions of them."""

import warnings
from collections import OrderedDict
from typing import Any

import numpy as np
import pandas as pd
from recbole.utils import FeatureType

# The names that RecBole adds to NumPy. What NumPy 2 itself calls so (`bool`, `long`) stays.
_NUMPY_NAMES = {
    "bool": np.bool_,
    "int": np.int_,
    "float": np.float64,
    "complex": np.complex128,
    "object": np.object_,
    "str": np.str_,
    "long": np.int_,
    "unicode": np.str_,
}


def compatibility_settings(original: Any, self: Any) -> None:
    for name, kind in _NUMPY_NAMES.items():
        if name not in vars(np):
            setattr(np, name, kind)


def dok_matrix(original: Any, *args: Any, **kwargs: Any) -> Any:
    """A matrix of SciPy's with the method that RecBole fills graphs with."""
    kind = original if hasattr(original, "_update") else type("dok_matrix", (original,), {"_update": _update})
    return kind(*args, **kwargs)


def _update(self: Any, entries: dict[tuple[int, int], float]) -> None:
    rows, columns = zip(*entries, strict=True)
    self[rows, columns] = list(entries.values())


class _RandomState(np.random.RandomState):
    """With the one method of NumPy's generators that hyperopt calls and RandomState has by another name."""

    integers = np.random.RandomState.randint


def random_state(original: Any, seed: int) -> np.random.RandomState:
    return _RandomState(seed)


def length(original: Any, what: Any) -> Any:
    """Of each sequence of a column: what pandas 2 makes of `column.agg(len)`, which hands over the whole column now."""
    return what.map(original) if isinstance(what, pd.Series) else original(what)


def evaluate(original: Any, self: Any, dataobject: Any) -> OrderedDict[str, float]:
    return OrderedDict((name, float(value)) for name, value in original(self, dataobject).items())


def fill_nan(original: Any, self: Any) -> None:
    for name in self.feat_name_list:
        table = getattr(self, name)
        for field in table:
            if self.field2type[field] is FeatureType.TOKEN:
                table[field] = table[field].fillna(0)
            elif self.field2type[field] is FeatureType.FLOAT:
                table[field] = table[field].fillna(table[field].mean())
    with warnings.catch_warnings():
        silence_chained_assignment()
        original(self)  # sequences


def silence_chained_assignment() -> None:
    """RecBole fills columns in place, of which pandas 2 and 3 warn; what it should fill has been filled before."""
    for category in (FutureWarning, pd.errors.ChainedAssignmentError):
        warnings.filterwarnings("ignore", "A value is (trying to be|being) set on a copy", category)


def dataframe_to_interaction(original: Any, self: Any, data: pd.DataFrame) -> Any:
    """The table is given up for the tensors, so nothing else sees what is written to them."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "The given NumPy array is not writable", UserWarning)
        return original(self, data)
