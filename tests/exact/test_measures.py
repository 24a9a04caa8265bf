"""Effective sample size and R-hat of all quantities, and the limits of a converged run."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.signal import lfilter

import ellipslice as es
from ellipslice.sampling.measures import limits, measure, number_of_quantities
from ellipslice.sampling.until import StoppingRule


def chains(rng, quantities, correlation, draws=1000):
    """Return four stationary autoregressions."""
    shocks = rng.standard_normal((4, draws + 200, quantities))
    return lfilter([np.sqrt(1 - correlation**2)], [1.0, -correlation], shocks, axis=1)[:, 200:]


def test_measures_are_those_of_arviz():
    import xarray
    from arviz_stats import ess, rhat

    rng = np.random.default_rng(1)
    f = chains(rng, 6, 0.8).reshape(4, 1000, 2, 3)
    f[:, 500:, 1, 1] = f[:, 499:500, 1, 1]  # ties
    f[:, :, 0, 2], f[0, 3, 1, 2] = 1.0, np.nan
    g = rng.standard_cauchy((4, 1000))
    found = measure({"f": f, "g": g})
    values = xarray.Dataset({"f": (("chain", "draw", "x", "y"), f), "g": (("chain", "draw"), g)})
    used = [(0, 0), (0, 1), (1, 0), (1, 1)]
    sizes = {
        "g": min(float(ess(values.g, method=m)) for m in ("bulk",)),
        "tail": float(ess(values.g, method="tail", prob=(0.05, 0.95))),
    }
    for i, j in used:
        one = values.f[:, :, i, j]
        sizes[f"f[{i}, {j}]"] = min(float(ess(one, method="bulk")), float(ess(one, method="tail", prob=(0.05, 0.95))))
    assert found.effective_sample_size == pytest.approx(min(sizes.values()))
    assert sizes[found.effective_sample_size_of] == min(sizes.values())
    rhats = {f"f[{i}, {j}]": float(rhat(values.f[:, :, i, j])) for i, j in used} | {"g": float(rhat(values.g))}
    assert found.rhat == pytest.approx(max(rhats.values()))
    assert rhats[found.rhat_of] == max(rhats.values())
    assert number_of_quantities({"f": f, "g": g}) == 5


def test_the_measures_do_not_depend_on_the_users_settings():
    import arviz_base

    values = {"f": chains(np.random.default_rng(1), 2, 0.9)}
    before = measure(values)
    with arviz_base.rc_context({"stats.ci_prob": 0.5}):
        assert measure(values) == before


@pytest.mark.parametrize("quantities", [3, 100])
def test_the_limit_of_rhat(quantities):
    """Converged chains with the smallest effective sample size exceed it in about 5 % of the runs, or fewer.

    An autoregression with coefficient 9 / 11 has 100 effective samples in 1,000 draws.
    """
    from arviz_stats.base import array_stats

    rng = np.random.default_rng(2)
    largest = [float(array_stats.rhat(chains(rng, quantities, 9 / 11), 0, 1).max()) for _ in range(600 // quantities)]
    limit = limits(4, quantities).rhat
    runs = len(largest)
    assert np.mean(np.array(largest) > limit) <= 0.05 + 3 * np.sqrt(0.05 * 0.95 / runs)
    assert np.median(largest) > 1 + 0.4 * (limit - 1)  # and it is not too wide


def test_more_quantities_and_fewer_chains_widen_the_limit():
    assert limits(4, 1000).rhat > limits(4, 10).rhat > limits(16, 10).rhat
    assert [limits(number, 1).effective_sample_size for number in (1, 4)] == [100, 400]


def test_a_stopping_rule_measures_elements_that_it_does_not_monitor():
    rng = np.random.default_rng(3)
    f = chains(rng, 200, 0.0)
    f[:, :, 101] = np.repeat(chains(rng, 1, 0.0, 10)[:, :, 0], 100, axis=1)
    rule = StoppingRule(es.Until(effective_sample_size=1000), {"f": f[:1, 0]}, 4)
    rule.write(slice(0, 4), 0, {"f": f}, {"total_log_likelihood": f[:, :, 0]})
    assert not rule.check(1000, lambda draws, step: {"f": f[:, :draws:step]})
    assert rule.diagnostics.effective_sample_size_of == "f[101]"
    good = np.delete(f, 101, axis=2)
    assert rule.check(1000, lambda draws, step: {"f": good[:, :draws:step]})
