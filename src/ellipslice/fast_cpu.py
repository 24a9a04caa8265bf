"""An XLA setting that speeds up loops on the CPU, for those who ask for it."""

from __future__ import annotations

import os
import warnings

SETTING = "xla_cpu_small_while_loop_byte_threshold"
_EXTRA = "--xla_backend_extra_options="


def fast_cpu() -> None:
    """Have XLA compile every loop in this process into one function, on CPUs.

    `sample` does this for its own loops where it can (arrays of up to 4096 values, no matrix products or other calls
    into libraries). Ask for it here if your likelihood is beyond that, or for loops of your own. Call it before JAX
    runs anything: the setting is read once. It concerns the whole process, and slows some loops down (those over many
    chains by `vmap`), so it is never set by importing ellipslice.

    Examples
    --------
    >>> import ellipslice as es
    >>> es.fast_cpu()  # doctest: +SKIP
    """
    flags = os.environ.get("XLA_FLAGS", "")
    if SETTING in flags:
        return
    if _jax_has_started():
        warnings.warn(
            "fast_cpu() comes too late: JAX has run something already, and reads its settings once. Call it before "
            f"anything else, or set XLA_FLAGS={_EXTRA}{SETTING}=1000000000 in the environment.",
            stacklevel=2,
        )
        return
    value = f"{SETTING}=1000000000"
    if _EXTRA in flags:  # one option that holds several, with commas between them
        os.environ["XLA_FLAGS"] = flags.replace(_EXTRA, f"{_EXTRA}{value},", 1)
    else:
        os.environ["XLA_FLAGS"] = f"{flags} {_EXTRA}{value}".strip()


def _jax_has_started() -> bool:
    from jax._src import xla_bridge

    return xla_bridge.backends_are_initialized()
