"""How many threads NumPy's matrix products may use while chains run."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator
from functools import cache
from typing import Any

from ellipslice import machine

_limit: list[int] = []
_limited = threading.Lock()


def cores() -> int:
    """How many there are for us: those of the machine that this process may use, or fewer if so told."""
    return min([machine.cores(), *_limit])


def use_cores(count: int) -> None:
    """From now on use no more than these, for instance in one of many processes."""
    _limit[:] = [count]


@contextlib.contextmanager
def blas_beside(busy: int) -> Iterator[None]:
    """A context in which matrix products use the cores that `busy` other threads leave, shared among these.

    The threads of OpenBLAS spin while they wait for each other. Beside busy ones that makes a product ten times slower,
    and the others with it. The limit is the process's: whoever comes second leaves the first one's as it is.
    """
    controller = _controller()
    if controller is None or not _limited.acquire(blocking=False):
        yield
        return
    try:
        with controller.limit(limits=max(1, cores() // max(1, min(busy, cores())) - 1), user_api="blas"):
            yield
    finally:
        _limited.release()


@cache
def _controller() -> Any:
    try:
        from threadpoolctl import ThreadpoolController
    except ImportError:
        return None
    return ThreadpoolController()
