"""`fast_cpu`: settings of XLA and of memory that speed up CPUs and that users must enable."""

from __future__ import annotations

import os
import warnings

import jax

from ellipslice.undocumented.memory import keep_memory
from ellipslice.undocumented.runtime import has_started

SETTING = "xla_cpu_small_while_loop_byte_threshold"
_EXTRA = "--xla_backend_extra_options="


def fast_cpu() -> None:
    """Compile every loop in this process into one function, and reuse freed memory, on CPUs.

    **Loops.** XLA compiles each loop into one function. `sample` already does this for its own loops if arrays have at
    most 4096 elements and there are no matrix products or other library calls. Use `fast_cpu` for other likelihoods, or
    for your own loops. Call it before JAX runs anything, because XLA reads the setting once.

    **Memory.** Freed memory stays with the process and is used for new arrays, instead of being returned to the
    operating system. This takes effect at any time, on Linux with glibc only. The process keeps the memory until it
    ends: that of arrays of up to 32 MiB, and that of larger draws of `sample` up to 1 GiB in total.

    Both settings affect the whole process, and the first slows down some loops (those over many chains by `vmap`).
    Importing ellipslice therefore never sets them.

    Warns
    -----
    UserWarning
        If JAX has already run something, or if this cannot be determined.

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
            "fast_cpu() comes too late for XLA: JAX has already run something, and XLA reads its settings once. Call "
            f"it before JAX runs anything, or set XLA_FLAGS={_EXTRA}{SETTING}=1000000000 in the environment.",
            stacklevel=2,
        )
        return
    if started is None:
        warnings.warn(
            f"fast_cpu() cannot determine whether it comes in time for XLA, because JAX {jax.__version__} does not "
            "expose whether it has run something. Call fast_cpu() before JAX runs anything.",
            stacklevel=2,
        )
    value = f"{SETTING}=1000000000"
    if _EXTRA in flags:  # this option is a list separated by commas
        os.environ["XLA_FLAGS"] = flags.replace(_EXTRA, f"{_EXTRA}{value},", 1)
    else:
        os.environ["XLA_FLAGS"] = f"{flags} {_EXTRA}{value}".strip()
