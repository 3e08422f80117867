"""Ctrl-C and SIGTERM as a request, which training looks at when it is safe to stop.

Python raises KeyboardInterrupt wherever it happens to be: between an epoch's record and its checkpoint, or inside a
destructor or a weak reference's callback, where the exception is printed, dropped, and training goes on.
"""

import contextlib
import os
import signal
import threading
from types import FrameType
from typing import Any


class Stopped(KeyboardInterrupt):
    """A run that was asked to stop; `exit_code` is what a shell expects of a command stopped by this signal."""

    def __init__(self, number: int, message: str = ""):
        super().__init__(message or f"stopped by {signal.Signals(number).name}")
        self.number = number
        self.exit_code = 128 + number


class StopRequest:
    """While entered in the main thread, remembers the first SIGINT or SIGTERM; a second one raises where it comes.

    Afterwards the handlers are what they were (importing ray alone installs one for SIGTERM). A signal that is ignored,
    as below nohup, stays ignored. Entering again inside changes nothing.

    Args:
        answer: What is said when the first signal comes.
    """

    def __init__(self, answer: str = "stopping after this batch") -> None:
        self._answer = f"\n{answer}; the same again stops at once\n".encode()
        self._number: int | None = None
        self._before: dict[int, Any] = {}
        self._depth = 0

    def __enter__(self) -> "StopRequest":
        self._depth += 1
        if self._depth == 1 and threading.current_thread() is threading.main_thread():
            self._number = None
            for number in (signal.SIGINT, signal.SIGTERM):
                before = signal.getsignal(number)
                if before not in (signal.SIG_IGN, None):  # None: not set from Python, so it could not be restored
                    self._before[number] = before
                    signal.signal(number, self._hear)
        return self

    def __exit__(self, kind: Any, *_: Any) -> None:
        self._depth -= 1
        if self._depth:
            return
        while self._before:
            signal.signal(*self._before.popitem())
        if kind is None:
            self.check()

    def check(self) -> None:
        """Stop here, if that was asked for; else costs nothing."""
        if self._number is not None:
            number, self._number = self._number, None
            raise Stopped(number)

    def _hear(self, number: int, frame: FrameType | None) -> None:
        if self._number is not None:
            raise Stopped(number)
        self._number = number
        # Not print: the signal may have come in the middle of one.
        with contextlib.suppress(OSError):
            os.write(2, self._answer)
