"""Settings of XLA and of memory that speed up CPUs, for those who ask for them."""

from __future__ import annotations

import ctypes
import os
import sys
import warnings

SETTING = "xla_cpu_small_while_loop_byte_threshold"
_EXTRA = "--xla_backend_extra_options="

_TRIM_THRESHOLD, _TOP_PAD, _MMAP_THRESHOLD = -1, -2, -3
"""What glibc's `malloc.h` calls these with M_ before them."""

KEEP = {_MMAP_THRESHOLD: 32 << 20, _TRIM_THRESHOLD: 2**31 - 1, _TOP_PAD: 64 << 20}
"""Bytes: arrays up to the first stay in the heap, which is never handed back, and grows in steps of the last."""


DRAWS = 1 << 30
"""Bytes of draws that were let go, whose memory is kept for other draws, at most."""

_kept_memory = 0


def fast_cpu() -> None:
    """Have XLA compile every loop in this process into one function, and keep memory for new arrays, on CPUs.

    `sample` has its own loops compiled so where it can (arrays of up to 4096 values, no matrix products or other calls
    into libraries). Ask for it here if your likelihood is beyond that, or for loops of your own. Call it before JAX
    runs anything: the setting is read once.

    Memory that is freed stays with the process for the arrays that come next, instead of being handed back to the
    system and fetched again page by page. This works at any time, on Linux with glibc; elsewhere nothing is changed.
    What the process once used it keeps until it ends: arrays of up to 32 MB, and of larger ones draws of `sample`, up
    to 1 GB of them.

    Both concern the whole process, and the first slows some loops down (those over many chains by `vmap`), so neither
    is ever set by importing ellipslice.

    Examples
    --------
    >>> import ellipslice as es
    >>> es.fast_cpu()  # doctest: +SKIP
    """
    _keep_memory()
    flags = os.environ.get("XLA_FLAGS", "")
    if SETTING in flags:
        return
    if jax_has_started():
        warnings.warn(
            "fast_cpu() comes too late for XLA: JAX has run something already, and reads its settings once. Call it "
            f"before anything else, or set XLA_FLAGS={_EXTRA}{SETTING}=1000000000 in the environment.",
            stacklevel=2,
        )
        return
    value = f"{SETTING}=1000000000"
    if _EXTRA in flags:  # one option that holds several, with commas between them
        os.environ["XLA_FLAGS"] = flags.replace(_EXTRA, f"{_EXTRA}{value},", 1)
    else:
        os.environ["XLA_FLAGS"] = f"{flags} {_EXTRA}{value}".strip()


def kept_memory() -> int:
    """Bytes of draws whose memory is kept for other draws when they are let go."""
    return _kept_memory


def _keep_memory() -> None:
    """Tell glibc's malloc, and ourselves, to keep what is freed."""
    global _kept_memory
    _kept_memory = DRAWS
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None) if sys.platform == "linux" else None
    if mallopt is not None:  # musl has none
        for setting, value in KEEP.items():
            mallopt(setting, value)


def jax_has_started() -> bool:
    """Whether JAX has made use of a device; there is no other way to ask without starting it."""
    from jax._src import xla_bridge

    return xla_bridge.backends_are_initialized()
