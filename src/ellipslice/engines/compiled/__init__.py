"""The compiled engine: log-likelihoods that JAX can trace, one compiled loop per chain, a thread per core.

- `engine.py`: `CompiledEngine`, which chooses the scout and the compiled loop of a run
- `chain.py`: chains in progress, on threads, with random numbers that are drawn ahead
- `block.py`: the compiled loop over the updates of a block, and its runner
- `lock_step.py`: groups of four chains, whose matrix products become one product
- `search.py`: the compiled loop of a slice search over its angles, and the target of moves
- `curve.py`: the curve of a slice search, and its counters
- `scouts.py`: scouts, which skip angles that cannot be on the slice
- `tangent_planes.py`: upper bounds of log-concave likelihoods, used by a scout
"""

from ellipslice.engines.compiled.engine import CompiledEngine

__all__ = ["CompiledEngine"]
