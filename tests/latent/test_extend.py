"""A longer run after a fit: the draws are those of one long run, with and without a store."""

from __future__ import annotations

import numpy as np
import pytest

import ellipslice as es


def model():
    y = np.random.default_rng(0).poisson(3.0, 24)
    return es.LatentGaussianModel("y ~ 1 + (1 | g)", data={"y": y, "g": np.arange(24) % 4}, family="poisson")


@pytest.fixture(scope="module")
def long():
    return model().fit(draws=40, warmup=10, chains=2, thin=2, seed=5, progress=False)


@pytest.mark.parametrize("stored", [False, True])
def test_the_draws_are_those_of_one_long_run(long, stored, tmp_path):
    store = tmp_path / "run" if stored else None
    short = model().fit(draws=15, warmup=10, chains=2, thin=2, seed=5, store=store, progress=False)
    extended = short.extend(40, progress=False)
    for name in long.tree.posterior.data_vars:
        np.testing.assert_array_equal(extended.tree.posterior[name], long.tree.posterior[name])
        np.testing.assert_array_equal(extended.tree.posterior[name][:, :15], short.tree.posterior[name])
    assert extended.extend(progress=False).tree.posterior.sizes["draw"] == 80
    assert extended.store == store


def test_until_and_errors(long):
    rule = es.Until(max_draws=60)
    assert long.extend(until=rule, progress=False).tree.posterior.sizes["draw"] == 60
    with pytest.raises(ValueError, match="draws is 40, but the fit has 40 draws per chain already"):
        long.extend(40)


@pytest.mark.long
def test_a_run_of_automatic_length():
    """Final warm-up and thinning give the same draws, so the longer run begins with them."""
    short = model().fit(seed=6, progress=False)
    extended = short.extend(1500, progress=False)
    np.testing.assert_array_equal(extended.tree.posterior["g_sd"][:, :1000], short.tree.posterior["g_sd"])
