"""`LatentFit.log_evidence` against closed forms and quadrature, with all constants."""

from __future__ import annotations

import functools

import numpy as np
import numpyro.distributions as dist
import pytest
from scipy import stats

import ellipslice as es
from ellipslice.bridge import UnreliableEvidenceError
from ellipslice.latent.log_evidence import require_proper_terms
from ellipslice.latent.terms import IID, RW2, Fixed, Seasonal
from ellipslice.likelihoods import Gaussian
from evidence_models import (
    DESIGN,
    GRID,
    LOG_PRIOR,
    PRIOR,
    check,
    gaussian,
    independent_groups,
    integral,
    one_group_of_counts,
    walk,
    walk_covariances,
    walk_with_known_noise,
)
from latent_models import DATA, MODELS, Y, model
from statistical.monte_carlo import P_LIMIT, SEED

pytestmark = pytest.mark.statistical


# --- Gaussian responses -----------------------------------------------------------------------------------------------


@functools.cache
def regression():
    """Return a fit without hyperparameters, and its log Z."""
    known = functools.partial(Gaussian, noise_scale=0.8)
    terms = [Fixed(["1", "x"], sd=[2.0, 0.5])]
    fit = es.LatentGaussianModel(Y["gaussian"], terms, data=DATA, family=known).fit(
        draws=60, warmup=10, seed=SEED + 1, progress=False
    )
    return fit, gaussian(Y["gaussian"], DESIGN @ np.diag([4.0, 0.25]) @ DESIGN.T + 0.64 * np.eye(24))


def test_no_hyperparameters():
    """The reference is the posterior, so that the estimate has no error."""
    fit, exact = regression()
    found = fit.log_evidence(100)
    check(found, exact, 1e-6)
    assert found.overlap == pytest.approx(1.0, abs=1e-6)


def test_arguments_are_checked():
    fit, _ = regression()
    with pytest.raises(ValueError, match="draws must be at least 100, but it is 99"):
        fit.log_evidence(99)
    with pytest.raises(ValueError, match="seed must be at least 0"):
        fit.log_evidence(seed=-1)


@pytest.mark.long
def test_a_constrained_walk():
    walk, exact = walk_with_known_noise()
    check(walk.fit(draws=500, seed=SEED + 5, progress=False).log_evidence(2000), exact, 0.05)


@pytest.mark.long
def test_a_constrained_walk_with_unknown_noise():
    """The generalised determinant of the walk, its constraint and two Jacobians are part of log Z."""
    unknown, noise = {"noise_scale": dist.HalfNormal(1.5)}, np.linspace(-1.5, 1.5, 61)
    fit = walk(priors=unknown).fit(draws=500, seed=SEED + 2, progress=False)
    fixed, smooth = walk_covariances()
    of_noise = stats.halfnorm(scale=1.5).logpdf(np.exp(noise)) + noise
    rest = fixed + np.exp(2 * noise)[:, None, None] * np.eye(24)
    log_density = [gaussian(Y["gaussian"], rest + np.exp(2 * a) * smooth) + LOG_PRIOR(a) + of_noise for a in GRID]
    check(fit.log_evidence(2000), integral(log_density, GRID, noise), 0.05)


# --- counts and binary responses --------------------------------------------------------------------------------------


def test_one_group_of_counts():
    counts, exact = one_group_of_counts()
    fit = counts.fit(draws=100, chains=2, warmup=20, seed=SEED + 3, progress=False)
    one, same, other = (fit.log_evidence(250, seed) for seed in (3, 3, 4))
    check(one, exact)
    assert one == same
    assert one.log_z != other.log_z


@pytest.mark.long
def test_binary_responses_in_groups():
    """Sites of binary responses have lighter tails than the posterior, and the standard deviation is weakly known."""
    groups, sums = np.repeat(np.arange(8), 3), np.array([0, 3, 1, 3, 0, 2, 3, 0])
    y = np.array([[i < s for i in range(3)] for s in sums]).ravel().astype(int)
    terms = [IID(groups, name="g", prior=PRIOR)]
    fit = es.LatentGaussianModel(y, terms, family="bernoulli").fit(draws=500, seed=SEED + 4, progress=False)
    exact = independent_groups(lambda x: sums[:, None] * x - 3 * np.logaddexp(0.0, x))
    check(fit.log_evidence(2000), exact, 0.05)


@pytest.mark.long
def test_errors_are_calibrated():
    """Forty fits of counts of one group: errors are standard normal in units of the standard errors."""
    counts, exact = one_group_of_counts()
    found = [
        counts.fit(draws=100, chains=2, warmup=20, seed=SEED + 100 + i, progress=False).log_evidence(400, seed=i)
        for i in range(40)
    ]
    z = np.array([(each.log_z - exact) / each.standard_error for each in found])
    p = min(2 * stats.norm.sf(abs(z.mean()) * np.sqrt(40)), stats.chi2(40).sf((z**2).sum()))
    assert p > P_LIMIT, f"mean {z.mean():.2f}, spread {z.std():.2f}"
    assert stats.chi2(40).cdf((z**2).sum()) > P_LIMIT, f"the standard errors are too large: spread {z.std():.2f}"


# --- models without a reliable estimate -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "flat"),
    [
        ("constraints and a trend", r"flat in: age \(linear trend\)\."),
        ("flat fixed effects", r"flat in: fixed \(Intercept, x\)\."),
        ("free level", r"flat in: t \(level\)\."),
    ],
)
def test_improper_terms_are_named(name, flat):
    with pytest.raises(ValueError, match=f"no marginal likelihood.*{flat}"):
        require_proper_terms(MODELS[name].definition)


def test_all_improper_terms_are_named():
    several = model("poisson", [Fixed("1"), RW2("age"), Seasonal("t", period=2)])
    with pytest.raises(ValueError, match=r"flat in: age \(linear trend\), t \(cosine of period 2\)"):
        require_proper_terms(several.definition)
    for proper in ("two components", "five hyperparameters", "no hyperparameters"):
        require_proper_terms(MODELS[proper].definition)


def test_a_fit_of_an_improper_model_raises():
    fit = model("poisson", [Fixed(["1", "x"], sd="flat")]).fit(draws=20, warmup=5, seed=1, progress=False)
    with pytest.raises(ValueError, match=r"flat in: fixed \(Intercept, x\)"):
        fit.log_evidence()


def test_a_reference_that_does_not_fit_raises(monkeypatch):
    """Sites that have nothing to do with the responses have no overlap with the posterior."""
    fit, _ = regression()
    sites = fit.move.white.sites
    wrong = sites._replace(linear=sites.linear + 8.0)
    monkeypatch.setattr(fit.move.white, "sites", wrong)
    fit.move.white._kept.clear()
    with pytest.raises(UnreliableEvidenceError, match="is not reliable here"):
        fit.log_evidence(100)
    fit.move.white._kept.clear()
