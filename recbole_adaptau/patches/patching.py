"""How a name of RecBole's is replaced wherever it was imported."""

import sys
from typing import Any


def replace_everywhere(old: Any, new: Any) -> None:
    """Put `new` in the place of `old` in every loaded module that holds it.

    `from recbole.utils import get_model` copies the name into the importing module, so changing it in one
    place is not enough; a user's script may have done so before it imported this package. This package's
    compat modules are left out: they keep the originals to call.
    """
    for name, module in list(sys.modules.items()):
        if name.startswith("recbole_adaptau.patches"):
            continue
        # Some libraries put objects into sys.modules that are no modules and have no names.
        for attribute, value in list(getattr(module, "__dict__", {}).items()):
            if value is old:
                setattr(module, attribute, new)
