"""The likelihoods on which the property tests run. Add a constructor here for each new class, and its distribution.

`CATALOGUE[name]()` is a likelihood with fixed data, and `CATALOGUE[name](y)` the same one with other data.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from scipy import special, stats

from ellipslice.likelihoods import (
    Binomial,
    Gaussian,
    Likelihood,
    Logistic,
    NegativeBinomial,
    Poisson,
    Probit,
    StudentT,
)

REALS = np.array([-2.5, -0.3, 0.0, 0.4, 1.0, 3.0])
SIGNS = np.array([-1, 1, 1, -1, -1, 1])
COUNTS = np.array([0, 1, 0, 3, 7, 40])
SMALL = np.array([0, 1, 4, 12, 0, 6])
TRIALS = np.array([0, 1, 9, 12, 30, 12])
REALS_2D, SIGNS_2D, COUNTS_2D = REALS.reshape(2, 3), SIGNS.reshape(3, 2), COUNTS.reshape(3, 2)
SLOPE = np.linspace(-0.5, 1.0, 6)

CATALOGUE: dict[str, Callable[..., Likelihood]] = {
    "Gaussian": lambda y=REALS: Gaussian(y, noise_scale=0.7),
    "Gaussian, noise scale per row": lambda y=REALS_2D: Gaussian(y, noise_scale=[[0.3], [2.0]]),
    "Logistic": lambda y=SIGNS: Logistic(y),
    "Logistic, two axes": lambda y=SIGNS_2D: Logistic(y),
    "Probit": lambda y=SIGNS: Probit(y),
    "Poisson": lambda y=COUNTS: Poisson(y, offset=-1.446),
    "Poisson, offset per count": lambda y=COUNTS: Poisson(y, offset=SLOPE),
    "Poisson, two axes": lambda y=COUNTS_2D: Poisson(y),
    "Binomial": lambda y=SMALL: Binomial(y, 12),
    "Binomial, trials per count": lambda y=SMALL: Binomial(y, TRIALS),
    "NegativeBinomial": lambda y=COUNTS: NegativeBinomial(y, dispersion=2.5),
    "NegativeBinomial, all per count": lambda y=COUNTS: NegativeBinomial(y, np.exp(3 * SLOPE), offset=SLOPE),
    "StudentT": lambda y=REALS: StudentT(y),
    "StudentT, all per value": lambda y=REALS: StudentT(
        y, noise_scale=np.exp(SLOPE), degrees_of_freedom=10 + 4 * SLOPE
    ),
}


class Labels:
    """The distribution of labels -1 and +1 with probability p of +1, with the methods of a SciPy distribution."""

    def __init__(self, p: Any):
        self.p = p

    def logpmf(self, y: Any) -> Any:
        return np.log(np.where(y > 0, self.p, 1 - self.p))

    def mean(self) -> Any:
        return 2 * self.p - 1

    def var(self) -> Any:
        return 4 * self.p * (1 - self.p)


def _negative_binomial(item: Any, f: Any) -> Any:
    return stats.nbinom(item.dispersion, item.dispersion / (item.dispersion + np.exp(f + item.offset)))


DISTRIBUTION: dict[type, Callable[[Any, Any], Any]] = {
    Gaussian: lambda item, f: stats.norm(f, item.noise_scale),
    Logistic: lambda item, f: Labels(1 / (1 + np.exp(-f))),
    Probit: lambda item, f: Labels(0.5 * special.erfc(-f / np.sqrt(2))),
    Poisson: lambda item, f: stats.poisson(np.exp(f + item.offset)),
    Binomial: lambda item, f: stats.binom(item.trials.astype(int), special.expit(f)),
    NegativeBinomial: _negative_binomial,
    StudentT: lambda item, f: stats.t(item.degrees_of_freedom, f, item.noise_scale),
}
"""The distribution of y given f for each likelihood, computed by SciPy and not by the library."""
