"""Loops that XLA's CPU backend compiles into one function.

By default it compiles each operation of a loop separately and calls one after the other. These calls take longer than
small operations. Two marks make XLA compile a loop into one function. Without the marks, or if the compiler fails on
them, the loop is compiled by a plain `jax.jit`. The chain is then equal up to rounding error, and slower.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

import jax
import jax.numpy as jnp

from ellipslice.undocumented.registry import first_line, note

ITEM = "loops as one function"
VECTORS = "wide vectors"

SMALL_CALL_SUPPORTED = (0, 10), (0, 13)
"""Releases of JAX in which the marks are used: from the first, and before the second.

0.9 supports the marks, but its exponentials are slow. A future compiler might fail on them. To raise the upper bound,
run `tests/undocumented`, `tests/exact` and `ellipslice bench` with the new release."""

WIDE_VECTORS = {"xla_cpu_prefer_vector_width": 512}
"""Compiler option for vectors of 512 bits. XLA uses 256 bits by default, even on processors with wider vectors."""

MARKS = {"xla_cpu_small_call": "true", "inlineable": "false"}
"""Metadata of a call that XLA compiles into one function."""

THREADS = "one thread per product"

ONE_THREAD_PRODUCTS = {"xla_cpu_multi_thread_eigen": False}
"""Compiler option for products by one thread. By default XLA divides large products between all cores."""

PLAIN, MARKED, WIDE, ONE_THREAD = range(4)
"""Modes in which a loop is compiled: by plain `jax.jit`, into one function, into one function with wide vectors, or
with one thread for each product."""

FALLBACK = {WIDE: (MARKED, VECTORS), MARKED: (PLAIN, ITEM), ONE_THREAD: (PLAIN, THREADS)}
"""For each mode, the mode that is used if XLA fails, and what is then recorded as missing."""


@cache
def _set_marks() -> Any:
    """Return the function that sets marks. If there is none, return the reason as text."""
    try:
        from jax.experimental.xla_metadata import set_xla_metadata
    except Exception as error:  # noqa: BLE001  a future release may raise anything
        return first_line(error)
    return set_xla_metadata


def probe() -> str | None:
    """Return why loops are not compiled into one function; None if they are."""
    first, beyond = SMALL_CALL_SUPPORTED
    if not first <= jax.__version_info__[:2] < beyond:
        known = f"{'.'.join(map(str, first))} or later, before {'.'.join(map(str, beyond))}"
        return f"JAX is {jax.__version__}, and is tested only with {known}"
    marks = _set_marks()
    return f"jax.experimental.xla_metadata has changed ({marks})" if isinstance(marks, str) else None


def probe_vectors() -> str | None:
    """Return why vectors are not wide; None if no reason is known before a loop is compiled."""
    return None if probe() is None else "loops are not compiled into one function"


def single_call_supported() -> bool:
    """Return whether loops can be compiled into one function. If not, record the fallback."""
    why = probe()
    if why is not None:
        note(ITEM, why)
    return why is None


def as_single_call(loop: Callable[..., Any], static: tuple[Any, ...], *arguments: Any) -> Any:
    """Call a loop so that XLA compiles it into one function. Use it inside a jitted program.

    Call it only if `single_call_supported` returns True.
    """

    @jax.jit
    def call(*arguments: Any) -> tuple[Any, Any]:
        # The compiler fails on unused arguments, so one element of each is used, and the sum is returned.
        used = sum(jnp.ravel(leaf)[0].astype(float) for leaf in jax.tree.leaves(arguments))
        return loop(*static, *arguments), used

    result, used = _set_marks()(call(*arguments), **MARKS)
    return result, used


def _call(loop: Callable[..., Any], static: tuple[Any, ...], *arguments: Any) -> tuple[Any, None]:
    return loop(*static, *arguments), None


_COMPILED: dict[int, Callable[..., Any]] = {
    PLAIN: jax.jit(_call, static_argnums=(0, 1)),
    MARKED: jax.jit(as_single_call, static_argnums=(0, 1)),
    WIDE: jax.jit(as_single_call, static_argnums=(0, 1), compiler_options=WIDE_VECTORS),
    ONE_THREAD: jax.jit(_call, static_argnums=(0, 1), compiler_options=ONE_THREAD_PRODUCTS),
}


def run_loop(mode: int, loop: Callable[..., Any], static: tuple[Any, ...], *arguments: Any) -> tuple[Any, int]:
    """Run a compiled loop. Return its result and the mode in which it was compiled.

    `static` are the first arguments of the loop, which are not arrays. If XLA fails, the loop is compiled without wide
    vectors, and then without marks, so that the recorded fallback names the cause.
    """
    failures: list[tuple[str, str]] = []
    while True:
        try:
            result = _COMPILED[mode](loop, static, *arguments)[0]
        except jax.errors.JaxRuntimeError as error:
            if mode == PLAIN:
                raise
            mode, missing = FALLBACK[mode]
            failures.append((missing, f"XLA failed ({first_line(error)})"))
            continue
        for item, why in failures:
            note(item, why)
        return result, mode
