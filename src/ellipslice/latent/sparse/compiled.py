"""The decorators of functions that numba compiles.

Compiled code is kept on disk by numba: in the folder `__pycache__` of the source, else in the user's cache folder.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

try:
    import numba
except ImportError:
    raise ImportError(
        "latent Gaussian models require numba. Install it with: pip install 'ellipslice[latent]'."
    ) from None


def compiled(function: Callable[..., Any]) -> Callable[..., Any]:
    """Return a function that numba compiles when it is first called. It releases Python's lock."""
    return _compiled(function)


def compiled_with_reordered_sums(function: Callable[..., Any]) -> Callable[..., Any]:
    """Return a compiled function whose sums use vector instructions: in another order, but the same in each call.

    A dot product takes a third of the time. The last bits of its result may differ between types of processors.
    """
    return _compiled(function, fastmath={"reassoc"})


def _compiled(function: Callable[..., Any], **options: Any) -> Callable[..., Any]:
    """Return a function that numba compiles, with a copy on disk if there is a folder for it."""
    try:
        return numba.njit(cache=True, nogil=True, **options)(function)
    except RuntimeError:  # numba found no folder that it can write, so every process compiles
        return numba.njit(nogil=True, **options)(function)
