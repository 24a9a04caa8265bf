"""How fast is it, beside others, in one run.

- `run`: time samplers in turn
- `contestants`: what is timed on a CPU
- `device`: what is timed on a GPU
- `process`: one process for each sampler
- `picture`: the plot of a benchmark
"""

from ellipslice.apps.bench.run import run

__all__ = ["run"]
