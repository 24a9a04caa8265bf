"""Ctrl-C at the right moment."""

from __future__ import annotations

import contextlib
import signal
import threading
from collections.abc import Callable, Iterator
from typing import Any


class _Raise:
    """What Python does at Ctrl-C, and remember it."""

    def __init__(self) -> None:
        self._pressed = False

    def __call__(self, *_: object) -> None:
        self._pressed = True
        raise KeyboardInterrupt

    def check(self) -> None:
        """Raise it again."""
        if self._pressed:
            raise KeyboardInterrupt


@contextlib.contextmanager
def recheck_interrupt() -> Iterator[Callable[[], None]]:
    """A function to be called now and then, which raises a Ctrl-C that was lost.

    Python drops what is raised while it collects garbage, where JAX has work to do, too.
    """
    handler = _Raise()
    with _handled_by(handler):
        yield handler.check


@contextlib.contextmanager
def defer_interrupt() -> Iterator[None]:
    """Let what is inside finish before a Ctrl-C takes effect, so that no draw is recorded by half."""
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
    in_main = threading.current_thread() is threading.main_thread()  # Python delivers Ctrl-C to no other
    if not in_main or not (before is signal.default_int_handler or isinstance(before, _Raise)):
        yield  # the user has plans of his own for it
        return
    signal.signal(signal.SIGINT, handler)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)
