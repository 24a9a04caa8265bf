"""Loops that XLA's CPU backend compiles into one function.

As a rule it compiles each operation of a loop for itself and calls them one after the other, which takes longer than
they do. For loops that it thinks small it does better, by two marks; so we set them. Without the marks, or if the
compiler breaks down over them, the loop is compiled by a plain `jax.jit`: the same chain but for rounding, slower.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache, partial
from typing import Any

import jax
import jax.numpy as jnp

from ellipslice.undocumented.registry import first_line, note

ITEM = "loops as one function"
VECTORS = "wide vectors"

KNOWN = (0, 10), (0, 13)
"""The first release of JAX that is known to make one function of a marked loop, and the first that is not. (0.9 does,
with slow exponentials; one to come might break down over it, and so is not asked. To move the bound, run
`tests/undocumented`, `tests/exact` and `ellipslice bench` on a new one.)"""

WIDE_VECTORS = {"xla_cpu_prefer_vector_width": 512}
"""XLA takes half of that as a rule, also where there is more."""

MARKS = {"xla_cpu_small_call": "true", "inlineable": "false"}

PLAIN, MARKED, WIDE = range(3)
"""How a loop is compiled: as it comes; as one function; as one function with wide vectors."""


@cache
def _set_marks() -> Any:
    """The function that sets marks, or why there is none."""
    try:
        from jax.experimental.xla_metadata import set_xla_metadata
    except Exception as error:  # noqa: BLE001  whatever a release to come does
        return first_line(error)
    return set_xla_metadata


def probe() -> str | None:
    """Return why loops are not compiled into one function; None if they are."""
    first, beyond = KNOWN
    if not first <= jax.__version_info__[:2] < beyond:
        known = f"{'.'.join(map(str, first))} or later, before {'.'.join(map(str, beyond))}"
        return f"JAX is {jax.__version__}, and it is known to work with {known}"
    marks = _set_marks()
    return f"jax.experimental.xla_metadata is not as it was ({marks})" if isinstance(marks, str) else None


def probe_vectors() -> str | None:
    """Return why vectors are not wide; None as far as is known before a loop is compiled."""
    return None if probe() is None else "loops are not compiled into one function"


def possible() -> bool:
    """Whether loops can be compiled into one function. If not, it is noted."""
    why = probe()
    if why is not None:
        note(ITEM, why)
    return why is None


def as_one_function(loop: Callable[..., Any], static: tuple[Any, ...], *arguments: Any) -> Any:
    """A loop that XLA compiles into one function, as part of a program; only if that is `possible`."""

    @jax.jit
    def call(*arguments: Any) -> tuple[Any, Any]:
        # The compiler breaks down over an argument that is not used, so each is looked at, and what was seen returned.
        looked_at = sum(jnp.ravel(leaf)[0].astype(float) for leaf in jax.tree.leaves(arguments))
        return loop(*static, *arguments), looked_at

    result, looked_at = _set_marks()(call(*arguments), **MARKS)
    return result, looked_at


@partial(jax.jit, static_argnums=(0, 1))
def _as_it_comes(loop: Callable[..., Any], static: tuple[Any, ...], *arguments: Any) -> tuple[Any, None]:
    return loop(*static, *arguments), None


_ways: dict[int, Callable[..., Any]] = {
    PLAIN: _as_it_comes,
    MARKED: jax.jit(as_one_function, static_argnums=(0, 1)),
    WIDE: jax.jit(as_one_function, static_argnums=(0, 1), compiler_options=WIDE_VECTORS),
}


def run_loop(way: int, loop: Callable[..., Any], static: tuple[Any, ...], *arguments: Any) -> tuple[Any, int]:
    """Run a compiled loop; `static` are its first arguments, which are not arrays.

    If XLA breaks down over it, first the option is left out and then the marks, so that it is known which it was.
    Returns the way that it went, too.
    """
    broke_down: list[tuple[str, str]] = []
    while True:
        try:
            result = _ways[way](loop, static, *arguments)[0]
        except jax.errors.JaxRuntimeError as error:
            if way == PLAIN:
                raise
            broke_down.append((VECTORS if way == WIDE else ITEM, f"XLA could not ({first_line(error)})"))
            way -= 1
            continue
        for item, why in broke_down:
            note(item, why)
        return result, way
