"""Using truncated Gaussians: stored draws, initial states, engines, and arguments that are rejected."""

from __future__ import annotations

import jax.numpy as jnp
import numpy as np
import pytest
import scipy.sparse
from hypothesis import given, settings
from hypothesis import strategies as st

import ellipslice as es
from ellipslice.engines.host.engine import HostTarget
from ellipslice.likelihoods import Gaussian, Poisson
from ellipslice.moves import ConstrainedSlice, Cycle, EllipticalSlice, Hamiltonian, Local, State
from ellipslice.noise import DRAWN_UNIFORMS, Uniforms, UpdateNoise
from ellipslice.truncated_posterior import TruncatedPosterior

QUICK = {"draws": 60, "warmup": 0, "chains": 2, "seed": 3, "progress": False}
X = np.linspace(0, 1, 12)
SMOOTH = es.Dense(np.exp(-0.5 * (X[:, None] - X) ** 2 / 0.2**2), mean=0.5 * X)
RISING = scipy.sparse.diags_array([np.ones(11), -np.ones(11)], offsets=[0, 1], shape=(11, 12))
ROUGH = es.Dense(np.exp(-np.abs(X[:, None] - X)), mean=0.5 * X)
PLANE = es.Diagonal(np.ones(2))
Truncated = es.TruncatedGaussian


def observed(f):
    return -20.0 * ((f - X**2) ** 2).sum()


def noise(prior, rng):
    nu = np.asarray(prior.draw_zero_mean(rng, 1))
    uniforms = Uniforms(rng.random((1, DRAWN_UNIFORMS)), rng.integers(0, 2**32, (1, 2), dtype=np.uint32))
    return UpdateNoise(nu, rng.standard_exponential(1).tolist(), uniforms)


# --- the constraints ------------------------------------------------------------------------------------------------


@pytest.mark.long_cases("singular")
@pytest.mark.parametrize("prior", [SMOOTH, ROUGH], ids=["singular", "not"])
def test_both_engines_make_the_same_chain_and_keep_to_the_constraints(prior):
    rising = Truncated(prior, RISING, 0.0)
    trees = [es.sample(observed, rising, engine=engine, **QUICK) for engine in ("compiled", "host")]
    for name in ("proposals", "angle", "total_log_likelihood"):
        ours, others = (tree.sample_stats[name].values for tree in trees)
        np.testing.assert_allclose(ours, others, rtol=1e-7, atol=1e-7)
    f, others = (tree.posterior.f.values for tree in trees)
    np.testing.assert_allclose(f, others, rtol=1e-7, atol=1e-8)
    assert (np.diff(f) >= -1e-9).all()
    assert trees[0].attrs["move"] == "ConstrainedSlice()"
    assert len(np.unique(f[..., 0])) == f[..., 0].size


@pytest.mark.parametrize("engine", ["compiled", "host"])
def test_a_chain_has_the_same_bits_in_any_company(engine):
    rising = Truncated(ROUGH, RISING, 0.0)
    together = es.sample(observed, rising, **{**QUICK, "chains": 3, "engine": engine})
    alone = es.sample(observed, rising, **{**QUICK, "chains": [2], "draws": 20, "warmup": 40, "engine": engine})
    np.testing.assert_array_equal(alone.posterior.f.values[0], together.posterior.f.values[2, 40:])


def test_dense_and_sparse_rows_give_the_same_chain():
    dense, as_sparse = (es.sample(observed, Truncated(ROUGH, A, 0.0), **QUICK) for A in (RISING.toarray(), RISING))
    np.testing.assert_allclose(dense.posterior.f, as_sparse.posterior.f, rtol=1e-9, atol=1e-9)
    assert as_sparse.attrs["engine"] == "compiled"


def test_without_a_likelihood_an_update_is_one_proposal():
    tree = es.sample(None, Truncated(ROUGH, RISING, 0.0), **{**QUICK, "draws": 500})
    assert (tree.sample_stats.proposals == 1).all()
    assert tree.attrs["likelihood"] == "None"
    assert (tree.sample_stats.total_log_likelihood == 0).all()


def test_no_proposal_breaks_a_constraint():
    tried = []

    def sharp(f):
        tried.append(f.copy())
        return float(-1e4 * ((f - 0.01) ** 2).sum())

    es.sample(sharp, Truncated.box(ROUGH, 0.0, 1.0), engine="host", initial=np.full(12, 0.05), **QUICK)
    tried = np.array(tried)
    looked_outside = 300  # the check for a prior inside the likelihood uses points everywhere
    assert len(tried) > 1000
    outside = (tried < -1e-12).any(1) | (tried > 1 + 1e-12).any(1)
    assert not outside[looked_outside:].any()


def test_far_bounds_leave_the_chain_of_elliptical_slices():
    rng = np.random.default_rng(0)
    posterior = TruncatedPosterior(Truncated.box(PLANE, -50.0, 50.0), lambda f: -8.0 * float(((f - 1) ** 2).sum()))
    ours, plain = ConstrainedSlice(), EllipticalSlice()
    prior, function = posterior.prior, posterior.log_likelihood
    start = np.zeros(prior.size)
    state = State(start, function(start))
    other = State(np.zeros(2), state.log_likelihood)
    target, beside = HostTarget(function, ours.prepare(prior)), HostTarget(lambda f: -8.0 * float(((f - 1) ** 2).sum()))
    for _ in range(200):
        drawn = noise(prior, rng)
        state, info = ours.step(drawn, state, target)
        other, other_info = plain.step(drawn._replace(drawn=drawn.nu[:, :2]), other, beside)
        np.testing.assert_array_equal(state.f[:2], other.f)
        assert info == other_info


@pytest.mark.long
def test_rounding_does_not_add_up():
    """With tiny angles the products are carried through many updates, and must stay accurate."""
    rng = np.random.default_rng(1)
    truncated = Truncated(ROUGH, RISING, 0.0)
    sharp = TruncatedPosterior(truncated, lambda f: float(-1e9 * ((f - X) ** 2).sum()))
    move, state = ConstrainedSlice(), sharp.log_likelihood.pack(X)
    state, target = State(state, 0.0), HostTarget(sharp.log_likelihood, move.prepare(sharp.prior))
    for _ in range(5000):
        state, info = move.step(noise(sharp.prior, rng), state, target)
    assert abs(info.angle) < 0.01
    np.testing.assert_allclose(state.f[12:], RISING @ state.f[:12], atol=1e-13)


@settings(max_examples=15, deadline=None)
@given(st.integers(0, 10**6), st.integers(1, 4), st.integers(1, 9))
def test_random_polytopes(seed, size, count):
    rng = np.random.default_rng(seed)
    A = rng.standard_normal((count, size)) * np.exp(rng.normal(0, 2, (count, 1)))
    inside = 3 * rng.standard_normal(size)
    b = A @ inside + np.abs(A).sum(1) * rng.exponential(0.3, count)
    prior = Truncated(es.Diagonal(np.exp(rng.normal(0, 1, size)), mean=rng.standard_normal(size)), A, b)
    tree = es.sample(lambda f: float(-np.abs(f).sum()), prior, engine="host", **{**QUICK, "draws": 40})
    f = tree.posterior.f.values
    assert (f @ A.T <= b + 1e-11 * (np.abs(A).sum(1) + np.abs(b))).all()
    assert np.isfinite(tree.sample_stats.total_log_likelihood).all()


# --- initial states -------------------------------------------------------------------------------------------------


def test_starts_are_inside_and_differ():
    truncated = Truncated.box(ROUGH, 4.0, 4.5)
    points = TruncatedPosterior(truncated, None).points(np.random.default_rng(0), 5)
    f = points[:, :12] + ROUGH.mean
    assert ((f > 4.0) & (f < 4.5)).all()
    assert len(np.unique(f[:, 0])) == 5


def test_a_likelihood_is_only_asked_inside():
    def root(f):
        assert (np.asarray(f) >= 0).all()
        return float(np.sqrt(f).sum())

    tree = es.sample(root, Truncated.box(PLANE, 0.0), engine="host", **QUICK)
    assert (tree.posterior.f >= 0).all()
    batched = es.sample(lambda f: jnp.sqrt(f).sum(-1), Truncated.box(PLANE, 0.0), vectorized=True, **QUICK)
    assert batched.attrs["nan_evaluations"] == 0


@pytest.mark.long
def test_a_given_start_is_checked():
    box = Truncated.box(es.Diagonal(np.ones(2), mean=1.0), 0.5, [2.0, np.inf])
    tree = es.sample(None, box, initial=np.array([0.5, 0.9]), **{**QUICK, "draws": 1})
    assert tree.posterior.f.shape == (2, 1, 2)
    with pytest.raises(ValueError, match=r"1 of 3 constraints.*A f = 2\.5 and b = 2\..*leave initial out"):
        es.sample(None, box, initial=np.array([2.5, 0.9]), **QUICK)
    thin = Truncated.box(PLANE, 1.0, 1.0 + 1e-8)
    with pytest.raises(ValueError, match=r"no interior.*initial="):
        es.sample(None, thin, **QUICK)
    tree = es.sample(None, thin, initial=np.full(2, 1.0 + 4e-9), **QUICK)
    assert ((tree.posterior.f >= 1.0) & (tree.posterior.f <= 1.0 + 1e-8)).all()


# --- arguments that are rejected ------------------------------------------------------------------------------------

EQUAL = np.array([[1.0, -1.0], [-1.0, 1.0]])


@pytest.mark.parametrize(
    ("make", "error", "says"),
    [
        (lambda: Truncated(np.eye(2), np.eye(2), 0.0), TypeError, "ellipslice's priors.*ndarray"),
        (lambda: Truncated(Truncated.box(PLANE, 0.0), np.eye(2), 0.0), TypeError, "all constraints into one matrix A"),
        (lambda: Truncated.box(np.eye(2), 0.0), TypeError, "ellipslice's priors"),
        (lambda: Truncated(PLANE, np.eye(3), 0.0), ValueError, r"shape \(3, 3\); expected \(constraints, 2\)"),
        (lambda: Truncated(PLANE, np.ones(2), 0.0), ValueError, r"shape \(2,\)"),
        (lambda: Truncated(PLANE, np.full((1, 2), np.nan), 0.0), ValueError, "finite"),
        (lambda: Truncated(PLANE, scipy.sparse.csr_array([[np.inf, 0.0]]), 0.0), ValueError, "finite"),
        (lambda: Truncated(PLANE, scipy.sparse.csr_array([[1j, 0.0]]), 0.0), TypeError, "real numbers"),
        (lambda: Truncated(PLANE, np.eye(2), [1.0, 2.0, 3.0]), ValueError, r"b has shape \(3,\)"),
        (lambda: Truncated(PLANE, np.eye(2), [1.0, np.nan]), ValueError, "NaN or -inf"),
        (lambda: Truncated(PLANE, np.eye(2), -np.inf), ValueError, "NaN or -inf"),
        (lambda: Truncated.box(PLANE, 1.0, [2.0, 1.0]), ValueError, "index 1.*1.0 and 1.0"),
        (lambda: Truncated.box(PLANE, [0.0, 1.0, 2.0]), ValueError, r"lower has shape \(3,\)"),
        (lambda: Truncated.box(PLANE, np.nan), ValueError, "NaN"),
        (lambda: Truncated.box(PLANE, {"g": 0.0}), ValueError, "lower has g"),
        (lambda: Truncated.box(es.Stack({"a": PLANE, "b": PLANE}), np.zeros(4)), TypeError, "mapping.*a, b"),
        (lambda: es.sample(None, PLANE, **QUICK), TypeError, "callable"),
        (lambda: es.sample(None, Truncated(PLANE, EQUAL, [0.0, 0.0]), **QUICK), ValueError, "no interior"),
        (lambda: es.sample(None, Truncated(PLANE, EQUAL, [0.0, -1.0]), **QUICK), ValueError, "contradict"),
        (lambda: es.sample(None, Truncated(PLANE, [[0.0, 0.0]], -1.0), **QUICK), ValueError, "row 0.*always 0"),
        (
            lambda: es.sample(None, Truncated(es.LowRank(np.ones((2, 1))), EQUAL[:1], -1.0), **QUICK),
            ValueError,
            "row 0.*always",
        ),
        (
            lambda: es.sample(None, Truncated.box(es.LowRank(np.ones((2, 1))), [1.0, -9.0], [9.0, 0.5]), **QUICK),
            ValueError,
            "contradict.*prior",
        ),
        (lambda: es.Stack({"a": Truncated.box(PLANE, 0.0)}), TypeError, "Truncated"),
        (lambda: es.tune_hamiltonian(observed, Truncated.box(ROUGH, 0.0)), TypeError, "only `sample` accepts"),
    ],
)
def test_what_does_not_fit_is_refused(make, error, says):
    with pytest.raises(error, match=says):
        make()


@pytest.mark.parametrize(
    "move",
    [
        EllipticalSlice(),
        Local([[0], [1]], ConstrainedSlice()),
        Hamiltonian(0.1),
        Cycle(ConstrainedSlice(), EllipticalSlice()),
    ],
)
def test_moves_that_would_leave_the_constraints_are_refused(move):
    with pytest.raises(TypeError, match="ignores the constraints"):
        es.sample(Gaussian([1.0, 1.0], 1.0), Truncated.box(PLANE, 0.0), move=move, **QUICK)


@pytest.mark.long
def test_a_cycle_of_moves_that_keep_to_them_runs():
    tree = es.sample(
        Poisson([3, 0]), Truncated.box(PLANE, 0.0), move=Cycle(ConstrainedSlice(), ConstrainedSlice()), **QUICK
    )
    assert (tree.posterior.f >= 0).all()


def test_bounds_that_are_none():
    tree = es.sample(None, Truncated.box(PLANE), **QUICK)
    assert (tree.posterior.f < 0).any()
    assert repr(Truncated.box(PLANE)) == "TruncatedGaussian(Diagonal(shape (2,)), 0 constraints)"
