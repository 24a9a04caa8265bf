"""Property tests of every likelihood in the catalogue: values, derivatives, tails, and messages about bad data."""

from __future__ import annotations

import math
import pickle
import sys
import warnings
from decimal import Decimal, localcontext
from typing import Any

import jax
import jax.numpy as jnp
import mpmath
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import ellipslice.likelihoods as likelihoods
from catalogue_likelihoods import CATALOGUE, DISTRIBUTION, PEAK
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
    derivatives,
)
from ellipslice.pytree import pytree, set_fields, static

EVERY = pytest.mark.parametrize("name", CATALOGUE)
COMPILED = pytest.mark.parametrize(  # the quick run compiles one of each class
    "name", [pytest.param(name, marks=pytest.mark.long) if "," in name else name for name in CATALOGUE]
)
WIDE = np.concatenate([np.linspace(-1e3, 1e3, 401), np.linspace(-30, 30, 241)])


def latents(item, batch=(), seed=0, scale=1.5):
    return scale * np.random.default_rng(seed).standard_normal((*batch, *item.y.shape))


def everywhere(item, grid=WIDE):
    """Return latent vectors in which all observations have the same latent value, one for each value of the grid."""
    return np.broadcast_to(grid.reshape(-1, *[1] * item.y.ndim), (grid.size, *item.y.shape)).copy()


def compiled(function, *arguments):
    with jax.enable_x64(True):
        return jax.tree.map(np.asarray, jax.jit(function)(*arguments))


def test_the_catalogue_has_every_class():
    assert {type(make()) for make in CATALOGUE.values()} == set(likelihoods.REGISTERED) == set(DISTRIBUTION)


# --- values ---------------------------------------------------------------------------------------------------------


@EVERY
def test_value_is_the_sum_of_terms(name):
    item = CATALOGUE[name]()
    f = latents(item)
    assert item.pointwise(f).shape == f.shape
    assert isinstance(item(f), float)
    np.testing.assert_allclose(item(f), math.fsum(item.pointwise(f).ravel()), rtol=1e-14)
    assert item(f.tolist()) == item(f)


@EVERY
def test_a_batch_has_the_bits_of_its_members(name):
    # They must be equal exactly, in any memory layout, because a chain must not depend on the size of a batch.
    item = CATALOGUE[name]()
    f = latents(item, batch=(5, 3))
    one_by_one = np.array([[item(point) for point in row] for row in f])
    np.testing.assert_array_equal(item(f), one_by_one)
    np.testing.assert_array_equal(item(np.asfortranarray(f)), one_by_one)
    assert item(np.empty((0, *item.y.shape))).shape == (0,)


@pytest.mark.parametrize("size", [1, 7, 129, 811])
def test_a_long_batch_has_the_bits_of_its_members(size):
    item = Poisson(np.arange(size) % 4, offset=-1.0)
    f = latents(item, batch=(9,))
    np.testing.assert_array_equal(item(f), [item(point) for point in f])


@COMPILED
def test_numpy_equals_jax(name):
    item = CATALOGUE[name]()
    close = {"rtol": 1e-12, "atol": 1e-300}  # XLA flushes the smallest numbers, below 2e-308, to zero
    for f in (latents(item, batch=(50,)), everywhere(item)):
        terms, total, one_by_one = compiled(lambda i, f: (i.pointwise(f), i(f), jax.vmap(i)(f)), item, f)
        np.testing.assert_allclose(terms, item.pointwise(f), **close)
        np.testing.assert_allclose(total, item(f), **close)
        np.testing.assert_allclose(one_by_one, item(f), **close)
    f = latents(item)  # f is a NumPy array while the data are traced
    np.testing.assert_allclose(compiled(lambda i: i(f), item), item(f), **close)


@EVERY
def test_numpy_stays_numpy(name, monkeypatch):
    item = CATALOGUE[name]()
    monkeypatch.setattr(sys.modules[Likelihood.__module__], "jnp", None)
    assert type(item.pointwise(latents(item))) is np.ndarray


@EVERY
def test_terms_are_the_densities_scipy_has(name):
    item = CATALOGUE[name]()
    f = latents(item, batch=(200,))
    distribution = DISTRIBUTION[type(item)](item, f)
    log_density = getattr(distribution, "logpdf", None) or distribution.logpmf
    # The reference is computed from probabilities, and loses up to a factor 1/(1 - p) in accuracy where they are near
    # 1.
    np.testing.assert_allclose(item.pointwise(f), log_density(item.y), rtol=1e-11, atol=1e-13)


def highest(item):
    """Return an upper limit of each term: the highest density of a continuous observation, and 0 for a probability."""
    return item.pointwise(PEAK[type(item)](item)) if type(item) in PEAK else np.zeros(item.y.shape)


@EVERY
def test_terms_never_exceed_the_highest_density(name):
    item = CATALOGUE[name]()
    assert (item.pointwise(everywhere(item)) <= highest(item) + 1e-12).all()


@EVERY
@settings(max_examples=25, deadline=None, derandomize=True)
@given(data=st.data())
def test_any_finite_f_gives_a_number(name, data):
    item = CATALOGUE[name]()
    values = st.lists(st.floats(-1e6, 1e6) | st.floats(-712, 712), min_size=item.y.size, max_size=item.y.size)
    f = np.array(data.draw(values)).reshape(item.y.shape)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        terms, value = item.pointwise(f), item(f)
    assert not np.isnan(value)
    assert (terms <= highest(item) + 1e-12).all()  # false for NaN


@COMPILED
def test_nan_gives_nan(name):
    item = CATALOGUE[name]()
    f = latents(item)
    f.flat[1] = np.nan
    assert np.isnan(item(f))
    assert np.isnan(compiled(item, f))
    assert np.isnan(item.pointwise(f)).sum() == np.isnan(compiled(item.pointwise, f)).sum() == 1


# --- derivatives ----------------------------------------------------------------------------------------------------


def slopes(item, f):
    return compiled(jax.grad(lambda f: item.pointwise(f).sum()), f)


@COMPILED
def test_gradients_are_finite_wherever_the_value_is(name):
    item = CATALOGUE[name]()
    f = everywhere(item)
    assert np.isfinite(slopes(item, f))[np.isfinite(item.pointwise(f))].all()


@COMPILED
def test_derivatives_are_those_of_the_value(name):
    item = CATALOGUE[name]()
    f = everywhere(item, np.array([-3.0, -0.5, 0.0, 0.5, 3.0]))
    curvature = compiled(jax.grad(lambda f: jax.grad(lambda f: item.pointwise(f).sum())(f).sum()), f)
    h = 1e-4
    low, middle, high = item.pointwise(f - h), item.pointwise(f), item.pointwise(f + h)
    # The values are up to 1e3, so they are rounded by 1e-13: central differences have an error of 1e-9 after division
    # by h, and of 1e-5 after division by h^2. The error of the differences themselves is of order h^2 times a
    # derivative of at most 100.
    np.testing.assert_allclose(slopes(item, f), (high - low) / (2 * h), rtol=0, atol=1e-6)
    np.testing.assert_allclose(curvature, (high - 2 * middle + low) / h**2, rtol=0, atol=1e-4)


EXTREME = np.array([-700.0, -30.0, -5.0, 5.0, 30.0, 700.0])


@COMPILED
def test_derivatives_in_numpy_are_those_of_jax(name):
    item = CATALOGUE[name]()

    def curvatures(f):
        return jax.grad(lambda f: jax.grad(lambda f: item.pointwise(f).sum())(f).sum())(f)

    for f in (latents(item, batch=(20,)), everywhere(item, EXTREME)):
        finite = np.isfinite(item.pointwise(f))
        # JAX's second derivative of the probit log-likelihood is a difference of numbers of size abs(f), whose relative
        # error is 2e-15, multiplied by abs(f). Sums of terms with opposite signs have the error of the largest term.
        precision = 1e-12 + 2e-15 * f[finite] ** 2
        for own, by_jax in ((item.slope(f), slopes(item, f)), (item.curvature(f), compiled(curvatures, f))):
            assert type(own) is np.ndarray
            assert own.shape == f.shape
            assert own.dtype == np.float64
            assert not np.isnan(own[finite]).any()
            terms = np.abs(by_jax[finite]) + np.abs(item.y).max() * (np.abs(f[finite]) < 100)
            # XLA flushes the smallest numbers to zero.
            assert (np.abs(own[finite] - by_jax[finite]) <= precision * terms + 1e-300).all()


@EVERY
def test_derivatives_of_built_in_classes_do_not_use_jax(name, monkeypatch):
    item = CATALOGUE[name]()
    monkeypatch.setattr(derivatives, "_evaluate", None)
    f = latents(item)
    np.testing.assert_array_equal(item.slope(np.stack([f, f])), [item.slope(f)] * 2)
    np.testing.assert_array_equal(item.curvature(np.stack([f, f])), [item.curvature(f)] * 2)


@pytree
class Quartic(Likelihood):
    """A likelihood without derivatives in NumPy."""

    y: Any
    coupled: bool = static()

    def __init__(self, y, coupled=False):
        set_fields(self, y=np.asarray(y, dtype=float), coupled=coupled)

    def _pointwise(self, f, xp, special):
        away = f - self.y
        return -(away**4) + (away * xp.flip(away) if self.coupled else 0.0)

    def simulate(self, f, rng):
        raise NotImplementedError


def test_derivatives_by_jax():
    item, f = Quartic([0.5, -1.0, 2.0]), np.array([1.5, 1.0, 2.0])
    np.testing.assert_allclose(item.slope(f), -4 * (f - item.y) ** 3, rtol=1e-13)
    np.testing.assert_allclose(item.curvature(f), -12 * (f - item.y) ** 2, rtol=1e-13)
    unregistered = type("Unregistered", (Quartic,), {})([0.5, -1.0, 2.0])  # not a pytree, so it is not compiled
    np.testing.assert_allclose(unregistered.curvature(f), item.curvature(f), rtol=1e-13)


def test_derivatives_of_coupled_values_are_rejected():
    item, f = Quartic([0.5, -1.0, 2.0], coupled=True), np.array([1.5, 1.0, 2.0])
    for derivative in (item.slope, item.curvature):
        with pytest.raises(TypeError, match="depends on more than its own element of f"):
            derivative(f)


@COMPILED
def test_claims_of_log_concavity(name):
    item = CATALOGUE[name]()
    f = everywhere(item, np.arange(-30, 30, 0.25))
    terms = item.pointwise(f)
    bend = terms[:-2] - 2 * terms[1:-1] + terms[2:]
    rounding = 1e-14 * (np.abs(terms[1:-1]) + 1e2 + np.abs(item.y) * 40)
    assert (bend <= rounding).all() == item.log_concave


@COMPILED
def test_claims_of_how_fast_they_bend(name):
    """Third derivatives are at most the rate times second ones, and reach that somewhere: the rate is not too large."""
    item = CATALOGUE[name]()
    f = everywhere(item, np.arange(-25, 25, 0.25))

    def slope_of(function):
        return lambda f: jax.grad(lambda f: function(f).sum())(f)

    seconds = slope_of(slope_of(item.pointwise))
    bends, change = np.abs(compiled(seconds, f)), np.abs(compiled(slope_of(seconds), f))
    clear = bends > 1e-6 * bends.max(axis=0)
    fastest = (change[clear] / bends[clear]).max()
    # Without a rate, third derivatives exceed second ones by more than any rate of the others.
    if item.curvature_rate_bound is None:
        assert fastest > 3
    else:
        # The tolerance is for rounding: derivatives of the sigmoid are differences of numbers up to 1, times the
        # largest count.
        assert (change <= item.curvature_rate_bound * bends * (1 + 1e-9) + 1e-14 * (1 + bends.max())).all()
        assert fastest >= 0.9 * item.curvature_rate_bound


# --- simulation -----------------------------------------------------------------------------------------------------


def misses(draws, distribution):
    """Return the number of means and variances that differ by more than 5 Monte Carlo standard errors."""
    mean, variance = distribution.mean(), distribution.var()
    spread = (draws - mean) ** 2
    mean_error = np.sqrt(variance / len(draws))
    variance_error = spread.std(axis=0) / math.sqrt(len(draws))
    off = np.abs(draws.mean(axis=0) - mean) > 5 * mean_error
    return int((off | (np.abs(spread.mean(axis=0) - variance) > 5 * variance_error)).sum())


def moments_off(simulator, item, seed=0):
    f = latents(item, scale=0.8)
    draws = simulator.simulate(np.broadcast_to(f, (20_000, *f.shape)), np.random.default_rng(seed))
    assert draws.shape == (20_000, *f.shape)
    return misses(draws, DISTRIBUTION[type(item)](item, f))


@EVERY
@pytest.mark.statistical
def test_simulated_moments(name):
    item = CATALOGUE[name]()
    if name == "StudentT":
        item = StudentT(
            item.y, degrees_of_freedom=9.0
        )  # with 4 degrees of freedom there is no fourth moment, hence no standard error of the variance
    assert moments_off(item, item) == 0


@EVERY
def test_what_is_observed_on_average(name):
    """Compare `expected` with SciPy's mean of the same distribution. For labels it is the probability of +1."""
    item = CATALOGUE[name]()
    f = latents(item, scale=0.8)
    mean = DISTRIBUTION[type(item)](item, f).mean()
    if isinstance(item, Logistic | Probit):
        mean = (mean + 1) / 2
    np.testing.assert_allclose(item.expected(f), mean, rtol=1e-12, atol=1e-12)


PLANTED = {
    "Gaussian": lambda item: Gaussian(item.y, item.noise_scale**2),
    "Logistic": lambda item: Probit(item.y),
    "Probit": lambda item: Logistic(item.y),
    "Poisson": lambda item: Poisson(item.y, -item.offset),
    "Binomial": lambda item: Binomial(item.y, item.trials + 1),
    "NegativeBinomial": lambda item: NegativeBinomial(item.y, 1 / item.dispersion),
    "StudentT, all per value": lambda item: StudentT(item.y, item.noise_scale, item.degrees_of_freedom - 5),
    "ProbitBinomial": lambda item: Binomial(item.y, item.trials),
    "ComplementaryLogLog": lambda item: Binomial(item.y, item.trials),
    "Gamma": lambda item: Gamma(item.y, 1 / item.shape),
    "Beta": lambda item: Beta(item.y, item.precision + 1),
    "Weibull": lambda item: Weibull(item.y, 1 / item.shape),
    "Ordinal": lambda item: Ordinal(item.y, -item.cut_points[::-1]),
    "StochasticVolatility": lambda item: Gaussian(item.y),
    "ZeroInflatedPoisson": lambda item: ZeroInflatedPoisson(item.y, 1 - item.zero_probability, item.offset),
    "ZeroInflatedNegativeBinomial": lambda item: ZeroInflatedPoisson(item.y, item.zero_probability),
    "ZeroInflatedBinomial": lambda item: Binomial(item.y, item.trials),
}


@pytest.mark.statistical
@pytest.mark.parametrize("name", PLANTED)
def test_simulated_moments_catch_a_wrong_simulator(name):
    item = CATALOGUE[name]()
    assert moments_off(PLANTED[name](item), item) > 0


@EVERY
def test_simulated_data_are_accepted_as_data(name):
    item = CATALOGUE[name]()
    y = item.simulate(latents(item), np.random.default_rng(1))
    assert isinstance(y, np.ndarray)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        again = CATALOGUE[name](y)
    np.testing.assert_array_equal(again.y, y)


# --- pytrees --------------------------------------------------------------------------------------------------------


@EVERY
def test_new_data_do_not_compile_again(name):
    make, traces = CATALOGUE[name], []

    @jax.jit
    def value(item, f):
        traces.append(1)
        return item(f)

    first = make()
    f = latents(first)
    second = make(first.simulate(f, np.random.default_rng(2)))
    with jax.enable_x64(True):
        np.testing.assert_allclose(value(first, f), first(f), rtol=1e-12)
        np.testing.assert_allclose(value(second, f), second(f), rtol=1e-12)
    assert len(traces) == 1


@EVERY
def test_flattening_and_pickling_keep_everything(name):
    item = CATALOGUE[name]()
    f = latents(item)
    leaves, structure = jax.tree.flatten(item)
    assert all(type(leaf) is np.ndarray and leaf.dtype == np.float64 for leaf in leaves)
    for again in (jax.tree.unflatten(structure, leaves), pickle.loads(pickle.dumps(item))):
        assert repr(again) == repr(item)
        assert again(f) == item(f)
        assert jax.tree.structure(again) == structure


def test_later_changes_of_the_callers_array_do_nothing():
    y = np.array([1.0, 2.0])
    item = Poisson(y)
    y[0] = 5.0
    assert item.y[0] == 1.0
    with pytest.raises(ValueError, match="read-only"):
        item.y[0] = 5.0


# --- tails ----------------------------------------------------------------------------------------------------------


def log_normal_tail(x):
    """Return log Phi(-x) for x > 3 with 50 digits, from Laplace's continued fraction 1/(x + 1/(x + 2/(x + ...)))."""
    with localcontext() as context:
        context.prec = 50
        x, tail = Decimal(x), Decimal(0)
        for k in range(2000, 0, -1):
            tail = k / (x + tail)
        two_pi = 2 * Decimal("3.14159265358979323846264338327950288419716939937511")
        return float(-x * x / 2 - two_pi.ln() / 2 - (x + tail).ln())


@pytest.mark.parametrize("x", [4, 8, 19.5, 20.5, 40, 1000, 10_000])
def test_probit_tails(x):
    item, f = Probit([1, -1]), np.array([-x, x], dtype=float)
    np.testing.assert_allclose(item.pointwise(f), log_normal_tail(x), rtol=1e-13)
    np.testing.assert_allclose(compiled(item.pointwise, f), log_normal_tail(x), rtol=1e-13)
    log_density = -0.5 * x * x - 0.5 * math.log(2 * math.pi)
    # The derivative is computed from a difference of logarithms as large as x^2 / 2.
    slope = math.exp(log_density - log_normal_tail(x))
    np.testing.assert_allclose(slopes(item, f), [slope, -slope], rtol=1e-12 + 1e-15 * x * x)


def test_probit_close_to_certain():
    # log Phi(x) = -Phi(-x) - Phi(-x)^2 / 2 - ...
    x = np.array([4.0, 6.0, 9.0, 30.0])
    tail = np.exp([log_normal_tail(value) for value in x])
    for terms in (Probit(np.ones(4)).pointwise(x), compiled(Probit(np.ones(4)).pointwise, x)):
        np.testing.assert_allclose(terms, np.log1p(-tail), rtol=1e-13)


TAILS = [
    (Logistic([1, -1, 1, -1]), [-1e4, 1e4, 40, -40], [-1e4, -1e4, -math.exp(-40), -math.exp(-40)]),
    (Poisson([0, 2, 0, 3]), [-800, -800, 800, 800], [0, -1600 - math.log(2), -math.inf, -math.inf]),
    (Binomial([0, 2, 0, 2], 2), [-1e4, -1e4, 1e4, 50], [0, -2e4, -2e4, -2 * math.exp(-50)]),
    (NegativeBinomial([0, 2, 0, 2], 1.0), [-1e4, -1e4, 1e4, 1e4], [0, -2e4, -1e4, -1e4]),
    (NegativeBinomial([3], 1e12), [0.5], [Poisson([3])([0.5])]),
    (
        StudentT([0.0, 0.0], degrees_of_freedom=1.0),
        [1e8, -1e120],
        [-math.log(math.pi * 1e16), -math.log(math.pi) - 240 * math.log(10)],
    ),
    (StudentT([0.0], degrees_of_freedom=1e12), [0.5], [Gaussian([0.0])([0.5])]),
    (ProbitBinomial([0, 2], 2), [-1e4, 50.0], [0, 0]),
    (ComplementaryLogLog([1, 0, 1, 0], 1), [-1e4, -1e4, 1e4, 1e4], [-1e4, 0, 0, -math.inf]),
    (Gamma([1.0], 1e12), [0.0], [0.5 * math.log(1e12 / (2 * math.pi))]),
    (Gamma([1.0, 1.0], 2.0), [1e4, -1e4], [-2e4 + 2 * math.log(2), -math.inf]),
    (
        Beta([0.2, 0.2], 5.0),
        [-1e4, 1e4],
        [math.log(25) - 1e4 + 4 * math.log(0.8), math.log(5 / 0.8) - 1e4 + 4 * math.log(0.2)],
    ),
    (Weibull([2.0, 2.0, 2.0], event=[1, 0, 0]), [-1e4, -1e4, 1e4], [-1e4, 0, -math.inf]),
    (Ordinal([1, 2, 3], [0.0, 1.0]), [1e4, 1e4, 1e4], [-1e4, 1 - 1e4 + math.log(-math.expm1(-1)), 0]),
    (Ordinal([2], [0.0, 0.0]), [0.5], [-math.inf]),
    (StochasticVolatility([0.0, 1.0]), [-1e4, -1e4], [5e3 - 0.5 * math.log(2 * math.pi), -math.inf]),
    (ZeroInflatedPoisson([0, 2], 0.3), [1e4, 1e4], [math.log(0.3), -math.inf]),
    (ZeroInflatedPoisson([0, 2], 0.0), [0.5, 0.5], Poisson([0, 2]).pointwise([0.5, 0.5])),
    (ZeroInflatedPoisson([0, 2], 1.0), [0.5, 0.5], [0, -math.inf]),
    (ZeroInflatedNegativeBinomial([0, 2], 1e-200, 1.0), [1e4, -1e4], [-200 * math.log(10), -2e4]),
    (ZeroInflatedBinomial([0, 0], 0.5, [4, 0]), [1e4, 1e4], [math.log(0.5), 0]),
]


@pytest.mark.parametrize(("item", "f", "expected"), TAILS, ids=[f"{type(row[0]).__name__} {row[1]}" for row in TAILS])
def test_tails(item, f, expected):
    f = np.array(f, dtype=float)
    # With 10^12 degrees of freedom or dispersion, values equal the limit up to a few times 1e-12.
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        np.testing.assert_allclose(item.pointwise(f), expected, rtol=2e-11, atol=1e-300)
    np.testing.assert_allclose(compiled(item.pointwise, f), expected, rtol=2e-11, atol=1e-300)


def test_a_rate_too_large_to_simulate_is_named():
    for item in (Poisson([1, 1]), NegativeBinomial([1, 1], 2.0)):
        with pytest.raises(ValueError, match=r"the rate\[1\] = .* cannot be simulated"):
            item.simulate(np.array([0.0, 100.0]), np.random.default_rng(0))


# --- repr, messages and accuracy --------------------------------------------------------------------------------------


def test_repr():
    assert repr(Poisson(np.ones(811), math.log(191 / 811))) == "Poisson(811 observations, offset=-1.446)"
    assert repr(Logistic(np.ones(767))) == "Logistic(767 labels)"
    assert repr(Gaussian(3.0)) == "Gaussian(1 observation, noise_scale=1)"
    assert repr(Gaussian([1.0, 2.0], [1.0, 2.0])) == "Gaussian(2 observations, noise_scale=array of shape (2,))"
    assert repr(NegativeBinomial([3, 4], 2)) == "NegativeBinomial(2 observations, dispersion=2, offset=0)"
    seen = []
    jax.jit(lambda item: seen.append(repr(item)))(Binomial([[1, 2]], 5))
    assert seen == ["Binomial(2 observations, trials=array of shape ())"]


@pytest.mark.long
def test_probit_has_all_its_digits():
    """Compare values and derivatives with arithmetic of 400 digits, from far in one tail to far in the other."""
    x = np.concatenate([-np.logspace(-8, 3, 45), [0.0], np.logspace(-8, np.log10(37.0), 45)])
    with mpmath.workdps(400):
        exact = [mpmath.log(mpmath.ncdf(mpmath.mpf(float(value)))) for value in x]
        slopes = [mpmath.npdf(mpmath.mpf(float(v))) / mpmath.ncdf(mpmath.mpf(float(v))) for v in x]
        bends = [-slope * (mpmath.mpf(float(v)) + slope) for v, slope in zip(x, slopes, strict=True)]
    terms = Probit(np.ones(len(x))).pointwise
    with jax.enable_x64(True):
        one = lambda x: Probit(np.ones(1)).pointwise(x[None])[0]  # noqa: E731
        got = [terms(jnp.asarray(x)), terms(x), jax.vmap(jax.grad(one))(x), jax.vmap(jax.grad(jax.grad(one)))(x)]
    item = Probit(np.ones(len(x)))
    got += [item.slope(x), item.curvature(x)]
    references = (exact, exact, slopes, bends, slopes, bends)
    for values, expected, precision in zip(got, references, (2e-13, 1e-12, 1e-12, 1e-7, 1e-12, 1e-12), strict=True):
        np.testing.assert_allclose(values, np.array([float(value) for value in expected]), rtol=precision)


@pytest.mark.parametrize("make", [Logistic, Probit])
@pytest.mark.parametrize("y", [[0, 1, 1], [0.0, 1.0, 1.0], [False, True, True]])
def test_labels_0_and_1_are_converted_and_said_so(make, y):
    with pytest.warns(UserWarning, match="labels 0/1 were read as -1/\\+1") as caught:
        item = make(y)
    assert caught[0].filename == __file__
    np.testing.assert_array_equal(item.y, [-1.0, 1.0, 1.0])
    assert repr(item) == f"{make.__name__}(3 labels, 0/1 read as -1/+1)"
    assert item([0.1, 0.2, 0.3]) == make([-1, 1, 1])([0.1, 0.2, 0.3])


@EVERY
def test_f_of_the_wrong_shape(name):
    item = CATALOGUE[name]()
    message = r"f has shape \(7,\), but y has shape .* Expected one element of f per observation"
    draw = lambda f: item.simulate(f, np.random.default_rng(0))  # noqa: E731
    for use in (item, item.pointwise, item.slope, item.curvature, jax.jit(item), draw):
        with pytest.raises(ValueError, match=message):
            use(np.zeros(7))
    with pytest.raises(ValueError, match=r"f has shape \(\)"):
        item(0.5)


BAD = [
    (lambda: Gaussian(["a", "b"]), TypeError, r"Gaussian: y has dtype <U1\. Expected real numbers"),
    (lambda: Gaussian([None, 1.0]), TypeError, r"y has dtype object\. Expected real numbers"),
    (lambda: Gaussian([1j]), TypeError, r"y has dtype complex128\. Expected real numbers"),
    (lambda: Gaussian([[1.0], [1.0, 2.0]]), ValueError, "y is not a rectangular array"),
    (lambda: Gaussian([]), ValueError, r"Gaussian: y is empty \(shape \(0,\)\)\. Expected at least one value"),
    (lambda: Gaussian([[0.0, np.nan]]), ValueError, r"y\[0, 1\] = nan is not finite\. .* Drop missing values"),
    (lambda: Gaussian(np.inf), ValueError, r"y = inf is not finite|y\[0\] = inf is not finite"),
    (lambda: Gaussian(np.ma.masked_less([1.0, -9.0], 0)), ValueError, "y has masked values"),
    (
        lambda: Gaussian([1.0], noise_scale=0.0),
        ValueError,
        r"Gaussian: noise_scale = 0 is not positive\. Expected noise_scale > 0",
    ),
    (lambda: Gaussian([1.0, 2.0], noise_scale=[1.0, -1.0]), ValueError, r"noise_scale\[1\] = -1 is not positive"),
    (lambda: Gaussian([1.0], noise_scale=np.nan), ValueError, "noise_scale = nan is not finite"),
    (
        lambda: Gaussian([1.0, 2.0], noise_scale=[1.0] * 3),
        ValueError,
        r"noise_scale has shape \(3,\), which does not broadcast",
    ),
    (lambda: Gaussian([1.0, 2.0], noise_scale=np.ones((4, 2))), ValueError, r"\(4, 2\), .* an array of shape \(2,\)"),
    (lambda: Gaussian([1.0], noise_scale="1"), TypeError, r"noise_scale has dtype <U1\. Expected real numbers"),
    (lambda: jax.jit(lambda y: Gaussian(y)(y))(np.ones(2)), TypeError, "y is traced by JAX.*pass it in as an argument"),
    (lambda: Logistic([1, 2, 3]), ValueError, r"Logistic: y holds 2, 3 as labels\. Expected -1 and \+1"),
    (lambda: Probit([-1, 0.5]), ValueError, r"Probit: y holds 0\.5 as labels.*Recode"),
    (lambda: Probit([-1, 0, 1]), ValueError, "Probit: y holds both -1 and 0"),
    (lambda: Logistic(np.arange(20)), ValueError, r"y holds 2, 3, 4, 5, 6, \.\.\. as labels"),
    (lambda: Logistic([]), ValueError, "y is empty"),
    (
        lambda: Poisson([0, 1, -2]),
        ValueError,
        r"Poisson: y\[2\] = -2 is not a count\. Expected whole numbers, 0 or more",
    ),
    (lambda: Poisson([[0.0, 2.5]]), ValueError, r"y\[0, 1\] = 2\.5 is not a count.*Use Gaussian"),
    (lambda: Poisson([1, 2], offset=np.inf), ValueError, "offset = inf is not finite"),
    (lambda: Poisson([1, 2], offset=[0.0, np.nan]), ValueError, r"offset\[1\] = nan is not finite"),
    (lambda: Poisson([1, 2], offset=np.zeros(3)), ValueError, r"offset has shape \(3,\)"),
    (lambda: Binomial([1, 5], 4), ValueError, r"Binomial: y\[1\] = 5 is more than its trials"),
    (lambda: Binomial([1, 2], [1.5, 2]), ValueError, r"trials\[0\] = 1\.5 is not a count"),
    (lambda: Binomial([0, 0], -1), ValueError, "trials = -1 is not a count"),
    (lambda: Binomial([0.2, 0.7], 1), ValueError, r"y\[0\] = 0\.2 is not a count.*not their proportion"),
    (lambda: Binomial([1, 2], [3, 3, 3]), ValueError, r"trials has shape \(3,\)"),
    (lambda: NegativeBinomial([1.5], 1.0), ValueError, r"NegativeBinomial: y\[0\] = 1\.5 is not a count"),
    (lambda: NegativeBinomial([1], 0), ValueError, "dispersion = 0 is not positive"),
    (lambda: NegativeBinomial([1], np.nan), ValueError, "dispersion = nan is not finite"),
    (lambda: NegativeBinomial([1], 1.0, offset=np.nan), ValueError, "offset = nan is not finite"),
    (lambda: StudentT([1.0], noise_scale=-1.0), ValueError, "StudentT: noise_scale = -1 is not positive"),
    (lambda: StudentT([1.0], degrees_of_freedom=0.0), ValueError, "degrees_of_freedom = 0 is not positive"),
    (lambda: StudentT([1.0], degrees_of_freedom=np.inf), ValueError, "degrees_of_freedom = inf is not finite"),
    (lambda: ProbitBinomial([5], 4), ValueError, r"ProbitBinomial: y\[0\] = 5 is more than its trials"),
    (lambda: ComplementaryLogLog([0, 2]), ValueError, r"ComplementaryLogLog: y\[1\] = 2 is more than its trials"),
    (lambda: Gamma([1.0, 0.0]), ValueError, r"Gamma: y\[1\] = 0 is not positive\. Expected numbers above 0"),
    (lambda: Gamma([1.0], shape=0.0), ValueError, "Gamma: shape = 0 is not positive"),
    (lambda: Beta([0.5, 1.0], 2.0), ValueError, r"Beta: y\[1\] = 1 is not between 0 and 1"),
    (lambda: Beta([0.5], -2.0), ValueError, "Beta: precision = -2 is not positive"),
    (lambda: Weibull([0.0]), ValueError, r"Weibull: y\[0\] = 0 is not positive.*Drop observations of duration 0"),
    (lambda: Weibull([1.0], event=0.5), ValueError, "Weibull: event = 0.5 is not 0 or 1"),
    (lambda: Weibull([1.0], shape=-1.0), ValueError, "Weibull: shape = -1 is not positive"),
    (lambda: Ordinal([0, 1], [0.0]), ValueError, r"Ordinal: y\[0\] = 0 is not a category\. .* they are 1 to 2"),
    (lambda: Ordinal([4], [0.0, 1.0]), ValueError, r"y\[0\] = 4 is not a category"),
    (lambda: Ordinal([1], [1.0, 0.5]), ValueError, r"step of cut_points\[0\] = -0.5 is negative"),
    (lambda: Ordinal([1], []), ValueError, "cut_points is empty"),
    (lambda: StochasticVolatility([np.nan]), ValueError, r"StochasticVolatility: y\[0\] = nan is not finite"),
    (lambda: ZeroInflatedPoisson([1], 1.5), ValueError, "zero_probability = 1.5 is not a probability"),
    (lambda: ZeroInflatedPoisson([1], [0.1, 0.2]), ValueError, r"zero_probability has shape \(2,\)"),
    (lambda: ZeroInflatedBinomial([5], 0.1, 4), ValueError, r"Binomial: y\[0\] = 5 is more than its trials"),
]


@pytest.mark.parametrize(("make", "error", "message"), BAD, ids=[row[2] for row in BAD])
def test_bad_input_is_named(make, error, message):
    with pytest.raises(error, match=message):
        make()
