"""Sets RecBole up when it is first imported: the repairs, then our models made known to it.

Until then this package imports neither RecBole nor PyTorch, so that `recbole_adaptau.core` patches nothing and
`recbole-adaptau --help` answers at once. RecBole is often imported by a module of this package that is itself only half
imported; the repairs, which import such modules, then wait until the outermost import has ended.
"""

import sys
from collections.abc import Sequence
from importlib import import_module
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec
from types import ModuleType

PACKAGE = __package__


class _Watcher(MetaPathFinder):
    """Finds nothing itself; learns when an import of RecBole, or of a module of this package, has ended."""

    depth = 0

    def find_spec(
        self, name: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if name != "recbole" and not name.startswith(f"{PACKAGE}."):
            return None
        others = (finder for finder in sys.meta_path if finder is not self)
        spec = next(filter(None, (finder.find_spec(name, path, target) for finder in others)), None)
        if spec is not None and spec.loader is not None:
            execute = spec.loader.exec_module

            def exec_module(module: ModuleType) -> None:
                self.depth += 1
                try:
                    execute(module)
                finally:
                    self.depth -= 1
                if self.depth == 0 and "recbole" in sys.modules:
                    _set_up(self)

            vars(spec.loader)["exec_module"] = exec_module
        return spec


def wait_for_recbole() -> None:
    """Set RecBole up now if it has been imported already, else when it is."""
    watcher = _Watcher()
    sys.meta_path.insert(0, watcher)
    if "recbole" in sys.modules:
        _set_up(watcher)


def _set_up(watcher: _Watcher) -> None:
    if watcher in sys.meta_path:
        sys.meta_path.remove(watcher)
        import_module(".patches", PACKAGE).apply()
        # Imported only now: it imports parts of RecBole that do not import before they are repaired.
        import_module(".model.registry", PACKAGE).install()
