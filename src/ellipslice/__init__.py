"""Elliptical slice sampling: draw from a Gaussian prior times any likelihood.

>>> import ellipslice as es

`es.sample` runs chains, to goals if given `es.Until`, `es.resume` goes on with those of a store, and `es.join` puts
together runs that shared them; `es.step` is one update by itself; `es.gp` has models of Gaussian processes;
`es.evidence` and `es.approximate_evidence` compare models; `es.tune_step`, `es.tune_controls` and `es.tune_hamiltonian`
find settings for moves that have some; priors are here, and the rest in `es.likelihoods`, `es.moves`, `es.diagnostics`,
`es.testing` and `es.data`.
"""

from ellipslice import data, diagnostics, gp, likelihoods, moves, testing
from ellipslice.approximations import approximate_evidence
from ellipslice.engines.workers.pool import WorkersLostError
from ellipslice.fast_cpu import fast_cpu
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
    "testing",
    "tune_controls",
    "tune_hamiltonian",
    "tune_step",
]
