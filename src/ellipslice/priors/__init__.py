"""Gaussian priors, one structure per file.

To add one, write a file with a class derived from `Prior`, name it here and in `tests/catalogue.py`, and
`ellipslice.testing.check_prior` tells you whether it keeps the laws.
"""

from ellipslice.priors.base import Prior
from ellipslice.priors.dense import Dense
from ellipslice.priors.diagonal import Diagonal
from ellipslice.priors.from_draws import FromDraws
from ellipslice.priors.kronecker import Kronecker
from ellipslice.priors.low_rank import LowRank
from ellipslice.priors.markov import Markov
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
