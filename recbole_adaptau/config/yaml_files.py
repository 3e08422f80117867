"""YAML files, ours and the user's: safe, with every fault named."""

import re
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import yaml

from ..errors import OptionError

_PACKAGE = Path(__file__).resolve().parents[1]
# Inside the wheel the properties lie in the package, in a checkout beside it.
PROPERTIES = _PACKAGE / "properties" if (_PACKAGE / "properties").is_dir() else _PACKAGE.parent / "properties"


class YamlLoader(yaml.SafeLoader):
    """Safe YAML that reads 1e-5 as a number, as RecBole's own loader does."""


YamlLoader.add_implicit_resolver(
    "tag:yaml.org,2002:float",
    re.compile(r"^[-+]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)[eE][-+]?[0-9]+$"),
    list("-+0123456789."),
)


def _mapping(loader: YamlLoader, node: yaml.MappingNode) -> dict[Any, Any]:
    """A mapping in which no key stands twice: plain YAML lets the last one win without a word."""
    keys = [loader.construct_object(key, deep=True) for key, _ in node.value if key.tag != "tag:yaml.org,2002:merge"]
    mapping = loader.construct_mapping(node, deep=True)
    for key, times in Counter(keys).items():
        if times > 1:
            raise yaml.constructor.ConstructorError(
                None, None, f"duplicate key '{key}', {times} times", node.start_mark
            )
    return mapping


YamlLoader.add_constructor("tag:yaml.org,2002:map", _mapping)


def parse_yaml(text: str) -> Any:
    """What a YAML text says; whatever is wrong with it is a YAMLError."""
    try:
        return yaml.load(text, Loader=YamlLoader)
    except (ValueError, OverflowError, RecursionError, TypeError) as error:
        # From inside the parser: a date with a thirteenth month, brackets nested a thousand deep, a list as a key.
        raise yaml.YAMLError(str(error) or type(error).__name__) from None


def read_yaml(path: Path) -> dict[str, Any]:
    """A YAML file that must hold a mapping (or nothing)."""
    try:
        content = parse_yaml(path.read_text(encoding="utf-8-sig"))
    except yaml.YAMLError as error:
        raise OptionError(f"{path} is not valid YAML: {error}") from None
    except UnicodeError:
        raise OptionError(f"{path} is not UTF-8 text; save it as UTF-8.") from None
    except (OSError, ValueError) as error:
        raise OptionError(f"{path} cannot be read: {getattr(error, 'strerror', None) or error}.") from None
    if not isinstance(content, dict | None):
        raise OptionError(f"{path} must hold 'key: value' lines, not a {type(content).__name__}.")
    for key in content or {}:
        if not isinstance(key, str):
            raise OptionError(f"{path}: the key {key!r} is not a name; write 'key: value' lines.")
    return content or {}


def load_files(files: Sequence[str | Path] | None) -> dict[str, Any]:
    """The user's settings files, the later ones winning; in place of RecBole's reader, which fails without a word."""
    return {key: value for file in files or [] for key, value in read_yaml(Path(file)).items()}
