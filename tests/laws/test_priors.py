"""Property tests of every prior in the catalogue, and the factorisation of any covariance by `Dense`."""

from __future__ import annotations

from fractions import Fraction

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from jax.tree_util import Partial
from scipy import stats

import ellipslice as es
import ellipslice.priors as priors
from catalogue import CORRELATED, COVARIANCES, FACTOR, PRIORS, SEEDS, SMOOTH, VARIANCES_2D
from ellipslice.engines.compiled import CompiledEngine
from ellipslice.moves import EllipticalSlice, State
from ellipslice.posterior import Posterior
from ellipslice.priors import Dense, Diagonal, FromDraws, LowRank, Prior, Stack
from ellipslice.testing import check_prior
from engine_rows import begin, columns, finish

EPS = np.finfo(np.float64).eps
LEAST = 1e-6
EVERY = pytest.mark.parametrize("name", PRIORS)
COLORED = pytest.mark.parametrize("name", COVARIANCES)


def factor_of(prior):
    """Return the matrix of `unwhiten`, shape (noise_size, size)."""
    with jax.enable_x64(True):
        return np.asarray(prior.unwhiten(np.eye(prior.noise_size)))


def relative_error(got, expected):
    """Return the largest error of a covariance, each entry relative to the standard deviations of its two elements."""
    deviation = np.sqrt(expected.diagonal())
    scale = deviation[:, None] * deviation
    error = np.abs(got - expected)
    assert not error[scale == 0].any()
    return (error[scale > 0] / scale[scale > 0]).max(initial=0.0)


# --- the catalogue --------------------------------------------------------------------------------------------------


def test_the_catalogue_has_every_prior():
    gaussian = {cls for cls in priors.REGISTERED if issubclass(cls, Prior)}
    means = {cls: set() for cls in gaussian}  # each class with and without a mean
    for make in PRIORS.values():
        prior = make()
        means[type(prior)].add(prior.mean is None)
    assert means == {cls: {True, False} for cls in gaussian}


@pytest.mark.short_cases(
    "Dense-0",
    "Diagonal-0",
    "LowRank plus a diagonal-0",
    "FromDraws-0",
    "Stationary-0",
    "SparsePrecision, intrinsic-0",
    "Markov, walk-0",
    "Sum-0",
)
@pytest.mark.parametrize("seed", SEEDS)
@EVERY
def test_the_laws_of_priors(name, seed):
    check_prior(PRIORS[name](), covariance=COVARIANCES.get(name), seed=seed)


@COLORED
def test_the_covariance_is_right_entry_by_entry(name):
    # Errors are relative to the standard deviations of each pair, so that small elements count, too.
    factor = factor_of(PRIORS[name]())
    assert relative_error(factor.T @ factor, COVARIANCES[name]) < 100 * len(factor) * EPS


@pytest.mark.statistical
@pytest.mark.parametrize("seed", SEEDS)
@COLORED
def test_every_value_of_a_draw_has_its_variance(name, seed):
    draws = np.asarray(PRIORS[name]().draw_zero_mean(np.random.default_rng(seed), 3000))
    for values, variance in zip(draws.T, COVARIANCES[name].diagonal(), strict=True):
        if variance == 0:
            assert not values.any()
            continue
        tail = stats.chi2(len(values)).cdf(values @ values / variance)
        assert 2 * min(tail, 1 - tail) > LEAST


@EVERY
def test_draws_are_never_repeated(name):
    prior = PRIORS[name]()
    moving = np.asarray(prior.draw_zero_mean(np.random.default_rng(0), 50)).any(axis=0)
    draws = np.concatenate([np.asarray(prior.draw_zero_mean(np.random.default_rng(seed), 4)) for seed in range(100)])
    for values in draws[:, moving].T:
        assert len(np.unique(values)) == len(values)


@EVERY
def test_a_mean_is_left_out_of_draws(name):
    # `Posterior` adds the mean. Draws with and without a mean are bit-identical.
    prior, plain = PRIORS[name](), PRIORS[name.removesuffix(", mean 1.5")]()
    one, two = (np.asarray(p.draw_zero_mean(np.random.default_rng(1), 5)) for p in (prior, plain))
    np.testing.assert_array_equal(one, two)
    assert ("mean" in name) == (prior.mean is not None)


@EVERY
def test_the_posterior_adds_the_mean_and_the_shape(name):
    prior = PRIORS[name]()
    seen = {}
    names = [latent for latent, _ in prior.layout]
    record = (lambda f: seen.update(f=f)) if names == ["f"] else (lambda **latents: seen.update(latents))
    posterior = Posterior(prior, lambda *f, **latents: record(*f, **latents) or 0.0)
    f = np.arange(1.0, prior.size + 1)
    assert posterior.log_likelihood(f) == 0.0
    assert [(latent, np.shape(value)) for latent, value in seen.items()] == list(prior.layout)
    mean = np.zeros(prior.size) if prior.mean is None else prior.mean
    np.testing.assert_array_equal(np.concatenate([np.ravel(value) for value in seen.values()]), f + mean)
    np.testing.assert_array_equal(
        posterior.log_likelihood.pack(seen if len(names) > 1 or names != ["f"] else seen["f"]), f + mean - mean
    )


@EVERY
def test_priors_are_pytrees(name):
    prior = PRIORS[name]()
    leaves, structure = jax.tree.flatten(prior)
    again = jax.tree.unflatten(structure, leaves)
    assert type(again) is type(prior)
    assert (again.shape, again.layout, again.size, repr(again)) == (prior.shape, prior.layout, prior.size, repr(prior))
    for one, two in zip(leaves, jax.tree.leaves(again), strict=True):
        np.testing.assert_array_equal(one, two)
    assert all(isinstance(leaf, np.ndarray) and leaf.dtype in (np.float64, np.int64) for leaf in leaves)
    assert jax.tree.structure(again) == structure
    one, two = (np.asarray(p.draw_zero_mean(np.random.default_rng(1), 3)) for p in (prior, again))
    np.testing.assert_array_equal(one, two)


# --- compiled once --------------------------------------------------------------------------------------------------

NUMBERS_CHANGE = {
    "Dense": lambda k: Dense(k * CORRELATED),
    "Dense with a mean": lambda k: Dense(k * CORRELATED, mean=[k, 2.0, 0.0]),
    "Diagonal": lambda k: Diagonal(k * VARIANCES_2D, mean=k),
    "LowRank": lambda k: LowRank(k * FACTOR),
    "Stack": lambda k: Stack({"f": Dense(k * CORRELATED), "b": Diagonal(k)}),
}


@pytest.mark.parametrize("name", NUMBERS_CHANGE)
def test_new_numbers_are_not_compiled_again(name):
    make, traces = NUMBERS_CHANGE[name], []

    @jax.jit
    def unwhiten(prior, z):
        traces.append(prior)
        return prior.unwhiten(z)

    for k in (1.0, 4.0, 9.0):
        prior = make(k)
        with jax.enable_x64(True):
            np.testing.assert_allclose(unwhiten(prior, np.eye(prior.noise_size)), factor_of(prior), rtol=1e-14)
    assert len(traces) == 1


def test_a_run_on_new_numbers_is_not_compiled_again(caplog, log_compiles):
    # The arrays of the prior, its mean and the data are arguments of the compiled loop, not constants in it.
    def log_likelihood(data, f):
        return -jnp.cosh(f - data).sum()

    def run(scale, data):
        posterior = Posterior(Dense(scale * CORRELATED, mean=scale), Partial(log_likelihood, data))
        start = State(np.zeros(3), float(posterior.log_likelihood(np.zeros(3))))
        under_way = begin(CompiledEngine(posterior), EllipticalSlice(), 0, [0], [start], 5)
        caplog.clear()
        rows = finish(under_way)
        under_way.close()
        compiled = [record for record in caplog.records if "Finished XLA compilation" in record.message]
        return columns(rows)["f"], len(compiled)

    first, count = run(1.0, np.array([0.0, 2.0, 1.0]))
    assert count > 0
    second, count = run(0.5, np.array([3.0, 0.0, 4.0]))
    assert count == 0
    assert not np.array_equal(first, second)


def test_a_function_whose_data_have_changed_is_compiled_again():
    # Compiled code contains the data as they were when it was compiled.
    data = np.zeros(3)

    def log_likelihood(f):
        return -200 * ((f - jnp.asarray(data)) ** 2).sum()

    means = []
    for value in (0.0, 1.0):
        data[:] = value
        tree = es.sample(
            log_likelihood,
            Diagonal(np.ones(3)),
            move=es.moves.EllipticalSlice(),
            draws=100,
            chains=1,
            seed=1,
            progress=False,
        )
        assert tree.attrs["engine"] == "compiled"
        means.append(float(tree.posterior.f.mean()))
    assert abs(means[0]) < 0.1
    assert abs(means[1] - 1) < 0.1


# --- shapes ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("prior", "shape", "layout", "noise"),
    [
        (Dense(SMOOTH), (12,), (("f", (12,)),), None),
        (Dense(factor=np.ones((4, 9))), (4,), (("f", (4,)),), 1),
        (Diagonal(4.0), (), (("f", ()),), 1),
        (Diagonal([4.0]), (1,), (("f", (1,)),), 1),
        (Diagonal(VARIANCES_2D), (2, 3), (("f", (2, 3)),), 6),
        (LowRank(FACTOR), (4,), (("f", (4,)),), 2),
        (Stack({"b": Diagonal(1.0), "f": Diagonal(VARIANCES_2D)}), (7,), (("b", ()), ("f", (2, 3))), 7),
    ],
)
def test_shapes(prior, shape, layout, noise):
    assert (prior.shape, prior.layout) == (shape, layout)
    assert prior.size == int(np.prod(shape))
    assert noise is None or prior.noise_size == noise
    for count in (1, 2, 17):
        assert np.asarray(prior.draw_zero_mean(np.random.default_rng(0), count)).shape == (count, prior.size)


def test_a_routine_draws_in_its_own_shape():
    grid = np.arange(6.0).reshape(2, 3)
    prior = FromDraws(lambda rng: grid * rng.standard_normal(), (2, 3))
    z = np.random.default_rng(5).standard_normal(4)
    np.testing.assert_array_equal(prior.draw_zero_mean(np.random.default_rng(5), 4), z[:, None] * grid.ravel())
    with pytest.raises(TypeError, match="unwhiten"):
        prior.unwhiten(np.zeros(6))


def test_a_stack_draws_its_members_one_after_the_other():
    members = {"f": Dense(CORRELATED), "b": Diagonal(4.0), "w": LowRank(FACTOR)}
    rng = np.random.default_rng(9)
    expected = np.concatenate([np.asarray(member.draw_zero_mean(rng, 6)) for member in members.values()], axis=1)
    np.testing.assert_array_equal(Stack(members).draw_zero_mean(np.random.default_rng(9), 6), expected)


# --- Dense's factorisation ------------------------------------------------------------------------------------------


@st.composite
def covariances(draw):
    """Return a positive semi-definite matrix of any size, rank and scaling, sometimes with repeated rows."""
    size, rng = draw(st.integers(1, 30)), np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    rank = draw(st.integers(0, size))
    kind = draw(st.sampled_from(["normal", "graded", "integer", "kernel"]))
    factor = rng.standard_normal((size, rank))
    if kind == "graded":
        factor *= 10.0 ** -rng.uniform(0, 12, rank)  # singular values from 1 down to 1e-12
    if kind == "integer":
        factor = rng.integers(-2, 3, (size, rank)).astype(float)
    matrix = factor @ factor.T
    if kind == "kernel":
        x = rng.uniform(0, 10 ** rng.uniform(-1, 1), size)
        matrix = np.exp(-0.5 * (x[:, None] - x) ** 2)
    if draw(st.booleans()):
        repeat = rng.integers(0, size, size)
        matrix = matrix[np.ix_(repeat, repeat)]
    scale = np.ones(size)
    if draw(st.booleans()):
        scale = 10.0 ** rng.uniform(-150, 150, size)
    return matrix * scale[:, None] * scale


@settings(max_examples=300, deadline=None, derandomize=True)
@given(covariances())
@example(np.zeros((1, 1)))
@example(np.zeros((5, 5)))
@example(np.ones((30, 30)))
@example(np.full((3, 3), 1e300))
@example(np.diag([1e-300, 1e300]))
def test_any_covariance_is_factorised(covariance):
    prior = Dense(covariance)
    rows = np.asarray(prior.rows)
    assert 1 <= prior.noise_size <= len(covariance)
    assert np.isfinite(rows).all()
    assert relative_error(rows.T @ rows, covariance) <= 100 * len(covariance) * EPS


@settings(max_examples=150, deadline=None, derandomize=True)
@given(st.integers(1, 6), st.integers(1, 6), st.integers(0, 2**32 - 1))
def test_the_rank_is_found(size, rank, seed):
    # The factors are integers, so that the true rank is known exactly.
    factor = np.random.default_rng(seed).integers(-2, 3, (size, rank))
    assert Dense(factor @ factor.T).noise_size == max(1, exact_rank((factor @ factor.T).tolist()))


def exact_rank(matrix):
    rows, rank = [[Fraction(x) for x in row] for row in matrix], 0
    for column in range(len(matrix)):
        pivot = next((r for r in rows[rank:] if r[column] != 0), None)
        if pivot is None:
            continue
        rows.remove(pivot)
        rows.insert(rank, pivot)
        for i in range(rank + 1, len(rows)):
            share = rows[i][column] / pivot[column]
            rows[i] = [x - share * y for x, y in zip(rows[i], pivot, strict=True)]
        rank += 1
    return rank


@settings(max_examples=100, deadline=None, derandomize=True)
@given(covariances(), st.floats(1e-6, 1.0), st.integers(0, 2**32 - 1))
def test_what_is_not_positive_semi_definite_is_refused(covariance, by, seed):
    # One direction of unit length (in the scaled matrix) gets a negative variance.
    deviation = np.sqrt(covariance.diagonal())
    if len(covariance) == 1 or not deviation.all():
        return
    correlation = covariance / deviation[:, None] / deviation
    values, vectors = np.linalg.eigh(correlation)
    bad = correlation - (values[0] + by) * np.outer(vectors[:, 0], vectors[:, 0])
    if (bad.diagonal() <= 0).any():
        return
    with pytest.raises(ValueError, match="not positive semi-definite"):
        Dense((bad + bad.T) / 2 * deviation[:, None] * deviation)


@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.longdouble, np.int64])
def test_any_real_dtype_is_a_covariance(dtype):
    covariance = np.array([[4, 2, 1], [2, 9, 3], [1, 3, 5]]).astype(dtype) / dtype(1 if dtype is np.int64 else 7)
    rows = np.asarray(Dense(covariance).rows)
    np.testing.assert_allclose(rows.T @ rows, covariance.astype(float), rtol=1e-14)


def test_a_smooth_kernel_in_single_precision_is_cut_at_its_own_rounding():
    prior = Dense(SMOOTH.astype(np.float32))
    assert prior.noise_size < Dense(SMOOTH).noise_size
    rows = np.asarray(prior.rows)
    assert relative_error(rows.T @ rows, SMOOTH) < 100 * 12 * np.finfo(np.float32).eps


def test_a_row_and_its_copy_are_always_drawn_equal():
    # With repeated inputs of a kernel the two elements are equal in every draw, and not merely highly correlated.
    x = np.array([0.0, 1.0, 1.0, 2.5, 0.0])
    draws = np.asarray(Dense(np.exp(-0.5 * (x[:, None] - x) ** 2)).draw_zero_mean(np.random.default_rng(0), 100))
    np.testing.assert_allclose(draws[:, [0, 1]], draws[:, [4, 2]], rtol=0, atol=1e-13)


def test_what_is_given_is_copied():
    covariance, mean = CORRELATED.copy(), np.ones(3)
    prior = Dense(covariance, mean)
    before = np.asarray(prior.draw_zero_mean(np.random.default_rng(0), 2))
    covariance[:] = 0.0
    mean[:] = 0.0
    np.testing.assert_array_equal(prior.draw_zero_mean(np.random.default_rng(0), 2), before)
    np.testing.assert_array_equal(prior.mean, np.ones(3))


@pytest.mark.parametrize("name", PRIORS)
def test_simulate_gives_what_a_likelihood_receives(name):
    """`simulate` returns the draws of `draw_zero_mean` plus the mean, by name and in shape."""
    prior = PRIORS[name]()
    drawn = np.asarray(prior.draw_zero_mean(np.random.default_rng(3), 4)) + (0.0 if prior.mean is None else prior.mean)
    latents = prior.simulate(np.random.default_rng(3), 4)
    one = prior.simulate(np.random.default_rng(3))
    named = latents if isinstance(latents, dict) else {"f": latents}
    assert tuple(named) == tuple(key for key, _ in prior.layout)
    assert isinstance(latents, dict) == isinstance(prior, Stack)
    np.testing.assert_array_equal(np.concatenate([v.reshape(4, -1) for v in named.values()], axis=1), drawn)
    for key, shape in prior.layout:
        assert np.shape(one[key] if isinstance(one, dict) else one) == shape
