"""The compiled engine: log-likelihoods that JAX can trace, one compiled loop per chain, a thread per core.

- `engine.py`: `CompiledEngine`, which chooses the likelihood, the scout and the loop of a run
- `chain.py`: chains in progress: threads, turns, and blocks of random numbers drawn ahead
- `block.py`: the loop over the updates of a block, its trace, and its runner
- `search.py`: the loop of a search over its angles; the posterior as moves see it
- `curve.py`: the curve of a search, and its counters
- `scouts.py`: which angles a search evaluates: all, the best of several ahead, those below no tangent plane
- `tangent_planes.py`: upper bounds of log-concave likelihoods: planes and the quadratic bound
"""

from ellipslice.engines.compiled.engine import CompiledEngine

__all__ = ["CompiledEngine"]
