"""Make a test that hangs fail."""

from __future__ import annotations

import faulthandler
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

SECONDS = 300
"""Limit for a row. Seconds. A row takes a few seconds, even on a busy machine."""

GRACE_SECONDS = 60
"""Further time before the process ends, with the traceback of each thread, if the exception had no effect. Seconds."""


class HungError(BaseException):
    """Raised when a test hangs. It is not an Exception, so that no handler catches it."""


@contextmanager
def watchdog(seconds: float = SECONDS) -> Iterator[None]:
    """Raise HungError in the main thread after `seconds`, and end the process if that has no effect."""

    def expired(*_: Any) -> None:
        raise HungError(f"no end after {seconds:g} s")

    before = signal.signal(signal.SIGALRM, expired)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    faulthandler.dump_traceback_later(seconds + GRACE_SECONDS, exit=True)
    hung = False
    try:
        yield
    except HungError:
        hung = True
        raise
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
        if not hung:  # hanging threads would prevent Python from exiting
            faulthandler.cancel_dump_traceback_later()
