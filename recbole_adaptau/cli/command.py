"""What the commands over saved runs have in common."""

import sys
from collections.abc import Callable
from logging import INFO, NOTSET, disable

from ..errors import AdapTauError
from ..training.checkpoint import shielded_argv


def exit_code(action: Callable[[], None], when_interrupted: str) -> int:
    """Carry out a command; returns its exit code (0 done, 2 bad input, 130 interrupted)."""
    disable(INFO)  # RecBole logs the whole configuration when it loads
    try:
        with shielded_argv():
            action()
    except (AdapTauError, OSError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print(f"interrupted; {when_interrupted}", file=sys.stderr)
        return 130
    finally:
        disable(NOTSET)
    return 0
