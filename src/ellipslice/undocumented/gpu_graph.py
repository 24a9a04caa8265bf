"""Programs whose loops a GPU runs by itself, as one graph of operations.

By default XLA sends the operations of a loop to the GPU pass by pass, and a call returns only when the program has
almost ended. If the loops are part of a graph, the call returns at once, and the GPU does not wait for the host. If XLA
fails on such a program, it is compiled by a plain `jax.jit`, which takes longer and gives the same result.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax

from ellipslice.undocumented.registry import first_line, note

ITEM = "loops in GPU graphs"

LOOPS_IN_GRAPHS = {
    "xla_gpu_enable_command_buffer": "FUSION,CUBLAS,CUBLASLT,CUSTOM_CALL,CUDNN,DYNAMIC_SLICE_FUSION,CONDITIONAL,WHILE"
}
"""Compiler option with the operations of a graph: those of XLA's default, and conditionals and loops."""

_failures: list[str] = []


def probe() -> str | None:
    """Return why loops are not in graphs; None if no reason is known before a program is compiled."""
    return _failures[0] if _failures else None


def with_loops_in_graphs(function: Callable[..., Any]) -> Callable[..., Any]:
    """Compile a function, whose first argument is static, such that a GPU runs its loops in graphs."""
    graph = jax.jit(function, static_argnums=0, compiler_options=LOOPS_IN_GRAPHS)
    plain = jax.jit(function, static_argnums=0)

    def call(*arguments: Any) -> Any:
        if jax.default_backend() != "gpu":
            return plain(*arguments)
        if not _failures:
            try:
                return graph(*arguments)
            except jax.errors.JaxRuntimeError as error:
                _failures.append(first_line(error))
        note(ITEM, _failures[0])
        return plain(*arguments)

    return call
