"""Settings of XLA and of memory that speed up CPUs, for those who ask for them."""

from __future__ import annotations

import os
import warnings

import jax

from ellipslice.undocumented.memory import keep_memory
from ellipslice.undocumented.runtime import has_started

SETTING = "xla_cpu_small_while_loop_byte_threshold"
_EXTRA = "--xla_backend_extra_options="


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
    keep_memory()
    flags = os.environ.get("XLA_FLAGS", "")
    if SETTING in flags:
        return
    started = has_started()
    if started:
        warnings.warn(
            "fast_cpu() comes too late for XLA: JAX has run something already, and reads its settings once. Call it "
            f"before anything else, or set XLA_FLAGS={_EXTRA}{SETTING}=1000000000 in the environment.",
            stacklevel=2,
        )
        return
    if started is None:
        warnings.warn(
            f"fast_cpu() cannot tell whether it comes in time for XLA: JAX {jax.__version__} does not say whether it "
            "has run something already. Call it before anything else.",
            stacklevel=2,
        )
    value = f"{SETTING}=1000000000"
    if _EXTRA in flags:  # one option that holds several, with commas between them
        os.environ["XLA_FLAGS"] = flags.replace(_EXTRA, f"{_EXTRA}{value},", 1)
    else:
        os.environ["XLA_FLAGS"] = f"{flags} {_EXTRA}{value}".strip()
