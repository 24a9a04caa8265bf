"""The likelihoods on which the property tests run. Add a constructor here for each new class, and its distribution.

`CATALOGUE[name]()` is a likelihood with fixed data, and `CATALOGUE[name](y)` the same one with other data.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from scipy import optimize, special, stats

from ellipslice.likelihoods import (
    Beta,
    Binomial,
    ComplementaryLogLog,
    Gamma,
    Gaussian,
    Likelihood,
    Logistic,
    NegativeBinomial,
    Ordinal,
    Poisson,
    Probit,
    ProbitBinomial,
    StochasticVolatility,
    StudentT,
    Weibull,
    ZeroInflatedBinomial,
    ZeroInflatedNegativeBinomial,
    ZeroInflatedPoisson,
)

REALS = np.array([-2.5, -0.3, 0.0, 0.4, 1.0, 3.0])
SIGNS = np.array([-1, 1, 1, -1, -1, 1])
COUNTS = np.array([0, 1, 0, 3, 7, 40])
SMALL = np.array([0, 1, 4, 12, 0, 6])
TRIALS = np.array([0, 1, 9, 12, 30, 12])
REALS_2D, SIGNS_2D, COUNTS_2D = REALS.reshape(2, 3), SIGNS.reshape(3, 2), COUNTS.reshape(3, 2)
SLOPE = np.linspace(-0.5, 1.0, 6)
POSITIVE = np.array([0.1, 0.4, 1.0, 1.2, 2.0, 3.0])
SHARES = np.array([0.01, 0.2, 0.5, 0.51, 0.9, 0.99])
CATEGORIES = np.array([1, 2, 3, 4, 4, 2])
RETURNS = np.array([-2.5, -0.3, 1e-4, 0.4, 1.0, 3.0])
EVENTS = np.array([1, 0, 1, 1, 0, 1])
CUTS = np.array([-1.0, 0.2, 2.0])

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
    "ProbitBinomial": lambda y=SMALL: ProbitBinomial(y, 12),
    "ProbitBinomial, trials per count": lambda y=SMALL: ProbitBinomial(y, TRIALS),
    "ComplementaryLogLog": lambda y=SIGNS > 0: ComplementaryLogLog(y),
    "ComplementaryLogLog, trials per count": lambda y=SMALL: ComplementaryLogLog(y, [0, 1, 9, 12, 7, 12]),
    "Gamma": lambda y=POSITIVE: Gamma(y, shape=2.5),
    "Gamma, shape per value": lambda y=POSITIVE: Gamma(y, shape=np.exp(SLOPE)),
    "Beta": lambda y=SHARES: Beta(y, precision=5.0),
    "Beta, precision per value": lambda y=SHARES: Beta(y, precision=np.exp(3 * SLOPE)),
    "Weibull": lambda y=POSITIVE: Weibull(y, shape=1.5),
    "Weibull, censored, shape per value": lambda y=POSITIVE: Weibull(y, shape=np.exp(SLOPE), event=EVENTS),
    "Ordinal": lambda y=CATEGORIES: Ordinal(y, CUTS),
    "Ordinal, cut points per value": lambda y=CATEGORIES: Ordinal(y, SLOPE[:, None] + np.array([-3.0, 0.0, 0.1])),
    "StochasticVolatility": lambda y=RETURNS: StochasticVolatility(y),
    "ZeroInflatedPoisson": lambda y=COUNTS: ZeroInflatedPoisson(y, 0.3, offset=-0.5),
    "ZeroInflatedPoisson, all per count": lambda y=COUNTS: ZeroInflatedPoisson(y, 0.5 + 0.4 * SLOPE, offset=SLOPE),
    "ZeroInflatedNegativeBinomial": lambda y=COUNTS: ZeroInflatedNegativeBinomial(y, 0.3, dispersion=2.5),
    "ZeroInflatedBinomial": lambda y=SMALL: ZeroInflatedBinomial(y, 0.3, 12),
    "ZeroInflatedBinomial, all per count": lambda y=SMALL: ZeroInflatedBinomial(y, 0.5 + 0.4 * SLOPE, TRIALS),
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


class Censored:
    """A survival distribution, of which some observations are only known to be later than y."""

    def __init__(self, distribution: Any, event: Any):
        self.distribution, self.event = distribution, event
        self.mean, self.var = distribution.mean, distribution.var

    def logpdf(self, y: Any) -> Any:
        return np.where(self.event > 0, self.distribution.logpdf(y), self.distribution.logsf(y))


class ComplementarySuccesses:
    """Binomial distribution with success probability 1 - exp(-exp(f)). SciPy's would round the probability to 1."""

    def __init__(self, item: Any, f: Any):
        self.trials, self.rate = item.trials, np.exp(f)
        self.counts = stats.binom(item.trials.astype(int), -np.expm1(-self.rate))
        self.mean, self.var = self.counts.mean, self.counts.var

    def logpmf(self, y: Any) -> Any:
        coefficient = np.log(special.comb(self.trials, y))
        return coefficient + y * np.log(-np.expm1(-self.rate)) - (self.trials - y) * self.rate


class Mixture:
    """A distribution of counts with additional zeros."""

    def __init__(self, distribution: Any, p: Any):
        self.distribution, self.p = distribution, p

    def logpmf(self, y: Any) -> Any:
        zero = np.log(self.p + (1 - self.p) * self.distribution.pmf(0))
        return np.where(y == 0, zero, np.log1p(-self.p) + self.distribution.logpmf(y))

    def mean(self) -> Any:
        return (1 - self.p) * self.distribution.mean()

    def var(self) -> Any:
        mean = self.distribution.mean()
        return (1 - self.p) * (self.distribution.var() + self.p * mean**2)


class Categories:
    """The distribution of categories 1 to K between cut points, computed as differences of logistic probabilities."""

    def __init__(self, cut_points: Any, f: Any):
        below = stats.logistic.cdf(cut_points - f[..., None])
        ends = np.zeros_like(below[..., :1])
        self.p = np.diff(np.concatenate([ends, below, ends + 1], axis=-1), axis=-1)
        self.numbers = np.arange(1, self.p.shape[-1] + 1)

    def logpmf(self, y: Any) -> Any:
        index = np.broadcast_to(y.astype(int) - 1, self.p.shape[:-1])
        return np.log(np.take_along_axis(self.p, index[..., None], axis=-1))[..., 0]

    def mean(self) -> Any:
        return (self.p * self.numbers).sum(-1)

    def var(self) -> Any:
        return (self.p * self.numbers**2).sum(-1) - self.mean() ** 2


def _negative_binomial(item: Any, f: Any) -> Any:
    return stats.nbinom(item.dispersion, item.dispersion / (item.dispersion + np.exp(f + item.offset)))


def _weibull(item: Any, f: Any) -> Any:
    return Censored(stats.weibull_min(item.shape, scale=np.exp(-f / item.shape)), item.event)


def _beta(item: Any, f: Any) -> Any:
    return stats.beta(item.precision * special.expit(f), item.precision * special.expit(-f))


DISTRIBUTION: dict[type, Callable[[Any, Any], Any]] = {
    Gaussian: lambda item, f: stats.norm(f, item.noise_scale),
    Logistic: lambda item, f: Labels(1 / (1 + np.exp(-f))),
    Probit: lambda item, f: Labels(0.5 * special.erfc(-f / np.sqrt(2))),
    Poisson: lambda item, f: stats.poisson(np.exp(f + item.offset)),
    Binomial: lambda item, f: stats.binom(item.trials.astype(int), special.expit(f)),
    ProbitBinomial: lambda item, f: stats.binom(item.trials.astype(int), stats.norm.cdf(f)),
    ComplementaryLogLog: ComplementarySuccesses,
    NegativeBinomial: _negative_binomial,
    StudentT: lambda item, f: stats.t(item.degrees_of_freedom, f, item.noise_scale),
    Gamma: lambda item, f: stats.gamma(item.shape, scale=np.exp(f) / item.shape),
    Beta: _beta,
    Weibull: _weibull,
    Ordinal: lambda item, f: Categories(item.cut_points, f),
    StochasticVolatility: lambda item, f: stats.norm(0.0, np.exp(0.5 * f)),
    ZeroInflatedPoisson: lambda item, f: Mixture(stats.poisson(np.exp(f + item.offset)), item.zero_probability),
    ZeroInflatedNegativeBinomial: lambda item, f: Mixture(_negative_binomial(item, f), item.zero_probability),
    ZeroInflatedBinomial: lambda item, f: Mixture(
        stats.binom(item.trials.astype(int), special.expit(f)), item.zero_probability
    ),
}
"""The distribution of y given f for each likelihood, computed by SciPy and not by the library."""


def _beta_peak(item: Any) -> np.ndarray:
    """Return the f at which the beta density of each observation is highest, by bounded search in SciPy's density."""
    peaks = [
        optimize.minimize_scalar(
            lambda f, y=y, precision=precision: (
                -stats.beta.logpdf(y, precision * special.expit(f), precision * special.expit(-f))
            ),
            bounds=(-40, 40),
        ).x
        for y, precision in np.broadcast(item.y, item.precision)
    ]
    return np.reshape(peaks, item.y.shape)


PEAK: dict[type, Callable[[Any], np.ndarray]] = {
    Gaussian: lambda item: item.y,
    StudentT: lambda item: item.y,
    Gamma: lambda item: np.log(item.y),
    Beta: _beta_peak,
    Weibull: lambda item: np.where(item.event > 0, -item.shape * np.log(item.y), -700.0),
    StochasticVolatility: lambda item: np.log(item.y**2),
}
"""The f at which the density of each observation is highest, for each likelihood of continuous observations."""
