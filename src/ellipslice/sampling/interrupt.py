"""Ctrl-C at the right moment."""

from __future__ import annotations

import contextlib
import signal
import threading
from collections.abc import Iterator


@contextlib.contextmanager
def deferred() -> Iterator[None]:
    """Let what is inside finish before a Ctrl-C takes effect, so that no draw is recorded by half."""
    in_main = threading.current_thread() is threading.main_thread()  # Python delivers Ctrl-C to no other
    if not in_main or signal.getsignal(signal.SIGINT) is not signal.default_int_handler:
        yield  # the user has plans of his own for it
        return
    pressed = False

    def remember(*_: object) -> None:
        nonlocal pressed
        pressed = True

    before = signal.signal(signal.SIGINT, remember)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)
    if pressed:
        raise KeyboardInterrupt
