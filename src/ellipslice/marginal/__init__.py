"""The log marginal likelihood, log Z.

- `evidence`: the function `evidence`, which estimates log Z with a standard error
- `result`: the class `Evidence`, and warnings about an unreliable estimate
- `particle_runs`: the pilot run and the two runs that estimate log Z
- `annealing`: the schedule of inverse temperatures, sequential Monte Carlo and annealed importance sampling
- `particle_moves`: elliptical slice updates of many particles, each at an inverse temperature
- `target`: the Gaussian that particles are drawn from, and the function that weights them
"""

from ellipslice.marginal.evidence import evidence
from ellipslice.marginal.result import Evidence

__all__ = ["Evidence", "evidence"]
