"""Using `evidence` with nested sampling and with the comparison of methods: results, engines, seeds, refusals."""

from __future__ import annotations

from dataclasses import replace

import jax.numpy as jnp
import numpy as np
import pytest
import xarray
from scipy.stats import norm

import ellipslice as es
from ellipslice.marginal import NestedEvidence, TemperedEvidence, compare
from ellipslice.marginal.estimates import with_error

PRIOR = es.Diagonal([1.0, 2.0])
Y, NOISE = np.array([0.5, -1.0]), 0.5
EXACT = float(-0.5 * np.sum(Y**2 / [1.25, 2.25] + np.log(2 * np.pi * np.array([1.25, 2.25]))))


def in_batches(f):
    return -0.5 * np.sum(((Y - f) / NOISE) ** 2, axis=-1) - np.log(2 * np.pi * NOISE**2)


def by_numpy(f):
    return float(in_batches(np.asarray(f)))


def by_jax(f):
    return -0.5 * jnp.sum(((Y - f) / NOISE) ** 2) - jnp.log(2 * jnp.pi * NOISE**2)


HOST = {"engine": "host", "vectorized": True}


def small(function=in_batches, prior=PRIOR, **options):
    return es.evidence(function, prior, **{"method": "nested", "particles": 200, "seed": 1, **HOST, **options})


def test_a_result_says_what_it_is():
    result = small(particles=400)
    first, second = str(result).splitlines()
    assert first.startswith("log Z = ")
    assert f"(nested sampling, 400 live points, {result.updates} updates, p = " in first
    assert second.startswith("Blind spot: a region with less than 2.3 % of the prior mass that remains where it")
    assert str(result).isascii()
    assert abs(result.log_z - EXACT) < 6 * result.standard_error
    assert 0.3 < result.standard_error / result.ideal_standard_error < 3
    assert result.replicate_log_z.shape == (10,)
    variance = np.array([1.0, 2.0])
    shrunk = variance * NOISE**2 / (variance + NOISE**2)
    divergence = 0.5 * np.sum(
        shrunk / variance + (shrunk * Y / NOISE**2) ** 2 / variance - 1 - np.log(shrunk / variance)
    )
    assert result.information == pytest.approx(divergence, abs=0.3)
    assert small(method="tempered", particles=400).information == pytest.approx(divergence, abs=0.3)
    assert (result.live_points, result.engine, result.seed) == (400, "host", 1)
    assert result.updates in (8, 16, 32)
    assert 0.05 <= result.rank_p_value <= 1
    assert result.draws.shape == (400, 2)
    assert result.evaluations > 4000
    assert (result.other, result.methods_agree, result.comparison) == (None, None, "")


def test_the_draws_are_a_tree():
    result = small()
    tree = result.tree
    assert isinstance(tree, xarray.DataTree)
    np.testing.assert_array_equal(tree["posterior"]["f"].values, result.draws[None])
    assert tree["posterior"]["f"].dims == ("chain", "draw", "f_dim_0")
    assert tree.attrs["log_z"] == result.log_z
    assert tree.attrs["blind_spot"] == result.blind_spot
    gain = np.array([1.0, 2.0]) / (np.array([1.0, 2.0]) + NOISE**2)
    np.testing.assert_allclose(result.draws.mean(axis=0), gain * Y, atol=0.25)


@pytest.mark.long_cases("by_numpy", "by_jax")
@pytest.mark.parametrize("function", [in_batches, by_numpy, by_jax])
def test_the_same_seed_gives_the_same_estimate(function):
    options = {} if function is in_batches else {"vectorized": None, "engine": None}
    options["particles"] = 80
    one, two, other = (small(function, seed=seed, **options) for seed in (1, 1, 2))
    assert (one.log_z, one.standard_error, one.rank_p_value) == (two.log_z, two.standard_error, two.rank_p_value)
    np.testing.assert_array_equal(one.draws, two.draws)
    assert one.log_z != other.log_z


@pytest.mark.long
def test_compiled_code():
    result = small(by_jax, vectorized=None, engine=None, particles=1000)
    assert result.engine == "batched"
    assert abs(result.log_z - EXACT) < 6 * result.standard_error


def test_named_latents_and_a_mean():
    prior = es.Stack({"a": es.Diagonal([1.0], mean=[0.3]), "b": es.Diagonal([2.0])})
    result = small(lambda a, b: in_batches(np.concatenate([a, b], axis=-1)), prior)
    assert {name: part.shape for name, part in result.draws.items()} == {"a": (200, 1), "b": (200, 1)}
    assert abs(result.log_z - (EXACT - 0.5 * (0.2**2 - 0.5**2) / 1.25)) < 6 * result.standard_error
    assert set(result.tree["posterior"].data_vars) == {"a", "b"}


def test_a_constant_likelihood_needs_no_updates(monkeypatch):
    result = small(lambda f: np.full(len(f), -2.0))
    assert result.log_z == pytest.approx(-2.0, abs=1e-12)
    assert (result.standard_error, result.rank_p_value) == (pytest.approx(0, abs=1e-12), 1.0)
    assert result.updates == 4
    monkeypatch.setattr(compare, "HOST_BUDGET_RATIO", 1000)
    both = small(lambda f: np.full(len(f), -2.0), method="auto")
    assert both.methods_agree


def test_replicates_without_a_positive_likelihood():
    """Some replicates have no live point in the region, so that they estimate Z = 0."""
    prior = es.Diagonal(np.ones(2))
    result = small(lambda f: np.where((f > 0.5).all(axis=-1), 0.0, -np.inf), prior, particles=80)
    assert 1 < np.isfinite(result.replicate_log_z).sum() < 10
    assert abs(result.log_z - 2 * norm.logsf(0.5)) < 6 * result.standard_error
    assert (result.draws > 0.5).all()


def test_an_infinite_error_can_be_shown():
    assert with_error(-2.345, np.inf) == "-2.345 +/- inf"
    assert with_error(-2.345, 0.0123) == "-2.345 +/- 0.012"


def test_nans_count_as_zero_and_are_told():
    with pytest.warns(UserWarning, match="returned NaN"):
        result = small(lambda f: np.where(f[..., 0] > 0, 0.0, np.nan))
    assert abs(result.log_z - np.log(0.5)) < 6 * result.standard_error


@pytest.mark.parametrize(
    ("options", "match"),
    [
        ({"method": "both"}, 'method must be "auto", "tempered" or "nested", but it is \'both\''),
        ({"particles": 70}, "10 replicates cannot share 70 particles equally. Use a multiple of 10, at least 80"),
        ({"reference": "ep"}, 'reference is an option of the tempered method. Leave it out with method="nested"'),
        ({"check": False}, "check is an option of the tempered method"),
        ({"updates_per_temperature": 3}, "updates_per_temperature is an option of the tempered method"),
        ({"target_effective_fraction": 0.5}, "target_effective_fraction is an option of the tempered method"),
    ],
)
def test_bad_options_are_refused(options, match):
    with pytest.raises(ValueError, match=match):
        small(**options)


def test_bad_models_are_refused():
    with pytest.raises(ValueError, match="at all 200 draws from the prior"):
        small(lambda f: np.where(f[..., 0] > 100, 0.0, -np.inf))
    with pytest.raises(ValueError, match=r"\+inf"):
        small(lambda f: np.where(np.abs(f[..., 0]) < 1e-3, np.inf, -(f[..., 0] ** 2)))


def test_updates_that_do_not_suffice_are_told(monkeypatch):
    monkeypatch.setattr("ellipslice.marginal.nested_evidence.FIRST_UPDATES", 1)
    monkeypatch.setattr("ellipslice.marginal.nested_evidence.MAX_UPDATES", 1)
    with pytest.warns(UserWarning, match="replacements of live points are not independent draws after 1 updates"):
        small()


# --- method="auto" --------------------------------------------------------------------------------------------------


def test_both_methods_are_compared_if_that_is_affordable(monkeypatch):
    monkeypatch.setattr(compare, "HOST_BUDGET_RATIO", 100)
    result = small(method="auto", particles=400)
    assert isinstance(result, TemperedEvidence)
    assert isinstance(result.other, NestedEvidence)
    assert result.methods_agree
    first, _, third, blind = str(result).splitlines()
    assert "sequential Monte Carlo" in first
    assert "nested sampling" in third
    assert third.endswith(": agrees)")
    assert blind.startswith("Blind spots: ")
    assert result.log_z == small(method="tempered", particles=400).log_z
    assert result.other.log_z == small(particles=400).log_z


def test_reasons_for_no_comparison(monkeypatch):
    monkeypatch.setattr(compare, "HOST_BUDGET_RATIO", 0.1)
    costly = small(method="auto")
    assert costly.other is None
    assert "it would take more than" in costly.comparison
    assert costly.comparison in str(costly)
    few = small(method="auto", particles=40)
    assert "needs at least 8 live points in each replicate" in few.comparison
    concave = es.evidence(es.likelihoods.Gaussian(Y, NOISE), PRIOR, particles=40, seed=1)
    assert "log-concave, so the posterior has one mode" in concave.comparison


def test_agreement():
    tempered = small(method="tempered")
    nested = small()
    value = replace(nested, log_z=tempered.log_z, standard_error=0.1)
    assert compare.methods_agree(tempered, value) is True
    assert compare.methods_agree(tempered, replace(value, standard_error=0.3)) is None
    assert compare.methods_agree(tempered, replace(value, log_z=tempered.log_z + 1)) is False
    assert compare.methods_agree(tempered, replace(value, log_z=tempered.log_z + 2, standard_error=0.3)) is False


def test_disagreement_is_told_and_not_averaged(monkeypatch):
    right = compare.nested_evidence

    def shifted(problem, budget):
        found = right(problem)
        return replace(found, log_z=found.log_z + 5)

    monkeypatch.setattr(compare, "nested_evidence", shifted)
    monkeypatch.setattr(compare, "HOST_BUDGET_RATIO", 100)
    with pytest.warns(UserWarning, match="nested sampling gives log Z = .* the tempered method .* They do not agree"):
        result = small(method="auto")
    assert isinstance(result, NestedEvidence)
    assert result.log_z == small().log_z + 5
    assert result.other.log_z == small(method="tempered").log_z
    assert result.methods_agree is False
    assert "DOES NOT AGREE" in str(result)
