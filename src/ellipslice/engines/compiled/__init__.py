"""The compiled engine: log-likelihoods that JAX can trace, one compiled loop per chain, a thread per core.

- `engine.py`: `CompiledEngine`, its runs and its chains
- `block.py`: what goes into a loop and what comes out, for each kind of move
- `search.py`: the loops, as functions that JAX compiles
- `tangent_planes.py`: the loop for log-concave likelihoods, which rejects most angles without an evaluation
"""

from ellipslice.engines.compiled.engine import CompiledEngine

__all__ = ["CompiledEngine"]
