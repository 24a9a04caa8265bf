"""Memory of arrays that are filled from front to back, and settings of glibc's malloc.

They are used on Linux only. On other systems, or if they do not work, NumPy allocates the memory, which is slower.
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

REUSE = "reuse of memory"
PAGES = "small pages"

_TRIM_THRESHOLD, _TOP_PAD, _MMAP_THRESHOLD = -1, -2, -3
"""Settings M_TRIM_THRESHOLD, M_TOP_PAD and M_MMAP_THRESHOLD of glibc's `malloc.h`."""

MALLOPT_SETTINGS = {_MMAP_THRESHOLD: 32 << 20, _TRIM_THRESHOLD: 2**31 - 1, _TOP_PAD: 64 << 20}
"""Values in bytes. Arrays up to the first stay in the heap, which is never returned and grows by the last."""

MAX_KEPT_BYTES = 1 << 30
"""Largest size of the memory of deleted draws that is kept for later draws."""

_kept_memory = 0


def keep_memory() -> None:
    """Make glibc's malloc and this module keep freed memory for later arrays."""
    global _kept_memory
    _kept_memory = MAX_KEPT_BYTES
    mallopt = _mallopt()
    if isinstance(mallopt, str):
        note(REUSE, mallopt)
    elif mallopt is not None:
        for setting, value in MALLOPT_SETTINGS.items():
            mallopt(setting, value)


def kept_memory() -> int:
    """Return the largest size in bytes of the memory of deleted draws that is kept."""
    return _kept_memory


def probe_kept() -> str | None:
    """Return why glibc does not keep memory; None if it can, or on other systems than Linux."""
    mallopt = _mallopt()
    return mallopt if isinstance(mallopt, str) else None


def probe_pages() -> str | None:
    """Return why NumPy allocates the pages; None if small pages are used, or on other systems than Linux."""
    module = _mmap()
    return module if isinstance(module, str) else None


@cache
def _mallopt() -> Any:
    """Return glibc's `mallopt`, or None on systems other than Linux. If it is missing, return the reason as text."""
    if sys.platform != "linux":
        return None
    try:
        import ctypes

        return ctypes.CDLL(None).mallopt
    except Exception as error:  # noqa: BLE001  musl has no mallopt, and Python may be built without ctypes
        return f"the system has no mallopt ({first_line(error)})"


@cache
def _mmap() -> Any:
    """Return the module `mmap`, or None on systems other than Linux. If it is unusable, return the reason as text."""
    if sys.platform != "linux":
        return None
    try:
        import mmap

        _ = mmap.MAP_PRIVATE, mmap.MAP_ANONYMOUS
    except Exception as error:  # noqa: BLE001  Python may be built without it
        return f"there is no mmap ({first_line(error)})"
    return mmap


MIN_MMAP_BYTES = 2**22
"""Smallest array with its own mmap. malloc reuses the pages of smaller ones anyway."""


def lazy_empty(shape: tuple[int, ...], dtype: np.dtype) -> np.ndarray:
    """Return an uninitialised array whose pages are allocated at first use.

    After `fast_cpu()` it may reuse the pages of an earlier array. NumPy would request huge pages, which took five times
    as long on a virtual machine whose host must provide them.
    """
    size = math.prod(shape) * dtype.itemsize
    module = None if size < MIN_MMAP_BYTES else _mmap()
    if isinstance(module, str):
        note(PAGES, module)
    return (
        np.empty(shape, dtype) if module is None or isinstance(module, str) else np.asarray(_PageBuffer(shape, dtype))
    )


class _PageBuffer:
    """Memory of an array and its views. When the last of them is deleted, the memory may be kept for reuse."""

    def __init__(self, shape: tuple[int, ...], dtype: np.dtype):
        size = math.prod(shape) * dtype.itemsize
        kept = _reuse(size)
        module = _mmap()
        pages = kept or module.mmap(-1, size, module.MAP_PRIVATE | module.MAP_ANONYMOUS)
        address = np.frombuffer(pages, np.uint8).ctypes.data
        self.__array_interface__ = {"shape": shape, "typestr": dtype.str, "data": (address, False), "version": 3}
        weakref.finalize(self, _release, pages).atexit = False


_free_buffers: list[Any] = []
"""Memory of deleted arrays, the oldest first."""


def _release(pages: Any) -> None:
    """Keep the memory of a deleted array for reuse. Free the oldest if there is more than `kept_memory()`."""
    _free_buffers.append(pages)
    while _free_buffers and sum(map(len, _free_buffers)) > kept_memory():
        _free_buffers.pop(0)


def _reuse(size: int) -> Any:
    """Return kept memory of at least `size` and at most twice that, in bytes; None if there is none."""
    for pages in list(_free_buffers):
        if size <= len(pages) <= 2 * size:
            with contextlib.suppress(ValueError):  # another thread may have taken it
                _free_buffers.remove(pages)
                return pages
    return None
