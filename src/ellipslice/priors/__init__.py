"""Gaussian priors, one structure per file.

To add one, write a file with a class derived from `Prior`, import it and add it to `REGISTERED` here, and add an
instance to `tests/catalogue.py`. `ellipslice.testing.check_prior` checks it.

- `base`: the interface of a prior, its optional capabilities, and functions that several structures share
- `dense`: any covariance matrix
- `diagonal`: independent elements
- `low_rank`: low-rank covariances, f = factor @ z, with or without a diagonal
- `from_draws`: a user's function that draws from the prior
- `stationary`: stationary kernels on regular grids, by the fast Fourier transform
- `kronecker`: product kernels on product grids
- `markov`: time series at irregular times
- `sparse_precision`: Gaussian Markov random fields
- `stack`: several named latents
- `sum`: sums of independent Gaussians
- `truncated`: Gaussians under linear inequalities
- `parts/`: conditionals, precisions, kernels and constraints that priors share
"""

from ellipslice.priors.base import Prior
from ellipslice.priors.dense import Dense
from ellipslice.priors.diagonal import Diagonal
from ellipslice.priors.from_draws import FromDraws
from ellipslice.priors.kronecker import Kronecker
from ellipslice.priors.low_rank import LowRank
from ellipslice.priors.markov import Markov
from ellipslice.priors.parts.constraints import Constraints
from ellipslice.priors.sparse_precision import SparsePrecision
from ellipslice.priors.stack import Stack
from ellipslice.priors.stationary import Stationary
from ellipslice.priors.sum import Sum
from ellipslice.priors.truncated import TruncatedGaussian

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
]

REGISTERED = (
    *(Dense, Diagonal, Stationary, Kronecker, Markov, SparsePrecision, LowRank, Stack, Sum, FromDraws),
    TruncatedGaussian,
)
"""Every prior class. Stores, the reference pages and the catalogue of the tests read it."""

STORED_PARTS = (Constraints,)
"""Classes whose instances are stored as part of a prior."""
