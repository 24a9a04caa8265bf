"""Undocumented behaviour of JAX, XLA, SciPy, Linux and executors, each item with a fallback.

No other part of this library imports these internals, and `import ellipslice` does not import them. Each item has a
fallback, which gives the same result more slowly, and a probe, which returns why the fallback is used. The attribute
`degraded` of a result lists the fallbacks of its run. `python -m ellipslice.undocumented` prints a table of all items.

- `registry`: record of the fallbacks that were used
- `xla_loop`: loops that XLA compiles into one function
- `gpu_graph`: loops that a GPU runs by itself
- `operations`: lists of operations that are known to be safe
- `jaxprs`: read the programs that JAX traces
- `matrices`: factorise several matrices one after the other
- `precision`: constants in the precision of the run
- `blas`: the product with a triangular matrix
- `memory`: page sizes and reuse of memory
- `runtime`: the state of JAX and of executors
- `compilation_cache`: JAX's cache of compiled programs, only while this library runs
"""

from __future__ import annotations

from collections.abc import Callable

from ellipslice.undocumented import blas, compilation_cache, gpu_graph, jaxprs, memory, runtime, xla_loop
from ellipslice.undocumented.registry import taken

ITEMS: dict[str, Callable[[], str | None]] = {
    xla_loop.ITEM: xla_loop.probe,
    xla_loop.VECTORS: xla_loop.probe_vectors,
    gpu_graph.ITEM: gpu_graph.probe,
    jaxprs.ITEM: jaxprs.probe,
    jaxprs.NAMES: jaxprs.probe_names,
    blas.ITEM: blas.probe,
    memory.REUSE: memory.probe_kept,
    memory.PAGES: memory.probe_pages,
    runtime.STARTED: runtime.probe_started,
    runtime.DEVICE: runtime.probe_device,
    compilation_cache.ITEM: compilation_cache.probe,
}
"""Items with their probes. A probe returns why the fallback is used, or None if it is not."""


def degraded() -> list[str]:
    """Return the fallbacks that this process uses or has used, as "item: reason"."""
    probed = {f"{item}: {why}" for item, probe in ITEMS.items() if (why := probe()) is not None}
    return sorted(probed.union(taken()))


def table() -> str:
    """Return a table with one line per item: it works here, or the reason for the fallback."""
    found = {item: probe() for item, probe in ITEMS.items()}
    width = max(map(len, found))
    return "\n".join(f"{item:{width}}  {'works' if why is None else f'fallback: {why}'}" for item, why in found.items())
