"""Memory: arrays that are written to bit by bit, from front to back, and what glibc's malloc is told.

Only Linux is asked for anything. Elsewhere, and where it cannot do so, memory is NumPy's, and nothing but time is lost.
"""

from __future__ import annotations

import contextlib
import math
import sys
import weakref
from functools import cache
from typing import Any

import numpy as np

from ellipslice.undocumented.registry import first_line, note

KEPT = "memory that is kept"
PAGES = "small pages"

_TRIM_THRESHOLD, _TOP_PAD, _MMAP_THRESHOLD = -1, -2, -3
"""What glibc's `malloc.h` calls these with M_ before them."""

KEEP = {_MMAP_THRESHOLD: 32 << 20, _TRIM_THRESHOLD: 2**31 - 1, _TOP_PAD: 64 << 20}
"""Bytes: arrays up to the first stay in the heap, which is never handed back, and grows in steps of the last."""

DRAWS = 1 << 30
"""Bytes of draws that were let go, whose memory is kept for other draws, at most."""

_kept_memory = 0


def keep_memory() -> None:
    """Tell glibc's malloc, and ourselves, to keep what is freed."""
    global _kept_memory
    _kept_memory = DRAWS
    mallopt = _mallopt()
    if isinstance(mallopt, str):
        note(KEPT, mallopt)
    elif mallopt is not None:
        for setting, value in KEEP.items():
            mallopt(setting, value)


def kept_memory() -> int:
    """Bytes of draws whose memory is kept for other draws when they are let go."""
    return _kept_memory


def probe_kept() -> str | None:
    """Return why glibc cannot be told to keep memory; None if it can, or there is no Linux."""
    mallopt = _mallopt()
    return mallopt if isinstance(mallopt, str) else None


def probe_pages() -> str | None:
    """Return why pages are as NumPy asks for them; None if they are small, or there is no Linux."""
    module = _mmap()
    return module if isinstance(module, str) else None


@cache
def _mallopt() -> Any:
    """Return glibc's function for settings of malloc; None on other systems than Linux; or why there is none."""
    if sys.platform != "linux":
        return None
    try:
        import ctypes

        return ctypes.CDLL(None).mallopt
    except Exception as error:  # noqa: BLE001  musl has no mallopt, and Python may be built without ctypes
        return f"the system has no mallopt ({first_line(error)})"


@cache
def _mmap() -> Any:
    """Python's module; None on other systems than Linux; or why there is none."""
    if sys.platform != "linux":
        return None
    try:
        import mmap

        _ = mmap.MAP_PRIVATE, mmap.MAP_ANONYMOUS
    except Exception as error:  # noqa: BLE001  Python may be built without it
        return f"there is no mmap ({first_line(error)})"
    return mmap


MIN_MMAP_BYTES = 2**22
"""Bytes of the smallest array with its own mmap. The pages of smaller ones are used again anyway."""


def lazy_empty(shape: tuple[int, ...], dtype: np.dtype) -> np.ndarray:
    """Return an array whose pages the system provides at first use; after `fast_cpu()`, pages of an earlier array.

    NumPy would ask for huge pages. Where the host of a virtual machine must provide them, that took five times as long.
    """
    size = math.prod(shape) * dtype.itemsize
    module = None if size < MIN_MMAP_BYTES else _mmap()
    if isinstance(module, str):
        note(PAGES, module)
    return (
        np.empty(shape, dtype) if module is None or isinstance(module, str) else np.asarray(_PageBuffer(shape, dtype))
    )


class _PageBuffer:
    """What an array and its views hold on to; when all are gone its memory may be kept for the next."""

    def __init__(self, shape: tuple[int, ...], dtype: np.dtype):
        size = math.prod(shape) * dtype.itemsize
        kept = _take(size)
        module = _mmap()
        pages = kept or module.mmap(-1, size, module.MAP_PRIVATE | module.MAP_ANONYMOUS)
        address = np.frombuffer(pages, np.uint8).ctypes.data
        self.__array_interface__ = {"shape": shape, "typestr": dtype.str, "data": (address, False), "version": 3}
        weakref.finalize(self, _keep, pages).atexit = False


_KEPT: list[Any] = []


def _keep(pages: Any) -> None:
    """For the next, if so much is to be kept: the last ones."""
    _KEPT.append(pages)
    while _KEPT and sum(map(len, _KEPT)) > kept_memory():
        _KEPT.pop(0)


def _take(size: int) -> Any:
    """Memory for an array, if some was kept that is not much too large."""
    for pages in list(_KEPT):
        if size <= len(pages) <= 2 * size:
            with contextlib.suppress(ValueError):  # another thread has it
                _KEPT.remove(pages)
                return pages
    return None
