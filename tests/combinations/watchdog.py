"""Makes a test that hangs fail."""

from __future__ import annotations

import faulthandler
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

SECONDS = 300
"""Rows take seconds, also on a machine that is busy."""

GRACE_SECONDS = 60
"""For a thread that does not let the exception pass: then the process ends, with the traceback of each thread."""


class HungError(BaseException):
    """Not an Exception, so that nothing in between catches it."""


@contextmanager
def watchdog(seconds: float = SECONDS) -> Iterator[None]:
    """Raise HungError in the main thread after so many seconds; end the process if that does not help."""

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
        if not hung:  # threads that hang would keep Python from ending
            faulthandler.cancel_dump_traceback_later()
