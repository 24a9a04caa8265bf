"""Control variables compared with the formulas of the joint Gaussian, up to rounding error, and their inputs."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.optimize import approx_fprime
from sklearn.gaussian_process.kernels import RBF
from tinygp import kernels

import ellipslice as es
from catalogue import CORRELATED, PRIORS, ROUGH, SEEDS, SINGULAR, SMOOTH, TIMES
from ellipslice.engines.host.engine import HostTarget
from ellipslice.jax_settings import jax_settings
from ellipslice.likelihoods import Gaussian, Poisson
from ellipslice.moves import ControlVariables, State
from ellipslice.moves.control_conditionals import Conditionals
from ellipslice.moves.control_inputs import ControlInputs, ResidualVariance
from ellipslice.moves.control_variables import ControlDraws, sweep
from ellipslice.noise import UpdateNoise
from ellipslice.pytree import HostOnly, set_fields
from ellipslice.testing.search import noise_of_an_update
from judged import PRIOR, log_likelihood

EVERY_SEED = pytest.mark.parametrize("seed", SEEDS)


def smooth(x, y):
    return jnp.exp(-0.5 * (x[:, None] - y) ** 2 / 0.3**2)


def in_the_plane(x, y):
    return 2.0 * jnp.exp(-0.5 * ((x[:, None] - y) ** 2).sum(-1) / 0.5**2)


PLANE = np.random.default_rng(0).random((30, 2))
with jax_settings():
    IN_THE_PLANE = np.asarray(in_the_plane(PLANE, PLANE))

MOVES = {
    "values": (ControlVariables.at_values([2, 0]), es.Dense(CORRELATED)),
    "all values": (ControlVariables.at_values([0, 1, 2]), es.Dense(CORRELATED)),
    "singular": (ControlVariables.at_values([0, 2]), es.Dense(SINGULAR)),
    "rough": (ControlVariables.at_values(range(0, 12, 3)), es.Dense(ROUGH, mean=1.0)),
    "smooth": (ControlVariables(smooth, TIMES, [-0.1, 0.2, 0.35, 0.7, 1.0]), es.Dense(SMOOTH)),
    "plane": (ControlVariables(in_the_plane, PLANE, PLANE[:7] + 0.05), es.Dense(IN_THE_PLANE)),
    "plane, tinygp": (
        ControlVariables(2.0 * kernels.ExpSquared(0.5), PLANE, PLANE[:7] + 0.05),
        es.Dense(IN_THE_PLANE),
    ),
    "plane, scikit-learn": (ControlVariables(2.0 * RBF(0.5), PLANE, PLANE[:7] + 0.05), es.Dense(IN_THE_PLANE)),
}


# --- the move -------------------------------------------------------------------------------------------------------


def check_prior_is_kept(move, prior, prepared=None):
    """Check that a sweep leaves the prior invariant, up to rounding error.

    Without data every proposal is accepted, and f' is a linear map of f and the random numbers. Its covariance must be
    Sigma.
    """
    prepared = move.prepare(prior) if prepared is None else prepared
    size, count = prior.size, len(prepared.deviations)
    factor = np.asarray(prior.unwhiten(np.eye(prior.noise_size)))
    target = HostTarget(lambda f: 0.0, prepared)
    nothing = ControlDraws(np.zeros((count, size)), np.zeros(count), np.zeros(count))

    def end(f, draws):
        return move.step(UpdateNoise(draws, [1.0] * count, None), State(f, 0.0), target)[0].f

    def from_draws(**draws):
        return end(np.zeros(size), nothing._replace(**draws))

    after = sum(np.outer(x, x) for x in (end(f, nothing) for f in factor))
    ends = [from_draws(normals=unit) for unit in np.eye(count)]
    ends += [from_draws(controls=unit) for unit in prepared.spread.of_controls]
    ends += [
        from_draws(given_controls=np.where(np.arange(count)[:, None] == row, unit, 0.0))
        for row in range(count)
        for unit in prepared.spread.of_f
    ]
    after = after + sum(np.outer(x, x) for x in ends)
    off = np.abs(after - factor.T @ factor).max() / np.abs(factor.T @ factor).max()
    assert off < 1e-7, f"a sweep changes the prior by {off:.2g} of its variance"


@pytest.mark.parametrize("name", MOVES)
def test_a_sweep_keeps_the_prior_exactly(name):
    check_prior_is_kept(*MOVES[name])


@pytest.mark.parametrize("name", [name for name in MOVES if "plane" in name or name == "smooth"])
def test_the_conditionals_are_those_of_the_process(name):
    """The dense formulas hold up to the effect of 1e-7 of the variance on a diagonal, which is its square root."""
    move, prior = MOVES[name]
    inputs, kernel = (TIMES, smooth) if name == "smooth" else (PLANE, in_the_plane)
    known = move.prepare(prior)
    with jax_settings():
        k_cc, k_cf, k_ff = (
            np.asarray(kernel(x, y)) for x, y in ((move.controls,) * 2, (move.controls, inputs), (inputs,) * 2)
        )
    variance = k_ff[0, 0]
    k_cc = k_cc + 1e-7 * variance * np.eye(len(k_cc))
    mean = np.linalg.solve(k_cc, k_cf)
    deviations = np.linalg.inv(k_cc).diagonal() ** -0.5
    np.testing.assert_allclose(known.to_f, mean, atol=3e-4 * np.abs(mean).max())
    np.testing.assert_allclose(known.spread.of_f.T @ known.spread.of_f, k_ff - k_cf.T @ mean, atol=3e-4 * variance)
    np.testing.assert_allclose(known.deviations, deviations, atol=3e-4 * np.sqrt(variance))


@EVERY_SEED
def test_a_proposal_is_taken_with_the_ratio_of_likelihoods(seed):
    rng, move = np.random.default_rng(seed), ControlVariables.at_values([1])
    prepared = move.prepare(PRIOR)
    target = HostTarget(log_likelihood, prepared)
    for _ in range(100):
        f = PRIOR.draw_zero_mean(rng, 1)[0]
        state, noise = State(f, log_likelihood(f)), noise_of_an_update(move, PRIOR, rng, prepared)
        new = move.step(noise._replace(level=[1e9]), state, target)[0]
        ratio = new.log_likelihood - state.log_likelihood
        for level, taken in ((-ratio + 1e-9, True), (-ratio - 1e-9, False)):
            end, info = move.step(noise._replace(level=[level]), state, target)
            np.testing.assert_array_equal(end.f, new.f if taken else f)
            assert (info.evaluations, info.nan_evaluations, info.search_failed, info.angle) == (
                1,
                0,
                False,
                float(taken),
            )


def test_proposals_go_one_control_variable_at_a_time():
    """Each proposal starts from the result of the proposals before it, and is accepted or rejected by itself."""
    move, prior = MOVES["smooth"]
    prepared, rng = move.prepare(prior), np.random.default_rng(0)
    noise, seen = noise_of_an_update(move, prior, rng, prepared), []

    def values(f):
        seen.append(f)
        return 0.0 if len(seen) % 2 else -np.inf  # every second proposal is rejected

    start = State(prior.draw_zero_mean(rng, 1)[0], 0.0)
    state, _, accepted = sweep(noise, start, HostTarget(values, prepared))
    np.testing.assert_array_equal(accepted, [True, False, True, False, True])
    np.testing.assert_array_equal(state.f, seen[-1])
    f_c = start.f @ prepared.from_f + noise.drawn.controls
    for i, (f, taken) in enumerate(zip(seen, accepted, strict=True)):
        moved = f_c.copy()
        moved[i] = prepared.weights[i] @ f_c + prepared.deviations[i] * noise.drawn.normals[i]
        np.testing.assert_allclose(f, moved @ prepared.to_f + noise.drawn.given_controls[i], atol=1e-9)
        f_c = moved if taken else f_c
    assert (np.abs(prepared.weights.diagonal()) < 1e-12).all()


@pytest.mark.parametrize(
    ("spoil", "by"),
    [
        ("deviations", lambda x: 1.1 * x),
        ("host", lambda x: HostOnly(x.value._replace(of_f=0.9 * x.value.of_f))),
        ("host", lambda x: HostOnly(x.value._replace(of_controls=0 * x.value.of_controls))),
        ("weights", lambda x: 0.9 * x),
        ("to_f", lambda x: 0.95 * x),
        ("from_f", lambda x: 1.05 * x),
    ],
)
def test_planted_conditionals_do_not_keep_the_prior(spoil, by):
    move, prior = MOVES["plane"]
    prepared = move.prepare(prior)
    set_fields(prepared, **{spoil: by(getattr(prepared, spoil))})
    with pytest.raises(AssertionError, match="changes the prior"):
        check_prior_is_kept(move, prior, prepared)


@pytest.mark.parametrize(
    ("make", "error", "says"),
    [
        (lambda: ControlVariables(smooth, TIMES, PLANE), ValueError, "the same number of columns"),
        (lambda: ControlVariables(smooth, TIMES, np.arange(13.0)), ValueError, "13 inputs, but f has only 12 elements"),
        (lambda: ControlVariables(3.0, TIMES, [0.5]), TypeError, "kernel must be"),
        (lambda: ControlVariables.at_values([0.5]), ValueError, "whole numbers"),
        (lambda: ControlVariables.at_values([7]).prepare(PRIOR), ValueError, "index 7"),
        (lambda: ControlVariables(smooth, TIMES, [0.5]).prepare(PRIOR), ValueError, "12 inputs, but the prior has 3"),
        (
            lambda: ControlVariables(smooth, TIMES, [0.5]).prepare(es.Dense(ROUGH)),
            ValueError,
            "of the kernel at the inputs",
        ),
        (lambda: ControlVariables.at_values([0]).prepare(PRIORS["FromDraws"]()), TypeError, "needs the prior's cov"),
        (lambda: ControlVariables.at_values([0]).prepare(es.Diagonal(np.ones(5001))), ValueError, "at most 5000"),
    ],
)
def test_what_has_no_control_variables_is_refused(make, error, says):
    with pytest.raises(error, match=says):
        make()


# --- inputs of the control variables ---------------------------------------------------------------------------------


@pytest.mark.long_cases("kernel2-inputs2")
@pytest.mark.parametrize(
    ("kernel", "inputs"), [(smooth, TIMES), (in_the_plane, PLANE), (kernels.ExpSquared(0.5), PLANE)]
)
def test_the_variance_left_and_its_gradient(kernel, inputs):
    points = inputs[:4] + 0.03 * np.arange(4.0).reshape(-1, *[1] * (inputs.ndim - 1))
    left = ResidualVariance(kernel, inputs)
    with jax_settings():
        k_cc, k_cf, k_ff = (np.asarray(kernel(x, y)) for x, y in ((points, points), (points, inputs), (inputs, inputs)))
        value, gradient = left.with_gradient(points)
    naive = np.trace(k_ff) - np.trace(k_cf.T @ np.linalg.solve(k_cc + 1e-7 * k_ff[0, 0] * np.eye(4), k_cf))
    assert left(points) == pytest.approx(naive, abs=1e-6)
    assert value == pytest.approx(naive, abs=1e-6)
    numerical = approx_fprime(points.ravel(), lambda flat: left(flat.reshape(points.shape)), 1e-6)
    np.testing.assert_allclose(gradient.ravel(), numerical, atol=1e-3)


def numpy_only(x, y):
    return np.exp(-((x[:, None] - y) ** 2))


@pytest.mark.parametrize(
    "kernel",
    [smooth, RBF(0.3), numpy_only, kernels.Matern32(0.3)],
    ids=["traceable", "scikit-learn", "NumPy", "tinygp"],
)
def test_any_kernel_is_minimised(kernel):
    rng = np.random.default_rng(0)
    left = ResidualVariance(kernel, TIMES)
    start = rng.permutation(TIMES)[:3]
    found = left.minimise(start)
    assert left(found) < left(start)
    for _ in range(50):  # no inputs nearby are better
        assert left(found) <= left(found + 0.01 * rng.standard_normal(3)) + 1e-6 * left.total


def kinked(x, y):
    """Return a kernel whose gradient is NaN where two inputs are equal."""
    return jnp.exp(-jnp.sqrt((x[:, None] - y) ** 2))


def test_a_kernel_with_a_kink_does_no_harm():
    left = ResidualVariance(kinked, TIMES)
    assert np.isfinite(left.minimise(TIMES[:3])).all()


def test_units_do_not_matter():
    days = ControlInputs(lambda x, y: smooth(x / 1e4, y / 1e4), 1e4 * TIMES, np.random.default_rng(1))
    years = ControlInputs(smooth, TIMES, np.random.default_rng(1))
    np.testing.assert_allclose(days.points / 1e4, years.points, atol=1e-3)


@pytest.mark.long
def test_inputs_grow_until_little_is_left_or_there_are_no_more():
    few = ControlInputs(smooth, TIMES, np.random.default_rng(0))
    assert len(few.points) == 3
    few.grow_until(1e-3)
    assert few.residual_variance < 1e-3
    assert not few.exhausted
    white = ControlInputs(lambda x, y: jnp.exp(-((1e3 * (x[:, None] - y)) ** 2)), TIMES, np.random.default_rng(0), 4)
    white.grow_until(1e-9)
    assert white.exhausted
    assert len(white.points) == 12  # 3, 7, 11, and then one is left
    assert len(ControlInputs(smooth, TIMES[:2], np.random.default_rng(0)).points) == 2


def test_chosen_inputs_spread_over_the_data():
    move = ControlVariables.chosen(smooth, TIMES, residual_variance=0.01)
    assert (np.diff(move.controls) > 0.1).all()
    assert repr(move) == f"ControlVariables({len(move.controls)} inputs in 1 dimension)"


# --- adaptation -----------------------------------------------------------------------------------------------------


@pytest.mark.long
def test_adaptation_ends_when_every_control_variable_moves():
    prior, log_likelihood = es.Dense(SMOOTH, mean=0.5), Gaussian(np.sin(5 * TIMES), 0.5)
    tuned = es.tune_controls(smooth, TIMES, log_likelihood, prior, seed=1)
    count = len(tuned.move.controls)
    assert tuned.acceptance_rate.shape == (count,)
    assert tuned.acceptance_rate.min() > 0.2 / count
    assert tuned.residual_variance < 0.1
    again = es.tune_controls(smooth, TIMES, log_likelihood, prior, seed=1)
    assert again.move == tuned.move
    np.testing.assert_array_equal(again.initial, tuned.initial)
    tree = es.sample(log_likelihood, prior, move=tuned.move, initial=tuned.initial, draws=300, seed=2, progress=False)
    # The acceptance rate of the run is that of the last round, within five standard errors of its 200 sweeps.
    assert tree.sample_stats["angle"].mean() == pytest.approx(tuned.acceptance_rate.mean(), abs=5 * np.sqrt(0.25 / 200))


@pytest.mark.long
def test_more_inputs_join_while_one_hardly_moves():
    """With such large counts, f given three control variables is far from the posterior: the adaptation adds inputs."""
    counts = np.round(np.exp(8 + np.sin(5 * TIMES)))
    few = ControlVariables.chosen(smooth, TIMES, seed=1)
    tuned = es.tune_controls(smooth, TIMES, Poisson(counts, offset=8.0), es.Dense(SMOOTH), seed=1, rounds=30)
    assert len(tuned.move.controls) > len(few.controls)
    assert tuned.rounds > 2


@pytest.mark.long
def test_compiled_code_adapts_as_the_host_does():
    """Compiled code pads the control variables to a multiple of eight with ones that never move and change nothing."""
    counts = np.round(np.exp(8 + np.sin(5 * TIMES)))
    options = {"prior": es.Dense(SMOOTH), "seed": 1, "rounds": 12}
    ours, theirs = (
        es.tune_controls(smooth, TIMES, Poisson(counts, offset=8.0), engine=engine, **options)
        for engine in ("compiled", "host")
    )
    assert len(ours.move.controls) % 8 != 0
    assert ours.move.controls.tolist() == theirs.move.controls.tolist()
    assert ours.rounds == theirs.rounds
    np.testing.assert_array_equal(ours.acceptance_rate, theirs.acceptance_rate)
    np.testing.assert_allclose(ours.initial, theirs.initial, atol=1e-9)


@pytest.mark.short_cases("3-0.9-3 rounds were not enough")
@pytest.mark.parametrize(
    ("rounds", "share", "says"), [(3, 0.9, "3 rounds were not enough"), (2, 1e-9, "there are no more inputs to add")]
)
def test_an_adaptation_that_does_not_end_well_says_so(rounds, share, says):
    def white(x, y):
        return jnp.exp(-((100 * (x[:, None] - y)) ** 2))

    with jax.enable_x64(True):
        prior = es.Dense(white(TIMES, TIMES))
    sharp = Gaussian(np.full(12, 3.0), 1e-4)
    with pytest.warns(UserWarning, match=says):
        es.tune_controls(white, TIMES, sharp, prior, seed=1, rounds=rounds, residual_variance=share)


@pytest.mark.parametrize(
    ("options", "says"),
    [({"residual_variance": 1.5}, "residual_variance"), ({"increment": 0}, "increment"), ({"rounds": 0.5}, "rounds")],
)
def test_settings_that_make_no_adaptation_are_refused(options, says):
    with pytest.raises(ValueError, match=says):
        es.tune_controls(smooth, TIMES, Gaussian(TIMES, 1.0), es.Dense(SMOOTH), **options)


def test_a_likelihood_that_is_zero_everywhere_is_refused():
    with pytest.raises(ValueError, match="found no initial state"):
        es.tune_controls(smooth, TIMES, lambda f: jnp.where(f[0] > 90, 0.0, -jnp.inf), es.Dense(SMOOTH))


def test_prepared_is_a_pytree_without_what_the_host_alone_needs():
    move, prior = MOVES["values"]
    leaves = jax.tree.leaves(move.prepare(prior))
    assert [np.shape(leaf) for leaf in leaves] == [(2, 3), (3, 2), (2, 2), (2,)]
    assert isinstance(move.prepare(prior), Conditionals)
