"""Handle Ctrl-C (SIGINT): none is lost, and none interrupts the recording of a draw."""

from __future__ import annotations

import contextlib
import signal
import threading
from collections.abc import Callable, Iterator
from typing import Any


class _InterruptHandler:
    """Signal handler that raises KeyboardInterrupt, like Python's, and records that it did."""

    def __init__(self) -> None:
        self._pressed = False

    def __call__(self, *_: object) -> None:
        self._pressed = True
        raise KeyboardInterrupt

    def check(self) -> None:
        """Raise KeyboardInterrupt if Ctrl-C was pressed."""
        if self._pressed:
            raise KeyboardInterrupt


@contextlib.contextmanager
def recheck_interrupt() -> Iterator[Callable[[], None]]:
    """Yield a function that raises KeyboardInterrupt if Ctrl-C was pressed. Call it regularly.

    Python drops exceptions that are raised during garbage collection, in which JAX runs code, too.
    """
    handler = _InterruptHandler()
    with _handled_by(handler):
        yield handler.check


@contextlib.contextmanager
def defer_interrupt() -> Iterator[None]:
    """Delay Ctrl-C until the end of the block, so that no draw is recorded incompletely."""
    pressed = False

    def remember(*_: object) -> None:
        nonlocal pressed
        pressed = True

    with _handled_by(remember):
        yield
    if pressed:
        raise KeyboardInterrupt


@contextlib.contextmanager
def _handled_by(handler: Callable[..., Any]) -> Iterator[None]:
    before = signal.getsignal(signal.SIGINT)
    in_main = threading.current_thread() is threading.main_thread()  # Python runs signal handlers only there
    if not in_main or not (before is signal.default_int_handler or isinstance(before, _InterruptHandler)):
        yield  # the caller has installed a SIGINT handler, or this is not the main thread: change nothing
        return
    signal.signal(signal.SIGINT, handler)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)
