"""Behaviour of JAX, XLA, SciPy, Linux and executors that works and that nobody promised; and what is done without it.

Nothing else in this library imports the modules that are imported here. Each item has a fallback that gives the same
answer, more slowly, and a probe that says why it is taken. A run that takes one says so in `tree.attrs["degraded"]`;
`python -m ellipslice.undocumented` prints a table. `import ellipslice` imports none of these internals.

- `registry`: which fallbacks were taken
- `xla_loop`: loops that XLA compiles into one function
- `operations`: operations that are known to be safe
- `jaxprs`: reading the programs that JAX traces
- `matrices`: several matrices, factorised one by one
- `precision`: constants in the precision of the run
- `blas`: the product with a triangular matrix
- `memory`: pages, and memory that is kept
- `runtime`: the state of JAX and of executors
"""

from __future__ import annotations

from collections.abc import Callable

from ellipslice.undocumented import blas, jaxprs, memory, runtime, xla_loop
from ellipslice.undocumented.registry import taken

ITEMS: dict[str, Callable[[], str | None]] = {
    xla_loop.ITEM: xla_loop.probe,
    xla_loop.VECTORS: xla_loop.probe_vectors,
    jaxprs.ITEM: jaxprs.probe,
    jaxprs.NAMES: jaxprs.probe_names,
    blas.ITEM: blas.probe,
    memory.KEPT: memory.probe_kept,
    memory.PAGES: memory.probe_pages,
    runtime.STARTED: runtime.probe_started,
    runtime.DEVICE: runtime.probe_device,
}
"""Each item with its probe, which returns why the fallback is taken, or None if it is not."""


def degraded() -> list[str]:
    """Return the fallbacks that are or were taken in this process, as "item: why"."""
    probed = {f"{item}: {why}" for item, probe in ITEMS.items() if (why := probe()) is not None}
    return sorted(probed.union(taken()))


def table() -> str:
    """Return a table of the items, a line each: whether it works here, or why the fallback is taken."""
    found = {item: probe() for item, probe in ITEMS.items()}
    width = max(map(len, found))
    return "\n".join(f"{item:{width}}  {'works' if why is None else f'fallback: {why}'}" for item, why in found.items())
