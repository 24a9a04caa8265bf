"""`effective_sample_size` compared with R's package coda, up to rounding error."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

import ellipslice as es
from ellipslice.diagnostics import effective_sample_size, efficiency

GOLDEN = {
    case["name"]: case for case in json.loads((Path(__file__).parents[1] / "golden/coda.json").read_text())["cases"]
}


@pytest.mark.parametrize("name", GOLDEN)
def test_coda_agrees(name):
    case = GOLDEN[name]
    assert effective_sample_size(case["x"]) == pytest.approx(case["effective_sample_size"], rel=1e-10, abs=0)


def test_the_golden_values_tell_orders_apart():
    orders = {case["ar_order"] for case in GOLDEN.values()}
    assert orders >= {0, 1, 2}


def test_an_autoregression_is_worth_what_theory_says():
    """The result is n (1 - a) / (1 + a) within a few standard errors: 1 in 19 for coefficient 0.9."""
    rng, n = np.random.default_rng(0), 200_000
    noise, x = rng.standard_normal(n), np.zeros(n)
    for t in range(1, n):
        x[t] = 0.9 * x[t - 1] + noise[t]
    # The standard error of the coefficient is sqrt((1 - a^2) / n), and d log(size) / da = -2 / (1 - a^2).
    error = 2 / np.sqrt((1 - 0.9**2) * n)
    assert np.log(effective_sample_size(x) / (n / 19)) == pytest.approx(0, abs=6 * error)


def test_chains_are_summed_and_columns_kept_apart():
    rng = np.random.default_rng(0)
    draws = rng.standard_normal((3, 200, 2, 4)).cumsum(axis=1)
    sizes = effective_sample_size(draws)
    assert sizes.shape == (2, 4)
    assert sizes[1, 2] == sum(effective_sample_size(chain) for chain in draws[:, :, 1, 2])
    assert effective_sample_size(draws[:, :, 1, 2]) == sizes[1, 2]


def test_short_traces_have_one_too():
    rng = np.random.default_rng(0)
    for draws in range(3, 20):
        for _ in range(30):
            assert 0 <= effective_sample_size(rng.standard_normal(draws)) < np.inf


def test_scale_and_shift_do_not_matter():
    x = np.asarray(GOLDEN["white_500"]["x"]).cumsum()
    assert effective_sample_size(x) == pytest.approx(effective_sample_size(1e3 * x - 7), rel=1e-10)


@pytest.mark.parametrize("value", [0.0, 3e8, -1e-3])
def test_what_never_changes_is_worth_nothing(value):
    assert effective_sample_size(np.full(500, value)) == 0
    assert effective_sample_size([1.0, 2.0]) == 0


@pytest.mark.parametrize(
    ("trace", "says"),
    [
        ([1.0], "1 draw"),
        ([[1.0], [2.0]], "at least 2 draws"),
        (3.0, r"shape \(\)"),
        ([], r"shape \(0,\)"),
        ([1.0, np.nan, 2.0], "not finite"),
        (["a", "b"], "dtype"),
    ],
)
def test_what_has_no_effective_size_is_refused(trace, says):
    with pytest.raises(ValueError, match=says):
        effective_sample_size(trace)


def test_efficiency_divides_by_the_measure_it_names():
    tree = es.sample(
        lambda f: -(f**2).sum(),
        es.Diagonal(np.ones(3)),
        move=es.moves.EllipticalSlice(),
        draws=500,
        seed=1,
        progress=False,
    )
    found = efficiency(tree)
    log_l = tree.sample_stats["total_log_likelihood"]
    assert found.effective_sample_size == sum(effective_sample_size(chain) for chain in log_l.values)
    assert found.evaluations_per_effective_sample == tree.attrs["evaluations"] / found.effective_sample_size
    assert found.seconds_per_effective_sample == tree.attrs["sampling_time"] / found.effective_sample_size
    assert found.bulk_ess == pytest.approx(found.effective_sample_size, rel=0.4)
    assert 0 < found.tail_ess < 2 * log_l.size
    assert efficiency(tree, tree.posterior.f[..., 1]).effective_sample_size == effective_sample_size(
        tree.posterior.f[..., 1]
    )
    with pytest.raises(ValueError, match=r"chain, draw.*f_dim_0"):
        efficiency(tree, tree.posterior.f)
    with pytest.raises(ValueError, match="list"):
        efficiency(tree, [1.0, 2.0])


# --- injected bugs: one for each step of the algorithm --------------------------------------------------------------


def wrong_size(x, *, divisor=0, most=None, correction=True, penalty=2):
    """Return the effective sample size by a plain version of the algorithm.

    The options inject bugs; by default it is right.
    """
    x = np.asarray(x)
    n, y = len(x), x - x.mean()
    most = min(n - 1, int(10 * np.log10(n))) if most is None else min(n - 1, most)
    c = np.array([y[: n - k] @ y[k:] / (n - divisor * k) for k in range(most + 1)])
    best = (np.inf, 0.0)
    for order in range(most + 1):
        toeplitz = c[np.abs(np.subtract.outer(np.arange(order), np.arange(order)))]
        a = np.linalg.solve(toeplitz, c[1 : order + 1]) if order else np.zeros(0)
        v = c[0] - a @ c[1 : order + 1]
        scale = n / max(n - order - 1, 1e-300) if correction else 1.0
        best = min(best, (n * np.log(v) + penalty * order, v * scale / (1 - a.sum()) ** 2))
    return n * x.var(ddof=1) / best[1]


def agrees(**planted):
    cases = [case for case in GOLDEN.values() if case["effective_sample_size"] > 0]
    return all(wrong_size(c["x"], **planted) == pytest.approx(c["effective_sample_size"], rel=1e-6) for c in cases)


def test_the_golden_values_catch_mistakes():
    assert agrees()
    assert not agrees(divisor=1)
    assert not agrees(correction=False)
    assert not agrees(most=5)
    assert not agrees(penalty=np.log(500))
