"""How many threads NumPy's matrix products may use while chains run."""

from __future__ import annotations

import contextlib
import os
from functools import cache
from typing import Any

CORES = os.cpu_count() or 1


def blas_beside(busy: int) -> Any:
    """A context in which matrix products use the cores that `busy` other threads leave, shared among these.

    The threads of OpenBLAS spin while they wait for each other. Beside busy ones that makes a product ten times slower,
    and the others with it.
    """
    controller = _controller()
    if controller is None:
        return contextlib.nullcontext()
    return controller.limit(limits=max(1, CORES // max(1, min(busy, CORES)) - 1), user_api="blas")


@cache
def _controller() -> Any:
    try:
        from threadpoolctl import ThreadpoolController
    except ImportError:
        return None
    return ThreadpoolController()
