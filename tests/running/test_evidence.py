"""Using `evidence`: results, engines, seeds, named latents, and arguments that are rejected."""

from __future__ import annotations

import jax.numpy as jnp
import numpy as np
import pytest

import ellipslice as es
from ellipslice.likelihoods import Gaussian, Poisson

PRIOR = es.Diagonal([1.0, 2.0])
LIKELIHOOD = Gaussian([0.5, -1.0])
EXACT = float(-0.5 * np.sum(np.array([0.25, 1.0]) / [2, 3] + np.log(2 * np.pi * np.array([2, 3]))))


def by_numpy(f):
    return float(-0.5 * np.sum((np.array([0.5, -1.0]) - f) ** 2)) - np.log(2 * np.pi)


def by_jax(f):
    return -0.5 * jnp.sum((jnp.array([0.5, -1.0]) - f) ** 2) - jnp.log(2 * jnp.pi)


def small(function, prior, **options):
    return es.evidence(function, prior, **{"method": "tempered", "particles": 200, "seed": 1, **options})


def test_a_result_says_what_it_is():
    result = small(by_jax, PRIOR, particles=1000)
    first, second, third = str(result).splitlines()
    assert first.startswith(f"log Z = {result.log_z:.1f}"[:-1])
    assert "sequential Monte Carlo, from the prior in" in first
    assert "annealed importance sampling: agrees" in second
    assert third.startswith("Blind spot: a region with less than 0.3 % of the mass of the prior")
    assert str(result).isascii()  # so that any terminal can show it
    assert abs(result.log_z - EXACT) < 6 * result.standard_error
    assert result.replicate_log_z.shape == (10,)
    assert result.inverse_temperatures[-1] == 1
    assert len(result.inverse_temperatures) == len(result.updates) == len(result.correlations)
    assert 0 < result.surviving_fraction <= 1
    assert result.evaluations > 3 * 1000
    assert (result.engine, result.reference, result.seed) == ("batched", "prior", 1)
    assert result.draws.shape == (1000, 2)


def test_the_check_can_be_left_out():
    result = small(by_jax, PRIOR, check=False)
    assert result.estimates_agree is None
    assert len(str(result).splitlines()) == 2
    assert result.log_z == small(by_jax, PRIOR).log_z


@pytest.mark.parametrize("function", [by_jax, by_numpy])
def test_the_same_seed_gives_the_same_estimate(function):
    one, two, other = (small(function, PRIOR, seed=seed, reference=None) for seed in (1, 1, 2))
    assert (one.log_z, one.ais_log_z) == (two.log_z, two.ais_log_z)
    np.testing.assert_array_equal(one.draws, two.draws)
    assert one.log_z != other.log_z


@pytest.mark.short_cases("device", "prior on the host")
@pytest.mark.parametrize(
    ("prior", "options", "engine"),
    [
        (PRIOR, {}, "batched"),
        (PRIOR, {"engine": "host"}, "host"),
        (es.FromDraws(lambda rng: np.sqrt([1.0, 2.0]) * rng.standard_normal(2), 2), {}, "host"),
        (es.Stack({"a": es.Diagonal([1.0]), "b": es.Diagonal([2.0])}), {}, "batched"),
        (es.Diagonal([1.0, 2.0], mean=[0.3, 0.0]), {}, "batched"),
    ],
    ids=["device", "host", "prior on the host", "named latents", "mean"],
)
def test_priors_and_engines(prior, options, engine):
    function = by_jax
    if isinstance(prior, es.Stack):

        def function(a, b):
            return by_jax(jnp.concatenate([a, b]))

    result = small(function, prior, **options)
    expected = EXACT - 0.5 * (0.2**2 - 0.5**2) / 2 if getattr(prior, "mean", None) is not None else EXACT
    assert abs(result.log_z - expected) < 6 * result.standard_error
    assert result.engine == engine
    if isinstance(prior, es.Stack):
        assert {name: part.shape for name, part in result.draws.items()} == {"a": (200, 1), "b": (200, 1)}


def test_a_function_that_takes_batches_is_called_with_them():
    sizes = []

    def batches(f):
        sizes.append(len(f))
        return -0.5 * np.sum((np.array([0.5, -1.0]) - f) ** 2, axis=-1) - np.log(2 * np.pi)

    result = small(batches, PRIOR, vectorized=True, engine="host")
    assert max(sizes) == 200
    assert abs(result.log_z - EXACT) < 6 * result.standard_error


@pytest.mark.long
def test_concave_sums_start_at_expectation_propagation():
    result = small(Poisson([3.0, 1.0]), PRIOR)
    assert result.reference == "ep"
    assert "from the ep approximation" in str(result)
    assert result.log_z == pytest.approx(es.approximate_evidence(Poisson([3.0, 1.0]), PRIOR), abs=0.01)
    assert small(Poisson([3.0, 1.0]), PRIOR, reference=None).reference == "prior"


@pytest.mark.long
def test_nans_count_as_zero_and_are_told():
    def half(f):
        return jnp.where(f[0] > 0, 0.0, jnp.nan)

    with pytest.warns(UserWarning, match="returned NaN"):
        result = small(half, PRIOR)
    assert abs(result.log_z - np.log(0.5)) < 6 * result.standard_error
    assert result.nan_evaluations > 0


@pytest.mark.long
def test_the_prior_inside_the_likelihood_is_noticed():
    with pytest.warns(UserWarning, match="contain the log density of the prior"):
        small(lambda f: -0.5 * jnp.sum(f**2 / jnp.array([1.0, 2.0])), PRIOR)


@pytest.mark.parametrize(
    ("options", "error", "match"),
    [
        ({"particles": 10.5}, TypeError, "particles must be a whole number"),
        ({"particles": 4}, ValueError, "particles must be at least 8"),
        ({"particles": 205}, ValueError, "10 replicates cannot share 205 particles equally"),
        ({"replicates": 2}, ValueError, "replicates must be at least 4"),
        ({"target_effective_fraction": 1.0}, ValueError, "target_effective_fraction must be a number between 0 and 1"),
        ({"updates_per_temperature": 0}, ValueError, "updates_per_temperature must be at least 1"),
        ({"seed": -1}, ValueError, "seed must be at least 0"),
        ({"reference": "pilot"}, ValueError, 'reference must be "auto", "laplace", "ep" or None'),
        ({"engine": "fused"}, ValueError, 'engine must be "batched", "host" or None'),
    ],
)
def test_bad_options_are_refused(options, error, match):
    with pytest.raises(error, match=match):
        small(by_jax, PRIOR, **options)


def test_bad_models_are_refused():
    with pytest.raises(TypeError, match="the prior is a TruncatedGaussian"):
        small(by_jax, es.TruncatedGaussian.box(PRIOR, lower=0.0))
    with pytest.raises(TypeError, match="the prior was given first"):
        small(PRIOR, by_jax)
    with pytest.raises(ValueError, match="at all 200 draws from the prior"):
        small(lambda f: jnp.where(f[0] > 100, 0.0, -jnp.inf), PRIOR)
    with pytest.raises(ValueError, match=r"\+inf"):
        small(lambda f: jnp.where(f[0] > 0, jnp.inf, 0.0), PRIOR)
    with pytest.raises(ValueError, match="factorises over the elements of f"):
        small(lambda f: -((f[0] * f[1]) ** 2), PRIOR, reference="ep")
    with pytest.raises(ValueError, match='engine="batched" was given'):
        small(by_numpy, PRIOR, engine="batched")
