"""Puts the patches of the table in place.

A module of RecBole's is patched as soon as it has been executed, before anyone can import a name from it. Patching
imports nothing: a patched function imports its replacement when it is first called.
"""

import builtins
import hashlib
import sys
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext
from functools import cache, wraps
from importlib import import_module
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any

from ..errors import AdapTauError
from .table import INSTALL, PATCHES, RECBOLE, Patch

# What modules of RecBole's import for one call: (module, the name that is imported from it, what is used of that name).
# Each is replaced by a patch, so that nobody has to wait for it, or install it, who does not use it.
_STAND_INS = {
    "recbole.quick_start.quick_start": ("ray", "tune", "report"),
    "recbole.utils.utils": ("torch.utils.tensorboard", "SummaryWriter", ""),
}


def install() -> None:
    """Patch the modules of RecBole's that are imported already now, all others when they are."""
    sys.meta_path.insert(0, Finder())
    # Of ray and hyperopt, which RecBole needs: whoever uses RecBole can do nothing about it.
    warnings.filterwarnings("ignore", "pkg_resources is deprecated")
    for patch in PATCHES:
        if patch.module in sys.modules:
            original, patched = apply(patch, sys.modules[patch.module])
            if "." not in patch.name and not patch.within:
                replace_everywhere(original, patched)


class Finder(MetaPathFinder):
    """Finds RecBole's modules as the other finders do, and has them patched once they are executed."""

    def find_spec(
        self, name: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        patches = [patch for patch in PATCHES if patch.module == name] if name.startswith("recbole.") else []
        if not patches:
            return None
        others = (finder.find_spec(name, path, target) for finder in sys.meta_path if finder is not self)
        spec = next((spec for spec in others if spec is not None), None)
        if spec is not None and spec.loader is not None:
            execute = spec.loader.exec_module

            def exec_module(module: ModuleType) -> None:
                with _stand_in(*_STAND_INS[name]) if name in _STAND_INS else nullcontext():
                    execute(module)
                for patch in patches:
                    apply(patch, module)

            vars(spec.loader)["exec_module"] = exec_module  # a loader is its module's own
        return spec


def apply(patch: Patch, module: ModuleType) -> tuple[Any, Any]:
    """Put a patch in place if RecBole's source is the one it was written for; returns what was there and what is now.

    Raises:
        AdapTauError: RecBole's source is another, or has no such name.
    """
    if (found := source_hash(patch, module)) != patch.source:
        version = getattr(sys.modules.get("recbole"), "__version__", "unknown")
        what = "is not there" if found is None else "has another source"
        raise AdapTauError(
            f"{patch.target} {what}, so the patch of it is refused: recbole_adaptau needs RecBole {RECBOLE}, and "
            f"{version} was found. To install it: {INSTALL}"
        )
    *owners, name = patch.name.split(".")
    place: Any = module
    for owner in owners:
        held = getattr(place, owner)
        if isinstance(held, ModuleType):  # another library's, which stays as it is: RecBole's module gets a copy
            held = ModuleType(held.__name__)
            vars(held).update(vars(getattr(place, owner)))
            setattr(place, owner, held)
        place = held
    original = getattr(place, name, None) or getattr(builtins, name)

    @wraps(original)
    def patched(*args: Any, **kwargs: Any) -> Any:
        return _replacement(patch.replacement)(original, *args, **kwargs)

    setattr(place, name, patched)
    return original, patched


def source_hash(patch: Patch, module: ModuleType) -> str | None:
    """Of RecBole's function that is replaced, or that uses what is replaced; None if there is none."""
    import inspect  # slow to import

    found: Any = module
    for name in (patch.within or patch.name).split("."):
        found = vars(found).get(name)
        if found is None:
            return None
    function = inspect.unwrap(getattr(found, "__func__", found))
    if patch.within and not set(patch.name.split(".")) <= set(function.__code__.co_names):
        return None
    return hashlib.sha256(inspect.getsource(function).encode()).hexdigest()[:12]


@cache
def _replacement(place: str) -> Any:
    module, _, name = place.partition(":")
    return getattr(import_module(module, __package__), name)


def replace_everywhere(old: Any, new: Any) -> None:
    """Put `new` in the place of `old` in every loaded module: `from recbole.utils import get_model` copies the name."""
    for module in list(sys.modules.values()):
        # Some libraries put objects into sys.modules that are no modules and have no names.
        for attribute, value in list(getattr(module, "__dict__", {}).items()):
            if value is old:
                setattr(module, attribute, new)


@contextmanager
def _stand_in(module: str, name: str, attribute: str) -> Iterator[None]:
    """An empty module in place of another library's, while a module of RecBole's that imports it is executed."""
    found = {module: sys.modules[module]} if module in sys.modules else {}
    stand_in, held = ModuleType(module), ModuleType(f"{module}.{name}")
    vars(held)[attribute] = print
    vars(stand_in)[name] = held if attribute else print
    sys.modules[module] = stand_in
    try:
        yield
    finally:
        del sys.modules[module]
        sys.modules.update(found)
