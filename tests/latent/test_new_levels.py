"""Effects at new levels: conditional distributions of the prior, against dense algebra, and forecasts of fits."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

import ellipslice as es
from catalogue_terms import galerkin, ring, seasonal, walk
from ellipslice.latent.terms import AR1, ICAR, IID, RW1, RW2, Seasonal

SEED, DRAWS = 4, 4000


def check(term, data, new, precision, order, **hyperparameters):
    """Compare draws at new levels with the Gaussian that follows from a dense precision of old and new levels.

    `order` has the position of each level, and then of each distinct new one, in the dense precision.
    """
    bound, rng = term.bind(data), np.random.default_rng(SEED)
    column = bound.column
    levels = len(bound.state.levels)
    effects = np.tile(rng.standard_normal(levels), (DRAWS, 1))
    draws = {name: np.full(DRAWS, value) for name, value in hyperparameters.items()}
    found = bound.conditional_effects({column: new}, effects, draws, rng)
    matrix = precision[np.ix_(order, order)]
    covariance = np.linalg.inv(matrix[levels:, levels:])
    mean = -covariance @ matrix[levels:, :levels] @ effects[0]
    white = np.linalg.solve(np.linalg.cholesky(covariance), (found[:, : len(mean)] - mean).T)
    assert np.abs(white.mean(axis=1)).max() < 5 / np.sqrt(DRAWS)
    np.testing.assert_allclose(white @ white.T / DRAWS, np.eye(len(mean)), atol=5 * np.sqrt(2 / DRAWS))
    return found, effects[0]


def test_forecasts_of_an_autoregression():
    times = np.arange(9)
    precision = np.linalg.inv(1.3**2 * 0.7 ** np.abs(np.subtract.outer(times, times)))
    check(AR1("t"), {"t": [2, 3, 5]}, [0, 1, 6, 7, 8], precision, [2, 3, 4, 5, 0, 1, 6, 7, 8], sd=1.3, rho=0.7)


def test_a_time_between_new_times_is_drawn_too():
    bound, rng = AR1("t").bind({"t": [0, 1]}), np.random.default_rng(0)
    draws = {"sd": np.ones(2000), "rho": np.full(2000, 0.9)}
    found = bound.conditional_effects({"t": [4, 4, 3]}, np.full((2000, 2), 2.0), draws, rng)
    np.testing.assert_array_equal(found[:, 0], found[:, 1])
    assert found[:, 0].mean() == pytest.approx(2 * 0.9**3, abs=5 / np.sqrt(2000))
    assert found[:, 0].var() == pytest.approx(1 - 0.9**6, rel=5 * np.sqrt(2 / 2000))


@pytest.mark.parametrize(("kind", "dense"), [(RW1, walk), (RW2, galerkin)])
def test_forecasts_and_gaps_of_walks(kind, dense):
    """Distances are in multiples of the mean distance of the data, 2, also for new positions."""
    positions = np.array([-1.0, 0.0, 1.5, 3.0, 5.0, 6.0, 9.0])
    precision = dense(np.diff(positions) / 2.0) / 0.8**2
    new = [-1.0, 1.5, 9.0]
    check(kind("t", scale_model=False), {"t": [0, 3, 5, 6]}, new, precision, [1, 3, 4, 5, 0, 2, 6], sd=0.8)


def test_a_scaled_walk_keeps_its_scale():
    bound = RW1("t").bind({"t": np.arange(6)})
    factor = bound.precision(sd=1.0).toarray()[0, 0]
    precision = walk(np.ones(6)) * factor / 0.5**2
    check(RW1("t"), {"t": np.arange(6)}, [6], precision, [0, 1, 2, 3, 4, 5, 6], sd=0.5)


def test_a_gap_of_a_cycle():
    precision = ring(8, 2) * (8 / 4) ** 3 / 0.7**2  # 4 positions with distance 1, 8 with distance 1 / 2
    term = RW2("hour", cyclic=True, period=24, scale_model=False)
    order = [0, 2, 4, 6, 1, 3, 5, 7]
    check(term, {"hour": [0, 6, 12, 18]}, [3, 9, 15, 21], precision, order, sd=0.7)


def test_an_hour_of_the_next_day_is_the_hour():
    bound = RW2("hour", cyclic=True, period=24).bind({"hour": [0, 6, 12, 18]})
    effects = np.arange(8.0).reshape(2, 4)
    found = bound.conditional_effects({"hour": [30, 24]}, effects, {"sd": np.ones(2)}, np.random.default_rng(0))
    np.testing.assert_array_equal(found, effects[:, [1, 0]])


def test_forecasts_of_a_season():
    precision = seasonal(12, 4) / 0.6**2
    order = [2, 3, 4, 5, 6, 7, 8, 0, 1, 9, 10, 11]
    check(Seasonal("t", period=4), {"t": np.arange(2, 9)}, [0, 1, 9, 10, 11], precision, order, sd=0.6)


def test_dates():
    days = pd.date_range("2024-01-01", periods=6).to_numpy()
    for term in (AR1("t"), RW1("t")):
        bound = term.bind({"t": days[1:5]})
        draws = {name: np.full(3, 1e-6 if name == "sd" else 0.5) for name in bound.hyperparameters}
        found = bound.conditional_effects({"t": days[[0, 5]]}, np.full((3, 4), 1.0), draws, np.random.default_rng(0))
        expected = 0.5 if isinstance(term, AR1) else 1.0
        np.testing.assert_allclose(found, expected, atol=1e-4)


def test_new_groups_have_one_effect_each():
    bound = IID("g", weights="x").bind({"g": ["a", "b"], "x": [1.0, 2.0]})
    new = {"g": ["c", "d", "c"], "x": [1.0, 1.0, 3.0]}
    found = bound.conditional_effects(new, np.zeros((5000, 2)), {"sd": np.full(5000, 2.0)}, np.random.default_rng(0))
    np.testing.assert_allclose(found[:, 2], 3 * found[:, 0])
    assert found[:, 0].std() == pytest.approx(2.0, rel=0.05)
    assert abs(np.corrcoef(found[:, 0], found[:, 1])[0, 1]) < 5 / np.sqrt(5000)


@pytest.mark.parametrize(
    ("term", "values", "message"),
    [
        (AR1("t"), [2.5], r"t has no effect at the time 2.5, which is not a whole number of steps of 1 after 0"),
        (AR1("t"), [10**8], "the new times are 99999998 steps away, and at most 1000000 are possible"),
        (ICAR("t", graph=[(0, 1), (1, 2)]), [5], "t has no level 5. Its levels are: 0, 1, 2"),
    ],
)
def test_levels_that_cannot_be_added(term, values, message):
    bound = term.bind({"t": [0, 1, 2]})
    with pytest.raises(ValueError, match=message):
        bound.conditional_effects({"t": values}, np.zeros((2, 3)), {"sd": np.ones(2), "rho": np.zeros(2)}, None)


@pytest.mark.long
def test_a_forecast_is_that_of_missing_responses():
    """Predictions at later times agree with a fit in which these times are rows without a response."""
    rng, times = np.random.default_rng(3), np.arange(60)
    level = np.cumsum(0.3 * rng.standard_normal(60))
    y = level + np.sin(2 * np.pi * times / 6) + 0.3 * rng.standard_normal(60)
    formula = "y ~ 1 + ar1(t) + seasonal(t, period=6, name='season')"
    old = {"y": y[:50], "t": times[:50]}
    with_missing = {"y": np.where(times < 50, y, np.nan), "t": times}
    short = es.LatentGaussianModel(formula, data=old).fit(draws=800, seed=1, progress=False)
    whole = es.LatentGaussianModel(formula, data=with_missing).fit(draws=800, seed=2, progress=False)
    found = short.predict({"t": times[50:]}, draws=None)["linear_predictor"]
    expected = whole.linear_predictor()[..., 50:]
    sd = expected.std(("chain", "draw"))
    assert float(abs((found.mean(("chain", "draw")) - expected.mean(("chain", "draw"))) / sd).max()) < 0.2
    assert float(abs(found.std(("chain", "draw")) / sd - 1).max()) < 0.2
