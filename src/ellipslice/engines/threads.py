"""Limit the threads of NumPy's matrix products while chains run."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator
from functools import cache
from typing import Any

from ellipslice.machine import available_cores

_limited = threading.Lock()


@contextlib.contextmanager
def limit_blas_threads(busy: int) -> Iterator[None]:
    """Limit the threads of each matrix product, because `busy` other threads use the cores as well.

    The limit is one thread less than the cores per busy thread, and at least one. The threads of OpenBLAS spin while
    they wait for each other. If the other threads need the cores, that makes a product ten times slower, and slows the
    other threads down, too. The limit holds for the whole process: if another context has set it already, this one
    does nothing.
    """
    controller = _controller()
    if controller is None or not _limited.acquire(blocking=False):
        yield
        return
    try:
        cores = available_cores()
        with controller.limit(limits=max(1, cores // max(1, min(busy, cores)) - 1), user_api="blas"):
            yield
    finally:
        _limited.release()


@cache
def _controller() -> Any:
    """Return threadpoolctl's controller of the loaded libraries, or None if threadpoolctl is not installed."""
    try:
        from threadpoolctl import ThreadpoolController
    except ImportError:
        return None
    return ThreadpoolController()
