"""The errors a user is meant to read: each says what is wrong, where, and what to do."""

import contextlib
import difflib
from collections.abc import Iterable, Iterator
from importlib.util import find_spec


class AdapTauError(ValueError):
    """A fault in what the user gave, not in the program; the command prints it without a traceback."""


class OptionError(AdapTauError):
    """A configuration value that makes no sense; the message names the key, the value and what is allowed."""


class InstallationError(AdapTauError, ImportError):
    """A Python, a package or a mixture of packages that nothing here works with."""


class DataError(AdapTauError):
    """Data that is missing or cannot be used."""


class TrainingError(AdapTauError):
    """Training that cannot go on with these settings."""


class CheckpointError(AdapTauError):
    """A checkpoint that is missing, damaged, unsafe or of another model or dataset."""


class DataWarning(UserWarning):
    """Something in the data or in a request that was left out; the commands print it as a note."""


def did_you_mean(word: str, known: Iterable[str]) -> str:
    """`" Did you mean 'x'?"`, or nothing when no known word is near."""
    by_lower = {name.lower(): name for name in known}
    near = difflib.get_close_matches(str(word).lower(), by_lower, n=1, cutoff=0.5)
    return f" Did you mean '{by_lower[near[0]]}'?" if near else ""


def need(module: str, what: str, extra: str) -> None:
    """Raise if a package is not installed that only some uses of this one need; `extra` is its extra in setup.py."""
    if find_spec(module) is None:
        raise OptionError(f"{what} {module}: pip install 'recbole_adaptau[{extra}]'.")


@contextlib.contextmanager
def refusals_explained(what: str, kind: type[AdapTauError]) -> Iterator[None]:
    """Turn what RecBole raises over settings and data into an error the command prints without a traceback."""
    try:
        yield
    except AdapTauError:
        raise
    except KeyError as error:
        raise kind(f"{what}: there is no {error}.") from error
    except (ValueError, TypeError, IndexError, AttributeError, NotImplementedError, OSError) as error:
        raise kind(f"{what}: {str(error).partition(chr(10))[0] or type(error).__name__}") from error
