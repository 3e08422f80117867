"""How a setting is declared: once, beside what reads it, with type, bounds, default and meaning."""

import types
from collections.abc import Mapping
from typing import Any, Literal, Union, get_args, get_origin

from annotated_types import Ge, Gt, Le, Lt
from pydantic import BaseModel, ConfigDict, Field, ValidationError
from pydantic.fields import FieldInfo
from typing_extensions import Self

from ..errors import AdapTauError, OptionError, did_you_mean

# The least and the most of a temperature: within them every logit, loss and gradient is finite in float32.
TAU_LEAST, TAU_MOST = 1e-4, 1e4


def setting(
    default: Any,
    meaning: str,
    *,
    wanted: str = "",
    compared: bool = True,
    with_data: bool = True,
    **bounds: Any,
) -> Any:
    """A field of a `SettingsModel`.

    Args:
        default: Its value where nobody gives one.
        meaning: One line for help and docs.
        wanted: What an error says is allowed, where the type and the bounds do not say it well.
        compared: Whether two runs that differ in it are different runs; False for places and for what is printed.
        with_data: Whether a file that lies with a dataset may set it.
        bounds: pydantic's ge, gt, le, lt.
    """
    about: Any = {"wanted": wanted, "compared": compared, "with_data": with_data}
    return Field(default, description=meaning, json_schema_extra=about, **bounds)


class SettingsModel(BaseModel):
    """What one part of the program reads from a configuration. A wrong value is an OptionError that names it."""

    model_config = ConfigDict(strict=True, frozen=True, extra="forbid", allow_inf_nan=False)

    @classmethod
    def read(cls, values: Mapping[str, Any]) -> Self:
        """The fields of this class, taken from a mapping that holds others' too."""
        try:
            return cls.model_validate({name: values[name] for name in cls.model_fields})
        except ValidationError as error:
            raise _explained(cls, error) from None

    @classmethod
    def defaults(cls) -> dict[str, Any]:
        """The default of every field that has one."""
        return {name: field.default for name, field in cls.model_fields.items() if not field.is_required()}


def about(field: FieldInfo, key: str) -> Any:
    """What `setting` was told beside pydantic's own arguments."""
    extra = field.json_schema_extra
    return extra.get(key) if isinstance(extra, dict) else None


def choices(field: FieldInfo) -> tuple[str, ...]:
    """The names a setting can have, for one that is a choice among names."""
    parts = [part for part in _parts(field.annotation) if part is not types.NoneType]
    return get_args(parts[0]) if len(parts) == 1 and get_origin(parts[0]) is Literal else ()


def kind(field: FieldInfo) -> str:
    """The type for the docs: int, float, str, bool, list, dict, or several."""
    names = []
    for part in _parts(field.annotation):
        inner = get_args(part)[0] if hasattr(part, "__metadata__") else part
        names.append("str" if get_origin(inner) is Literal else getattr(get_origin(inner) or inner, "__name__", "any"))
    return " or ".join(name for name in dict.fromkeys(names) if name != "NoneType")


def _explained(cls: type[SettingsModel], error: ValidationError) -> AdapTauError:
    """The first fault as a sentence: the key, its value and what is allowed."""
    first = error.errors()[0]
    cause = first.get("ctx", {}).get("error")
    if isinstance(cause, AdapTauError):  # a validator's own sentence
        return cause
    name = str(first["loc"][0])
    field = cls.model_fields[name]
    value = first["input"]
    if value is None:
        return OptionError(f"{name} = None: it needs a value; leave it out for the default.")
    if names := choices(field):
        hint = did_you_mean(value, names) if isinstance(value, str) else ""
        return OptionError(f"{name} = {value!r} is not one of {', '.join(names)}.{hint}")
    return OptionError(f"{name} = {value!r}: must be {about(field, 'wanted') or _allowed(field)}.")


def _allowed(field: FieldInfo) -> str:
    phrases, words = [], []
    for part in _parts(field.annotation):
        inner, bounds = part, list(field.metadata)
        if hasattr(part, "__metadata__"):
            inner, bounds = get_args(part)[0], list(part.__metadata__)
            bounds = [limit for piece in bounds for limit in getattr(piece, "metadata", [piece])]
        if get_origin(inner) is Literal:
            words += [repr(word) for word in get_args(inner)]
        elif inner is bool:
            phrases.append("True or False")
        elif inner in (int, float):
            phrases.append(_number(inner, bounds))
        elif inner is str:
            phrases.append("text")
        elif inner is not types.NoneType:
            phrases.append(f"a {getattr(get_origin(inner) or inner, '__name__', inner)}")
    return ", or ".join([*phrases, *words])


def _number(inner: type, bounds: list[Any]) -> str:
    of = "of " if inner is int else ""
    limits = {
        Gt: lambda b: f"above {b.gt}",
        Ge: lambda b: f"{of}at least {b.ge}",
        Lt: lambda b: f"below {b.lt}",
        Le: lambda b: f"at most {b.le}",
    }
    ordered = [limits[kind](bound) for kind in limits for bound in bounds if type(bound) is kind]
    return " ".join(["a whole number" if inner is int else "a number", " and ".join(ordered)]).strip()


def _parts(annotation: Any) -> tuple[Any, ...]:
    """A union's parts, or the annotation itself."""
    return get_args(annotation) if get_origin(annotation) in (Union, types.UnionType) else (annotation,)
