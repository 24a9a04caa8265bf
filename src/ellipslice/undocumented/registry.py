"""Record of the fallbacks that were used, and when."""

from __future__ import annotations

import threading
import time

_taken: dict[str, float] = {}
_lock = threading.Lock()


def note(item: str, why: str) -> None:
    """Record that the fallback of an item is used. Call it every time, because each run reports its own fallbacks."""
    with _lock:
        _taken[f"{item}: {why.replace(';', ',')}"] = time.perf_counter()  # results separate fallbacks by ;


def taken(since: float = float("-inf")) -> list[str]:
    """Return the fallbacks used since a time of `time.perf_counter`, as "item: reason". Default: all."""
    with _lock:
        return sorted(text for text, when in _taken.items() if when >= since)


def first_line(error: BaseException) -> str:
    """Return the type of an exception and the first line of its message, at most 120 characters of it."""
    line = (str(error).splitlines() or [""])[0][:120]
    return f"{type(error).__name__}: {line}" if line else type(error).__name__
