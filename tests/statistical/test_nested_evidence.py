"""Nested sampling compared with closed forms, rejection sampling and another implementation."""

from __future__ import annotations

import jax.numpy as jnp
import numpy as np
import pytest
from scipy import stats

import ellipslice as es
from ellipslice.engines.device.prior_draws import source_of
from ellipslice.jax_settings import jax_settings
from ellipslice.marginal.nested_sum import information, jackknife_error, log_sum
from ellipslice.marginal.particle_moves import DeviceParticleMove, HostParticleMove, Particles
from ellipslice.programs.traced import compilable
from statistical.calibrated_evidence import NOISE, SIGMA, TRUTH, Y
from statistical.monte_carlo import LIMIT, SEED
from statistical.nested_problems import (
    BOWL_PRIOR,
    BOWL_TRUTH,
    PLATEAUS_PRIOR,
    PLATEAUS_TRUTH,
    ExactMove,
    bowl,
    check_nested,
    nested_run,
    plateaus,
    spike,
)

pytestmark = pytest.mark.statistical
ORTHANT = np.log(0.5) * 4


def bean(f, xp=np):
    """Return a log-likelihood whose regions above a level are bent, and separate above -0.25."""
    return -((f[..., 0] ** 2 - 1) ** 2) / 4 - (f[..., 1] - f[..., 0] ** 2 / 2) ** 2


def traced_bean(f):
    return bean(f, jnp)


@pytest.mark.long_cases("device")
@pytest.mark.parametrize("engine", ["host", "device"])
def test_constrained_updates_have_the_distribution_of_rejection(engine):
    prior, count, level, rng = es.Diagonal([1.0, 2.0]), 2000, -0.4, np.random.default_rng(SEED)
    draws = np.asarray(prior.draw_zero_mean(rng, 200_000))
    accepted = draws[bean(draws) > level]
    if engine == "host":
        move = HostParticleMove(bean, prior, SEED, count)
    else:
        with jax_settings():
            likelihood = compilable(es.posterior.Posterior(prior, traced_bean).log_likelihood, 2)
            move = DeviceParticleMove(likelihood, source_of(prior, 8, np.dtype(np.float64)), SEED, count, 250)
    start = np.tile(accepted[bean(accepted).argmax()], (count, 1))  # all at one point, far from the distribution
    moved = move.move(Particles(start, bean(start)), np.zeros(100), np.full(count, level)).particles
    assert (bean(moved.f) > level - 1e-9).all()
    for quantity in (lambda f: f[:, 0], lambda f: f[:, 1], bean):
        p = stats.ks_2samp(quantity(moved.f), quantity(accepted)).pvalue
        assert p > 1e-4, p


def test_each_particle_has_its_own_level():
    prior, levels = es.Diagonal([1.0, 1.0]), np.repeat([-np.inf, -2.0, -0.02], 500)

    def values(f):
        return -0.5 * np.sum(f**2, axis=-1)

    move, start = HostParticleMove(values, prior, SEED + 1, len(levels)), np.zeros((len(levels), 2))
    moved = move.move(Particles(start, values(start)), np.zeros(20), levels).particles
    inside = stats.chi2(2)
    for level in (-np.inf, -2.0, -0.02):
        own = -2 * moved.log_likelihood[levels == level]
        assert stats.kstest(inside.cdf(own) / inside.cdf(-2 * level), "uniform").pvalue > 1e-4


@pytest.mark.long
def test_log_z_of_a_gaussian_is_right_with_calibrated_errors():
    runs = check_nested()
    assert min(run.ranks.p_value(200) for run in runs) > 1e-4
    posterior = np.linalg.inv(np.linalg.inv(SIGMA) + np.eye(3) / NOISE**2)
    mean, noise = posterior @ Y / NOISE**2, -3 * np.log(NOISE * np.sqrt(2 * np.pi))
    exact = noise - (np.sum((mean - Y) ** 2) + np.trace(posterior)) / (2 * NOISE**2) - TRUTH
    found = np.array([information(run.points) for run in runs])
    assert abs(found.mean() - exact) < LIMIT * found.std() / np.sqrt(len(found)) + 0.02


def exact_runs(count):
    return [nested_run(seed, bowl, BOWL_PRIOR, move=ExactMove(seed)) for seed in range(count)]


def test_log_z_with_exact_replacements():
    """The sum, without errors of the updates."""
    runs = exact_runs(20)
    off = np.array([log_sum(run.points) for run in runs]) - BOWL_TRUTH
    assert abs(off.mean()) < LIMIT * off.std(ddof=1) / np.sqrt(len(off))
    expected = np.sqrt((np.log(5) - 0.8) / 200)  # the root of information / live points
    assert 0.6 < off.std(ddof=1) / expected < 1.5
    for run in runs[:5]:
        assert run.ranks.p_value(200) > 1e-4


def test_the_prior_mass_shrinks_as_expected():
    """Six iterations remove 5 of 20 points each, so the logarithm of the mass has a known mean and variance."""
    steps, shrinkage = 1 / np.arange(16, 21), []
    for run in exact_runs(20):
        for replicate in range(10):
            levels = np.unique(run.points.birth[run.points.replicate == replicate])[:6]  # NaN is last
            shrinkage.append(np.log(stats.chi2(2).cdf(-levels[5] / 2)))
    off = (np.array(shrinkage) + 6 * steps.sum()) / np.sqrt(6 * np.sum(steps**2))
    assert abs(off.mean()) < LIMIT / np.sqrt(len(off))
    assert stats.chi2(len(off)).cdf(np.sum(off**2)) == pytest.approx(0.5, abs=0.4999)


@pytest.mark.long
def test_plateaus():
    check_nested(values=plateaus, prior=PLATEAUS_PRIOR, truth=PLATEAUS_TRUTH)


@pytest.mark.long_cases("batched")
@pytest.mark.parametrize("engine", ["batched", "host"])
def test_a_likelihood_of_zero_on_most_draws(engine):
    def orthant(f):
        return jnp.where(jnp.all(f > 0), 0.0, -jnp.inf)

    options = {"engine": "batched"} if engine == "batched" else {"engine": "host", "vectorized": True}
    function = orthant if engine == "batched" else lambda f: np.where((f > 0).all(axis=-1), 0.0, -np.inf)
    result = es.evidence(function, es.Diagonal(np.ones(4)), method="nested", seed=SEED, **options)
    assert abs(result.log_z - ORTHANT) < LIMIT * result.standard_error
    assert result.standard_error < 0.25
    assert (result.draws > 0).all()
    assert result.information == pytest.approx(-result.log_z, abs=1e-6)


@pytest.mark.long
def test_the_host_and_compiled_code_have_the_same_distribution():
    prior, found = es.Diagonal(np.ones(2)), {}
    for engine in ("host", "batched"):
        function = traced_bean if engine == "batched" else bean
        options = {"engine": engine, "vectorized": engine == "host", "particles": 400, "method": "nested"}
        runs = [es.evidence(function, prior, seed=SEED + seed, **options) for seed in range(8)]
        found[engine] = np.array([run.log_z for run in runs])
    assert stats.ttest_ind(found["host"], found["batched"]).pvalue > 1e-4


@pytest.mark.long
def test_dynesty_agrees():
    dynesty = pytest.importorskip("dynesty")
    sampler = dynesty.NestedSampler(
        lambda f: float(bean(np.asarray(f))), stats.norm.ppf, 2, nlive=400, rstate=np.random.default_rng(SEED)
    )
    sampler.run_nested(print_progress=False, dlogz=0.01)
    result = es.evidence(traced_bean, es.Diagonal(np.ones(2)), method="nested", seed=SEED)
    difference = result.log_z - sampler.results.logz[-1]
    assert abs(difference) < LIMIT * np.hypot(result.standard_error, sampler.results.logzerr[-1])


COUNTED_TWICE = "ignore:the log-likelihood seems to contain"  # the broad part has the curvature of the prior


def test_a_spike_in_two_dimensions():
    run = nested_run(1, spike(0.02, 2, np), es.Diagonal(np.ones(2)), updates=16, live=400)
    error = jackknife_error(run.points)
    assert abs(log_sum(run.points)) < LIMIT * error
    assert error < 0.4  # the broad part alone has log Z = -2.3


@pytest.mark.long
@pytest.mark.filterwarnings(COUNTED_TWICE, "ignore:the replacements", "ignore:the replicates")
def test_a_spike_that_the_tempered_path_misses():
    with pytest.warns(UserWarning, match="nested sampling gives log Z = .* They do not agree"):
        result = es.evidence(spike(0.1, 10, jnp), es.Diagonal(np.ones(10)), seed=SEED)
    assert isinstance(result, es.marginal.NestedEvidence)
    assert result.methods_agree is False
    assert abs(result.log_z) < LIMIT * result.standard_error
    assert abs(result.other.log_z - np.log(0.1)) < 0.2  # the tempered path has found the broad part alone
    assert "DOES NOT AGREE" in str(result)


@pytest.mark.long
@pytest.mark.filterwarnings(COUNTED_TWICE, "ignore:the replacements", "ignore:the replicates")
@pytest.mark.parametrize("seed", [1, 2, 3])
@pytest.mark.parametrize("width", [0.3, 0.1, 0.05])
def test_spikes_in_ten_dimensions(width, seed):
    result = es.evidence(spike(width, 10, jnp), es.Diagonal(np.ones(10)), method="nested", seed=SEED + seed)
    if width == 0.3:
        assert abs(result.log_z) < max(0.2, LIMIT * result.ideal_standard_error)
    elif width == 0.1:
        assert abs(result.log_z) < 3 * result.standard_error
    else:  # its share of the remaining prior mass is 1e-5 where it separates
        assert abs(result.log_z) < 3 * result.standard_error or result.blind_spot > 1e-5
