"""Priors with structure, compared with dense formulas for any input, and with the kernel for large fields."""

from __future__ import annotations

import subprocess
import sys

import jax
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import special, stats
from scipy.sparse import csr_array
from sklearn.gaussian_process import kernels as sklearn_kernels
from tinygp import kernels as tinygp_kernels
from tinygp.kernels import quasisep

import ellipslice as es
from catalogue import CORRELATED, COVARIANCES, PRIORS, SEEDS, constrained, grid_covariance, laplacian, smooth
from ellipslice.priors import Dense, Diagonal, Kronecker, LowRank, Markov, SparsePrecision, Stationary, Sum
from ellipslice.priors.dense import condition_on_rest

LEAST = 1e-6
ANY_SEED = st.integers(0, 2**32 - 1)
SCALES = st.sampled_from([1e-9, 1e-3, 1.0, 1e4, 1e9])


def covariance_of(prior):
    with jax.enable_x64(True):
        rows = np.asarray(prior.unwhiten(np.eye(prior.noise_size)))
    return rows.T @ rows


def assert_same(got, expected, tolerance):
    """Assert that two covariances are equal, each entry relative to the standard deviations of its two elements."""
    deviation = np.sqrt(expected.diagonal())
    scale = deviation[:, None] * deviation
    scale[scale == 0] = 1.0
    assert np.abs((got - expected) / scale).max() < tolerance


# --- conditionals of any covariance ---------------------------------------------------------------------------------


@settings(max_examples=200, deadline=None, derandomize=True)
@given(st.integers(1, 12), st.integers(1, 14), st.integers(0, 12), st.booleans(), ANY_SEED)
def test_conditionals_add_up_to_the_covariance(size, rank, taken, repeat, seed):
    # For any covariance, including singular ones: the part of a block that the others explain and the rest add up to
    # the block, and the rest is independent of the others.
    rng = np.random.default_rng(seed)
    rows = rng.standard_normal((rank, size))
    if repeat:
        rows = rows[:, rng.integers(0, size, size)]
    rows *= 10.0 ** rng.uniform(-6, 6, size)
    block = np.sort(rng.permutation(size)[: max(1, min(taken, size))])
    conditional = condition_on_rest(rows, block, Dense(factor=rows.T).rank)
    others, weights = conditional.others, conditional.weights
    left = np.asarray(conditional.prior.rows)
    covariance = rows.T @ rows
    deviation = np.sqrt(covariance.diagonal())
    explained = weights.T @ covariance[np.ix_(others, others)] @ weights
    total = (left.T @ left + explained) / deviation[block][:, None] / deviation[block]
    np.testing.assert_allclose(
        total, covariance[np.ix_(block, block)] / np.outer(deviation, deviation)[np.ix_(block, block)], atol=1e-7
    )
    rest = np.setdiff1d(np.arange(size), block)
    with_rest = (covariance[np.ix_(rest, others)] @ weights) / deviation[rest][:, None] / deviation[block]
    expected = covariance[np.ix_(rest, block)] / deviation[rest][:, None] / deviation[block]
    np.testing.assert_allclose(with_rest, expected, atol=1e-7)


# --- Stationary -----------------------------------------------------------------------------------------------------


@pytest.mark.long
@settings(max_examples=15, deadline=None, derandomize=True)
@given(
    st.lists(st.integers(1, 5), min_size=1, max_size=3),
    st.sampled_from(["exponential", "gaussian", "spherical"]),
    st.floats(0.3, 3.0),
    SCALES,
    SCALES,
)
def test_a_grid_has_the_kernels_covariance(shape, kind, length, spacing, variance):
    def kernel(lag):
        distance = np.linalg.norm(lag, axis=-1) / (length * spacing)
        shapes = {
            "exponential": np.exp(-distance),
            "gaussian": np.exp(-0.5 * distance**2),
            "spherical": np.where(distance < 1, 1 - 1.5 * distance + 0.5 * distance**3, 0.0),
        }
        return variance * shapes[kind]

    prior = Stationary(kernel, tuple(shape), spacing)
    assert prior.embedding_error <= 1e-12
    assert_same(covariance_of(prior), grid_covariance(kernel, tuple(shape), spacing), 1e-10)


@pytest.mark.parametrize(("shape", "count"), [(300, 250), ((20, 30), 40), ((5, 1, 7), 3), (40_000, 2), (3, 0)])
def test_a_grid_s_draws_are_its_noise_coloured(shape, count):
    # `draw_zero_mean` is other code than `unwhiten`, and transforms a few draws at a time.
    prior = Stationary(lambda lag: np.exp(-np.linalg.norm(lag, axis=-1)), shape, 1.0)
    z = np.random.default_rng(1).standard_normal((count, prior.noise_size))
    with jax.enable_x64(True):
        expected = np.asarray(prior.unwhiten(z))
    np.testing.assert_allclose(prior.draw_zero_mean(np.random.default_rng(1), count), expected, rtol=0, atol=1e-12)


def test_the_embedding_grows_until_it_is_positive():
    # The smallest embedding of this kernel has negative eigenvalues that amount to 6 % of the variance.
    prior = Stationary(smooth, 9, 1.0)
    assert prior.embedding[0] > 18
    assert prior.embedding_error < 1e-12
    rough = Stationary(smooth, 9, 1.0, tolerance=1.0)
    assert rough.embedding[0] == 18
    assert rough.embedding_error > 0.05
    worst = np.abs(covariance_of(rough) - grid_covariance(smooth, (9,), 1.0)).max() / 0.5
    assert 0.01 < worst <= rough.embedding_error * (1 + 1e-9)  # the bound is reached at lag 0
    assert f"exact to {rough.embedding_error:.1g}" in repr(rough)


@pytest.mark.long_cases("tinygp, quasi-separable", "tinygp")
@pytest.mark.parametrize(
    "kernel",
    [
        2.0 * tinygp_kernels.Matern32(1.5),
        tinygp_kernels.ExpSquared(0.7, distance=tinygp_kernels.distance.L2Distance()),
        quasisep.Matern52(scale=2.0, sigma=3.0),
        sklearn_kernels.ConstantKernel(2.0) * sklearn_kernels.RBF(1.3),
        sklearn_kernels.Matern(length_scale=0.8, nu=2.5) + sklearn_kernels.WhiteKernel(0.3),
    ],
    ids=["tinygp", "tinygp, smooth", "tinygp, quasi-separable", "scikit-learn", "scikit-learn, with noise"],
)
def test_kernels_of_other_packages(kernel):
    x = 0.5 * np.arange(6)
    with jax.enable_x64(True):
        dense = kernel(x[:, None]) if "sklearn" in type(kernel).__module__ else kernel(x, x)
    np.testing.assert_allclose(covariance_of(Stationary(kernel, 6, 0.5)), dense, rtol=0, atol=1e-11)


def test_kernels_of_other_packages_on_two_axes():
    points = np.array(list(np.ndindex(3, 4))) * [0.5, 1.0]
    with jax.enable_x64(True):
        dense = tinygp_kernels.ExpSquared(0.7)(points, points)
    prior = Stationary(tinygp_kernels.ExpSquared(0.7), (3, 4), (0.5, 1.0))
    np.testing.assert_allclose(covariance_of(prior), dense, rtol=0, atol=1e-11)
    sklearn = sklearn_kernels.RBF([0.7, 1.1])
    prior = Stationary(sklearn, (3, 4), (0.5, 1.0))
    np.testing.assert_allclose(covariance_of(prior), sklearn(points), rtol=0, atol=1e-11)


def test_draws_in_pieces_are_the_same_draws(monkeypatch):
    prior = Stationary(smooth, (5, 4), 1.0)
    whole = np.asarray(prior.draw_zero_mean(np.random.default_rng(3), 7))
    monkeypatch.setattr(sys.modules[Stationary.__module__], "_CHUNK_NORMALS", 2 * prior.noise_size)
    np.testing.assert_allclose(prior.draw_zero_mean(np.random.default_rng(3), 7), whole, rtol=1e-12)


# --- large fields against the kernel --------------------------------------------------------------------------------


def spread_of_estimate(kernel, shape, spacing, lag):
    """Return the standard deviation of the average of f(x) f(x + lag) over one draw of a Gaussian field (Isserlis)."""
    counts = np.array(shape) - np.abs(lag)
    axes = [np.arange(-n + 1, n) for n in counts]
    offsets = np.stack(np.meshgrid(*axes, indexing="ij"), axis=-1)
    pairs = np.prod(counts - np.abs(offsets), axis=-1)
    shift = np.array(lag)
    terms = kernel(offsets * spacing) ** 2 + kernel((offsets + shift) * spacing) * kernel((offsets - shift) * spacing)
    return np.sqrt(np.sum(pairs * terms)) / np.prod(counts)


def check_large_field(prior, kernel, spacing, lags, seed, count=8):
    draws = np.asarray(prior.draw_zero_mean(np.random.default_rng(seed), count)).reshape(count, *prior.shape)
    for lag in lags:
        here = tuple(slice(0, n - k) for n, k in zip(prior.shape, lag, strict=True))
        there = tuple(slice(k, None) for k in lag)
        estimate = np.mean(draws[(slice(None), *here)] * draws[(slice(None), *there)])
        expected = float(kernel(np.array(lag) * spacing))
        deviation = spread_of_estimate(kernel, prior.shape, spacing, lag) / np.sqrt(count)
        # The average is a sum of many weakly dependent products, so it is nearly normal.
        assert 2 * stats.norm.sf(abs(estimate - expected) / deviation) > LEAST, (lag, estimate, expected, deviation)
        assert deviation < 0.1 * float(kernel(np.zeros(len(lag))))  # otherwise the test could not fail


def planar(lag):
    return 2.0 * np.exp(-np.sqrt(lag[..., 0] ** 2 + 4 * lag[..., 1] ** 2) / 5)


@pytest.mark.statistical
@pytest.mark.parametrize("seed", SEEDS)
def test_a_large_grid_has_the_kernels_covariance(seed):
    check_large_field(Stationary(planar, (300, 200), 1.0), planar, 1.0, [(0, 0), (3, 0), (0, 3), (4, 4), (40, 0)], seed)


@pytest.mark.statistical
@pytest.mark.parametrize("seed", SEEDS)
def test_a_wrong_large_grid_is_found(seed):
    with pytest.raises(AssertionError):
        check_large_field(Stationary(planar, (300, 200), 1.5), planar, 1.0, [(3, 0)], seed)
    with pytest.raises(AssertionError):  # the axes are exchanged
        check_large_field(Stationary(lambda lag: planar(lag[..., ::-1]), (300, 200), 1.0), planar, 1.0, [(3, 0)], seed)


@pytest.mark.short_cases("0")
@pytest.mark.statistical
@pytest.mark.parametrize("seed", SEEDS)
def test_a_long_series_has_the_kernels_covariance(seed):
    def kernel(lag):
        x = np.sqrt(3) * np.abs(lag[..., 0]) / 5
        return (1 + x) * np.exp(-x)

    prior = Markov(quasisep.Matern32(scale=5.0), np.arange(20_000.0))
    check_large_field(prior, kernel, 1.0, [(0,), (2,), (10,), (100,)], seed)


def test_a_large_matern_lattice_is_near_the_kernel():
    # Away from the edges, with a spacing of a tenth of the length scale.
    prior = SparsePrecision.matern((121, 121), 0.1, 1.0, smoothness=1, variance=2.0)
    middle = np.zeros((1, prior.size))
    middle[0, 60 * 121 + 60] = 1.0
    column = prior.factor.solve(middle).reshape(121, 121)
    steps = np.arange(1, 31)
    distance = np.sqrt(2) * 0.1 * steps
    np.testing.assert_allclose(column[60, 60 + steps], 2.0 * distance * special.kv(1, distance), atol=0.01 * 2.0)
    np.testing.assert_allclose(column[60, 60], 2.0, rtol=0.02)


# --- SparsePrecision ------------------------------------------------------------------------------------------------


@settings(max_examples=60, deadline=None, derandomize=True)
@given(st.integers(1, 25), st.integers(0, 3), SCALES, st.sampled_from(["scipy", "cholmod"]), ANY_SEED)
def test_any_sparse_precision(size, constraints, scale, cholesky, seed):
    rng = np.random.default_rng(seed)
    links = np.where(rng.random((size, size)) < 0.2, rng.standard_normal((size, size)), 0.0)
    precision = scale * (links @ links.T + np.diag(rng.uniform(0.5, 2.0, size)))
    matrix = rng.standard_normal((min(constraints, size - 1), size))
    prior = SparsePrecision(csr_array(precision), constraints=matrix if len(matrix) else None, cholesky=cholesky)
    expected = constrained(precision, matrix) if len(matrix) else np.linalg.inv(precision)
    assert_same(covariance_of(prior), expected, 1e-9)
    f = prior.draw_zero_mean(np.random.default_rng(0), 3)
    np.testing.assert_allclose(prior.unwhiten(prior.whiten(f)), f, rtol=0, atol=1e-9 * np.abs(f).max())
    assert np.abs(f @ matrix.T).max(initial=0.0) <= 1e-9 * np.abs(f).max()


@settings(max_examples=40, deadline=None, derandomize=True)
@given(st.lists(st.integers(2, 8), min_size=1, max_size=4), SCALES, ANY_SEED)
def test_an_intrinsic_field_on_any_graph(sizes, scale, seed):
    # Each component is connected, with its own weights. The nodes are in any order.
    rng = np.random.default_rng(seed)
    graph, start = np.zeros((sum(sizes), sum(sizes))), 0
    component = np.repeat(np.arange(len(sizes)), sizes)
    for size in sizes:
        for node in range(1, size):
            graph[start + node, start + rng.integers(node)] = rng.uniform(0.5, 2.0)
        start += size
    order = rng.permutation(len(graph))
    graph, component = (graph + graph.T)[np.ix_(order, order)], component[order]
    sums = (component == np.arange(len(sizes))[:, None]).astype(float)
    prior = SparsePrecision.car(csr_array(graph), precision=scale)
    assert prior.rank == len(graph) - len(sizes)
    assert_same(covariance_of(prior), constrained(scale * laplacian(graph), sums), 1e-9)
    draws = prior.draw_zero_mean(np.random.default_rng(0), 5)
    assert np.abs(draws @ sums.T).max() <= 1e-10 * np.abs(draws).max()


@pytest.mark.parametrize("order", [1, 2])
def test_a_long_random_walk_keeps_its_digits(order):
    # The smallest eigenvalue of the precision is below the rounding error of the largest. The steps are accurate
    # anyway.
    prior = SparsePrecision.random_walk(3000, order=order, precision=4.0)
    draws = prior.draw_zero_mean(np.random.default_rng(0), 20)
    steps = np.diff(draws, n=order, axis=1)
    tail = stats.chi2(steps.size).cdf(np.sum(steps**2) * 4.0)
    assert 2 * min(tail, 1 - tail) > LEAST
    lines = np.stack([np.arange(3000.0) ** k for k in range(order)])
    assert np.abs(draws @ lines.T / np.abs(lines).sum(axis=1)).max() < 1e-8 * np.abs(draws).max()


def test_an_irregular_smooth_walk_with_its_null_space_given():
    times = np.array([0.0, 1.0, 1.5, 4.0, 6.0, 6.5])
    slopes = np.diff(np.eye(6), axis=0) / np.diff(times)[:, None]
    bends = np.diff(slopes, axis=0)
    precision = bends.T @ bends
    lines = np.stack([np.ones(6), times])
    prior = SparsePrecision(csr_array(precision), constraints="null space", null_space=lines.T)
    assert_same(covariance_of(prior), constrained(precision, lines), 1e-9)


# --- Markov ---------------------------------------------------------------------------------------------------------

KERNELS = {
    "Exp": (quasisep.Exp, lambda x: np.exp(-x)),
    "Matern32": (quasisep.Matern32, lambda x: (1 + np.sqrt(3) * x) * np.exp(-np.sqrt(3) * x)),
    "Matern52": (quasisep.Matern52, lambda x: (1 + np.sqrt(5) * x + 5 * x**2 / 3) * np.exp(-np.sqrt(5) * x)),
}


@pytest.mark.long
@settings(max_examples=40, deadline=None, derandomize=True)
@given(st.sampled_from([1, 30]), st.sampled_from(sorted(KERNELS)), SCALES, SCALES, ANY_SEED)
def test_any_times_have_the_kernels_covariance(size, kind, scale, sigma, seed):
    # Gaps range from large ones to ones that the kernel cannot resolve in double precision.
    rng = np.random.default_rng(seed)
    gaps = 10.0 ** rng.uniform(-14, 1, size)
    times = np.unique(scale * (rng.uniform(-5, 5) + np.cumsum(gaps)))
    times = np.concatenate([times, times[-1] + scale * (1 + np.arange(size - len(times)))])
    make, shape = KERNELS[kind]
    expected = sigma**2 * shape(np.abs(times[:, None] - times) / scale)
    assert_same(covariance_of(Markov(make(scale=scale, sigma=sigma), times)), expected, 1e-12)


@pytest.mark.long
def test_many_irregular_times():
    times = np.sort(np.random.default_rng(0).uniform(0, 40, 600))
    times[300] = np.nextafter(times[299], np.inf)
    prior = Markov(quasisep.Matern52(scale=1.5), np.sort(times))
    assert_same(covariance_of(prior), KERNELS["Matern52"][1](np.abs(times[:, None] - times) / 1.5), 1e-12)


@pytest.mark.long
def test_a_long_series_is_whitened():
    times = np.sort(np.random.default_rng(0).uniform(0, 5000, 50_000))  # gaps down to 1e-6
    prior = Markov(quasisep.Matern32(scale=1.0), times)
    z = np.random.default_rng(1).standard_normal((2, 50_000))
    with jax.enable_x64(True):
        f = jax.jit(prior.unwhiten)(z)
        np.testing.assert_allclose(jax.jit(prior.unwhiten)(jax.jit(prior.whiten)(f)), f, rtol=0, atol=1e-9)
        log_density = np.asarray(prior.log_density(f))
    # For a draw this is normal with a known mean and variance.
    expected = float(prior.log_density(np.zeros(50_000))) - 25_000
    assert np.abs(log_density - expected).max() < 6 * np.sqrt(50_000 / 2)


@pytest.mark.long
def test_a_stretch_of_a_long_series():
    # Far from the ends, a Matérn-1/2 process on an interval is determined by the two neighbours of the interval.
    times = np.sort(np.random.default_rng(0).uniform(0, 3000, 30_000))
    prior = Markov(quasisep.Exp(scale=2.0), times)
    block = np.arange(15_000, 15_040)
    near = np.arange(14_999, 15_041)
    dense = Dense(np.exp(-np.abs(times[near][:, None] - times[near]) / 2.0)).condition(np.arange(1, 41))
    conditional = prior.condition(block)
    f = np.random.default_rng(1).standard_normal(30_000)
    with jax.enable_x64(True):
        np.testing.assert_allclose(conditional.mean(f), dense.mean(f[near]), rtol=0, atol=1e-10)
    assert_same(covariance_of(conditional.prior), covariance_of(dense.prior), 1e-10)


# --- LowRank --------------------------------------------------------------------------------------------------------


@pytest.mark.long
@pytest.mark.long_cases("0.5-0", "1.5-0", "2.5-0")
@pytest.mark.statistical
@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("smoothness", [0.5, 1.5, 2.5, np.inf])
def test_fourier_features_approximate_the_kernel(smoothness, seed):
    x = np.random.default_rng(seed).uniform(0, 3, (6, 2))
    distance = np.linalg.norm((x[:, None] - x) / [0.8, 1.5], axis=-1)
    kind = {0.5: "Exp", 1.5: "Matern32", 2.5: "Matern52"}.get(smoothness)
    kernel = 2.0 * (np.exp(-0.5 * distance**2) if kind is None else KERNELS[kind][1](distance))
    count = 4000
    prior = LowRank.fourier_features(x, [0.8, 1.5], smoothness=smoothness, variance=2.0, count=count, seed=seed)
    got = prior.rows.T @ prior.rows
    np.testing.assert_allclose(got.diagonal(), 2.0, rtol=1e-12)
    assert np.abs(got - kernel).max() < 6 * 2.0 / np.sqrt(2 * count)


@pytest.mark.long_cases("tinygp")
@pytest.mark.parametrize("kernel", ["function", "tinygp", "scikit-learn"])
def test_inducing_points(kernel):
    kernels = {
        "function": lambda s, t: 2.0 * KERNELS["Matern32"][1](np.abs(s[:, None] - t)),
        "tinygp": 2.0 * tinygp_kernels.Matern32(1.0),
        "scikit-learn": 2.0 * sklearn_kernels.Matern(nu=1.5),
    }
    x, points = np.array([0.0, 0.3, 1.0, 1.7, 2.0, 2.0]), np.array([0.0, 1.0, 2.0, 1.0])  # some are repeated
    exact = 2.0 * KERNELS["Matern32"][1](np.abs(x[:, None] - x))
    across = 2.0 * KERNELS["Matern32"][1](np.abs(x[:, None] - points[:3]))
    within = 2.0 * KERNELS["Matern32"][1](np.abs(points[:3][:, None] - points[:3]))
    nystrom = across @ np.linalg.inv(within) @ across.T
    got = covariance_of(LowRank.inducing_points(kernels[kernel], x, points, diagonal=False))
    np.testing.assert_allclose(got, nystrom, atol=1e-12)
    np.testing.assert_allclose(got[np.ix_([0, 2, 4], [0, 2, 4])], exact[np.ix_([0, 2, 4], [0, 2, 4])], atol=1e-12)
    corrected = covariance_of(LowRank.inducing_points(kernels[kernel], x, points))
    np.testing.assert_allclose(corrected, nystrom + np.diag((exact - nystrom).diagonal()), atol=1e-9)


# --- composition, running, importing --------------------------------------------------------------------------------


@settings(max_examples=10, deadline=None, derandomize=True)
@given(st.lists(st.integers(1, 4), min_size=1, max_size=3), ANY_SEED)
def test_any_product_of_covariances(sizes, seed):
    rng = np.random.default_rng(seed)
    factors = [rng.standard_normal((n, n)) * 10.0 ** rng.uniform(-5, 5) for n in sizes]
    product = np.ones((1, 1))
    for factor in factors:
        product = np.kron(product, factor @ factor.T)
    prior = Kronecker(*(Dense(factor=factor) for factor in factors))
    assert prior.shape == tuple(sizes)
    assert_same(covariance_of(prior), product, 1e-9)


def assert_conditionals_agree(conditional, expected, f, near=slice(None)):
    """Assert that two conditionals have equal means and covariances.

    `near` selects the part of f that `expected` takes.
    """
    scale = np.linalg.norm(expected.prior.rows, axis=0)
    with jax.enable_x64(True):
        means = conditional.mean(f), expected.mean(f[..., near])
    np.testing.assert_allclose(*(np.asarray(mean) / scale for mean in means), rtol=0, atol=1e-6)
    assert_same(covariance_of(conditional.prior), covariance_of(expected.prior), 1e-6)


@pytest.mark.long
@settings(max_examples=50, deadline=None, derandomize=True)
@given(st.lists(st.integers(1, 4), min_size=1, max_size=3), st.integers(1, 64), st.booleans(), ANY_SEED)
def test_any_block_of_a_product(sizes, taken, sparse, seed):
    # The dense formula is applied to the product of the factors. One may be a random field, whose factor is on the
    # host.
    rng = np.random.default_rng(seed)
    covariances = [np.cov(rng.standard_normal((n, 3 * n + 3))) * 10.0 ** rng.uniform(-5, 5) for n in sizes]
    covariances = [np.atleast_2d(covariance) for covariance in covariances]
    priors = [Dense(covariance) for covariance in covariances]
    if sparse:
        priors[0] = SparsePrecision(csr_array(np.linalg.inv(covariances[0])))
    rows = np.ones((1, 1))
    for covariance in covariances:
        rows = np.kron(rows, np.linalg.cholesky(covariance).T)
    prior = Kronecker(*priors)
    block = rng.permutation(prior.size)[:taken]
    f = rng.standard_normal((2, len(rows))) @ rows
    assert_conditionals_agree(prior.condition(block), condition_on_rest(rows, np.sort(block), len(rows)), f)


@pytest.mark.long
def test_a_block_of_a_product_with_a_long_axis():
    # No matrix of the long axis is made. Far from the ends, the two neighbours in time determine the conditional.
    times = np.sort(np.random.default_rng(0).uniform(0, 600, 6_000))
    near = np.arange(2_990, 3_010)
    long, short = (Kronecker(Markov(quasisep.Exp(scale=2.0), t), CORRELATED) for t in (times, times[near]))
    block = np.array([10, 24, 25, 26, 27, 31, 40])
    f = np.random.default_rng(1).standard_normal(long.size)
    start = near[0] * len(CORRELATED)
    assert_conditionals_agree(
        long.condition(block + start), short.condition(block), f, slice(start, start + short.size)
    )


@pytest.mark.parametrize(
    "name",
    [
        "Dense, singular",
        "Diagonal, a value without variance",
        "LowRank, a column repeated",
        "Stack",
        "Kronecker, singular",
        "SparsePrecision, islands",
        "Markov, sum",
    ],
)
def test_the_rank_is_that_of_the_covariance(name):
    assert PRIORS[name]().rank == np.linalg.matrix_rank(COVARIANCES[name], hermitian=True)


def test_what_a_prior_can_do():
    everything = {"whiten", "log_density", "condition"}
    assert Dense(CORRELATED).capabilities == everything
    assert Markov(quasisep.Exp(1.0), [0.0, 1.0]).capabilities == everything
    assert SparsePrecision.random_walk(4).capabilities == everything
    assert LowRank(np.ones((3, 1)), diagonal=1.0).capabilities == everything
    assert Kronecker(CORRELATED, CORRELATED).capabilities == everything
    assert Kronecker(CORRELATED, SparsePrecision.matern(4, 1.0, 2.0, smoothness=0.5)).capabilities == everything
    assert Kronecker(CORRELATED, np.ones((2, 2))).capabilities == {"whiten", "log_density"}
    assert Sum(Diagonal(1.0)).capabilities == Stationary(smooth, 3, 1.0).capabilities == set()
    assert es.Stack({"f": Dense(CORRELATED), "g": Stationary(smooth, 3, 1.0)}).capabilities == set()


@pytest.mark.long_cases("Stationary", "SparsePrecision")
@pytest.mark.parametrize(
    "prior",
    [
        Stationary(smooth, (3, 2), 1.0),
        Kronecker(CORRELATED, np.eye(2)),
        SparsePrecision.random_walk(6),
        Markov(quasisep.Matern32(1.0), np.arange(6.0)),
        Sum(LowRank(np.ones((6, 1))), Diagonal(np.ones(6))),
    ],
    ids=lambda prior: type(prior).__name__,
)
def test_priors_with_structure_run(prior):
    tree = es.sample(
        es.likelihoods.Poisson(np.ones(prior.shape)),
        prior,
        move=es.moves.EllipticalSlice(),
        draws=20,
        chains=2,
        seed=1,
        progress=False,
    )
    assert tree.posterior.f.shape == (2, 20, *prior.shape)
    assert np.isfinite(tree.posterior.f).all()


@pytest.mark.long
def test_importing_takes_no_optional_package():
    code = (
        "import sys, numpy as np, ellipslice as es\n"
        "es.SparsePrecision.random_walk(5).draw_zero_mean(np.random.default_rng(0), 1)\n"
        "es.Stationary(lambda lag: np.exp(-abs(lag[..., 0])), 5, 1.0).draw_zero_mean(np.random.default_rng(0), 1)\n"
        "optional = ('tinygp', 'equinox', 'sklearn', 'cvxopt', 'numba', 'numpyro')\n"
        "print([name for name in optional if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
