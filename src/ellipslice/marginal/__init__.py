"""The log marginal likelihood, log Z.

- `evidence`: `evidence`, by annealing, with an error bar
- `result`: what it returns
- `annealing`: the schedule from prior to posterior, and two estimates of Z
- `particle_moves`: elliptical slice updates of many particles, each at an inverse temperature
- `target`: what particles are drawn from and weighted by
"""

from ellipslice.marginal.evidence import evidence
from ellipslice.marginal.result import Evidence

__all__ = ["Evidence", "evidence"]
