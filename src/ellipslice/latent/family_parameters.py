"""The unknown parameters of families, with their default priors."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np


class FamilyParameter(NamedTuple):
    """An unknown parameter of a family."""

    meaning: str
    prior_text: str
    """Default prior as text."""
    make_prior: Callable[[Any, np.ndarray], Any] | None
    """Function of the module `numpyro.distributions` and the observed responses. None if there is no default prior."""


@dataclass(frozen=True)
class LogNormalPrior:
    """Function that makes a log-normal prior with a median and the standard deviation of the logarithm."""

    median: float
    sd: float = 1.0

    def __call__(self, distributions: Any, y: np.ndarray) -> Any:
        return distributions.LogNormal(math.log(self.median), self.sd)


def _half_deviation(distributions: Any, y: np.ndarray) -> Any:
    """Return the log-normal prior whose median is half the standard deviation of the responses."""
    deviation = float(np.std(y)) or 1.0
    return distributions.LogNormal(math.log(0.5 * deviation), 1.0)


def _heavy_tails(distributions: Any, y: np.ndarray) -> Any:
    """Return the gamma prior of degrees of freedom with shape 2 and rate 0.1 (Juárez & Steel 2010)."""
    return distributions.Gamma(2.0, 0.1)


def _uniform(distributions: Any, y: np.ndarray) -> Any:
    """Return the uniform prior of a probability."""
    return distributions.Uniform(0.0, 1.0)


def _positive(meaning: str, median: float, sd: float = 1.0) -> FamilyParameter:
    """Return a positive parameter with a log-normal prior."""
    words = f"log-normal, median {median:g}, standard deviation of the logarithm {sd:g}"
    return FamilyParameter(meaning, words, LogNormalPrior(median, sd))


NOISE_SCALE = FamilyParameter(
    "standard deviation of the noise",
    "log-normal, median half the standard deviation of y, standard deviation of the logarithm 1",
    _half_deviation,
)
STUDENT_SCALE = NOISE_SCALE._replace(meaning="scale of the noise")
DEGREES_OF_FREEDOM = FamilyParameter(
    "degrees of freedom of the noise: a small number means heavy tails", "gamma, shape 2, rate 0.1", _heavy_tails
)
DISPERSION = _positive("dispersion: the variance of the response is mu + mu^2 / dispersion", 5.0)
GAMMA_SHAPE = _positive("shape: the standard deviation of the response is mu / sqrt(shape)", 2.0, 1.5)
BETA_PRECISION = _positive("precision: the variance of the response is mu (1 - mu) / (1 + precision)", 10.0, 1.5)
WEIBULL_SHAPE = _positive("shape: the hazard is proportional to t^(shape - 1)", 1.0)
ZERO_PROBABILITY = FamilyParameter("probability of an additional zero", "uniform on (0, 1)", _uniform)


def ordinal_gap(number: int) -> FamilyParameter:
    """Return the distance between two successive cut points of ordered categories."""
    return _positive(f"distance between the cut points {number} and {number + 1}; cut point 1 is 0", 1.0)
