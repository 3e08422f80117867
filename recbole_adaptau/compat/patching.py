"""How a name of RecBole's is replaced wherever it was imported."""

import sys
from typing import Any


def replace_everywhere(old: Any, new: Any) -> None:
    """Put `new` in the place of `old` in every RecBole module, and in those of this package, that hold it.

    `from recbole.utils import get_model` copies the name into the importing module, so changing it in one
    place is not enough. This package's compat modules are left out: they keep the originals to call.
    """
    for name, module in list(sys.modules.items()):
        if name.partition(".")[0] not in ("recbole", "recbole_adaptau"):
            continue
        if name.startswith("recbole_adaptau.compat") or module is None:
            continue
        for attribute, value in list(vars(module).items()):
            if value is old:
                setattr(module, attribute, new)
