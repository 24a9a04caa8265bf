"""Injected bugs in likelihoods: `check_likelihood` detects each of them."""

from __future__ import annotations

import numpy as np
import pytest

from catalogue import SEEDS
from catalogue_likelihoods import CATALOGUE, REALS
from ellipslice.likelihoods import Gaussian
from ellipslice.testing import check_likelihood

F = np.array([-1.0, 0.2, 0.5, 1.0, -0.4, 2.0])


def planted(**methods):
    """Return the Gaussian likelihood with some methods replaced."""
    return type("Planted", (Gaussian,), methods)(REALS, noise_scale=0.7)


def test_the_unplanted_likelihood_passes():
    check_likelihood(planted(), F)


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("name", CATALOGUE)
def test_every_likelihood_in_the_catalogue_passes(name, seed):
    likelihood = CATALOGUE[name]()
    check_likelihood(likelihood, np.full(likelihood.y.shape, 0.3), seed=seed)


WRONG = {
    "pointwise values that do not sum": (
        lambda: planted(pointwise=lambda self, f: Gaussian.pointwise(self, f) - 0.01),
        "pointwise does not sum",
    ),
    "a term left out of the sum": (
        lambda: planted(__call__=lambda self, f: self.pointwise(f)[..., 1:].sum(axis=-1)),
        "pointwise does not sum",
    ),
    "pointwise values of the wrong shape": (
        lambda: planted(pointwise=lambda self, f: Gaussian.pointwise(self, f)[..., None]),
        "pointwise of shape",
    ),
    "rows that know of each other": (
        lambda: planted(__call__=lambda self, f: Gaussian.__call__(self, f - 0.01 * (f.ndim > 1))),
        "sum|batch",
    ),
    "a slope with the wrong sign": (
        lambda: planted(slope=lambda self, f: -Gaussian.slope(self, f)),
        "slope is not the derivative",
    ),
    "a curvature with the wrong sign": (
        lambda: planted(_curvature=lambda self, f: -Gaussian._curvature(self, f)),
        "curvature is not the second derivative",
    ),
    "data of the wrong shape": (
        lambda: planted(simulate=lambda self, f, rng: np.zeros(3)),
        "simulate returns shape",
    ),
    "compiled otherwise": (
        lambda: lambda f: (f * f).sum() * (-1.0 if isinstance(f, np.ndarray) else -1.0001),
        "compiled value differs",
    ),
    "random": (
        lambda: lambda f: -float(f @ f) + 1e-6 * np.random.default_rng().standard_normal(),
        "two calls with the same f",
    ),
    "annealed": (lambda: Annealed(), "two calls with the same f"),
    "+inf": (lambda: lambda f: np.inf, r"\+inf"),
    "zero at the point given": (lambda: lambda f: -np.inf, "-inf at the given f"),
    "NaN at the point given": (lambda: lambda f: np.nan, "nan at the given f"),
}


class Annealed:
    """A log-likelihood that is not a function of f alone: every call is a little sharper."""

    def __init__(self):
        self.calls = 0

    def __call__(self, f):
        self.calls += 1
        return -float(f @ f) * (1 + 1e-3 * self.calls)


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("name", WRONG)
def test_a_wrong_likelihood_is_caught(name, seed):
    make, says = WRONG[name]
    with pytest.raises(AssertionError, match=says):
        check_likelihood(make(), F, seed=seed)


def test_a_likelihood_that_changes_its_argument_is_caught():
    def log_likelihood(f):
        f -= 1.0
        return -float(f @ f)

    with pytest.raises(ValueError, match="in place"):
        check_likelihood(log_likelihood, F)
