"""`SplitHamiltonian`: reversal, acceptance ratio, covariances, lock step, and what is rejected."""

from __future__ import annotations

import logging
import os
import subprocess
import sys
from itertools import pairwise
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import stats

import ellipslice as es
from catalogue import CORRELATED, COVARIANCES, PRIORS, SINGULAR, SMOOTH
from ellipslice.approximations.gaussian import WhiteGaussian
from ellipslice.approximations.sites import SitesReference
from ellipslice.engines.base import Checkpoint
from ellipslice.engines.compiled.lock_step import GROUP, form_groups
from ellipslice.engines.compiled.search import CompiledTarget
from ellipslice.jax_settings import jax_settings
from ellipslice.likelihoods import Poisson, StudentT
from ellipslice.moves import SplitHamiltonian, State
from ellipslice.moves import split_hamiltonian as module
from ellipslice.moves.split_hamiltonian import DenseCovariance, PriorCovariance, propose, residual_of, trajectory
from ellipslice.noise import block_length, draw_block

COUNTS = np.array([3, 0, 1])
PRIOR = es.Dense(CORRELATED, mean=0.4)
WRONG = SitesReference(np.array([2.0, -1.0, 0.5]), np.array([3.0, 0.2, 1.5]))
"""A reference that is a poor approximation of every posterior here."""

REFERENCES = {
    "sites": WRONG,
    "Gaussian": WhiteGaussian(np.array([0.4, -0.3, 1.0]), 0.3 * np.eye(3) + 0.2),
    "prior": None,
}


@pytest.fixture(autouse=True)
def double():
    with jax_settings():
        yield


def target_of(reference, kicks=3, prior=PRIOR, log_likelihood=None):
    """Return the target of a move around `reference`, for the centred vector f - mean."""
    function = log_likelihood or (lambda f: Poisson(COUNTS)(f + np.asarray(prior.mean)))
    return CompiledTarget(function, SplitHamiltonian(reference, kicks).prepare(prior))


def noise_of(target, reference, prior=PRIOR, seed=1):
    move = SplitHamiltonian(reference)
    block = draw_block(move.noise_spec(prior, target.prepared), seed, 0, 0, 8)
    return block.at(0).search(block.drawn.nu[0])


# --- the trajectory -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("reference", REFERENCES.values(), ids=REFERENCES)
def test_a_reversed_trajectory_returns(reference):
    target = target_of(reference)
    residual, noise = residual_of(target), noise_of(target, reference)
    x, nu = np.array([0.3, -1.0, 0.7]), noise.nu
    there = trajectory(residual, x, nu, 1.4, 5)
    back = trajectory(residual, there[0], -there[1], 1.4, 5)
    assert np.abs(there[0] - x).max() > 0.1
    np.testing.assert_allclose(back[0], x, atol=1e-13)
    np.testing.assert_allclose(-back[1], nu, atol=1e-13)
    np.testing.assert_allclose(back[2], -there[2], atol=1e-13)


@pytest.mark.parametrize("kicks", [1, 2, 7])
@pytest.mark.parametrize("reference", REFERENCES.values(), ids=REFERENCES)
def test_the_acceptance_ratio_is_that_of_the_densities(reference, kicks):
    """It is computed from the densities of prior, likelihood and nu, without the residual and without the products."""
    target = target_of(reference, kicks)
    noise = noise_of(target, reference)
    rows = np.linalg.cholesky(CORRELATED).T if reference is None else reference.relative_to(PRIOR).rows
    law_of_nu = stats.multivariate_normal(np.zeros(3), rows.T @ rows)
    law_of_f = stats.multivariate_normal(np.asarray(PRIOR.mean), CORRELATED)

    def log_joint(f, nu):
        return stats.poisson(np.exp(f)).logpmf(COUNTS).sum() + law_of_f.logpdf(f) + law_of_nu.logpdf(nu)

    start = target.at(jnp.array([0.5, -0.2, 0.9]))
    end, angle, log_ratio = propose(noise, start, target)
    centre = np.asarray(target.prepared.reference.centre)
    x, nu, _ = trajectory(residual_of(target), start.f - centre, noise.nu, angle, kicks)
    np.testing.assert_allclose(end.f, centre + x, atol=1e-14)
    mean = np.asarray(PRIOR.mean)
    expected = log_joint(end.f + mean, nu) - log_joint(start.f + mean, noise.nu)
    np.testing.assert_allclose(log_ratio, expected, atol=1e-11)
    assert abs(expected) > 1e-3


def test_the_angle_is_within_its_range():
    """It is drawn before the trajectory, and does not depend on the state."""
    target = target_of(WRONG)
    noises = [noise_of(target, WRONG, seed=seed) for seed in range(40)]
    angles = [[float(propose(noise, target.at(f), target)[1]) for f in (jnp.zeros(3), jnp.ones(3))] for noise in noises]
    assert all(one == two for one, two in angles)
    scaled = np.array([one for one, _ in angles]) / (np.pi / 2)
    assert 0.8 <= scaled.min() < 0.85 < 1.15 < scaled.max() <= 1.2


def test_without_a_residual_every_trajectory_is_accepted():
    """The reference is the posterior: the end is the rotated start, and the ratio is 1."""
    precision, y = np.array([4.0, 0.5, 9.0]), np.array([1.0, -2.0, 0.3])
    reference = SitesReference(precision * y, precision)
    target = target_of(reference, 3, es.Dense(CORRELATED), lambda f: -0.5 * (precision * (f - y) ** 2).sum())
    noise = noise_of(target, reference, es.Dense(CORRELATED))
    start = target.at(jnp.array([2.0, 0.0, -1.0]))
    end, angle, log_ratio = propose(noise, start, target)
    np.testing.assert_allclose(log_ratio, 0.0, atol=1e-12)
    centre = np.asarray(target.prepared.reference.centre)
    ellipse = (start.f - centre) * np.cos(angle) + noise.nu * np.sin(angle)
    np.testing.assert_allclose(end.f - centre, ellipse, atol=1e-13)


def test_the_mean_of_the_reference_comes_from_its_sites():
    """An optimiser that has not converged would give another mean, and the draws would be biased."""
    covariance = np.linalg.inv(np.linalg.inv(CORRELATED) + np.diag(WRONG.precision))
    prepared = SplitHamiltonian(WRONG).prepare(PRIOR)
    centred = np.asarray(prepared.reference.centre)
    linear = np.asarray(prepared.reference.linear)
    np.testing.assert_allclose(centred, covariance @ linear, atol=1e-13)
    np.testing.assert_allclose(prepared.covariance.product(jnp.eye(3)), covariance, atol=1e-13)


# --- products with covariances --------------------------------------------------------------------------------------


NOT_TRACEABLE = {"Kronecker of sparse"}
"""Priors with a known covariance whose map from standard normals to f cannot be compiled."""


@pytest.mark.parametrize("name", [name for name in PRIORS if COVARIANCES.get(name) is not None])
def test_products_with_the_covariance_of_a_prior(name):
    prior, covariance = PRIORS[name](), COVARIANCES[name]
    if name in NOT_TRACEABLE:
        with pytest.raises(TypeError, match=r"SplitHamiltonian\(None\) needs products .* in compiled code"):
            SplitHamiltonian(None).prepare(prior)
        return
    g = np.random.default_rng(0).standard_normal(len(covariance))
    product = PriorCovariance(prior).product(jnp.asarray(g))
    scale = np.sqrt(covariance.diagonal())
    np.testing.assert_allclose(product, covariance @ g, atol=1e-8 * (scale * (scale @ np.abs(g)) + 1e-12).max())


def test_a_stack_and_a_sum_with_a_sparse_precision():
    """Their maps from standard normals cannot be compiled, but the products of their parts can."""
    sparse, dense = PRIORS["SparsePrecision, random walk"](), es.Dense(np.eye(7) + 0.5)
    one, two = COVARIANCES["SparsePrecision, random walk"], np.eye(7) + 0.5
    g = np.arange(14.0)
    product = PriorCovariance(es.Stack({"a": sparse, "b": dense})).product(jnp.asarray(g))
    np.testing.assert_allclose(product, np.concatenate([one @ g[:7], two @ g[7:]]), atol=1e-12)
    product = PriorCovariance(es.Sum(sparse, dense)).product(jnp.asarray(g[:7]))
    np.testing.assert_allclose(product, (one + two) @ g[:7], atol=1e-12)


@pytest.mark.parametrize("rank", [2, 9])
def test_products_with_a_factor(rank):
    """A factor of low rank is not multiplied out."""
    rows = np.random.default_rng(0).standard_normal((rank, 10))
    covariance, g = DenseCovariance(rows), np.arange(10.0)
    assert covariance.matrix.shape == ((2, 10) if rank == 2 else (10, 10))
    np.testing.assert_allclose(covariance.product(g), rows.T @ (rows @ g), atol=1e-12)


@pytest.mark.parametrize("reference", REFERENCES.values(), ids=REFERENCES)
def test_every_product_has_full_precision(reference):
    """The default of a GPU may be TF32, which biases the draws."""
    target = target_of(reference)
    noise = noise_of(target, reference)
    program = jax.make_jaxpr(lambda f: propose(noise, target.at(f), target))(jnp.zeros(3))
    highest = (jax.lax.Precision.HIGHEST, jax.lax.Precision.HIGHEST)
    products = [equation for equation in equations(program.jaxpr) if equation.primitive.name == "dot_general"]
    assert products
    assert all(equation.params["precision"] == highest for equation in products)


def equations(program):
    for equation in program.eqns:
        yield equation
        for value in equation.params.values():
            for inner in value if isinstance(value, tuple | list) else [value]:
                inner = getattr(inner, "jaxpr", inner)
                if hasattr(inner, "eqns"):
                    yield from equations(inner)


# --- what is rejected -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("value", [jnp.nan, -jnp.inf, jnp.inf])
def test_a_trajectory_that_ends_at_no_likelihood_is_rejected(value):
    """+inf is an error of the likelihood that the engine reports; here NaN and -inf do not change the state."""
    target = target_of(WRONG, log_likelihood=lambda f: jnp.where(f[0] > 0.6, value, -(f**2).sum()))
    noises = [noise_of(target, WRONG, seed=seed) for seed in range(30)]
    start = target.at(jnp.array([0.5, 0.0, 0.0]))
    ends = [propose(noise, start, target) for noise in noises]
    outside = [log_ratio for end, _, log_ratio in ends if end.f[0] > 0.6]
    assert 5 < len(outside) < 30
    expected = jnp.inf if value == jnp.inf else -jnp.inf
    assert all(log_ratio == expected for log_ratio in outside)


def test_a_likelihood_that_is_zero_somewhere():
    """A truncated Gaussian in one dimension, from a start at the bound."""
    tree = es.sample(
        lambda f: jnp.where(f[0] > 0.0, -0.5 * (f[0] - 0.5) ** 2, -jnp.inf),
        es.Diagonal(np.ones(1)),
        move=SplitHamiltonian(None, 2),
        draws=20_000,
        chains=4,
        seed=1,
        progress=False,
    )
    f = tree.posterior.f.to_numpy()
    law = stats.truncnorm(-0.25 * np.sqrt(2), np.inf, 0.25, np.sqrt(0.5))
    assert f.min() > 0
    error = f.std() / np.sqrt(1000)
    assert abs(f.mean() - law.mean()) < 4 * error


# --- settings -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("settings", "name"), [({"kicks": 0}, "kicks"), ({"kicks": 2.5}, "kicks"), ({"plain_every": 1}, "plain_every")]
)
def test_settings_out_of_range(settings, name):
    with pytest.raises((ValueError, TypeError), match=name):
        SplitHamiltonian(None, **settings)


def test_the_number_of_kicks_and_the_reference_are_data(log_compiles, caplog):
    options = {"draws": 20, "chains": 2, "seed": 1, "progress": False}
    es.sample(Poisson(COUNTS), PRIOR, move=SplitHamiltonian(WRONG, 2), **options)
    caplog.clear()
    with caplog.at_level(logging.WARNING, "jax"):
        other = SitesReference(WRONG.linear + 0.1, 2 * WRONG.precision)
        tree = es.sample(Poisson(COUNTS), PRIOR, move=SplitHamiltonian(other, 5), **options)
    assert not [record for record in caplog.records if "run_group_block" in record.getMessage()]
    assert set(tree.sample_stats.evaluations.to_numpy()[tree.sample_stats.acceptance.to_numpy() < 1]) == {6}


@pytest.mark.parametrize("prior", [es.FromDraws(lambda rng: rng.standard_normal(3), 3)], ids=["FromDraws"])
def test_priors_without_a_traceable_map(prior):
    with pytest.raises(TypeError, match=r"products with the covariance.*EllipticalSlice"):
        es.sample(Poisson(COUNTS), prior, move=SplitHamiltonian(None), draws=10, progress=False)


def test_a_black_box_has_no_gradients():
    def black_box(f):
        return float(-np.sum(np.asarray(f) ** 2))

    with pytest.raises((TypeError, ValueError), match="gradient"):
        es.sample(black_box, PRIOR, move=SplitHamiltonian(None), draws=10, progress=False)


# --- lock step ------------------------------------------------------------------------------------------------------


def checkpoints(*updates):
    return [Checkpoint(count, State(np.zeros(2), 0.0)) for count in updates]


def test_chains_are_grouped_by_index_and_progress():
    groups = form_groups([0, 1, 2, 3, 4, 6], checkpoints(0, 0, 0, 0, 0, 0))
    assert [group.positions for group in groups] == [[0, 1, 2, 3], [4, 5]]
    assert [group.members for group in groups] == [[0, 1, 2, 3], [0, 0, 1, 0]]
    groups = form_groups([1, 2, 3], checkpoints(5, 0, 5))
    assert [group.positions for group in groups] == [[1], [0, 2]]
    assert [group.members for group in groups] == [[0] * GROUP, [0, 0, 0, 1]]


FIELD = es.Dense(np.exp(-0.5 * np.subtract.outer(np.arange(60), np.arange(60)) ** 2 / 4.0**2) + 1e-6 * np.eye(60))
FIELD_DATA = StudentT(np.sin(np.arange(60) / 5.0), noise_scale=0.2, degrees_of_freedom=4.0)


def field_run(chains, **options):
    move = SplitHamiltonian(SitesReference(np.sin(np.arange(60) / 5.0) / 0.08, np.full(60, 12.5)), 3)
    given = {"move": move, "draws": 60, "warmup": 3, "seed": 4, "progress": False, **options}
    return es.sample(FIELD_DATA, FIELD, chains=chains, **given)


def test_a_chain_does_not_depend_on_the_others():
    together = field_run(6)
    for index in (0, 3, 5):
        alone = field_run([index])
        np.testing.assert_array_equal(alone.posterior.f[0], together.posterior.f[index])
        for name in ("acceptance", "total_log_likelihood", "evaluations", "angle"):
            np.testing.assert_array_equal(alone.sample_stats[name][0], together.sample_stats[name][index])


def test_a_run_that_was_resumed(tmp_path):
    """Half of the run, then the rest: bit-identical, although the run ends within a block."""
    whole = field_run(5)
    field_run(5, draws=25, store=tmp_path / "run.zarr")
    rest = es.resume(tmp_path / "run.zarr", FIELD_DATA, draws=60, progress=False)
    np.testing.assert_array_equal(rest.posterior.f, whole.posterior.f)
    np.testing.assert_array_equal(rest.sample_stats.acceptance, whole.sample_stats.acceptance)


def test_warmup_and_thinning_select_updates():
    every = field_run(3, draws=63, warmup=0)
    some = field_run(3, draws=20, warmup=3, thin=3)
    np.testing.assert_array_equal(some.posterior.f, every.posterior.f[:, 5::3])


def test_blocks_follow_each_other():
    """More updates than a block has: the state and the random numbers continue."""
    length = block_length(3)
    tree = es.sample(
        Poisson(COUNTS),
        PRIOR,
        move=SplitHamiltonian(None),
        draws=length + 40,
        warmup=0,
        chains=2,
        seed=3,
        progress=False,
    )
    moved = [np.abs(np.diff(tree.posterior.f[chain], axis=0)).max(axis=1) for chain in range(2)]
    assert min((part > 0).mean() for part in moved) > 0.7
    assert len({tuple(row) for row in tree.posterior.f[0].to_numpy()[length - 5 : length + 5]}) > 5


SCRIPT = """
import hashlib, sys
from exact.test_split_hamiltonian import field_run
tree = field_run(4, draws=40)
print(hashlib.sha256(tree.posterior.f.to_numpy().tobytes()).hexdigest())
"""


@pytest.mark.long
@pytest.mark.skipif(not hasattr(os, "sched_setaffinity"), reason="the system cannot restrict a process to one core")
def test_the_number_of_cores_does_not_matter():
    tests = str(Path(__file__).parents[1])
    cores = sorted(os.sched_getaffinity(0))
    found = set()
    for allowed in (cores[:1], cores):
        script = f"import os; os.sched_setaffinity(0, {allowed})" + SCRIPT
        environment = os.environ | {"PYTHONPATH": os.pathsep.join([tests, *sys.path])}
        done = subprocess.run(
            [sys.executable, "-c", script], capture_output=True, text=True, env=environment, check=True
        )
        found.add(done.stdout.split()[-1])
    assert len(found) == 1


def test_a_likelihood_that_is_not_safe_in_a_batch_runs_alone():
    """Its linear algebra could wait for a thread of XLA for ever, so no group is formed."""

    def log_likelihood(f):
        factor = jnp.linalg.cholesky(jnp.eye(3) + jnp.outer(f, f))
        return -(jax.scipy.linalg.solve_triangular(factor, f, lower=True) ** 2).sum()

    tree = es.sample(log_likelihood, PRIOR, move=SplitHamiltonian(None), draws=50, chains=4, seed=1, progress=False)
    assert float(tree.sample_stats.acceptance.mean()) > 0.5


# --- exact posteriors -----------------------------------------------------------------------------------------------

CASES = {"full rank": CORRELATED, "singular": SINGULAR}


def exact_run(name, kicks=2, draws=20_000):
    """Return draws around a wrong reference, and mean and covariance of the Gaussian posterior."""
    covariance, y, noise = CASES[name], np.array([1.0, -0.5, 2.0]), np.array([0.5, 0.8, 0.4])
    gain = covariance @ np.linalg.inv(covariance + np.diag(noise**2))
    tree = es.sample(
        es.likelihoods.Gaussian(y, noise),
        es.Dense(covariance),
        move=SplitHamiltonian(WRONG, kicks),
        draws=draws,
        chains=4,
        seed=7,
        progress=False,
    )
    return tree.posterior.f.to_numpy(), gain @ y, covariance - gain @ covariance


def compare(f, mean, covariance):
    from statistical.monte_carlo import compare_gaussian

    compare_gaussian(f, mean, covariance, "SplitHamiltonian")


@pytest.mark.parametrize("name", CASES)
def test_a_gaussian_posterior_around_a_wrong_reference(name):
    compare(*exact_run(name))


@pytest.mark.parametrize("name", ["SparsePrecision, random walk", "Kronecker", "Markov, Matérn-3/2"])
def test_a_gaussian_posterior_around_the_prior(name):
    prior, covariance = PRIORS[name](), COVARIANCES[name]
    y, noise = np.linspace(-1.0, 2.0, prior.size), 0.7
    gain = covariance @ np.linalg.inv(covariance + noise**2 * np.eye(prior.size))
    data = es.likelihoods.Gaussian(y.reshape(prior.shape), noise)
    tree = es.sample(data, prior, move=SplitHamiltonian(None, 6), draws=2000, chains=4, seed=5, progress=False)
    f = tree.posterior.f.to_numpy().reshape(4, 2000, -1)
    compare(f, gain @ y, covariance - gain @ covariance)


def no_kick_at_the_end(residual, x, nu, angle, kicks):
    """A trajectory whose last half rotation is as long as the others."""
    h = angle / kicks
    x, nu, work = ORIGINAL(residual, x, nu, angle, kicks)
    return x * jnp.cos(0.5 * h) + nu * jnp.sin(0.5 * h), nu, work


def wrong_work(residual, x, nu, angle, kicks):
    x, nu, work = ORIGINAL(residual, x, nu, angle, kicks)
    return x, nu, 0.95 * work


def wrong_turn(x, nu, cos, sin):
    return x * cos + nu * sin, nu * cos + x * sin


ORIGINAL = module.trajectory
BUGS = {
    "last rotation too long": ("trajectory", no_kick_at_the_end),
    "work of the kicks off by 5 %": ("trajectory", wrong_work),
    "sign of the rotation": ("_rotate", wrong_turn),
}


@pytest.mark.parametrize("bug", BUGS)
def test_injected_bugs_are_found(monkeypatch, bug):
    name, replacement = BUGS[bug]
    monkeypatch.setattr(module, name, replacement)
    jax.clear_caches()  # else the compiled loop without the bug is used again
    try:
        with pytest.raises(AssertionError):
            compare(*exact_run("full rank"))
    finally:
        jax.clear_caches()


def test_a_reference_that_is_off_is_found(monkeypatch):
    """The centre of the trajectories and that of log(Q / prior) must agree."""
    original = module.residual_of

    def shifted(target):
        residual = original(target)
        return residual._replace(gradient=residual.gradient, value=lambda x, ll: residual.value(x + 0.02, ll))

    monkeypatch.setattr(module, "residual_of", shifted)
    jax.clear_caches()
    try:
        with pytest.raises(AssertionError):
            compare(*exact_run("full rank", draws=60_000))
    finally:
        jax.clear_caches()


@pytest.mark.long
def test_a_large_sparse_precision():
    """10,000 elements: the host solves in each kick, for the four chains of a group together."""
    prior = es.SparsePrecision.matern((100, 100), 1.0, 10.0, smoothness=1)
    data = Poisson(np.random.default_rng(1).poisson(0.05, (100, 100)), offset=-3.0)
    options = {"draws": 10, "warmup": 10, "chains": 4, "seed": 1, "progress": False}
    tree = es.sample(data, prior, move=SplitHamiltonian(None, 32), **options)
    assert float(tree.sample_stats.acceptance.mean()) > 0.3


@pytest.mark.long
def test_an_ill_conditioned_kernel():
    """Nearly singular covariance: around the prior and around sites the posterior is the same."""
    prior, data = es.Dense(SMOOTH), Poisson(np.arange(12) % 4)
    options = {"draws": 10_000, "chains": 4, "seed": 3, "progress": False}
    runs = [
        es.sample(data, prior, move=move, **options).posterior.f.to_numpy()
        for move in (SplitHamiltonian(None, 6), SplitHamiltonian(SitesReference(np.ones(12), np.ones(12)), 4))
    ]
    from statistical.monte_carlo import compare as compare_means
    from statistical.monte_carlo import standard_error

    for one, two in pairwise(runs):
        compare_means(one, two.mean(axis=(0, 1)), "f", standard_error(two))
        compare_means(one**2, (two**2).mean(axis=(0, 1)), "f^2", standard_error(two**2))
