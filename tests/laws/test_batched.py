"""The batched and the fused engine, with random numbers from the device, make the searches of `moves.search.search`."""

from __future__ import annotations

from functools import cache, partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.stats

import ellipslice as es
from ellipslice.engines.device import engine as batched
from ellipslice.engines.device.draws import DrawSchedule
from ellipslice.engines.device.kernel import fused_block
from ellipslice.engines.device.kernel_angles import fused_angles
from ellipslice.engines.device.loop import run_block_on_device
from ellipslice.engines.device.noise import (
    ROUNDED_SD,
    chain_keys,
    draw_noise,
    first_angles,
    normals,
    rotate,
    rounded_normals,
)
from ellipslice.engines.device.prior_draws import source_of
from ellipslice.jax_settings import jax_settings
from ellipslice.moves import AuxiliaryEllipse, EllipticalSlice, State
from ellipslice.moves.search import search
from ellipslice.noise import threefry, uniform
from ellipslice.programs.site_program import KERNEL
from ellipslice.programs.site_sums import NotFactorised, elementwise, padded_size
from ellipslice.sampling.keep import StateSelector

SIZE, CHAINS, LENGTH = 140, 3, 24  # the size is more than one piece of the kernel, but not a whole number of pieces
X = np.random.default_rng(0).uniform(size=(SIZE, 2))
PRIOR = es.Dense(4 * np.exp(-0.5 * ((X[:, None] - X) ** 2).sum(-1) / 0.3**2))
Y = np.sign(np.random.default_rng(1).normal(size=SIZE))
COUNTS = np.random.default_rng(2).poisson(2.0, size=SIZE)

MOVES = [
    *(EllipticalSlice(), EllipticalSlice(1.5, "halve"), AuxiliaryEllipse(), AuxiliaryEllipse(0.6)),
    EllipticalSlice(shrinking="other_half"),
]
LIKELIHOODS = {
    "logistic": lambda f: -jnp.sum(jnp.logaddexp(0.0, -Y * f)),
    "ready-made": es.likelihoods.Poisson(COUNTS),
    # Needs more angles than the table has, if it starts at its peak.
    "beyond the table": lambda f: -1e16 * jnp.sum((f - 0.5) ** 2),
    "NaN": lambda f: jnp.sum(jnp.log(f[:10] + 2.0)) - jnp.sum(f**2),
    # No state is accepted after a start whose value is set to 0 below.
    "never": lambda f: jnp.sum(jnp.where(f == 0.0, 0.0, -jnp.inf)),
}


@cache
def make_noise(move, dtype: np.dtype, float16: bool):
    source = source_of(PRIOR, padded_size(SIZE), dtype, float16=float16)
    draw = jax.jit(partial(draw_noise, move, length=LENGTH, dtype=dtype, angles=first_angles, in_terms=float16))
    return draw(source, chain_keys(1, range(CHAINS)), jnp.uint32(7))


@cache
def make(name: str, move, dtype: str, float16: bool = False):
    """Return a likelihood, states, and the random numbers of a block. With `float16`, nu is in two terms."""
    dtype = np.dtype(dtype)
    likelihood = jax.tree.map(jnp.asarray, LIKELIHOODS[name]) if name == "ready-made" else LIKELIHOODS[name]
    noise = make_noise(move, dtype, float16)
    f = jnp.asarray(PRIOR.draw_zero_mean(np.random.default_rng(3), CHAINS), dtype)
    f = jnp.full_like(f, 0.5) if name == "beyond the table" else f
    f = jnp.abs(f) if name == "NaN" else f
    values = jnp.zeros(CHAINS, dtype) if name == "never" else jax.vmap(lambda f: jnp.asarray(likelihood(f), dtype))(f)
    return likelihood, State(f, values), noise


@cache
def replay(name, move, updates):
    """Return the states and the info of each chain from the same updates by `moves.search.search`."""
    likelihood, state, noise = make(name, move, "float64")
    evaluate = jax.jit(lambda f: jnp.asarray(likelihood(f)))
    noise = jax.tree.map(np.asarray, noise)
    made = []
    for chain in range(CHAINS):
        one = State(np.asarray(state.f[chain]), float(state.log_likelihood[chain]))
        for t in range(updates):
            key = noise.keys[:, t, chain]
            one, info = search(
                move,
                noise.nu[t, chain, :SIZE],
                float(noise.level[t, chain]),
                lambda k, key=key: float(uniform(key[None], np.array([k + 1], np.uint32))[0]),
                one,
                lambda f: float(evaluate(f)),
            )
            made.append((chain, t, one, info))
    return made


@pytest.mark.long
@pytest.mark.parametrize(
    ("name", "move", "look_ahead"),
    [pytest.param(name, MOVES[0], 1, marks=pytest.mark.long) for name in LIKELIHOODS]
    + [(name, MOVES[0], 8) for name in LIKELIHOODS]
    + [pytest.param("logistic", move, 4, marks=pytest.mark.long) for move in MOVES[1:]],
)
def test_no_barrier_makes_the_searches_of_figure_2(name, move, look_ahead):
    updates = 2 if name == "never" else LENGTH
    with jax_settings():
        likelihood, state, noise = make(name, move, "float64")
        block = jax.jit(partial(run_block_on_device, move, look_ahead, 4, likelihood), static_argnums=3)
        _, draws, counts = block(state, noise, DrawSchedule(updates, 0, 1), LENGTH)
        made = replay(name, move, updates)
    for chain, t, one, info in made:
        assert int(draws.proposals[t, chain]) == info.evaluations
        assert int(draws.nan_evaluations[t, chain]) == info.nan_evaluations
        assert bool(draws.search_failed[t, chain]) == info.search_failed
        np.testing.assert_allclose(draws.angle[t, chain], info.angle, rtol=1e-6, atol=1e-12)
        np.testing.assert_allclose(draws.f[t, chain], one.f, rtol=1e-6, atol=1e-8)
    assert int(counts.proposals.sum()) == sum(info.evaluations for *_, info in made)
    assert int(counts.nan_evaluations.sum()) == sum(info.nan_evaluations for *_, info in made)
    assert int(counts.failed_searches.sum()) == sum(info.search_failed for *_, info in made)


@pytest.mark.long
def test_these_searches_reach_every_branch():
    with jax_settings():
        for name, most in {"beyond the table": 33, "never": 1000}.items():
            made = replay(name, MOVES[0], 2 if name == "never" else LENGTH)
            assert max(info.evaluations for *_, info in made) >= most
        assert sum(info.nan_evaluations for *_, info in replay("NaN", MOVES[0], LENGTH)) > 0


@pytest.mark.long
@pytest.mark.parametrize(
    ("name", "move", "look_ahead", "dtype"),
    [
        ("logistic", MOVES[0], 4, "float64"),
        ("ready-made", MOVES[1], 2, "float32"),
        *(
            pytest.param(*case, marks=pytest.mark.long)
            for case in (
                ("logistic", MOVES[2], 1, "float32"),
                ("logistic", MOVES[3], 2, "float32"),
                ("logistic", MOVES[4], 2, "float32"),
                ("ready-made", MOVES[0], 1, "float64"),
                ("beyond the table", MOVES[0], 4, "float64"),
                ("never", MOVES[0], 4, "float32"),
            )
        ),
    ],
)
def test_the_kernel_does_the_same(name, move, look_ahead, dtype):
    """The kernel is interpreted, because there is no GPU. Its program is the same."""
    updates = 1 if name == "never" else LENGTH - 3
    schedule = DrawSchedule(updates, jnp.int32(-4), jnp.int32(3))
    with jax_settings(dtype == "float64"):
        likelihood, state, noise = make(name, move, dtype)
        arguments = likelihood, state, noise, schedule, LENGTH // 3
        plain = run_block_on_device(move, 1, 4, *arguments)
        fused = fused_block(move, look_ahead, *arguments, interpret=True)
    left = max(0, updates - 4) // 3
    rounding = 1e-9 if dtype == "float64" else 1e-4
    for one, other in zip(plain[1], fused[1], strict=True):
        np.testing.assert_allclose(one[:left], other[:left], rtol=rounding, atol=10 * rounding)
    for one, other in zip(jax.tree.leaves((plain[0], plain[2])), jax.tree.leaves((fused[0], fused[2])), strict=True):
        np.testing.assert_allclose(one, other, rtol=rounding, atol=10 * rounding)


@pytest.mark.long
def test_the_kernel_adds_up_the_terms_of_nu():
    arguments = DrawSchedule(jnp.int32(LENGTH), jnp.int32(0), jnp.int32(1)), LENGTH
    with jax_settings(False):
        likelihood, state, noise = make("logistic", MOVES[0], "float32", float16=True)
        assert noise.nu.shape[-1] == 2 * padded_size(SIZE)
        high, low = jnp.split(noise.nu, 2, axis=-1)
        added = noise._replace(nu=(high + low) * noise.unit, unit=None)
        one = fused_block(MOVES[0], 1, likelihood, state, noise, *arguments, interpret=True)
        other = fused_block(MOVES[0], 1, likelihood, state, added, *arguments, interpret=True)
    np.testing.assert_allclose(one[1].f, other[1].f, rtol=1e-4, atol=1e-3)
    np.testing.assert_array_equal(one[1].proposals, other[1].proposals)


@pytest.mark.long_cases("logistic-float32-True")
@pytest.mark.parametrize(
    ("name", "dtype", "float16"),
    [("logistic", "float32", True), ("ready-made", "float64", False)]
    + [
        pytest.param(*case, marks=pytest.mark.long)
        for case in (
            ("logistic", "float64", False),
            ("logistic", "float32", False),
            ("ready-made", "float32", False),
            ("ready-made", "float32", True),
        )
    ],
)
def test_the_kernel_can_be_compiled_for_a_gpu(name, dtype, float16):
    """Compile the kernel as far as is possible without a GPU: up to the GPU's own assembler."""
    from jax.sharding import AbstractDevice, AbstractMesh

    gpu = AbstractDevice(device_kind="NVIDIA H200", num_cores=None, platform="gpu")
    with jax_settings(dtype == "float64"):
        likelihood, state, noise = make(name, MOVES[0], dtype, float16)
        schedule = DrawSchedule(jnp.int32(5), jnp.int32(0), jnp.int32(1))

        def block(state, noise):
            angles = fused_angles(MOVES[0], noise.keys, np.dtype(dtype))
            return angles, fused_block(MOVES[0], 4, likelihood, state, noise, schedule, LENGTH)

        with jax.sharding.use_abstract_mesh(AbstractMesh((), (), abstract_device=gpu)):
            lowered = jax.jit(block).trace(state, noise).lower(lowering_platforms=("cuda",))
    assert "mosaic_gpu" in lowered.as_text()


@pytest.mark.long
@pytest.mark.parametrize("move", MOVES, ids=repr)
def test_both_ways_to_make_angles_agree(move):
    with jax_settings():
        keys = jnp.asarray(np.random.default_rng(0).integers(0, 2**32, (2, 5, 30), dtype=np.uint32))
        dtype = np.dtype("float64")
        for one, other in zip(
            first_angles(move, keys, dtype), fused_angles(move, keys, dtype, interpret=True), strict=True
        ):
            np.testing.assert_allclose(one, other, rtol=1e-9, atol=1e-9)


# --- noise ----------------------------------------------------------------------------------------------------------


@pytest.mark.long
def test_noise_is_a_function_of_seed_chain_and_update():
    with jax_settings():
        source = source_of(PRIOR, padded_size(SIZE), np.dtype("float64"), float16=False)
        draw = partial(draw_noise, MOVES[0], source, dtype=np.dtype("float64"), angles=first_angles)
        many = draw(chain_keys(5, range(4)), jnp.uint32(0), 20)
        alone = draw(chain_keys(5, [2]), jnp.uint32(8), 6)
    for whole, part in zip(many, alone, strict=True):
        if whole is None:  # for the unit of the terms
            continue
        axis = 0 if whole.shape[0] == 20 else 1
        chosen = np.moveaxis(np.asarray(whole), axis, 0)[8:14]
        chosen = np.moveaxis(chosen, 0, axis).take([2], axis + 1)
        np.testing.assert_allclose(chosen, part, rtol=1e-12, atol=1e-12)
    other = chain_keys(6, range(4))
    assert len({tuple(key) for key in np.concatenate([chain_keys(5, range(4)), other], axis=1).T}) == 8


@pytest.mark.long
@pytest.mark.statistical
@pytest.mark.parametrize("kind", ["float64", "float32", "whole"])
def test_normals_are_normal_and_independent(kind):
    count, rows = 64, 4000
    with jax_settings(kind == "float64"):
        keys = jnp.asarray(np.random.default_rng(0).integers(0, 2**32, (2, rows), dtype=np.uint32))
        z = rounded_normals(keys, count) if kind == "whole" else normals(keys, count, np.dtype(kind))
        z = np.asarray(z).astype(np.float64)
    if kind == "whole":
        assert np.array_equal(z, np.rint(z))
        z = (z + np.random.default_rng(1).uniform(-0.5, 0.5, z.shape)) / np.sqrt(ROUNDED_SD**2 + 1 / 12)
    assert scipy.stats.kstest(z.ravel(), "norm").pvalue > 1e-4
    error = np.sqrt(rows) * (z.T @ z / rows - np.eye(count))
    off = error[~np.eye(count, dtype=bool)]
    assert abs(error.diagonal()).max() < 6 * np.sqrt(2)
    assert abs(off).max() < 6
    assert abs(np.std(off) - 1) < 0.1
    assert abs(np.sqrt(rows) * z.mean(0)).max() < 6


def test_pairs_of_normals_are_turned_by_every_angle():
    words = np.concatenate([np.arange(4), np.random.default_rng(0).integers(0, 2**32, 10_000)]).astype(np.uint32)
    with jax_settings(False):
        x, y = (np.asarray(part, np.float64) for part in rotate(jnp.float32(1), jnp.asarray(words)))
    np.testing.assert_allclose(np.hypot(x, y), 1, atol=1e-6)
    angle = np.arctan2(y, x)
    below_45 = (words >> 2) * (np.pi / 2 * 2.0**-30) - np.pi / 4
    back = np.exp(1j * (below_45 + np.pi * (words & 1)))
    expected = np.where(words & 2, back.imag + 1j * back.real, back)
    np.testing.assert_allclose(np.exp(1j * angle), expected, atol=1e-6)
    assert scipy.stats.kstest(angle / (2 * np.pi) + 0.5, "uniform").pvalue > 1e-4


@pytest.mark.long
def test_draws_by_products_of_halves_have_the_prior_s_covariance():
    with jax_settings(False):
        source = source_of(PRIOR, SIZE + -SIZE % 8, np.dtype("float32"), float16=True)
        keys = jnp.stack(threefry(jnp.arange(20_000, dtype=np.uint32), jnp.uint32(1), jnp.uint32(2), jnp.uint32(3)))
        nu = np.asarray(source.draw(keys), np.float64)[:, :SIZE]
    weights = np.random.default_rng(0).normal(size=(SIZE, 20))
    sums = nu @ weights
    expected = np.sum((np.asarray(PRIOR.rows) @ weights) ** 2, axis=0)
    assert np.abs(sums.var(0) / expected - 1).max() < 6 * np.sqrt(2 / len(nu))


# --- which likelihoods factorise over the elements of f --------------------------------------------------------------

SUMS = {
    "logaddexp": lambda f: -jnp.sum(jnp.logaddexp(0.0, -Y * f)),
    "softplus": lambda f: -jax.nn.softplus(-Y * f).sum(),
    "log sigmoid": lambda f: 2 * jax.nn.log_sigmoid(Y * f).sum(),
    "sum of two": lambda f: jnp.sum(f) - 3 * jnp.sum(jnp.sqrt(f**2 + 1)) / 2 + 5,
    "grid": lambda f: jnp.sum(COUNTS.reshape(14, 10) * f.reshape(14, 10) - jnp.exp(f.reshape(14, 10))),
    "mask": lambda f: jnp.sum(jnp.where(Y > 0, f, -(f**2))),
    "cauchy": lambda f: -jnp.sum(jnp.log1p((f - Y) ** 2)),
    "mean": lambda f: -jnp.mean((f - Y) ** 2),
    "power": lambda f: -jnp.sum(jnp.abs(f) ** 1.5 + jnp.expm1(f / 10)),
    "data in the likelihood": lambda f: (
        -0.5 * jnp.sum((Y - f) ** 2) / jnp.asarray(0.3) ** 2 - jnp.log(jnp.asarray(0.3))
    ),
    "Logistic": es.likelihoods.Logistic(Y),
    "Poisson": es.likelihoods.Poisson(COUNTS, offset=0.3),
    "Gaussian": es.likelihoods.Gaussian(Y, 0.3),
    "StudentT": es.likelihoods.StudentT(Y, 3.0, 1.0),
    "Probit": es.likelihoods.Probit(Y),
    "Binomial": es.likelihoods.Binomial(COUNTS, COUNTS + 1),
    "NegativeBinomial": es.likelihoods.NegativeBinomial(COUNTS, 2.0),
}
OTHERS = {
    "cumsum": lambda f: jnp.sum(jnp.cumsum(f)),
    "integer_pow on a sum": lambda f: jnp.sum(f) ** 2,
    "slice": lambda f: -jnp.sum((f[1:] - f[:-1]) ** 2),
    "a sum over f with single elements": lambda f: jnp.sum((f - f.mean()) ** 2),
    "dot_general": lambda f: -jnp.sum((np.ones((3, SIZE)) @ f) ** 2),
    "does not end in a sum": lambda f: jnp.float32(1.0),
    "erfc": lambda f: jnp.sum(jax.scipy.special.erfc(f)),
}


@pytest.mark.long_cases("logaddexp-float32", "softplus-float32")
@pytest.mark.parametrize("dtype", ["float32", pytest.param("float64", marks=pytest.mark.long)])
@pytest.mark.parametrize("name", SUMS)
def test_sums_over_sites_are_recognised(name, dtype):
    with jax_settings(dtype == "float64"):
        f = jnp.asarray(3 * np.random.default_rng(0).normal(size=SIZE), dtype)
        program = elementwise(SUMS[name], SIZE, np.dtype(dtype), KERNEL)
        a, m = program.parts(f, program.data, program.scalars, KERNEL)
        total = a.sum() + program.constant - (0 if m is None else jnp.log(m).sum())
        np.testing.assert_allclose(total, SUMS[name](f), rtol=1e-12 if dtype == "float64" else 1e-5)
        assert (m is not None) == (name in ("logaddexp", "softplus", "Logistic"))
        if m is not None:
            assert bool(jnp.all((m >= 1) & (m <= 2)))


@pytest.mark.parametrize("name", OTHERS)
def test_other_likelihoods_say_why_they_are_none(name):
    with jax_settings(), pytest.raises(NotFactorised, match=name):
        elementwise(OTHERS[name], SIZE, np.dtype("float64"), KERNEL)


# --- sample -----------------------------------------------------------------------------------------------------------

OPTIONS = {"engine": "batched", "seed": 3, "progress": False}


@pytest.mark.long
@pytest.mark.long_cases("double")
@pytest.mark.statistical
@pytest.mark.parametrize("precision", ["double", "single"])
def test_the_posterior_is_the_closed_form(precision):
    covariance, noise = np.array([[2.0, 0.8, 0.1], [0.8, 1.0, 0.2], [0.1, 0.2, 0.5]]), 0.6
    y = np.array([1.0, -0.5, 0.3])
    tree = es.sample(
        lambda f: -0.5 * jnp.sum((y - f) ** 2) / noise**2,
        es.Dense(covariance, mean=[0.2, 0.0, -0.1]),
        **OPTIONS,
        draws=4000,
        warmup=200,
        chains=25,
        thin=2,
        precision=precision,
    )
    gain = covariance @ np.linalg.inv(covariance + noise**2 * np.eye(3))
    mean = np.array([0.2, 0.0, -0.1]) + gain @ (y - [0.2, 0.0, -0.1])
    variance = (covariance - gain @ covariance).diagonal()
    f = tree.posterior.f.to_numpy().astype(np.float64)
    for moment, expected in ((f, mean), ((f - mean) ** 2, variance)):
        by_chain = moment.mean(axis=1)
        error = by_chain.std(axis=0, ddof=1) / np.sqrt(len(by_chain))
        assert np.abs((by_chain.mean(axis=0) - expected) / error).max() < 5
    assert tree.attrs["precision"] == precision


def run(**options):
    return es.sample(LIKELIHOODS["logistic"], PRIOR, **OPTIONS | {"draws": 40, "warmup": 10, "chains": 2} | options)


@pytest.mark.long
def test_thinning_and_blocks_only_leave_out(monkeypatch):
    every = run(draws=120, warmup=10)
    monkeypatch.setattr(batched, "block_length", lambda numbers: 16)
    thinned = run(draws=40, warmup=10, thin=3)
    assert thinned.attrs["proposals"] == every.attrs["proposals"]
    for group in ("posterior", "sample_stats"):
        for name in every[group].data_vars:
            np.testing.assert_allclose(every[group][name][:, 2::3], thinned[group][name], rtol=1e-7, atol=1e-9)


@pytest.mark.long
def test_a_chain_is_the_same_alone_and_with_any_look_ahead():
    together = run(chains=4)
    alone = run(chains=[2], look_ahead=4)
    np.testing.assert_allclose(together.posterior.f[2], alone.posterior.f[0], rtol=1e-7, atol=1e-9)


@pytest.mark.long
def test_nothing_is_compiled_again_for_other_data_seeds_or_draws(caplog):
    def likelihood(y):
        return lambda f: -jnp.sum((f - y) ** 2)

    def sample(y, seed, draws):
        es.sample(likelihood(y), es.Diagonal(np.ones(7)), **OPTIONS | {"seed": seed}, draws=draws, warmup=3, chains=2)

    sample(np.ones(7), 1, 50)
    with jax.log_compiles():
        sample(np.zeros(7), 2, 90)
    assert not [record for record in caplog.records if "_run_block" in record.getMessage()]


@pytest.mark.parametrize("move", [es.moves.EllipticalSlice(), es.moves.SplitHamiltonian(None, 2)])
def test_keep_is_computed_only_for_blocks_with_draws(move, monkeypatch):
    """Those of the warm-up have no states. `keep` need not be defined for the zeros in their place."""
    monkeypatch.setattr(batched, "block_length", lambda numbers: 16)
    computed, of_block = [], StateSelector.of_block

    def recorded(self, buffer):
        computed.append(of_block(self, buffer))
        return computed[-1]

    monkeypatch.setattr(StateSelector, "of_block", recorded)
    options = {"move": move, "warmup": 45, "draws": 20, "engine": "batched"}
    kept, every = run(**options, keep=lambda f: jnp.log(f[0] ** 2)), run(**options)
    assert len([values for values in computed if values is not None]) == 3  # of 5 or 7 blocks
    np.testing.assert_allclose(kept.posterior.f, np.log(every.posterior.f[..., 0] ** 2), rtol=1e-12)


@pytest.mark.long
def test_keep_runs_on_the_device_if_it_can():
    calls = []

    def on_the_host(f):
        calls.append(None)
        return {"first": np.array(f)[:2], "largest": max(f.tolist())}

    kept = run(keep=lambda f: {"first": f[:2], "largest": f.max()})
    plain = run(keep=on_the_host)
    assert 80 <= len(calls) < 90  # 40 draws of 2 chains, and a few calls that find out what it returns
    whole = run().posterior.f
    for tree in (kept, plain):
        np.testing.assert_allclose(tree.posterior["first"], whole[..., :2], rtol=1e-9)
        np.testing.assert_allclose(tree.posterior["largest"], whole.max("f_dim_0"), rtol=1e-9)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"engine": "fused"}, "Hopper"),
        ({"engine": "quick"}, '"batched", "fused"'),
        ({"precision": "half"}, '"double" or "single"'),
        ({"engine": "host", "precision": "single"}, "works in double"),
        ({"engine": "compiled", "precision": "single"}, "works in double"),
        ({"move": es.moves.Cycle(EllipticalSlice(), AuxiliaryEllipse())}, "not a single search"),
    ],
)
def test_what_cannot_be_is_refused(options, words):
    with pytest.raises(ValueError, match=words):
        run(**options)


def test_priors_that_draw_on_the_host_are_refused():
    prior = es.FromDraws(lambda rng: rng.normal(size=3), 3)
    with pytest.raises(ValueError, match="draws on the host"):
        es.sample(lambda f: -jnp.sum(f**2), prior, **OPTIONS)


@pytest.mark.long
def test_predictors_are_drawn_on_the_device_too():
    rng = np.random.default_rng(0)
    A, y = rng.normal(size=(30, 3)), np.sign(rng.normal(size=30))
    linear = es.likelihoods.LinearPredictor(A, es.likelihoods.Logistic(y))
    means = [
        es.sample(linear, es.Diagonal(np.ones(3)), **OPTIONS | {"engine": engine}, draws=1000, chains=8).posterior.f
        for engine in ("batched", "compiled")
    ]
    by_chain = [mean.mean("draw").to_numpy() for mean in means]
    error = np.sqrt(sum(mean.var(axis=0, ddof=1) / 8 for mean in by_chain))
    assert np.abs((by_chain[0].mean(0) - by_chain[1].mean(0)) / error).max() < 6


def test_likelihoods_in_plain_python_are_refused():
    for options in ({"engine": "batched"}, {"precision": "single"}):
        with pytest.raises(ValueError, match=r"jax.numpy"):
            es.sample(lambda f: -float(np.sum(np.array(f) ** 2)), es.Diagonal(np.ones(3)), progress=False, **options)


def test_a_start_that_overflows_in_single_precision_is_refused():
    prior = es.Diagonal(np.ones(3))
    with pytest.raises(ValueError, match='precision="double"'):
        es.sample(
            lambda f: -jnp.sum(jnp.exp(90.0 + 0 * f)) * 1e-3, prior, **OPTIONS, precision="single", initial=np.zeros(3)
        )


@pytest.mark.long
@pytest.mark.parametrize(
    "prior",
    [
        es.Diagonal(np.array([1.0, 4.0, 0.25])),
        es.LowRank(np.array([[1.0, 0.0], [1.0, 1.0], [1.0, 2.0]])),
        es.Stationary(lambda lag: np.exp(-np.abs(lag[..., 0])), (3,), 1.0),
        es.Kronecker(es.Diagonal([1.0]), es.Diagonal([1.0, 2.0, 3.0])),
    ],
    ids=repr,
)
def test_any_traceable_prior_draws_on_the_device(prior):
    with jax_settings():
        source = source_of(prior, 8, np.dtype("float64"))
        keys = jnp.stack(threefry(jnp.arange(20_000, dtype=np.uint32), jnp.uint32(1), jnp.uint32(2), jnp.uint32(3)))
        nu = np.asarray(source.draw(keys))
    assert not nu[:, prior.size :].any()
    nu = nu[:, : prior.size]
    color = np.asarray(prior.unwhiten(np.eye(prior.noise_size)))
    expected = color.T @ color
    scale = np.sqrt(np.outer(expected.diagonal(), expected.diagonal()))
    assert np.abs((nu.T @ nu / len(nu) - expected) / scale).max() < 6 * np.sqrt(2 / len(nu))


def test_a_search_that_changes_the_prior_is_not_run_as_an_ellipse():
    from ellipslice.moves import EllipticalSlice
    from ellipslice.moves.line import Line

    class Tilted(EllipticalSlice):
        def log_factor(self, theta):
            return theta

    with pytest.raises(TypeError, match="overrides log_factor"):
        es.sample(LIKELIHOODS["logistic"], PRIOR, move=Tilted())
    with pytest.raises(TypeError, match="move must be a move of"):  # a path is not a move
        es.sample(LIKELIHOODS["logistic"], PRIOR, move=Line(1.0, lambda theta: 0.0))
