"""Vectorised sums have the same values and gradients up to rounding error, for sizes that fill the vectors or not."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import ellipslice as es
from ellipslice.jax_settings import jax_settings
from ellipslice.programs.site_program import KERNEL
from ellipslice.programs.site_sums import elementwise
from ellipslice.programs.vector_sums import MAX_ELEMENTS, VectorSum, vectorise_sum

Y = np.random.default_rng(0).integers(0, 4, 9000) * 1.0
SIGNS = np.where(Y > 1, 1.0, -1.0)
SIZES = [11, 767, *(pytest.param(size, marks=pytest.mark.long) for size in (8, 4093))]


def sums(n):
    y, signs = Y[:n], SIGNS[:n]
    return {
        "Logistic": es.likelihoods.Logistic(signs),
        "Probit": es.likelihoods.Probit(signs),
        "Poisson": es.likelihoods.Poisson(y, offset=0.3),
        "Binomial": es.likelihoods.Binomial(y, 4.0),
        "NegativeBinomial": es.likelihoods.NegativeBinomial(y, 2.0),
        "StudentT": es.likelihoods.StudentT(y, 0.5),
        "Gaussian": es.likelihoods.Gaussian(y, 0.5),
        "own logistic": lambda f: -jnp.sum(jnp.logaddexp(0.0, -signs * f)),
        "own, several sums": lambda f: 2.0 - 0.5 * jnp.sum((f - y) ** 2) + 3.0 * jnp.sum(jnp.tanh(f)) / 7.0,
        "own, lgamma": lambda f: jnp.sum(jax.scipy.special.gammaln(1.0 + f**2)),
        "own, power": lambda f: -jnp.sum((f - y) ** 2.0) - jnp.sum(jnp.abs(f) ** 1.5),
        "own, logarithms of both signs": lambda f: (
            jnp.sum(jnp.log1p(jnp.exp(-jnp.abs(f)))) - jnp.sum(f - jnp.log1p(jnp.exp(-jnp.abs(f - y))))
        ),
        "own, in another shape": lambda f: jnp.sum(jnp.exp(-(f.reshape(1, -1) ** 2))),
    }


@pytest.mark.short_cases(
    "Gaussian-11",
    "Poisson-11",
    "StudentT-11",
    "own, power-11",
    "own, several sums-11",
    "own, logarithms of both signs-11",
    "own, in another shape-11",
    "Gaussian-767",
)
@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("name", list(sums(8)))
def test_values_and_gradients_are_the_same(name, size):
    plain = sums(size)[name]
    f = 3 * np.random.default_rng(1).standard_normal(size)

    def results(function):
        """Return the value, the gradient and the values of a batch, from one compilation."""
        value = lambda f: jnp.asarray(function(f))  # noqa: E731
        batch = np.stack([f, -f, 0 * f])
        return jax.jit(lambda f, batch: (value(f), jax.grad(value)(f), jax.vmap(value)(batch)))(f, batch)

    with jax_settings():
        lanes = vectorise_sum(plain, size)
        assert isinstance(lanes, VectorSum)
        for got, expected, rtol, atol in zip(
            results(lanes), results(plain), (1e-13, 1e-10, 1e-13), (0, 1e-13, 0), strict=True
        ):
            np.testing.assert_allclose(got, expected, rtol=rtol, atol=atol)


def test_single_precision():
    with jax_settings(double=False):
        plain = es.likelihoods.Logistic(SIGNS)
        plain = jax.tree.map(lambda part: jnp.asarray(part, jnp.float32), plain)
        f = jnp.full(9000, 1e-6, jnp.float32)  # all factors are nearly 2
        value = jax.jit(VectorSum(plain))(f)
        assert value.dtype == jnp.float32
        np.testing.assert_allclose(value, -9000 * np.log(2), rtol=1e-5)


@pytest.mark.parametrize("name", ["Logistic", "own logistic", "Poisson"])
def test_what_is_not_finite_stays_so(name):
    with jax_settings():
        lanes = vectorise_sum(sums(100)[name], 100)
        for where in (3, 99):
            f = np.zeros(100)
            f[where] = np.nan
            assert np.isnan(jax.jit(lanes)(f))
        f[99] = 800.0 if name == "Poisson" else -np.inf * SIGNS[99]
        assert jax.jit(lanes)(f) == -np.inf


def test_other_functions_are_left_alone():
    def other(f):
        return -jnp.sum((f[1:] - f[:-1]) ** 2)

    with jax_settings():
        assert vectorise_sum(other, 100) is other
        small = es.likelihoods.Poisson([1.0, 2.0])
        assert vectorise_sum(small, 2) is small
        long = sums(MAX_ELEMENTS + 1)["Poisson"]
        assert vectorise_sum(long, MAX_ELEMENTS + 1) is long


@pytest.mark.parametrize("exponent", [2.0, 3.0, 0.0, 1.5, -1.0, -2.0])
def test_powers_in_the_kernel(exponent):
    f = np.array([-2.0, -0.5, 0.0, 0.5, 3.0])
    with jax_settings():
        program = elementwise(lambda f: jnp.sum(f**exponent), 5, np.float64, KERNEL)
        a, _ = program.parts(jnp.asarray(f), program.data, program.scalars, KERNEL)
        with np.errstate(all="ignore"):
            np.testing.assert_allclose(a, f**exponent, rtol=1e-13)


@pytest.mark.long
def test_a_chain_runs_in_lanes_and_new_data_need_no_compiling():
    prior = es.Dense(np.exp(-0.5 * np.subtract.outer(np.linspace(0, 3, 20), np.linspace(0, 3, 20)) ** 2))
    options = {"draws": 50, "chains": 1, "seed": 1, "progress": False}
    trees = [
        es.sample(es.likelihoods.Logistic(signs), prior, move=es.moves.EllipticalSlice(), **options)
        for signs in (SIGNS[:20], -SIGNS[:20])
    ]
    for signs, tree in zip((SIGNS[:20], -SIGNS[:20]), trees, strict=True):
        f = tree.posterior.f.values[0]
        expected = [es.likelihoods.Logistic(signs).pointwise(row).sum() for row in f]
        np.testing.assert_allclose(tree.sample_stats.total_log_likelihood.values[0], expected, rtol=1e-12)
