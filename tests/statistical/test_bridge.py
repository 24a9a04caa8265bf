"""The bridge estimator and its diagnostics, alone, against closed forms."""

from __future__ import annotations

import pickle

import numpy as np
import numpyro.distributions as dist
import pytest
from arviz_stats.base import array_stats
from scipy import stats

from ellipslice.bridge.estimator import bridge, mean_effective_size
from ellipslice.bridge.pareto import tail_index
from ellipslice.bridge.proposal import DEGREES, PRIOR_SHARE, Proposal
from ellipslice.bridge.result import LogEvidence, UnreliableEvidenceError, log_evidence_of
from ellipslice.parameters.parameters import Parameters
from statistical.calibrated_bridge import check_calibrated, log_joint, log_proposal
from statistical.monte_carlo import LIMIT, SEED

pytestmark = pytest.mark.statistical


@pytest.mark.parametrize("correlation", [0.0, 0.8])
def test_errors_are_calibrated(correlation):
    check_calibrated(correlation)


def test_the_equation_is_that_of_meng_and_wong():
    """The estimate is the fixed point of their iteration."""
    rng = np.random.default_rng(SEED)
    x, y = rng.standard_normal((2, 300, 2)), rng.standard_normal((400, 2))
    a, b = log_joint(x) - log_proposal(x), log_joint(y) - log_proposal(y)
    found = bridge(a, b)
    n = mean_effective_size(a)
    share, r = n / (n + 400), 1.0
    for _ in range(200):
        top = (np.exp(b) / (share * np.exp(b) + (1 - share) * r)).mean()
        r = top / (1 / (share * np.exp(a) + (1 - share) * r)).mean()
    assert found.log_z == pytest.approx(np.log(r), abs=1e-9)
    assert found.overlap == pytest.approx((np.exp(b) / (share * np.exp(b) + (1 - share) * r)).mean(), rel=1e-9)


@pytest.mark.parametrize("shift", [-1e4, 1e4])
def test_large_constants_do_not_matter(shift):
    rng = np.random.default_rng(SEED + 1)
    a, b = rng.normal(1.0, 1.4, (2, 200)), rng.normal(-1.0, 1.4, 500)
    here, there = bridge(a, b), bridge(a + shift, b + shift)
    assert there.log_z - shift == pytest.approx(here.log_z, abs=1e-6)
    assert there.standard_error == pytest.approx(here.standard_error, rel=1e-6)


def test_equal_densities_have_no_error():
    found = bridge(np.full((2, 100), -7.5), np.full(150, -7.5))
    assert found.log_z == pytest.approx(-7.5, abs=1e-9)
    assert (found.standard_error, found.overlap) == pytest.approx((0.0, 1.0), abs=1e-9)
    assert found.pareto_k == -np.inf


@pytest.mark.parametrize("k", [0.3, 0.7, 1.2])
def test_the_tail_index_is_that_of_arviz(k):
    weights = stats.genpareto(k).rvs(20_000, random_state=SEED + 3)
    found = tail_index(weights)
    _, expected = array_stats.psislw(-np.log(weights))  # of negative log weights
    assert found == pytest.approx(float(expected), abs=0.02)
    assert found == pytest.approx(k, abs=0.5)


def test_weights_without_a_tail():
    assert tail_index(np.ones(100)) == -np.inf
    assert tail_index(np.zeros(100)) == np.inf
    assert tail_index(np.r_[np.zeros(999), 1.0]) == np.inf


PARAMETERS = Parameters({"sd": dist.HalfNormal(2.0), "rho": dist.Uniform(-1.0, 1.0), "level": dist.Normal(1.0, 3.0)})


def log_prior(u):
    """Return the log prior density of u: of log sd, of the logit of (rho + 1) / 2, and of the level."""
    of_sd = stats.halfnorm(scale=2).logpdf(np.exp(u[:, 0])) + u[:, 0]
    return of_sd + stats.logistic.logpdf(u[:, 1]) + stats.norm(1, 3).logpdf(u[:, 2])


def test_the_density_of_the_proposal_has_all_constants():
    rng = np.random.default_rng(SEED + 4)
    draws = rng.standard_normal((500, 3)) @ rng.standard_normal((3, 3)) + [1.0, -2.0, 5.0]
    proposal = Proposal.fitted(PARAMETERS, np.concatenate([draws, [[0.0, np.inf, 0.0]]]))
    np.testing.assert_allclose(proposal.factor @ proposal.factor.T, np.cov(draws.T), rtol=0.01, atol=1e-2)
    u = proposal.draw(rng, 4000)
    white = np.linalg.solve(proposal.factor, (u - proposal.centre).T).T
    fitted = stats.t(DEGREES).logpdf(white).sum(1) - np.log(abs(np.linalg.det(proposal.factor)))
    expected = np.logaddexp(np.log(1 - PRIOR_SHARE) + fitted, np.log(PRIOR_SHARE) + log_prior(u))
    np.testing.assert_allclose(proposal.log_density(u), expected, rtol=1e-8)
    weights = np.exp(log_prior(u) - expected)  # its mean is the integral of the prior
    assert abs(weights.mean() - 1) < LIMIT * weights.std() / np.sqrt(len(u))
    weights = np.exp(fitted - expected)
    assert abs(weights.mean() - 1) < LIMIT * weights.std() / np.sqrt(len(u))


def test_no_hyperparameters():
    proposal = Proposal.fitted(Parameters({}), np.zeros((5, 0)))
    assert proposal.draw(np.random.default_rng(0), 7).shape == (7, 0)
    np.testing.assert_array_equal(proposal.log_density(np.zeros((7, 0))), np.zeros(7))


# --- results and errors -----------------------------------------------------------------------------------------------


def log_ratios(variance, seed, posterior=(4, 250), proposal=1000):
    """Return log ratios at posterior and proposal, for Gaussians of equal covariance; log Z is 0."""
    rng, sd = np.random.default_rng([SEED, seed]), np.sqrt(variance)
    return rng.normal(variance / 2, sd, posterior), rng.normal(-variance / 2, sd, proposal)


def test_the_result_is_readable():
    result = log_evidence_of(*log_ratios(1.0, 0))
    assert isinstance(result, LogEvidence)
    assert abs(result.log_z) < 6 * result.standard_error
    lines = repr(result).splitlines()
    assert lines[0].startswith("log Z = ")
    assert "+/-" in lines[0]
    assert lines[1].endswith("(importance sampling: agrees)")
    assert "of 1,000 posterior draws" in lines[3]


def test_a_small_overlap_raises():
    """With a log ratio of variance 36, one draw in a thousand is in the region that matters."""
    with pytest.raises(UnreliableEvidenceError, match=r"the overlap .* few draws determine the estimate") as raised:
        log_evidence_of(*log_ratios(36.0, 1))
    assert raised.value.estimate.pareto_k > 0.7
    assert raised.value.estimate.overlap < 0.05
    assert log_evidence_of(*log_ratios(9.0, 1)).standard_error < 0.2


def test_few_effective_samples_raise():
    a, b = log_ratios(1.0, 2)
    with pytest.raises(UnreliableEvidenceError, match="effective sample size of"):
        log_evidence_of(np.repeat(a[:, :5], 50, axis=1), b)


def test_a_missed_mode_raises():
    """Posterior and proposal have two modes, and all chains stay in one: importance sampling does not agree."""
    rng = np.random.default_rng(SEED + 5)
    centre = np.array([0.2, -3.0])  # log ratios in the two modes, of which the chains have seen the first
    of_proposal = centre[rng.integers(0, 2, 4000)] + 0.1 * rng.standard_normal(4000)
    of_posterior = -3.0 + 0.1 * rng.standard_normal((4, 1000))
    with pytest.raises(UnreliableEvidenceError, match="may have missed a part of the posterior") as raised:
        log_evidence_of(of_posterior, of_proposal)
    assert raised.value.estimate.unvisited > 0.5


def test_a_mode_that_one_proposal_has_found_raises():
    """Importance sampling is then too noisy to be a check."""
    a, b = log_ratios(0.1, 3)
    assert log_evidence_of(a, b).unvisited < 0.01
    with pytest.raises(UnreliableEvidenceError, match="larger weights than all posterior draws") as raised:
        log_evidence_of(a, np.r_[b, 6.5])
    assert raised.value.estimate.estimates_agree is None


def test_few_false_alarms():
    """For correct draws with moderate weights no estimate raises."""
    for seed in range(100):
        log_evidence_of(*log_ratios(4.0, 100 + seed))


def test_no_proposal_with_a_density_raises():
    with pytest.raises(UnreliableEvidenceError, match="no draw of the proposal is in the range of the posterior"):
        log_evidence_of(np.zeros((2, 100)), np.full(200, np.nan))


@pytest.mark.parametrize("value", [np.nan, -np.inf, np.inf])
def test_a_posterior_draw_without_a_density_raises(value):
    a, b = log_ratios(1.0, 4)
    a[2, 7] = value
    with pytest.raises(UnreliableEvidenceError, match="1 of the posterior draws have no finite density"):
        log_evidence_of(a, b)


def test_huge_weights_raise_without_warnings():
    with pytest.raises(UnreliableEvidenceError, match="is not reliable here"):
        log_evidence_of(np.random.default_rng(0).normal(size=(2, 100)), np.r_[np.full(99, -1e5), 1e5])


def test_the_error_can_be_pickled():
    with pytest.raises(UnreliableEvidenceError) as raised:
        log_evidence_of(*log_ratios(36.0, 1))
    again = pickle.loads(pickle.dumps(raised.value))
    assert (str(again), again.estimate) == (str(raised.value), raised.value.estimate)
