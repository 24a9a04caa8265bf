"""The log marginal likelihood, log Z.

- `evidence`: the function `evidence`, which estimates log Z with a standard error
- `arguments`: checks of its arguments, and the choice of the engine
- `tempered`: the estimate along a tempered path, by sequential Monte Carlo
- `nested_evidence`: the estimate by nested sampling, with the choice of the number of updates
- `compare`: the comparison of both
- `result`: the classes of results
- `blind_spot`: the smallest share of mass that is found with high probability
- `warnings`: warnings about an unreliable estimate
- `estimates`: means of weights with standard errors, and comparisons of estimates
- `particle_runs`: first draws of all runs, and the three runs of the tempered method
- `annealing`: the schedule of inverse temperatures, sequential Monte Carlo and annealed importance sampling
- `nested`: a run of nested sampling
- `nested_sum`: prior mass of the points of nested sampling, log Z, information and standard error
- `insertion_ranks`: the test whether replacements in nested sampling are independent draws
- `particle_moves`: elliptical slice updates of many particles, at inverse temperatures and above fixed levels
- `target`: the Gaussian that particles are drawn from, and the function that weights them
"""

from ellipslice.marginal.evidence import evidence
from ellipslice.marginal.result import Evidence, NestedEvidence, TemperedEvidence

__all__ = ["Evidence", "NestedEvidence", "TemperedEvidence", "evidence"]
