"""Gaussian processes as terms: forms of kernels, evaluations in models, predictions and fits."""

from __future__ import annotations

import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist
import pandas as pd
import pytest
import scipy.sparse
from sklearn import gaussian_process
from tinygp import kernels

import ellipslice as es
from catalogue_terms import GP_PRIORS, matern32, tinygp_kernel
from ellipslice.latent.assembly import Assembly, Block
from ellipslice.latent.terms import GP
from ellipslice.latent.terms.entry_bases import EntryBases

RNG = np.random.default_rng(5)
XY = {"x": np.round(RNG.uniform(0, 4, 30), 2), "y": np.round(RNG.uniform(0, 4, 30), 2)}
VALUES = {"sd": 1.3, "length": 0.8}


def by_jax(sd, length):
    def covariance(x, y):
        distance = jnp.sqrt(3.0) * jnp.abs(x[:, None] - y[None, :]) / length
        return sd**2 * (1 + distance) * jnp.exp(-distance)

    return covariance


def by_numpy(sd, length):
    def covariance(x, y):
        distance = np.sqrt(3.0) * np.abs(np.subtract.outer(np.asarray(x), np.asarray(y))) / length
        return sd**2 * (1 + distance) * np.exp(-distance)

    return covariance


def by_sklearn(sd, length):
    return gaussian_process.kernels.ConstantKernel(sd**2) * gaussian_process.kernels.Matern(length, nu=1.5)


def in_a_mapping(p):
    return p["sd"] ** 2 * kernels.Matern32(p["length"])


@pytest.mark.parametrize("kernel", [by_jax, by_numpy, by_sklearn, tinygp_kernel, in_a_mapping])
def test_forms_of_kernels(kernel):
    data = {"t": [3.0, 0.5, 1.0, 3.0]}
    bound = GP("t", kernel=kernel, prior=GP_PRIORS).bind(data)
    expected = matern32(np.array([[0.5], [1.0], [3.0]]), **VALUES)
    np.testing.assert_allclose(bound.precision(**VALUES).toarray(), expected, rtol=1e-6, atol=1e-6)
    assert bound.log_determinant(**VALUES) == pytest.approx(np.linalg.slogdet(expected)[1], abs=1e-6)
    np.testing.assert_array_equal(bound.rows().toarray().argmax(axis=1), [2, 0, 1, 2])


def test_coefficients_are_entries_of_the_precision_in_a_model():
    """The assembly of a model reads the bases of a dense precision without making them."""
    bound = GP(("x", "y"), kernel=tinygp_kernel, prior=GP_PRIORS).bind(XY)
    other = scipy.sparse.eye_array(2, format="csc")
    blocks = [
        Block(np.ones((30, 2)), (other, 2 * other), np.zeros((0, 2))),
        Block(bound.rows(), bound.bases, bound.constraints, dense=True),
    ]
    assembly = Assembly(blocks, np.zeros(30))
    entries = assembly.prior_entries(np.concatenate([[3.0, 5.0], bound.coefficients(**VALUES)]))
    lower = scipy.sparse.coo_array((entries, (assembly.rows, assembly.cols)), (32, 32)).toarray()
    assert np.abs(np.triu(lower, 1)).max() == 0
    np.testing.assert_allclose(lower[:2, :2], np.diag([13.0, 13.0]))
    np.testing.assert_array_equal(lower[2:, 2:], np.tril(bound.precision(**VALUES).toarray()))
    raised = assembly.entries(entries, np.zeros(30)) - entries
    assert (raised[assembly.rows >= 2] == 0).all()
    assert (raised[: np.searchsorted(assembly.cols, 1)] >= 0).all()


def test_single_entries():
    bases = EntryBases(3)
    matrix = np.array([[2.0, 1.0, 0.5], [1.0, 3.0, 0.0], [0.5, 0.0, 4.0]])
    total = sum(weight * base.toarray() for weight, base in zip(bases.entries_of(matrix), bases, strict=True))
    np.testing.assert_array_equal(total, matrix)
    assert len(bases[1:3]) == 2


def test_a_kernel_that_fails_has_no_finite_coefficients():
    kernel = GP("t", kernel=lambda sd: sd * kernels.Exp(1.0), prior={"sd": dist.Normal(1.0, 1.0)}).bind({"t": [0, 1]})
    assert np.isnan(kernel.coefficients(sd=-1.0)).any()
    assert np.isfinite(kernel.coefficients(sd=0.5)).all()


def test_labels_of_inputs():
    bound = GP(("x", "y"), kernel=tinygp_kernel, prior=GP_PRIORS).bind({"x": [1.5, 0.25], "y": [2, 1]})
    assert bound.coords["x_y_level"].tolist() == ["0.25, 1", "1.5, 2"]
    dates = pd.DataFrame({"day": pd.date_range("1970-01-03", periods=3)})
    assert GP("day", kernel=kernels.Exp(1.0)).bind(dates).coords["day_level"].tolist() == [2.0, 3.0, 4.0]


def test_effects_at_new_inputs_have_the_conditional_distribution():
    old, new = np.array([0.0, 1.0, 2.5]), np.array([1.7, 4.0, 0.5])
    bound, rng = GP("t", kernel=tinygp_kernel, prior=GP_PRIORS).bind({"t": old}), np.random.default_rng(0)
    effects = np.tile([0.5, -1.0, 2.0], (4000, 1))
    draws = {name: np.full(4000, value) for name, value in VALUES.items()}
    found = bound.conditional_effects({"t": np.append(new, 4.0)}, effects, draws, rng)
    np.testing.assert_array_equal(found[:, 1], found[:, 3])
    precision = matern32(np.concatenate([old, new])[:, None], **VALUES)
    covariance = np.linalg.inv(precision[3:, 3:])
    mean = -covariance @ precision[3:, :3] @ effects[0]
    white = np.linalg.solve(np.linalg.cholesky(covariance), (found[:, :3] - mean).T)
    assert np.abs(white.mean(axis=1)).max() < 5 / np.sqrt(4000)
    np.testing.assert_allclose(white @ white.T / 4000, np.eye(3), atol=5 * np.sqrt(2 / 4000))


@pytest.mark.long
def test_a_fit_of_a_function_covers_the_truth():
    rng = np.random.default_rng(7)
    x = np.sort(rng.uniform(0, 6, 70))
    truth = np.sin(1.5 * x) + 0.5 * x - 1.5
    data = {"count": rng.poisson(np.exp(1.0 + truth)), "x": x}
    model = es.LatentGaussianModel(
        "count ~ 1 + gp(x, kernel=tinygp_kernel, prior=GP_PRIORS, name='f')", data=data, family="poisson"
    )
    assert callable(tinygp_kernel)
    assert len(GP_PRIORS) == 2
    fit = model.fit(draws=400, seed=1, progress=False)
    assert fit.summary(["f_sd", "f_length", "f"]).rhat.max() < 1.05
    new = np.linspace(0.1, 5.9, 40)
    eta = fit.predict({"x": new}, draws=400)["linear_predictor"].values.reshape(-1, 40)
    low, high = np.quantile(eta, [0.025, 0.975], axis=0)
    expected = 1.0 + np.sin(1.5 * new) + 0.5 * new - 1.5
    assert ((low < expected) & (expected < high)).mean() > 0.85
    assert (high - low).mean() < 1.5
