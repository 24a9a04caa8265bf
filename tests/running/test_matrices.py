"""Log-likelihoods with linear algebra on several matrices.

JAX passes a batch of matrices to XLA's threads, and waits in one of these threads. Chains that run in parallel, one on
each core, once waited forever. So the tests run in their own processes, which can be ended.
"""

from __future__ import annotations

import os
import subprocess
import sys

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import ellipslice as es
from catalogue_likelihoods import CATALOGUE
from ellipslice.engines.compiled import CompiledEngine
from ellipslice.jax_settings import jax_settings
from ellipslice.posterior import Posterior
from ellipslice.priors import Diagonal
from ellipslice.programs.traced import TracedLikelihood, compilable, over_axes, program_properties
from ellipslice.undocumented import jaxprs, matrices
from ellipslice.undocumented.operations import COMPILED, SINGLE_CALL_OPERATIONS

RUN = """
import sys
from concurrent.futures import ThreadPoolExecutor

import jax, jax.numpy as jnp, numpy as np
import ellipslice as es
from ellipslice.likelihoods.arguments import observations
from ellipslice.pytree import pytree, set_fields

BASE = np.eye(100) + 0.1

def spread(f):
    return BASE + jnp.arange(1.0, 5.0)[:, None, None] * jnp.diag(f**2)

def cholesky(f):
    return -jnp.log(jnp.diagonal(jnp.linalg.cholesky(spread(f)), axis1=1, axis2=2)).sum()

def two(f):
    return one_at_a_time(f) + one_at_a_time(jnp.sin(f))

def one_at_a_time(f):
    return -jnp.log(jnp.diagonal(jnp.linalg.cholesky(BASE + jnp.diag(f**2)))).sum()

def two_functions():
    import numpyro.distributions as dist
    from tinygp import kernels

    model = es.gp.LatentGP(
        {"one": lambda scale: kernels.Matern52(scale), "two": kernels.Matern32(1.0)},
        lambda y: lambda one, two: -0.5 * ((y - one - two) ** 2).sum(),
        parameters={"scale": dist.LogNormal(0.0, 1.0)},
    )
    x = np.linspace(0, 9, 100)
    return model.fit(x, np.sin(x), draws=20, warmup=5, parameter_moves="whitened", progress=False).tree

SMALL = np.eye(30) + 0.1

def many(f):
    # Batches of which none needs another: compiled, JAX waits for ever, also if nothing else runs.
    spread = SMALL + jnp.arange(1.0, 17.0)[:, None, None] * jnp.diag(f[:30] ** 2)
    return -sum(jnp.linalg.cholesky(spread + k).sum() + jnp.linalg.solve(spread + k, f[:30, None]).sum()
                for k in (1, 2)) / 1e4

def concave(f):
    spread = SMALL + jnp.arange(1.0, 17.0)[:, None, None] * np.eye(30)
    return -sum((f[:30] * jnp.linalg.solve(spread + k, f[:30, None])[..., 0]).sum() for k in (1, 2)) / 1e3

def many_one_by_one(f):
    return -sum(jnp.linalg.cholesky(SMALL + k * jnp.diag(f[:30] ** 2)).sum() for k in (1, 2)) / 1e3

@pytree
class OwnCovariances(es.likelihoods.Likelihood):
    # As CONTRIBUTING describes: every observation is a vector with a covariance of its own.

    y: object

    def __init__(self, y):
        set_fields(self, y=observations("OwnCovariances", y))

    def _pointwise(self, f, xp, special):
        covariance = SMALL + xp.exp(f)[..., None, None] * np.ones((30, 30))
        root = xp.linalg.cholesky(covariance)
        side = xp.broadcast_to(self.y[..., None, None], (*covariance.shape[:-1], 1))
        fit = (side * xp.linalg.solve(covariance, side)).sum((-1, -2))
        return -xp.log(xp.diagonal(root, axis1=-2, axis2=-1)).sum(-1) - 0.5 * fit

    def simulate(self, f, rng):
        return rng.standard_normal(f.shape)

def vectorized_by_others():
    from ellipslice.interop.blackjax import elliptical_slice

    with jax.enable_x64(True):
        algorithm = elliptical_slice(many, cov=jnp.ones(60))
        state = jax.vmap(algorithm.init)(jnp.zeros((2, 60)))
        jax.block_until_ready(jax.jit(jax.vmap(algorithm.step))(jax.random.split(jax.random.key(0), 2), state))

def others():
    # In one process, since each takes seconds to start.
    prior, own = es.Diagonal(np.ones(60)), OwnCovariances(np.linspace(-1, 1, 60))
    few = options | {"draws": 3, "warmup": 1, "seed": 1}
    es.sample(own, prior, **few)
    say("a subclass")
    es.sample(own, prior, **(few | {"engine": "batched"}))
    say("batched")
    es.sample(own, prior, **(few | {"look_ahead": 2}))
    say("ahead")
    es.sample(es.likelihoods.LinearPredictor(np.eye(60)[:30], many), prior, **few)
    say("LinearPredictor")
    es.sample(concave, prior, **(few | {"log_concave": True}))
    say("derivatives")
    kept = lambda f: {"several": many(f), "single": many_one_by_one(f)}
    es.sample(lambda f: -(f**2).sum(), prior, keep=kept, **(few | {"engine": "batched"}))
    say("keep")
    with ThreadPoolExecutor(4) as executor:
        es.sample(many, prior, executor=executor, **few)
    say("workers")
    few_updates = {"replicates": 4, "updates_per_temperature": 1, "target_effective_fraction": 0.1}
    es.evidence(many, prior, method="tempered", particles=260, check=False, seed=1, **few_updates)
    say("evidence")
    vectorized_by_others()
    say("interop")

def say(what):
    print(what, flush=True)

options = dict(chains=4, draws=20, warmup=5, progress=False, engine="compiled")
what = sys.argv[1]
if what == "others":
    others()
    raise SystemExit
if what == "two_functions":
    tree = two_functions()
else:
    if what == "one_at_a_time":
        options |= {"look_ahead": 4}
    if what == "two":
        options |= {"engine": "batched"}
    tree = es.sample(globals()[what], es.Diagonal(np.ones(100)), **options)
print(tree.posterior.sizes["draw"])
"""


@pytest.mark.short_cases("cholesky")
@pytest.mark.parametrize("what", ["cholesky", "one_at_a_time", "two", "two_functions"])
def test_chains_beside_each_other_come_to_an_end(what):
    found = subprocess.run(
        [sys.executable, "-c", RUN, what], capture_output=True, text=True, timeout=240, env=os.environ, check=False
    )
    assert found.stdout.split() == ["20"], found.stderr


OTHERS = ["a subclass", "batched", "ahead", "LinearPredictor", "derivatives", "keep", "workers", "evidence", "interop"]


@pytest.mark.long
def test_whatever_evaluates_them_comes_to_an_end():
    try:
        found = subprocess.run(
            [sys.executable, "-c", RUN, "others"], capture_output=True, text=True, timeout=900, check=False
        )
    except subprocess.TimeoutExpired as error:
        pytest.fail(f"waits for ever after {(error.stdout or b'').decode().splitlines()[-1:]}")
    assert found.stdout.splitlines() == OTHERS, found.stderr


def compiled(function, size=3):
    with jax_settings():
        return compilable(Posterior(Diagonal(np.ones(size)), function).log_likelihood, size)


def several(f):
    return jnp.linalg.cholesky(jnp.eye(3) + jnp.arange(2.0)[:, None, None] * jnp.diag(f**2))


def one(f):
    return jnp.linalg.cholesky(jnp.eye(3) + jnp.diag(f**2)).sum()


@jax.custom_jvp
def own_slope(f):
    return several(f).sum()


own_slope.defjvp(lambda values, slopes: (own_slope(*values), 2.0 * slopes[0].sum()))


@jax.custom_vjp
def own_pullback(f):
    return several(f).sum()


own_pullback.defvjp(lambda f: (own_pullback(f), f), lambda f, slope: (3.0 * slope * jnp.ones_like(f),))

FUNCTIONS = {
    "several": lambda f: several(f).sum(),
    "jit": lambda f: jax.jit(several)(f).sum(),
    "vmap": lambda f: jax.vmap(lambda scale: one(scale * f))(jnp.arange(2.0)).sum(),
    "two axes": lambda f: jnp.linalg.qr(jnp.stack([several(f), several(2 * f)])).R.sum(),
    "solve": lambda f: jnp.linalg.solve(several(f), f).sum(),
    "cho_solve": lambda f: jax.scipy.linalg.cho_solve((several(f), True), jnp.ones((2, 3))[..., None]).sum(),
    "eigh, svd": lambda f: jnp.linalg.eigvalsh(several(f)).sum() + jnp.linalg.svd(several(f), compute_uv=False).sum(),
    "checkpoint": lambda f: jax.checkpoint(several)(f).sum(),
    "cond": lambda f: jax.lax.cond(f[0] > 0, lambda f: several(f).sum(), lambda f: several(f).prod(), f),
    "scan": lambda f: jax.lax.scan(lambda total, x: (total + several(x * f).sum(), x * total), 0.5, f)[0],
    "while": lambda f: jax.lax.fori_loop(0, 3, lambda i, x: x + several(i * f).sum(), 0.0),
    "custom_jvp": own_slope,
    "custom_vjp": own_pullback,
}


def test_several_matrices_are_taken_apart_wherever_they_are():
    f = np.array([0.5, -1.0, 2.0])
    for name, function in FUNCTIONS.items():
        program = compiled(function).program
        assert matrices.never_waits(program.jaxpr), name
        assert program.one_by_one, name  # else points would be batched, and the matrices with them
        with jax_settings():
            assert not matrices.never_waits(jax.make_jaxpr(function)(f).jaxpr), name


@pytest.mark.long
def test_they_have_the_same_values():
    f, found = np.array([0.5, -1.0, 2.0]), {name: compiled(function) for name, function in FUNCTIONS.items()}
    with jax_settings():
        values = jax.jit(lambda f: {name: likelihood(f) for name, likelihood in found.items()})(f)
        for name, function in FUNCTIONS.items():
            np.testing.assert_allclose(values[name], function(f), rtol=1e-12, err_msg=name)


@pytest.mark.long
def test_derivatives_of_those_with_one_of_their_own_are_that():
    f, names = np.array([0.5, -1.0, 2.0]), ("solve", "custom_jvp", "custom_vjp", "vmap")
    with jax_settings():
        slopes = jax.jit(lambda f: {name: jax.grad(likelihoods[name])(f) for name in names})
        likelihoods = {name: compiled(FUNCTIONS[name]) for name in names}
        for name, slope in slopes(f).items():
            # It is not compiled, because that might wait forever.
            np.testing.assert_allclose(slope, jax.grad(FUNCTIONS[name])(f), rtol=1e-9, err_msg=name)


def test_one_matrix_is_left_alone_and_only_points_are_not_batched():
    for function in (one, lambda f: jnp.linalg.slogdet(jnp.eye(3) + jnp.diag(f**2))[1]):
        likelihood = compiled(function)
        assert matrices.never_waits(likelihood.program.jaxpr)
        assert likelihood.program.one_by_one


@pytest.mark.parametrize(
    "function",
    [
        lambda f: (f**2).sum(),
        lambda f: f[np.array([2, 0, 1, 1])].sum(),
        lambda f: (np.ones((4, 3)) @ f).sum() + jnp.sort(f)[0] + jnp.cumsum(f)[1],
        lambda f: jnp.abs(jnp.fft.rfft(f)).sum() + jax.scipy.special.digamma(f**2 + 1).sum(),
        lambda f: jax.ops.segment_sum(f, np.array([0, 0, 1]), 2).sum() + jnp.argmax(f),
        lambda f: 0.0,
    ],
)
def test_what_xla_compiles_itself_is_batched(function):
    assert not compiled(function).program.one_by_one


def test_an_operation_that_nobody_knows_is_run_one_by_one_and_leaves_a_core(monkeypatch):
    monkeypatch.setattr("ellipslice.programs.traced.available_cores", lambda: 4)
    everything = jaxprs.operations(compiled(lambda f: jnp.exp(f).sum() + jnp.cos(f).sum()).program.jaxpr)
    for name in ("exp", "cos"):
        monkeypatch.setattr(matrices, "COMPILED", COMPILED - {name})
        monkeypatch.setattr("ellipslice.programs.traced.COMPILED", COMPILED - {name})
        assert name in everything
        own = [es.likelihoods.Poisson([0.0, 1.0, 2.0])] if name == "exp" else []
        for function in (lambda f: jnp.exp(f).sum() + jnp.cos(f).sum(), *own):
            likelihood = compiled(function)
            assert isinstance(likelihood, TracedLikelihood)
            assert likelihood.program.one_by_one
            assert program_properties(likelihood, 3).threads == 3


@pytest.mark.parametrize("name", CATALOGUE)
def test_built_in_likelihoods_keep_their_fast_path(name):
    likelihood = CATALOGUE[name]()
    engine = CompiledEngine(Posterior(Diagonal(np.ones(likelihood.y.shape)), likelihood))
    assert engine.properties.operations
    assert engine.properties.operations <= SINGLE_CALL_OPERATIONS
    assert not isinstance(engine._likelihood, TracedLikelihood)  # compiled code takes new data
    with jax_settings():
        assert program_properties(engine._likelihood, likelihood.y.size).threads == es.machine.available_cores()


@pytest.mark.long
def test_a_function_of_points_is_batched_only_if_that_is_known_to_be_safe():
    points = np.arange(12.0).reshape(2, 2, 3)
    with jax_settings():
        for function, batched in ((lambda f: {"a": f.sum(), "b": f * 2}, True), (FUNCTIONS["several"], False)):
            program = jax.make_jaxpr(over_axes(function, 2))(points).jaxpr
            assert ("scan" not in jaxprs.operations(program)) == batched
            assert matrices.never_waits(program)
            found = jax.jit(over_axes(function, 2))(points)
            jax.tree.map(np.testing.assert_allclose, found, jax.vmap(jax.vmap(function))(points))
