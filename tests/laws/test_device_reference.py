"""Moves around a reference Gaussian on the batched engine: they make the updates of `step`, and draw correctly."""

from __future__ import annotations

import re
from functools import cache, partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import ellipslice as es
from ellipslice.approximations.gaussian import WhiteGaussian
from ellipslice.approximations.sites import SitesReference
from ellipslice.engines.base import Checkpoint, RunSpec
from ellipslice.engines.compiled.search import CompiledTarget
from ellipslice.engines.device import engine as batched
from ellipslice.engines.device import reference_draws, reference_updates
from ellipslice.engines.device.draws import DrawSchedule
from ellipslice.engines.device.engine import BatchedEngine
from ellipslice.engines.device.lock_step import run_lock_step
from ellipslice.engines.device.noise import chain_keys
from ellipslice.engines.device.reference_draws import check_single_precision
from ellipslice.engines.device.reference_updates import UPDATES
from ellipslice.engines.device.run import Plan, run_block
from ellipslice.engines.rows import DeviceStates
from ellipslice.jax_settings import jax_settings
from ellipslice.moves import ReferenceSlice, SplitHamiltonian, State
from ellipslice.moves.reference_slice import AROUND_REFERENCE, INDEPENDENT, PLAIN, ReferenceSliceDraws
from ellipslice.moves.search import search
from ellipslice.moves.split_hamiltonian import SplitDraws
from ellipslice.noise import UpdateNoise, threefry, uniform
from ellipslice.posterior import Posterior

X = np.linspace(0.0, 2.0, 5)
COVARIANCE = np.exp(-0.5 * (X[:, None] - X) ** 2) + 0.1 * np.eye(5)
MEAN = np.sin(X)
PRIOR = es.Dense(COVARIANCE, MEAN)
Y, NOISE = np.array([1.0, -0.5, 0.3, 1.5, 0.0]), 0.5
SITES = SitesReference(np.array([1.0, -1.0, 0.5, 2.0, 0.0]), np.array([1.0, 3.0, 2.0, 0.5, 1.0]))  # a poor one
WHITE = WhiteGaussian(np.full(5, 0.2), 0.5 * np.eye(5))
COUNTS = np.array([0.0, 1.0, 4.0, 2.0, 0.0])
CHAINS, LENGTH = 3, 13

MOVES = {
    "ellipses": ReferenceSlice(SITES, plain_every=4),
    "ellipses, white": ReferenceSlice(WHITE, plain_every=3),
    "independence": ReferenceSlice(SITES, plain_every=5, independence=True),
    "trajectories": SplitHamiltonian(SITES, 3, plain_every=4),
    "trajectories, white": SplitHamiltonian(WHITE, 2, plain_every=20),
    "around the prior": SplitHamiltonian(None, 2, plain_every=2),
}
OPTIONS = {"engine": "batched", "seed": 3, "progress": False}


def poisson(f):
    return jnp.sum(COUNTS * f - jnp.exp(f))


def gaussian(f):
    return -0.5 * jnp.sum((Y - f) ** 2) / NOISE**2


# --- the updates are those of `step` ---------------------------------------------------------------------------------


class OneAngleAtATime:
    """The target of `ReferenceSlice` in plain Python."""

    def __init__(self, log_likelihood, prepared):
        self.log_likelihood, self.prepared = log_likelihood, prepared

    def with_likelihood(self, log_likelihood, prepared):
        return OneAngleAtATime(log_likelihood, prepared)

    def search(self, path, noise, state):
        return search(path, noise.nu, noise.level, noise.uniforms, state, self.log_likelihood)


class OwnUniforms:
    """The uniforms of one update on the device: number 0 of a key sets the slice level."""

    def __init__(self, key):
        self._key = key

    def __getitem__(self, index):
        return self

    def __call__(self, number):
        return float(uniform(self._key[None], np.array([number + 1], np.uint32))[0])


@cache
def block(name: str, first: int):
    """Return a block of updates of a move, its draws, its states before and its random numbers."""
    move = MOVES[name]
    engine = BatchedEngine(Posterior(PRIOR, poisson))
    f = jnp.asarray(np.random.default_rng(5).standard_normal((CHAINS, 5)))
    state = State(f, jax.vmap(engine.likelihood)(f))
    sources = engine._sources(move)

    @jax.jit
    def run(sources, state):
        keys = jnp.asarray(chain_keys(1, range(CHAINS)))
        updates = UPDATES[type(move)](move, 4, engine.likelihood, sources, keys, jnp.uint32(first), LENGTH, "float64")
        end, draws, totals, accepted = run_lock_step(updates, state, DrawSchedule(LENGTH, 0, 1), LENGTH)
        nu_of_prior = updates.nu if updates.nu_of_prior is None else updates.nu_of_prior
        return end, draws, totals, accepted, (updates.nu, nu_of_prior, updates.keys)

    return engine, state, run(sources, state)


@pytest.mark.short_cases("independence-0", "trajectories-7")
@pytest.mark.parametrize("first", [0, 7])
@pytest.mark.parametrize("name", MOVES)
def test_every_update_is_that_of_step(name, first):
    move = MOVES[name]
    with jax_settings():
        engine, state, (end, draws, totals, accepted, (nu, nu_of_prior, keys)) = block(name, first)
        prepared, levels = move.prepare(PRIOR), -np.log(device_uniforms(np.asarray(keys)))
        for chain in range(CHAINS):
            one = State(np.asarray(state.f[chain]), float(state.log_likelihood[chain]))
            for t in range(LENGTH):
                number = first + t
                plain = number % move.plain_every == move.plain_every - 1
                row = number // move.plain_every - first // move.plain_every
                alone = move.reference is None  # the prior is the reference, so both draws are the same
                drawn = np.asarray((nu_of_prior[row] if plain and not alone else nu[t])[chain, :5])
                noise = UpdateNoise(drawn, levels[t, chain][None], OwnUniforms(np.asarray(keys[:, t, chain])))
                one, info = own_step(move, engine, prepared, noise, one, number)
                np.testing.assert_allclose(draws.f[t, chain], one.f, rtol=1e-9, atol=1e-10)
                assert int(draws.proposals[t, chain]) == info.evaluations
                assert bool(draws.search_failed[t, chain]) == info.search_failed
                np.testing.assert_allclose(draws.angle[t, chain], info.angle, rtol=1e-6, atol=1e-9)
                if info.more:
                    np.testing.assert_allclose(draws.more[0][t, chain], info.more[0], rtol=1e-9)
            np.testing.assert_array_equal(end.f[chain], draws.f[LENGTH - 1, chain])
    np.testing.assert_array_equal(totals.proposals, draws.proposals.sum(axis=0))
    assert int(accepted) == int((draws.proposals == 1).sum())


def device_uniforms(keys):
    """Return the uniforms on (0, 1] that set the slice levels, from keys of shape (2, updates, chains)."""
    zero = np.zeros(keys.shape[1:], np.uint32)
    return (threefry(keys[0], keys[1], zero, zero)[0] + 0.5) * 2.0**-32


def own_step(move, engine, prepared, noise, state, number):
    """Return the state and statistics of one update by `step`: in NumPy, or compiled if it needs gradients."""
    plain = number % move.plain_every == move.plain_every - 1
    if isinstance(move, SplitHamiltonian):
        uniforms = np.array([noise.uniforms(k) for k in range(40)])
        numbers = noise.nu, plain, noise.level, uniforms
        return jax.tree.map(np.asarray, compiled_step(move, engine.likelihood, prepared, *numbers, State(*state)))
    middle = number % move.plain_every == (move.plain_every - 1) // 2
    kind = PLAIN if plain else INDEPENDENT if move.independence and not middle else AROUND_REFERENCE
    target = OneAngleAtATime(lambda f: float(engine.likelihood(jnp.asarray(f))), prepared)
    own = UpdateNoise(ReferenceSliceDraws(noise.nu, np.int64(kind)), noise.level, noise.uniforms)
    return move.step(own, state, target)


@partial(jax.jit, static_argnums=0)
def compiled_step(move, likelihood, prepared, nu, plain, level, uniforms, state):
    noise = UpdateNoise(SplitDraws(nu, plain), level, Tabled(uniforms[None]))
    return move.step(noise, state, CompiledTarget(likelihood, prepared))


class Tabled:
    """Uniforms of searches in a table."""

    def __init__(self, table):
        self._table = table

    def __getitem__(self, index):
        return lambda number: self._table[index, number]


@pytest.mark.parametrize("kicks", [3, 10])
def test_a_constant_number_of_kicks_makes_the_same_updates(kicks, monkeypatch):
    """On a GPU the number of kicks is a constant of the program, and on a CPU it is data."""
    move, ends = SplitHamiltonian(SITES, kicks, plain_every=4), []
    for on_cpu in (True, False):
        monkeypatch.setattr(reference_updates, "computes_on_cpu", lambda on_cpu=on_cpu: on_cpu)
        with jax_settings():
            engine = BatchedEngine(Posterior(PRIOR, poisson))
            starts = [Checkpoint(0, State(np.zeros(5), engine.evaluate(np.zeros(5))))] * CHAINS
            run = engine.run(RunSpec(move, 1, tuple(range(CHAINS))), starts, 6)
            assert run._plan.kicks == (None if on_cpu else kicks)
            while not run.finished:
                run.advance()
            (rows,) = run.take()
        assert isinstance(rows.f, DeviceStates)
        ends.append((np.asarray(rows.f.buffer[5]), rows.statistics["evaluations"]))
    np.testing.assert_allclose(ends[0][0], ends[1][0], rtol=1e-12)
    np.testing.assert_array_equal(ends[0][1], ends[1][1])


@pytest.mark.long
@pytest.mark.parametrize("kicks", [None, 3])
def test_the_array_of_draws_is_never_copied(kicks):
    """It is the largest array of a block. XLA copies it in some programs with loops or branches in others."""
    move, length = MOVES["trajectories"], 16
    with jax_settings():
        engine = BatchedEngine(Posterior(PRIOR, poisson))
        state = State(jnp.zeros((CHAINS, 5)), jnp.zeros(CHAINS))
        plan = Plan(False, move, 4, length, length, engine.dtype, kicks)
        fixed = engine.likelihood, engine._sources(move), jnp.asarray(chain_keys(1, range(CHAINS))), np.uint32(0)
        text = run_block.lower(plan, *fixed, state, np.int32(16), np.int32(0), np.int32(1)).compile().as_text()
    draws = f"f64[{length + 1},{CHAINS},5]"
    assert draws in text
    assert not re.findall(re.escape(draws) + r"\S* copy\(", text)


@pytest.mark.parametrize("name", ["trajectories", "trajectories, white", "around the prior"])
def test_every_product_of_a_trajectory_has_full_precision(name):
    """TF32, the default of some GPUs, would bias the draws."""
    move = MOVES[name]
    with jax_settings(False):
        engine = BatchedEngine(Posterior(PRIOR, poisson), double=False)
        f = jnp.zeros((CHAINS, 5), jnp.float32)

        def run(sources, state):
            keys = jnp.asarray(chain_keys(1, range(CHAINS)))
            own = UPDATES[type(move)](move, 4, engine.likelihood, sources, keys, jnp.uint32(0), LENGTH, np.float32)
            return run_lock_step(own, state, DrawSchedule(LENGTH, 0, 1), LENGTH)[0]

        program = jax.make_jaxpr(run)(engine._sources(move), State(f, jnp.zeros(CHAINS, jnp.float32)))
    found = list(products(program.jaxpr))
    assert found
    for precision in found:
        assert precision in (jax.lax.Precision.HIGHEST, (jax.lax.Precision.HIGHEST,) * 2)


def products(jaxpr):
    """Yield the precision of every matrix product in a program."""
    for equation in jaxpr.eqns:
        if equation.primitive.name == "dot_general":
            yield equation.params["precision"]
        for value in equation.params.values():
            for part in value if isinstance(value, (tuple, list)) else (value,):
                inner = getattr(part, "jaxpr", part)
                if hasattr(inner, "eqns"):
                    yield from products(inner)


# --- draws -----------------------------------------------------------------------------------------------------------


@pytest.mark.long_cases(*(f"{name}-{precision}" for name in MOVES for precision in ("double", "single")))
@pytest.mark.statistical
@pytest.mark.parametrize("precision", ["double", "single"])
@pytest.mark.parametrize("name", MOVES)
def test_the_posterior_is_the_closed_form(name, precision):
    tree = es.sample(
        gaussian, PRIOR, move=MOVES[name], precision=precision, draws=2000, warmup=200, chains=25, **OPTIONS
    )
    gain = COVARIANCE @ np.linalg.inv(COVARIANCE + NOISE**2 * np.eye(5))
    mean, variance = MEAN + gain @ (Y - MEAN), (COVARIANCE - gain @ COVARIANCE).diagonal()
    f = tree.posterior.f.to_numpy()
    assert f.dtype == (np.float64 if precision == "double" else np.float32)
    for moment, expected in ((f.astype(float), mean), ((f.astype(float) - mean) ** 2, variance)):
        by_chain = moment.mean(axis=1)
        error = by_chain.std(axis=0, ddof=1) / np.sqrt(len(by_chain))
        assert np.abs((by_chain.mean(axis=0) - expected) / error).max() < 5


@pytest.mark.short_cases("auto")
@pytest.mark.parametrize("reference", ["auto", "laplace", "pilot", "given"])
def test_a_reference_is_fitted_on_the_cpu_for_chains_on_the_device(reference):
    given = es.Dense(0.5 * COVARIANCE, MEAN) if reference == "given" else reference
    tree = es.sample(poisson, PRIOR, reference=given, precision="single", draws=50, chains=3, seed=1, progress=False)
    assert (tree.attrs["engine"], tree.attrs["precision"]) == ("batched", "single")
    assert tree.attrs["reference"] == reference.replace("auto", "ep")
    assert 0 < tree.attrs["first_proposal_acceptance_rate"] <= 1


@pytest.mark.long
@pytest.mark.parametrize("name", ["independence", "trajectories"])
def test_a_run_continues_from_its_store_with_the_same_bits(name, tmp_path, monkeypatch):
    monkeypatch.setattr(batched, "block_length", lambda numbers: 16)
    options = {"move": MOVES[name], "warmup": 7, "thin": 2, "chains": 3, "keep": lambda f: f[:2]} | OPTIONS
    whole = es.sample(poisson, PRIOR, draws=60, **options)
    es.sample(poisson, PRIOR, draws=25, store=tmp_path / "run.zarr", **options)
    resumed = es.resume(tmp_path / "run.zarr", poisson, draws=60, keep=options["keep"], progress=False)
    for group in ("posterior", "sample_stats"):
        for variable in whole[group].data_vars:
            np.testing.assert_array_equal(whole[group][variable], resumed[group][variable])
    until = es.Until(effective_sample_size=20)
    assert es.sample(poisson, PRIOR, until=until, **options).attrs["stopped_by"] == "goals"


@pytest.mark.long
def test_kicks_and_references_are_data_of_compiled_code(caplog):
    def sample(kicks, sites):
        es.sample(poisson, PRIOR, move=SplitHamiltonian(sites, kicks), draws=20, warmup=3, chains=2, **OPTIONS)

    sample(2, SITES)
    with jax.log_compiles():
        sample(5, SitesReference(2 * SITES.linear, SITES.precision))
    assert not [record for record in caplog.records if "run_block" in record.getMessage()]


# --- refusals --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("move", [MOVES["ellipses"], MOVES["around the prior"]], ids=["ellipses", "trajectories"])
def test_the_fused_kernel_refuses_these_moves(move):
    with pytest.raises(ValueError, match=r'not a single search.*engine="batched"'):
        es.sample(poisson, PRIOR, move=move, engine="fused", progress=False)


@pytest.mark.parametrize(
    ("prior", "log_likelihood", "options", "words"),
    [
        (PRIOR, poisson, {"engine": "fused"}, 'Use engine="batched"'),
        (PRIOR, lambda f: -float(np.sum(np.array(f) ** 2)), {"engine": "batched"}, r"jax\.numpy"),
        (PRIOR, lambda f: -float(np.sum(np.array(f) ** 2)), {"precision": "single"}, r"jax\.numpy"),
        (es.SparsePrecision.random_walk(5), poisson, {"engine": "batched"}, "draws on the host"),
    ],
)
def test_what_cannot_be_is_refused_before_a_reference_is_fitted(prior, log_likelihood, options, words, monkeypatch):
    monkeypatch.setattr("ellipslice.sampling.reference_move.fit_reference", None)
    with pytest.raises(ValueError, match=words):
        es.sample(log_likelihood, prior, reference="auto", progress=False, **options)


def test_a_ratio_that_single_precision_cannot_represent_is_refused(monkeypatch):
    """The rounding error of log(Q / prior) would bias the draws."""
    for accurate in (SITES.relative_to(PRIOR), SplitHamiltonian(SITES).prepare(PRIOR), WHITE.relative_to(PRIOR)):
        check_single_precision(accurate)
    monkeypatch.setattr(reference_draws, "MAX_ERROR", 1e-12)
    check_single_precision(SplitHamiltonian(None).prepare(PRIOR))  # there is no ratio
    with pytest.raises(ValueError, match='Use precision="double"'):
        es.sample(poisson, PRIOR, move=MOVES["ellipses"], precision="single", chains=2, progress=False)


@pytest.mark.long
def test_a_run_that_starts_in_the_middle_of_a_block_has_the_same_plain_updates():
    """Plain updates are counted from the start of the chain, not of the block."""
    move = SplitHamiltonian(SITES, 30, plain_every=3)
    with jax_settings():
        engine = BatchedEngine(Posterior(PRIOR, poisson))
        start = State(np.zeros(5), engine.evaluate(np.zeros(5)))
        run = engine.run(RunSpec(move, 1, (0, 1)), [Checkpoint(4, start)] * 2, 12)
        while not run.finished:
            run.advance()
        (rows,) = run.take()
    plain = rows.statistics["proposals"] != move.kicks + 1
    np.testing.assert_array_equal(plain[0], (np.arange(4, 12) % 3) == 2)
