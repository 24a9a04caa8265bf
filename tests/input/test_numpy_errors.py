"""With `np.seterr(all="raise")`, harmless operations do not raise: numbers that underflow are correctly 0."""

import jax.numpy as jnp
import numpy as np
import pytest

import ellipslice as es
from ellipslice.gp.sklearn.laplace import find_sites, gaussian_from_sites
from ellipslice.likelihoods import (
    Binomial,
    Gaussian,
    Logistic,
    NegativeBinomial,
    Poisson,
    Probit,
    StudentT,
)  # fmt: skip

N = 8
X = np.linspace(0.0, 1.0, N)
K = 25 * np.exp(-abs(X[:, None] - X) / 0.4)
COUNTS = np.array([0, 3, 1, 4, 1, 5, 9, 2])
SIGNS = np.resize([1.0, -1.0], N)
LIKELIHOODS = [
    Poisson(COUNTS), NegativeBinomial(COUNTS, 2.0), Gaussian(SIGNS, 0.01), StudentT(100 * SIGNS, 0.01),
    Logistic(SIGNS), Probit(SIGNS), Binomial(COUNTS, 10),
]  # fmt: skip
SHORT = {"draws": 4, "warmup": 2, "seed": 1, "chains": 1, "progress": False}


@pytest.fixture(autouse=True)
def strict():
    with np.errstate(all="raise"):
        yield


@pytest.mark.parametrize("likelihood", LIKELIHOODS, ids=lambda one: type(one).__name__)
def test_likelihoods_far_from_their_data(likelihood):
    far = np.linspace(-800.0, 30.0, N)
    assert np.isfinite(likelihood.pointwise(far)).all()
    assert np.isfinite(likelihood(far))
    assert np.isfinite(likelihood.expected(far)).all()
    assert np.isfinite(likelihood.simulate(far, np.random.default_rng(0))).all()


@pytest.mark.parametrize("likelihood", LIKELIHOODS, ids=lambda one: type(one).__name__)
@pytest.mark.parametrize("times", [1.0, 1e3])
def test_sites(likelihood, times):
    """`sample(..., reference=)`, `approximate_evidence`, `LatentGP` and the estimators fit such approximations."""
    found = find_sites(times * K, likelihood)
    assert np.isfinite(gaussian_from_sites(times * K, likelihood, found).log_constant)


@pytest.mark.long_cases("ep")
@pytest.mark.parametrize("way", ["ep", "laplace"])
def test_references(way):
    tree = es.sample(Probit(SIGNS), es.Dense(1e3 * K), reference=way, **SHORT)
    assert np.isfinite(tree.posterior.f).all()


def test_covariances_that_are_all_but_0():
    x = np.linspace(0.0, 1.0, 40)
    with np.errstate(under="ignore"):
        far = np.exp(-0.5 * (x[:, None] - x) ** 2 / 0.03**2)
    prior = es.Dense(far)
    tree = es.sample(Poisson(np.resize(COUNTS, 40)), prior, engine="host", **SHORT)
    assert np.isfinite(tree.posterior.f).all()
    assert np.isfinite(es.approximate_evidence(Poisson(np.resize(COUNTS, 40)), prior))


def test_a_kept_value_that_never_changes():
    tree = es.sample(
        Poisson(COUNTS),
        es.Dense(K),
        keep=lambda f: {"one": 1.0, "f": f},
        engine="host",
        **SHORT | {"draws": 50, "chains": 2},
    )
    assert "R-hat" in str(es.diagnostics.check_convergence(tree))
    assert es.diagnostics.efficiency(tree, tree.posterior.one).effective_sample_size == 0


@pytest.mark.parametrize("scale", [1.0, 1e-3])
def test_estimators(scale):
    pytest.importorskip("sklearn")
    from sklearn.gaussian_process.kernels import RBF

    options = {"draws": 4, "warmup": 2, "chains": 1, "ensemble_size": 2, "ensemble_refreshes": 1, "random_state": 0}
    inputs = np.linspace(0.0, 10.0, N)[:, None]
    for noise in ("gaussian", "student-t", "poisson"):
        y = COUNTS * (1.0 if noise == "poisson" else scale)
        model = es.gp.EllipticalGPRegressor(RBF(0.1), likelihood=noise, **options).fit(inputs, y)
        assert np.isfinite(model.predict(inputs + 0.1, return_std=True)).all()
    model = es.gp.EllipticalGPClassifier(RBF(0.1), **options).fit(inputs, SIGNS)
    assert np.isfinite(model.predict_proba(inputs)).all()


@pytest.mark.long
def test_unknown_parameters():
    dist, kernels = pytest.importorskip("numpyro.distributions"), pytest.importorskip("tinygp.kernels")
    wide = {name: dist.LogNormal(0.0, 3.0) for name in ("reach", "amplitude")}
    model = es.gp.LatentGP(lambda reach, amplitude: amplitude**2 * kernels.ExpSquared(reach), Poisson, parameters=wide)
    fit = model.fit(10 * X, COUNTS, **SHORT)
    assert np.isfinite(fit.predict(10 * X + 0.1).expected).all()
    two = {"g": lambda reach: kernels.ExpSquared(reach), "h": lambda amplitude: kernels.ExpSquared(amplitude)}
    model = es.gp.LatentGP(
        two, lambda y: lambda g, h: jnp.sum(-0.5 * (y - g) ** 2 * jnp.exp(-2 * h) - h), parameters=wide
    )
    assert np.isfinite(model.fit(10 * X, COUNTS, **SHORT).tree.posterior.h).all()


@pytest.mark.long
def test_evidence():
    assert np.isfinite(es.evidence(Logistic(SIGNS), es.Dense(1e3 * K), particles=40, seed=1, check=False).log_z)
