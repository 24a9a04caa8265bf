"""A chain is a function of (seed, chain, update): bit-identical for any number of chains, look-ahead and turns."""

from __future__ import annotations

import itertools
import math
import warnings

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import xarray
from jax.tree_util import Partial

import ellipslice as es
from catalogue import CORRELATED, FACTOR, MOVES, PRIORS, SMOOTH
from ellipslice.engines.compiled import CompiledEngine, chain
from ellipslice.engines.compiled import engine as compiled
from ellipslice.engines.host import engine as host
from ellipslice.engines.host.engine import HostEngine
from ellipslice.likelihoods import Binomial, Gaussian, Logistic, NegativeBinomial, Poisson, Probit, StudentT
from ellipslice.moves import Cycle, EllipticalSlice, State
from ellipslice.noise import DRAWN_UNIFORMS, NoiseSpec, block_length, draw_block, uniform
from ellipslice.posterior import Posterior
from ellipslice.priors import Dense, Diagonal, LowRank, Stack
from ellipslice.pytree import pytree
from engine_rows import begin, columns, finish

FIELDS = ("f", "total_log_likelihood", "evaluations", "nan_evaluations", "search_failed", "angle")

# --- problems -------------------------------------------------------------------------------------------------------

GENERATOR = np.random.default_rng(0)
DESIGN = GENERATOR.standard_normal((8, 8))
OBSERVED = GENERATOR.standard_normal(8)
WIDE_DESIGN = GENERATOR.standard_normal((767, 60)) / 8
MANY_OBSERVED = GENERATOR.standard_normal(60)


def linear(matrix, data, f):
    """Return the log-likelihood of a linear model.

    The rounding of a row of a matrix product may depend on other rows.
    """
    return -0.5 * ((f @ matrix - data) ** 2).sum(axis=-1)


def holes(f):
    """Return a log-likelihood that is NaN for some f and minus infinity for others."""
    xp = np if isinstance(f, np.ndarray) else jnp
    value = -6 * ((f - 0.4) ** 2).sum(axis=-1)
    value = xp.where(f[..., 0] < -0.2, xp.nan, value)
    return xp.where(f[..., -1] > 1.0, -xp.inf, value)


def sharp(f):
    """Return a log-likelihood so sharp that searches need dozens of evaluations."""
    return -1e9 * ((f - 0.3) ** 2).sum(axis=-1)


def named(f, b, w):
    return -4 * (((f - b[..., None]) ** 2).sum(axis=-1) + (w**2).sum(axis=-1))


# Priors and log-likelihoods that take batches, of NumPy and of JAX. A `Partial` is a pytree, so that a function is
# compiled only once for all tests.
PROBLEMS = {
    "matrix product": (Diagonal(np.ones(8)), Partial(linear, DESIGN, OBSERVED)),
    "matrix product, 767": (Diagonal(np.ones(767)), Partial(linear, WIDE_DESIGN, MANY_OBSERVED)),
    "Poisson, 767": (Diagonal(np.full(767, 0.5), mean=-0.2), Poisson(np.arange(767) % 3)),
    "holes": (Dense(0.2 * CORRELATED, mean=0.3), Partial(holes)),
    "sharp": (Diagonal(np.ones(3)), Partial(sharp)),
    "named latents": (
        Stack({"f": Dense(SMOOTH, mean=0.5), "b": Diagonal(4.0), "w": LowRank(FACTOR)}),
        Partial(named),
    ),
}


def sample(name, engine, **options):
    """Run `es.sample` with vectorized=True. Return every field of every chain as arrays of shape (chain, draw, ...)."""
    prior, log_likelihood = PROBLEMS[name]
    # Tangent planes change the number of evaluations and nothing else. They have their own test below.
    options = {"draws": 60, "warmup": 0, "chains": [0], "seed": 5, "vectorized": True, "log_concave": False, **options}
    options = {"move": EllipticalSlice(), **options}
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message=".*gave NaN")
        tree = es.sample(log_likelihood, prior, engine=engine, progress=False, **options)
    assert tree.attrs["engine"] == engine
    fields = {key: tree.sample_stats[key].values for key in FIELDS[1:]}
    latents = {key: value.values for key, value in tree.posterior.data_vars.items()}
    return {**latents, **fields}


def assert_same(one, two):
    assert one.keys() == two.keys()
    for key, values in one.items():
        np.testing.assert_array_equal(values, two[key], err_msg=key)


def rows(result, which):
    return {key: values[which] for key, values in result.items()}


ENGINES = pytest.mark.parametrize("engine", ["compiled", "host"])

# --- through sample -------------------------------------------------------------------------------------------------


@pytest.mark.short_cases(
    "compiled-sharp", "compiled-matrix product", "host-sharp", "host-named latents", "host-matrix product", "host-holes"
)
@pytest.mark.parametrize("name", PROBLEMS)
@ENGINES
def test_a_chain_has_the_same_bits_alone_and_among_others(engine, name):
    together = sample(name, engine, chains=5)
    for k in (0, 3):
        assert_same(sample(name, engine, chains=[k]), rows(together, [k]))
    assert_same(sample(name, engine, chains=[4, 1]), rows(together, [4, 1]))
    for i, j in itertools.combinations(range(5), 2):
        assert not np.array_equal(together["total_log_likelihood"][i], together["total_log_likelihood"][j])


@pytest.mark.long
def test_a_chain_has_the_same_bits_alone_with_the_default_move():
    together = sample("matrix product", "compiled", move=None, chains=5)
    assert_same(sample("matrix product", "compiled", move=None, chains=[3]), rows(together, [3]))


@pytest.mark.parametrize("name", PROBLEMS)
def test_look_ahead_changes_no_bit_on_the_host(name):
    alone = sample(name, "host", look_ahead=1)
    for look_ahead in (2, 3, 8, 32):
        assert_same(alone, sample(name, "host", look_ahead=look_ahead))
    for look_ahead in (1, 3, 32):  # batches of other sizes
        assert_same(alone, rows(sample(name, "host", look_ahead=look_ahead, chains=5), [0]))
    assert alone["evaluations"].max() > 3


@pytest.mark.parametrize("seed", range(5))
def test_look_ahead_changes_no_bit_of_a_matrix_product_from_any_start(seed):
    # The check whether a batch rounds as single points do must not depend on one lucky point.
    alone = sample("matrix product", "host", look_ahead=1, seed=seed)
    for look_ahead in (2, 8):
        assert_same(alone, sample("matrix product", "host", look_ahead=look_ahead, seed=seed))
    for chains, look_ahead in ((2, 1), (5, 4)):
        assert_same(alone, rows(sample("matrix product", "host", look_ahead=look_ahead, seed=seed, chains=chains), [0]))


class SaysItTakesBatches:
    """A class of a user that can be called with one latent vector or with a batch, as the library's likelihoods."""

    vectorized = True

    def __call__(self, f):
        return linear(DESIGN, OBSERVED, f)


@pytest.mark.parametrize("seed", range(3))
def test_a_class_that_says_it_takes_batches_keeps_its_bits_too(seed):
    # NumPy's product of a vector with a matrix rounds differently from that of a batch of one.
    options = {"draws": 60, "warmup": 0, "seed": seed, "engine": "host", "progress": False}
    prior = Diagonal(np.ones(8))
    alone = es.sample(SaysItTakesBatches(), prior, chains=[0], look_ahead=1, **options)
    for other in ({"chains": [0], "look_ahead": 8}, {"chains": 5, "look_ahead": 1}, {"chains": 3}):
        tree = es.sample(SaysItTakesBatches(), prior, **other, **options)
        np.testing.assert_array_equal(tree.posterior.f.values[:1], alone.posterior.f.values)
        for key in FIELDS[1:]:
            np.testing.assert_array_equal(tree.sample_stats[key].values[:1], alone.sample_stats[key].values)


@pytest.mark.parametrize("engine", ["compiled", "host"])
def test_look_ahead_changes_no_bit_from_a_start_at_zero(engine):
    zero = np.zeros(8)
    alone = sample("matrix product", engine, look_ahead=1, initial=zero)
    assert_same(alone, sample("matrix product", engine, look_ahead=8, initial=zero))


@pytest.mark.short_cases("sharp-aheads4")
@pytest.mark.parametrize(
    ("name", "aheads"),
    [
        ("matrix product", (2, 3, 8, 32)),
        ("matrix product, 767", (2, 3, 8, 32)),
        ("Poisson, 767", (3, 8)),  # compiled into one function without look-ahead
        ("holes", (3, 8)),
        ("sharp", (3, 8)),
    ],
)
def test_look_ahead_changes_no_bit_in_compiled_code(name, aheads):
    alone = sample(name, "compiled", look_ahead=1)
    for look_ahead in aheads:
        assert_same(alone, sample(name, "compiled", look_ahead=look_ahead))


@pytest.mark.long_cases(
    "compiled-AuxiliaryEllipse", "compiled-EllipticalSlice, narrow, halve", "compiled-EllipticalSlice, narrow"
)
@pytest.mark.parametrize("name", ["AuxiliaryEllipse", "EllipticalSlice, narrow, halve", "EllipticalSlice, narrow"])
@ENGINES
def test_look_ahead_changes_no_bit_of_any_search(engine, name):
    move = MOVES[name]()
    assert_same(sample("holes", engine, move=move), sample("holes", engine, move=move, look_ahead=3))


@ENGINES
def test_a_shorter_run_begins_a_longer_one(engine):
    long = sample("holes", engine, draws=1000)
    assert_same(sample("holes", engine, draws=10), rows(long, np.s_[:, :10]))
    assert_same(sample("holes", engine, draws=513), rows(long, np.s_[:, :513]))  # one more than a block


@ENGINES
def test_warmup_and_thinning_choose_what_is_kept_of_one_chain(engine):
    every = sample("named latents", engine, draws=100, chains=2)
    assert_same(sample("named latents", engine, draws=60, warmup=40, chains=2), rows(every, np.s_[:, 40:]))
    assert_same(sample("named latents", engine, draws=20, thin=5, chains=2), rows(every, np.s_[:, 4::5]))
    assert_same(sample("named latents", engine, draws=9, warmup=17, thin=7, chains=2), rows(every, np.s_[:, 23:80:7]))


@ENGINES
def test_the_same_seed_gives_the_same_bits_and_others_do_not(engine):
    one = sample("Poisson, 767", engine, chains=2)
    assert_same(one, sample("Poisson, 767", engine, chains=2))
    for seed in (6, 0, 2**40):
        other = sample("Poisson, 767", engine, chains=2, seed=seed)
        assert not np.isin(other["f"][..., :5], one["f"]).any()


@pytest.mark.long_cases("compiled")
@ENGINES
def test_a_cycle_has_the_same_bits_in_any_company(engine):
    move = MOVES["Cycle of three"]()
    together = sample("named latents", engine, move=move, chains=3)
    assert_same(sample("named latents", engine, move=move, chains=[1]), rows(together, [1]))
    assert_same(
        sample("named latents", engine, move=move, chains=[1], draws=20, warmup=40), rows(together, np.s_[1:2, 40:])
    )


def test_a_cycle_of_one_is_its_move():
    for engine in ("compiled", "host"):
        move = EllipticalSlice(1.0)
        one, two = (sample("matrix product", engine, move=m, draws=40) for m in (move, Cycle(move)))
        np.testing.assert_array_equal(one["evaluations"], two["evaluations"])
        np.testing.assert_allclose(one["f"], two["f"], rtol=1e-9, atol=1e-9)


def test_keep_does_not_change_the_chain():
    for engine in ("compiled", "host"):
        whole = sample("holes", engine)
        part = sample("holes", engine, keep=lambda f: f[1:])
        np.testing.assert_array_equal(part["f"], whole["f"][..., 1:])
        np.testing.assert_array_equal(part["total_log_likelihood"], whole["total_log_likelihood"])


# --- tangent planes --------------------------------------------------------------------------------------------------

LABELS = np.where(np.arange(767) % 3 > 0, 1, -1)
CONCAVE = {
    "Gaussian": (lambda: Gaussian(np.sin(np.arange(200)), 0.3), Diagonal(np.ones(200))),
    "Gaussian, noise per value": (lambda: Gaussian(np.ones(9), np.linspace(0.1, 2, 9)), Dense(np.eye(9) + 0.5, 1.0)),
    "Poisson": (lambda: Poisson(np.arange(767) % 4), Diagonal(np.full(767, 0.3), mean=0.4)),
    "Logistic": (lambda: Logistic(LABELS), Diagonal(np.full(767, 4.0))),
    "Probit": (lambda: Probit(LABELS), Diagonal(np.full(767, 2.0))),
    "Binomial": (lambda: Binomial(np.arange(60) % 5, 6), Diagonal(np.full(60, 2.0))),
    "NegativeBinomial": (lambda: NegativeBinomial(np.arange(60) % 5, 2.0), Diagonal(np.full(60, 2.0))),
    "two axes": (lambda: Poisson(np.arange(6).reshape(2, 3)), Diagonal(np.ones((2, 3)))),
    "one value": (lambda: Gaussian([3.0], 0.01), Diagonal([1.0])),
    "a function": (lambda: lambda f: -jnp.sum(jnp.cosh(f - 1.0)), Diagonal(np.full(5, 3.0))),
    "an interval": (
        lambda: lambda f: jnp.where(jnp.all(jnp.abs(f) < 1), -jnp.sum(f**2), -jnp.inf),
        Diagonal(np.ones(3)),
    ),
    "sharp": (lambda: lambda f: -1e9 * jnp.sum((f - 0.3) ** 2), Diagonal(np.ones(3))),
    "a matrix product": (lambda: lambda f: linear(DESIGN, OBSERVED, f), Diagonal(np.ones(8))),
    "named latents": (
        lambda: lambda f, b: -jnp.sum((f - b) ** 2),
        Stack({"f": Diagonal(np.ones(4)), "b": Diagonal(2.0)}),
    ),
}


@pytest.mark.short_cases("Gaussian-EllipticalSlice", "Poisson-EllipticalSlice", "one value-EllipticalSlice")
@pytest.mark.parametrize("move", ["EllipticalSlice", "AuxiliaryEllipse", "EllipticalSlice, narrow, halve"])
@pytest.mark.parametrize("name", CONCAVE)
def test_tangent_planes_change_no_bit(name, move):
    """Tangent planes only save evaluations."""
    make, prior = CONCAVE[name]
    options = {"move": MOVES[move](), "draws": 600, "warmup": 0, "chains": 1, "seed": 2, "progress": False}
    plain, planes = (es.sample(make(), prior, engine="compiled", log_concave=on, **options) for on in (False, True))
    for key in plain.posterior.data_vars:
        np.testing.assert_array_equal(plain.posterior[key], planes.posterior[key])
    for key in ("total_log_likelihood", "proposals", "angle", "search_failed"):
        np.testing.assert_array_equal(plain.sample_stats[key], planes.sample_stats[key], err_msg=key)
    assert (plain.sample_stats["evaluations"] == plain.sample_stats["proposals"]).all()
    spared = planes.attrs["evaluations"] / planes.attrs["proposals"]
    assert spared <= 1 if name == "an interval" else spared < 0.9
    if name.startswith("Gaussian"):
        assert (planes.sample_stats["evaluations"] == 1).all()


@pytree
class Planes(Poisson):
    curvature_rate_bound = None


@pytree
class Misjudged(Poisson):
    curvature_rate_bound = 0.0


@pytest.mark.long
def test_a_bowl_spares_more_than_planes():
    """The quadratic bound saves more than half of the evaluations, and the chain is bit-identical."""
    make, prior = CONCAVE["Poisson"]
    options = {"draws": 2000, "warmup": 0, "chains": 1, "seed": 2, "progress": False, "move": EllipticalSlice()}
    planes, bowl = (es.sample(kind(make().y), prior, **options) for kind in (Planes, Poisson))
    np.testing.assert_array_equal(planes.posterior["f"], bowl.posterior["f"])
    assert bowl.attrs["evaluations"] < 0.5 * planes.attrs["evaluations"]


@pytest.mark.long
def test_a_class_that_promises_too_much():
    make, prior = CONCAVE["Poisson"]
    with pytest.raises(ValueError, match="above a bound computed from curvature_rate_bound = 0"):
        es.sample(Misjudged(make().y), prior, move=EllipticalSlice(), draws=2000, chains=1, seed=2, progress=False)


def test_what_is_declared_concave_and_is_not():
    """It is detected before the run if it is obvious, else during the run."""
    options = {"draws": 2000, "chains": 1, "seed": 1, "progress": False, "log_concave": True}
    with pytest.raises(ValueError, match=r"not concave.*Leave log_concave out"):
        es.sample(lambda f: jnp.sum(f**2) / 4, Diagonal(np.ones(3)), **options)
    with pytest.raises(ValueError, match="not concave: a value was above a tangent plane"):
        es.sample(lambda f: -jnp.sum(f**2) + 3 * jnp.exp(-50 * jnp.sum((f - 1) ** 2)), Diagonal(np.ones(2)), **options)
    with pytest.raises(ValueError, match=r"log_concave=True.*host engine.*jax\.numpy"):
        es.sample(lambda f: -float(np.sum(np.asarray(f) ** 2)), Diagonal(np.ones(3)), **options)


# --- engines directly, with turns of any length ---------------------------------------------------------------------


class Clock:
    """A clock that advances whenever it is read, so that everything seems to take long."""

    def __init__(self, tick):
        self.now, self.tick = 0.0, tick

    def perf_counter(self):
        self.now += self.tick
        return self.now


def run(
    engine, name, updates=200, chains=(0, 1, 2), move=None, vectorized=True, tick=None, monkeypatch=None, **options
):
    """Advance an engine to its end. Return its rows, and their fields concatenated for each chain.

    With a `tick`, the time between two readings of the clock seems to be that fraction of a turn.
    """
    if tick is not None:
        for module, turn in ((host, host.TURN_SECONDS), (chain, chain.TURN_SECONDS)):
            monkeypatch.setattr(module, "time", Clock(tick * turn))
    prior, log_likelihood = PROBLEMS[name]
    posterior = Posterior(prior, log_likelihood, vectorized=vectorized, log_concave=False)
    start = np.full(prior.size, 0.1)
    with jax.enable_x64(True):
        states = [State(start, float(posterior.log_likelihood(start))) for _ in chains]
        under_way = begin(engine(posterior), move or EllipticalSlice(), 3, chains, states, updates, **options)
        pieces = []
        for _ in range(20 * updates * len(chains)):
            if under_way.finished:
                break
            under_way.advance()
            pieces += under_way.take()
        assert under_way.finished, "the run does not come to an end"
        under_way.close()
    if tick is not None:
        monkeypatch.undo()
    result = {}
    for position in range(len(chains)):
        own = [rows for rows in pieces if rows.chains.start == position]
        firsts = np.cumsum([0] + [rows.draws for rows in own])
        assert [rows.first for rows in own] == firsts[:-1].tolist()
        assert firsts[-1] == updates
        result[position] = columns(pieces, position)
    return pieces, {key: np.stack([result[i][key] for i in result]) for key in FIELDS}


@pytest.mark.short_cases(
    "CompiledEngine-options0-sharp",
    "HostEngine-options3-matrix product",
    "HostEngine-options5-matrix product",
    "HostEngine-options4-matrix product",
)
@pytest.mark.parametrize("name", ["matrix product", "sharp"])
@pytest.mark.parametrize(
    ("engine", "options"),
    [
        (CompiledEngine, {}),
        (CompiledEngine, {"look_ahead": 3}),
        (CompiledEngine, {"move": MOVES["Cycle of two"]()}),
        (HostEngine, {"look_ahead": 1}),
        (HostEngine, {"look_ahead": 3}),
        (HostEngine, {"vectorized": False}),
        (HostEngine, {"move": MOVES["Cycle of two"]()}),
    ],
)
def test_a_run_cut_into_pieces_is_the_same_run(engine, options, name, monkeypatch):
    # The draws must not depend on how long the turns seem to take, and so on where the run pauses. The two likelihoods
    # take one latent vector or a batch, so they run without `vectorized`, too.
    _, expected = run(engine, name, tick=1e-6, monkeypatch=monkeypatch, **options)
    numbers = set()
    for tick in (0.01, 0.4, 0.6, 4.0):
        pieces, result = run(engine, name, tick=tick, monkeypatch=monkeypatch, **options)
        assert_same(expected, result)
        numbers.add(len(pieces))
    pieces, result = run(engine, name, **options)  # and with the real clock
    assert_same(expected, result)
    assert len(numbers) > 1  # the runs were divided differently


@pytest.mark.long_cases("tangent planes")
@pytest.mark.parametrize(
    "options",
    [{}, {"log_concave": True}, {"move": MOVES["Cycle of two"]()}],
    ids=["search", "tangent planes", "Cycle"],
)
def test_a_long_state_is_updated_one_by_one_to_the_same_bits(options, monkeypatch):
    def sampled():
        prior = es.Dense(np.exp(-np.abs(np.subtract.outer(np.arange(5), np.arange(5)))))
        return es.sample(
            lambda f: -300 * ((f - 1) ** 2).sum(),
            prior,
            draws=60,
            warmup=0,
            chains=2,
            seed=1,
            progress=False,
            **options,
        )

    at_once = sampled()
    monkeypatch.setattr(compiled, "MAX_BLOCK_STATE", 4)
    one_by_one = sampled()
    for group in ("posterior", "sample_stats"):
        xarray.testing.assert_equal(at_once[group].to_dataset(), one_by_one[group].to_dataset())


def test_a_turn_always_makes_progress(monkeypatch):
    # The likelihood may be slow: if every turn began its search again, a search that needs two calls would never end.
    _, slow = run(HostEngine, "matrix product", tick=0.8, updates=30, monkeypatch=monkeypatch, look_ahead=1)
    _, fast = run(HostEngine, "matrix product", updates=30, look_ahead=1)
    assert_same(slow, fast)
    assert slow["evaluations"].max() > 5


@pytest.mark.long_cases("CompiledEngine-32")
@pytest.mark.parametrize("look_ahead", [1, 7, 32])
@pytest.mark.parametrize("engine", [CompiledEngine, HostEngine])
def test_a_search_that_is_given_up_is_given_up_with_any_look_ahead(engine, look_ahead):
    # The likelihood is zero everywhere, including the start, which `sample` would reject.
    posterior = Posterior(Diagonal(np.ones(2)), lambda f: -np.inf + 0.0 * f.sum(axis=-1), vectorized=True)
    with jax.enable_x64(True):
        start = State(np.ones(2), 0.0)
        under_way = begin(engine(posterior), EllipticalSlice(), 0, [0], [start], 3, look_ahead=look_ahead)
        made = columns(finish(under_way))
        under_way.close()
    assert made["evaluations"].tolist() == [1000] * 3
    assert made["search_failed"].tolist() == [True] * 3


# --- comparison with the random numbers -----------------------------------------------------------------------------


@pytest.mark.parametrize("engine", [CompiledEngine, HostEngine])
@pytest.mark.parametrize("vectorized", [False, True])
@pytest.mark.parametrize("name", ["matrix product", "sharp"])
def test_a_run_is_the_paper_s_algorithm_on_the_noise_of_its_chain(name, vectorized, engine):
    """Figure 2, written out, on the same random numbers: equal angles and counts, states equal up to rounding error."""
    prior, log_likelihood = PROBLEMS[name]
    _, result = run(engine, name, chains=(4,), vectorized=vectorized)
    f, length, longest = np.full(prior.size, 0.1), block_length(prior.size), 0
    value = float(log_likelihood(f))
    for update in range(100):
        block, row = divmod(update, length)
        noise = draw_block(NoiseSpec.from_prior(prior, prior.size), 3, 4, block, length)
        nu, level, uniforms = np.asarray(noise.nu)[row, 0], noise.level[row, 0], noise.uniforms[row, 0]
        numbers = (
            float(uniforms.first[k] if k < DRAWN_UNIFORMS else uniform(uniforms.key[None], np.array([k], np.uint32))[0])
            for k in itertools.count(1)
        )
        theta = 2 * math.pi * next(numbers)
        theta_min, theta_max, count = theta - 2 * math.pi, theta, 1
        while not log_likelihood(f * math.cos(theta) + nu * math.sin(theta)) > value - level:
            theta_min, theta_max = (theta, theta_max) if theta < 0 else (theta_min, theta)
            theta = theta_min + next(numbers) * (theta_max - theta_min)
            count += 1
        f = f * math.cos(theta) + nu * math.sin(theta)
        value = float(log_likelihood(f))
        longest = max(longest, count)
        assert result["evaluations"][0, update] == count
        assert abs(result["angle"][0, update] - theta) <= (1e-14 if engine is CompiledEngine else 0)
        np.testing.assert_allclose(result["f"][0, update], f, rtol=0, atol=1e-12)
    assert longest > (24 if name == "sharp" else 5)


# --- host = compiled ------------------------------------------------------------------------------------------------

COUNTS = np.array([0, 3, 1])
BOTH_ENGINES = {
    "Gaussian": (lambda: Gaussian([0.3, -1.0, 0.7], 0.5), "Dense, mean 1.5", "Cycle of three"),
    "Poisson": (lambda: Poisson(COUNTS, offset=0.3), "Dense, singular"),
    "Logistic": (lambda: Logistic([1, -1, 1, 1]), "LowRank, mean 1.5", "AuxiliaryEllipse"),
    "StudentT": (lambda: StudentT(np.linspace(-3, 3, 12)), "Dense, smooth"),
    "two axes": (lambda: Poisson(np.arange(6).reshape(2, 3)), "Diagonal, two axes, mean 1.5", "EllipticalSlice, halve"),
    "a routine": (lambda: Gaussian(np.zeros(5), 1.0), "FromDraws"),
    "extreme scales": (
        lambda: lambda f: -4.0 * ((f * np.array([1e6, 1e-6, 1.0]) - 1) ** 2).sum(),
        "Dense, variances 1e-12 and 1e12",
    ),
    "named latents": (lambda: lambda f, b, w: -(((f - b) ** 2).sum() * 3.0) - (w**2).sum(), "Stack, mean 1.5"),
    "sharp": (lambda: lambda f: -1e9 * ((f - 0.3) ** 2).sum(), "Diagonal, mean 1.5"),
    "a routine among named latents": (lambda: lambda f, b: -(((f - b) ** 2).sum() * 0.5), "Stack with a routine"),
    "one number": (lambda: lambda f: -8.0 * (f - 1.0) ** 2, "Diagonal, one number"),
}


@pytest.mark.parametrize("name", BOTH_ENGINES)
def test_both_engines_give_the_same_chain(name):
    make, prior_name, *more = BOTH_ENGINES[name]
    move = more[0] if more else "EllipticalSlice"
    prior, log_likelihood = PRIORS[prior_name](), make()
    scale = np.sqrt(np.concatenate([np.asarray(prior.draw_zero_mean(np.random.default_rng(0), 200)).var(axis=0)]))
    posterior = Posterior(prior, log_likelihood, vectorized=False, log_concave=False)
    start = np.asarray(prior.draw_zero_mean(np.random.default_rng(4), 1))[0]
    state = State(start, float(posterior.log_likelihood(start)))
    chains = []
    for engine in (HostEngine, CompiledEngine):
        with jax.enable_x64(True):
            under_way = begin(engine(posterior), MOVES[move](), 11, [2], [state], 200)
            chains.append(columns(finish(under_way)))
            under_way.close()
    ours, theirs = chains
    for key in ("evaluations", "nan_evaluations", "search_failed"):
        np.testing.assert_array_equal(ours[key], theirs[key], err_msg=key)
    assert np.abs((ours["f"] - theirs["f"]) / np.where(scale > 0, scale, 1)).max() < 1e-9
    np.testing.assert_allclose(ours["total_log_likelihood"], theirs["total_log_likelihood"], rtol=1e-8, atol=1e-9)
    np.testing.assert_allclose(ours["angle"], theirs["angle"], rtol=0, atol=1e-12)
    assert ours["evaluations"].max() > 1
