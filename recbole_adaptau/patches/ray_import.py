"""`import recbole.quick_start` where setuptools no longer brings pkg_resources."""

import importlib
import importlib.metadata
import importlib.util
import sys
import warnings
from types import ModuleType


def import_quick_start() -> None:
    """Import recbole.quick_start, lending ray 2.6.3 a pkg_resources while it is imported (issue 2215).

    RecBole imports ray at the top of quick_start, and ray imports pkg_resources, which recent setuptools no
    longer have. The stand-in has the two things ray asks of it at import and is taken away afterwards, so
    that no other library mistakes it for the real one.
    """
    if importlib.util.find_spec("pkg_resources") is not None or "ray" in sys.modules:
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", message="pkg_resources is deprecated")
            importlib.import_module("recbole.quick_start")
        return
    stand_in = ModuleType("pkg_resources")
    importlib.import_module("packaging.version")
    vars(stand_in).update(
        get_distribution=importlib.metadata.distribution,
        packaging=importlib.import_module("packaging"),
    )
    sys.modules["pkg_resources"] = stand_in
    try:
        importlib.import_module("recbole.quick_start")
    finally:
        sys.modules.pop("pkg_resources", None)
