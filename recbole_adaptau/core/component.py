"""What is chosen by name: temperature strategies, losses, modes of negatives, parts of a recipe."""

from collections.abc import Callable, Iterator, Mapping
from typing import Any, ClassVar, Generic, TypeVar

from torch import nn

from .settings import SettingsModel


class Component(nn.Module):
    """Declares the settings it reads; all that it remembers is in buffers or parameters, so checkpoints include it."""

    name: ClassVar[str] = ""
    Settings: ClassVar[type[SettingsModel]] = SettingsModel

    def __init__(self, settings: Any = None):
        super().__init__()
        self.settings: Any = self.Settings() if settings is None else settings

    @classmethod
    def refuse(cls, values: Mapping[str, Any]) -> None:
        """Raise OptionError if this component cannot work with the other settings of a run."""

    @classmethod
    def unread(cls, values: Mapping[str, Any]) -> dict[str, str]:
        """Those of its settings that others make idle, each with the setting that does."""
        return {}


def versions(module: nn.Module) -> tuple[Any, ...]:
    """Differs once a parameter or a buffer of the module has been written to; a fused optimiser's writes do not count.

    Tensors made under `torch.inference_mode` have no version, and nothing outside of that mode writes to them.
    """
    tensors = (*module.parameters(), *module.buffers())
    return tuple((t.data_ptr(), None if t.is_inference() else t._version) for t in tensors)


Kind = TypeVar("Kind", bound=type[Component])


class Registry(Generic[Kind], Mapping[str, Kind]):
    """Components of one sort by name.

    Args:
        key: The setting that chooses among them.
    """

    def __init__(self, key: str):
        self.key = key
        self._known: dict[str, Kind] = {}

    def register(self, name: str) -> Callable[[Kind], Kind]:
        """A decorator that makes a class known by a name; the same name again replaces it."""

        def known(component: Kind) -> Kind:
            taken = vars(component).get("name", name)
            if taken != name:
                raise ValueError(f"{component.__name__} is registered as {taken!r}: register a subclass as {name!r}.")
            component.name = name
            self._known[name] = component
            return component

        return known

    def forget(self, name: str) -> None:
        """Take a name off again."""
        del self._known[name]

    def __getitem__(self, name: str) -> Kind:
        return self._known[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._known)

    def __len__(self) -> int:
        return len(self._known)
