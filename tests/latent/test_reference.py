"""The reference and the density in white coordinates, against dense linear algebra and SciPy's densities."""

from __future__ import annotations

import math

import numpy as np
import numpyro.distributions as dist
import pytest
from scipy import stats

from ellipslice.latent.posterior import WhitePosterior
from ellipslice.latent.terms import IID, RW1, Fixed
from latent_models import MODELS, Dense, log_ratio, model, some_u, wrong_sites

EVERY = pytest.mark.parametrize("name", MODELS)
SEEDS = pytest.mark.parametrize("seed", [0, 1])


def at_some_point(name, seed):
    """Return the posterior, the conditional, the reference and the dense form at some hyperparameters and sites."""
    posterior = MODELS[name].definition.posterior
    u, sites = some_u(posterior, seed), wrong_sites(posterior, seed)
    at = posterior.at(u)
    return posterior, at, posterior.reference(at, sites), Dense(posterior, u, sites)


def symmetric(assembly, entries):
    """Return the dense symmetric matrix with these entries of the pattern."""
    lower = np.zeros((assembly.size, assembly.size))
    lower[assembly.rows, assembly.cols] = entries
    return lower + np.tril(lower, -1).T


@EVERY
def test_assembly(name):
    posterior, at, _, dense = at_some_point(name, 0)
    assembly = posterior.assembly
    np.testing.assert_allclose(symmetric(assembly, at.prior_entries), dense.Q, rtol=1e-12, atol=1e-13)
    entries = assembly.entries(at.prior_entries, dense.sites.precision)
    np.testing.assert_allclose(symmetric(assembly, entries), dense.H, rtol=1e-12, atol=1e-12)
    np.testing.assert_allclose(assembly.constraints, dense.C.reshape(-1, assembly.size))
    x = np.random.default_rng(0).standard_normal(assembly.size)
    rows = [term.rows().toarray() for term in MODELS[name].definition.predictor.terms]
    observed = MODELS[name].definition.observed
    np.testing.assert_allclose(assembly.predictor(x), (np.hstack(rows) @ x)[observed] + assembly.offset)
    expected = (dense.A @ dense.covariance @ dense.A.T).diagonal()
    entries = dense.covariance[assembly.rows, assembly.cols]
    np.testing.assert_allclose(assembly.variances(entries), expected, rtol=1e-9, atol=1e-12)


@SEEDS
@EVERY
def test_moments(name, seed):
    posterior, _, reference, dense = at_some_point(name, seed)
    np.testing.assert_allclose(reference.mean, dense.mean, rtol=1e-7, atol=1e-8)
    expected = (dense.A @ dense.covariance @ dense.A.T).diagonal()
    np.testing.assert_allclose(reference.variances(), expected, rtol=1e-7)
    some = posterior.assembly.A[:3]
    np.testing.assert_allclose(reference.variances_of(some), expected[:3], rtol=1e-7)


@SEEDS
@EVERY
def test_white_noise_has_the_covariance(name, seed):
    posterior, _, reference, dense = at_some_point(name, seed)
    columns = np.stack([reference.place(row)[0] - reference.mean for row in np.eye(posterior.assembly.size)])
    np.testing.assert_allclose(columns.T @ columns, dense.covariance, rtol=1e-6, atol=1e-8)


@SEEDS
@EVERY
def test_density(name, seed):
    posterior, at, reference, dense = at_some_point(name, seed)
    for z in np.random.default_rng(seed).standard_normal((4, posterior.assembly.size)):
        x, square = reference.place(z)
        np.testing.assert_allclose(dense.C @ x, 0.0, atol=1e-8)
        expected = dense.log_prior(x) - dense.log_reference(x)
        determinant = at.log_prior - posterior.hyperparameters.at(at.u).log_density  # log |Q|* / 2
        assert determinant + reference.log_prior_ratio(x, square) == pytest.approx(expected, rel=1e-9, abs=1e-8)


@SEEDS
@EVERY
def test_force_is_the_gradient(name, seed):
    posterior, at, reference, dense = at_some_point(name, seed)
    w, b = dense.sites
    z = np.random.default_rng(seed).standard_normal(posterior.assembly.size)

    def value(z):
        eta = posterior.assembly.predictor(reference.place(z)[0])
        e = eta - dense.offset
        return float(at.likelihood(eta) - np.sum(b * e - w * e**2 / 2))

    eta = posterior.assembly.predictor(reference.place(z)[0])
    found = reference.force(eta, at.likelihood.slope(eta))
    np.testing.assert_allclose(found, central_differences(value, z), rtol=1e-6, atol=1e-5)


@EVERY
def test_force_is_the_gradient_of_the_density(name):
    """Only the small inflation of the diagonal is left out."""
    posterior, _, _, dense = at_some_point(name, 0)
    white = WhitePosterior(posterior, lambda at: dense.sites)
    z = np.random.default_rng(3).standard_normal(posterior.assembly.size)
    point = white.point(dense.u, z)
    found = point.around.reference.force(point.eta, point.around.at.likelihood.slope(point.eta))
    expected = central_differences(lambda z: white.point(dense.u, z).log_ratio, z)
    np.testing.assert_allclose(found, expected, rtol=1e-5, atol=2e-5)


def central_differences(value, z, step=1e-5):
    steps = step * np.eye(len(z))
    return np.array([(value(z + one) - value(z - one)) / (2 * step) for one in steps])


# --- the density, from the terms' own densities and SciPy -------------------------------------------------------------


@SEEDS
@EVERY
def test_log_ratio_is_that_of_the_dense_densities(name, seed):
    """log p(u) + log p(x | u) + log p(y | x, u) - log q(x | u), around a reference that is deliberately wrong."""
    posterior, _, _, dense = at_some_point(name, seed)
    definition = MODELS[name].definition
    white = WhitePosterior(posterior, lambda at: dense.sites)
    z = np.random.default_rng(seed).standard_normal(posterior.assembly.size)
    point = white.point(dense.u, z)
    expected = log_ratio(definition, dense, point.x)
    assert point.log_ratio == pytest.approx(expected, rel=1e-9, abs=1e-7)


def test_prior_of_a_standard_deviation_by_hand():
    posterior = model("bernoulli", [IID("g", prior=dist.Exponential(2.0))]).definition.posterior
    u = np.array([0.3])
    sd = math.exp(0.3)
    values = posterior.hyperparameters.at(u)
    assert values.of_terms[0]["sd"] == pytest.approx(sd)
    assert values.log_density == pytest.approx(stats.expon(scale=0.5).logpdf(sd) + 0.3)  # d sd / d u = sd


def test_hyperparameters_reach_their_own_term():
    """Terms with hyperparameters of different numbers and names, and the parameter of the family at the end."""
    terms = [Fixed("1"), RW1("t", prior=dist.LogNormal(0, 1)), IID("g", prior=dist.LogNormal(2, 1))]
    posterior = model("gaussian", terms, priors={"noise_scale": dist.LogNormal(3, 1)}).definition.posterior
    assert posterior.hyperparameters.names == ("t_sd", "g_sd", "noise_scale")
    values = posterior.hyperparameters.at(np.log([0.5, 2.0, 3.0]))
    assert values.of_terms[0] == {}
    assert values.of_terms[1]["sd"] == pytest.approx(0.5)
    assert values.of_terms[2]["sd"] == pytest.approx(2.0)
    assert values.of_family["noise_scale"] == pytest.approx(3.0)


def test_density_is_zero_where_precisions_would_overflow():
    posterior = MODELS["two components"].definition.posterior
    assert posterior.at(np.full(posterior.hyperparameters.size, 41.0)) is None
    white = WhitePosterior(posterior, lambda at: wrong_sites(posterior))
    assert white.point(np.full(posterior.hyperparameters.size, -41.0), np.zeros(posterior.assembly.size)) is None
    assert white.point(np.full(posterior.hyperparameters.size, np.nan), np.zeros(posterior.assembly.size)) is None


def test_references_that_are_kept_do_not_change():
    """Factors of several hyperparameters at once are those of one at a time, also after others have replaced them."""
    posterior = MODELS["constraints and a trend"].definition.posterior
    white = WhitePosterior(posterior, lambda at: wrong_sites(posterior))
    z = np.random.default_rng(0).standard_normal(posterior.assembly.size)
    many = [some_u(posterior, seed) for seed in range(30)]
    first = [white.point(u, z) for u in many]
    for u, before in zip(many, first, strict=True):
        alone = WhitePosterior(posterior, white.sites).point(u, z)
        for point in (white.point(u, z), white.point_around(before.around, z)):
            assert point.log_ratio == before.log_ratio == alone.log_ratio
            np.testing.assert_array_equal(point.x, alone.x)


def test_an_intrinsic_term_next_to_a_flat_intercept():
    """H is then singular but for its inflation. Density and constraint are accurate nevertheless."""
    posterior = model("poisson", [Fixed("1", sd="flat"), RW1("t", prior=dist.LogNormal(0, 1))]).definition.posterior
    u, sites = np.array([0.2]), wrong_sites(posterior)
    dense, reference = Dense(posterior, u, sites), posterior.reference(posterior.at(u), sites)
    np.testing.assert_allclose(reference.mean, dense.mean, atol=1e-5)
    z = np.random.default_rng(0).standard_normal(posterior.assembly.size)
    x, square = reference.place(z)
    np.testing.assert_allclose(dense.C @ x, 0.0, atol=1e-7)
    determinant = dense.log_prior(np.zeros(len(x)))
    expected = dense.log_prior(x) - dense.log_reference(x)
    assert determinant + reference.log_prior_ratio(x, square) == pytest.approx(expected, abs=1e-4)
