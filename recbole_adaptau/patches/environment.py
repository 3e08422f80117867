"""Whether this package can work here: asked when it is imported, answered without importing anything."""

import os
import re
import sys
from importlib.util import find_spec
from pathlib import Path

from ..errors import InstallationError
from .table import INSTALL, RECBOLE

# The first versions that are compiled for NumPy 2 as well as for 1.
_FOR_NUMPY_2 = {
    "scipy": (1, 13),
    "pandas": (2, 2, 2),
    "scikit_learn": (1, 4, 2),
    "statsmodels": (0, 14, 2),
    "matplotlib": (3, 8, 4),
    "pyarrow": (16,),
    "faiss_cpu": (1, 9),
    "torch": (2, 3),
}
_COMMANDS = {"-m", "recbole-adaptau", "run_recbole_adaptau.py", "run_hyper.py"}


def check() -> None:
    """Refuse an environment that cannot work.

    Raises:
        InstallationError: what is wrong, and what to do. A command says it and ends.
    """
    problem = _recbole() or _numpy()
    if not problem:
        return
    if os.path.basename(sys.argv[0]) in _COMMANDS:  # "-m" while `python -m recbole_adaptau` looks for the module
        print(f"error: {problem}", file=sys.stderr)
        sys.exit(2)
    raise InstallationError(problem)


def _recbole() -> str:
    if "recbole" in sys.modules:
        return ""  # the patches will look at its source
    spec = find_spec("recbole")
    if spec is None or spec.origin is None:
        return f"RecBole is not installed: {INSTALL}"
    found = re.search(r"__version__ = ['\"](.+)['\"]", Path(spec.origin).read_text(encoding="utf-8"))
    version = found[1] if found else "of no known version"
    return "" if version == RECBOLE else f"RecBole {version} is installed, and {RECBOLE} is needed: {INSTALL}"


def _numpy() -> str:
    found = _versions()
    if found.get("numpy", "1").split(".")[0] == "1":
        return ""
    for name, first in _FOR_NUMPY_2.items():
        if name in found and tuple(map(int, re.findall(r"\d+", found[name])[:3])) < first:
            package = name.replace("_", "-")
            return (
                f"{package} {found[name]} is compiled for NumPy 1, and NumPy {found['numpy']} is installed: "
                f"pip install --upgrade {package}"
            )
    return ""


def _versions() -> dict[str, str]:
    """Of all installed packages, by the names of pip's folders: importlib.metadata takes ten times as long."""
    found: dict[str, str] = {}
    for folder in sys.path:
        try:
            names = os.listdir(folder or ".")
        except OSError:
            continue
        for name in names:
            if name.endswith(".dist-info"):
                package, _, version = name.removesuffix(".dist-info").partition("-")
                found.setdefault(package.lower().replace(".", "_"), version)
    return found
