"""Comparison of the speed with other samplers.

- `run`: time samplers in turn
- `samplers`: the samplers that are timed on a CPU
- `device`: the samplers that are timed on a GPU
- `process`: one process per sampler
- `plots`: the plots of the benchmarks
- `effective/`: effective samples per CPU second, and the choice of `reference="auto"`
"""

from ellipslice.apps.bench.run import run

__all__ = ["run"]
