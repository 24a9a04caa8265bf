"""Elliptical slice sampling: draw from a Gaussian prior times any likelihood.

>>> import ellipslice as es

- `es.sample` runs chains, `es.Until` is a stopping rule for it, and `es.step` makes one update.
- `es.resume` continues a run from its store, and `es.join` combines runs of different chains.
- `es.Dense`, `es.Diagonal`, `es.Markov` and others are the priors.
- `es.likelihoods` and `es.moves` contain observation models and sampling moves.
- `es.gp` has models with Gaussian processes: `es.gp.LatentGP` and `es.gp.CoxProcess`.
- `es.LatentGaussianModel` is a model with a formula, such as a generalised linear mixed model.
- `es.terms` has its terms: fixed and group-level effects, random walks, spatial effects.
- `es.diagnostics` checks convergence.
- `es.evidence` and `es.approximate_evidence` compute the log marginal likelihood of a model.
- `es.tune_step`, `es.tune_controls` and `es.tune_hamiltonian` find settings of the moves that have settings.
- `es.fast_cpu` sets options of XLA and of memory that speed up CPUs.
- `es.testing` has property tests for your own classes, and `es.data` the data sets of the paper.
"""

from ellipslice import data, diagnostics, gp, likelihoods, moves, testing
from ellipslice.approximations import approximate_evidence
from ellipslice.engines.workers.pool import WorkersLostError
from ellipslice.fast_cpu import fast_cpu
from ellipslice.latent import terms
from ellipslice.latent.model import LatentGaussianModel
from ellipslice.machine import version as _version
from ellipslice.marginal import evidence
from ellipslice.moves import step
from ellipslice.priors import (
    Dense,
    Diagonal,
    FromDraws,
    Kronecker,
    LowRank,
    Markov,
    Prior,
    SparsePrecision,
    Stack,
    Stationary,
    Sum,
    TruncatedGaussian,
)
from ellipslice.sampling import Until, join, resume, sample
from ellipslice.tuning import tune_controls, tune_hamiltonian, tune_step

__version__ = _version("ellipslice")

__all__ = [
    "Dense",
    "Diagonal",
    "FromDraws",
    "Kronecker",
    "LatentGaussianModel",
    "LowRank",
    "Markov",
    "Prior",
    "SparsePrecision",
    "Stack",
    "Stationary",
    "Sum",
    "TruncatedGaussian",
    "Until",
    "WorkersLostError",
    "approximate_evidence",
    "data",
    "diagnostics",
    "evidence",
    "fast_cpu",
    "gp",
    "join",
    "likelihoods",
    "moves",
    "resume",
    "sample",
    "step",
    "terms",
    "testing",
    "tune_controls",
    "tune_hamiltonian",
    "tune_step",
]
