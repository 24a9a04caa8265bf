"""Figure 1 of the paper with a non-uniform density of theta, against SciPy's wrapped Cauchy distribution."""

from __future__ import annotations

from math import cos, pi, sin

import numpy as np
import pytest
from scipy import stats

import ellipslice as es
from ellipslice.moves import AuxiliaryEllipse, State
from ellipslice.moves.search import search
from ellipslice.noise import NoiseSpec, block_length, draw_block

TURN = 2 * pi
CONCENTRATIONS = pytest.mark.parametrize("concentration", [0.05, 0.6, 0.99])


def quantile(probability, concentration):
    """Return the angle in [0, 2 pi] with a probability below it. SciPy's density has its mode at 0, ours at pi."""
    below = probability < 0.5
    return stats.wrapcauchy.ppf(probability + (0.5 if below else -0.5), concentration) + (-pi if below else pi)


def probability_below(theta, concentration):
    below = theta < pi
    return stats.wrapcauchy.cdf(theta + (pi if below else -pi), concentration) + (-0.5 if below else 0.5)


@CONCENTRATIONS
def test_positions_are_quantiles(concentration):
    move = AuxiliaryEllipse(concentration)
    for probability in np.linspace(0.001, 0.999, 500).tolist():
        theta = quantile(probability, concentration)
        assert move.weights(TURN * probability) == pytest.approx((sin(theta), cos(theta)), abs=1e-8)
        assert move.angle(0.0, TURN * probability) == pytest.approx(theta, abs=1e-8)


@CONCENTRATIONS
def test_figure_1_with_a_density_written_out(concentration):
    """Draw theta from p in step 1, and from p restricted to the bracket in step 2: this gives the library's updates."""
    rng, shrunk = np.random.default_rng(0), 0

    def log_likelihood(f):
        return -12 * float((f[0] - 0.6) ** 2 + (f[1] + 0.2) ** 2)

    state = State(np.array([0.1, 0.2]), log_likelihood(np.array([0.1, 0.2])))
    for _ in range(100):
        nu, level, uniforms = rng.standard_normal(2), rng.standard_exponential(), rng.random(80).tolist()
        ours, info = search(AuxiliaryEllipse(concentration), nu, level, uniforms.__getitem__, state, log_likelihood)
        numbers = iter(uniforms)
        here = quantile(next(numbers), concentration)
        nu_0 = state.f * sin(here) + nu * cos(here)
        nu_1 = state.f * cos(here) - nu * sin(here)
        low, high, count = 0.0, 1.0, 0
        while True:
            theta = quantile(low + next(numbers) * (high - low), concentration)
            count += 1
            proposal = nu_0 * sin(theta) + nu_1 * cos(theta)
            if log_likelihood(proposal) > state.log_likelihood - level:
                break
            if theta < here:
                low = probability_below(theta, concentration)
            else:
                high = probability_below(theta, concentration)
        assert info.evaluations == count
        assert info.angle == pytest.approx(theta - here, abs=1e-6)
        np.testing.assert_allclose(ours.f, proposal, atol=1e-6)
        state, shrunk = ours, shrunk + (count > 1)
    assert shrunk > 10


@pytest.mark.parametrize("engine", ["host", "compiled"])
def test_the_statistic_is_the_angle_on_the_ellipse(engine):
    prior, draws = es.Diagonal([1.0, 2.0]), 300
    tree = es.sample(
        es.likelihoods.Poisson([2, 0]), prior, move=AuxiliaryEllipse(0.6), engine=engine, draws=draws, warmup=0,
        chains=[3], seed=1, progress=False,
    )  # fmt: skip
    f, angle = tree.posterior.f.to_numpy()[0], tree.sample_stats.angle.to_numpy()[0]
    spec = NoiseSpec.from_prior(prior, prior.size)
    nu = np.asarray(draw_block(spec, 1, 3, 0, block_length(prior.size)).nu)[1:draws, 0]
    reached = f[:-1] * np.cos(angle[1:, None]) + nu * np.sin(angle[1:, None])
    np.testing.assert_allclose(f[1:], reached, atol=1e-12)


@pytest.mark.parametrize("engine", ["host", "compiled", "batched"])
def test_angles_of_first_proposals(engine):
    """The difference of two draws from p has the wrapped Cauchy density with the square of the concentration."""
    tree = es.sample(
        lambda f: 0.0 * f[0], es.Diagonal([1.0]), move=AuxiliaryEllipse(0.7), engine=engine, draws=4000, warmup=0,
        chains=1, seed=2, progress=False,
    )  # fmt: skip
    angle = tree.sample_stats.angle.to_numpy().ravel() % TURN
    assert stats.kstest(angle, stats.wrapcauchy(0.49).cdf).pvalue > 1e-4
    assert stats.kstest(angle, stats.wrapcauchy(0.6).cdf).pvalue < 1e-4


@pytest.mark.parametrize("concentration", [-0.1, 1.0, 1, np.nan, np.inf])
def test_a_concentration_outside_its_range_is_rejected(concentration):
    with pytest.raises(ValueError, match=r"concentration must be in \[0, 0\.999\]"):
        AuxiliaryEllipse(concentration)


@pytest.mark.parametrize("concentration", ["0.5", None, False, True])
def test_a_concentration_that_is_not_a_number_is_rejected(concentration):
    with pytest.raises(TypeError, match="concentration must be a number"):
        AuxiliaryEllipse(concentration)


@pytest.mark.parametrize("move", [AuxiliaryEllipse(0.6), es.moves.EllipticalSlice(shrinking="other_half")], ids=repr)
def test_a_stored_run_is_resumed(move, tmp_path):
    likelihood, prior = es.likelihoods.Poisson([2, 0]), es.Diagonal([1.0, 2.0])
    options = {"move": move, "engine": "host", "warmup": 5, "chains": 2, "seed": 4, "progress": False}
    expected = es.sample(likelihood, prior, draws=60, **options)
    es.sample(likelihood, prior, draws=20, store=tmp_path / "run", **options)
    tree = es.resume(tmp_path / "run", likelihood, draws=60, progress=False)
    assert tree.attrs["move"] == expected.attrs["move"]
    for group, name in (("posterior", "f"), ("sample_stats", "angle"), ("sample_stats", "evaluations")):
        np.testing.assert_array_equal(tree[group][name], expected[group][name])
