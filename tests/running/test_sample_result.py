"""Results of `sample` for all kinds of arguments: groups, names, attributes, engines, files."""

from __future__ import annotations

import ctypes
import ctypes.util
import dataclasses
import functools
import importlib.metadata
import json
import math
import subprocess
import sys
import textwrap
from types import MappingProxyType
from typing import Any, NamedTuple

import arviz_stats
import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.stats
import xarray as xr

import ellipslice as es
from ellipslice.likelihoods import Gaussian, Poisson
from ellipslice.moves import AuxiliaryEllipse, Cycle, EllipticalSlice

PRIOR = es.Diagonal([1.0, 2.0, 0.5])
SMALL: dict[str, Any] = {"draws": 30, "warmup": 5, "chains": 2, "seed": 7, "progress": False}


def host(f: Any) -> float:
    """Return a likelihood that JAX cannot trace, so that tests that are not about engines compile nothing."""
    return -2.0 * float(np.sum((np.asarray(f) - 1.0) ** 2))


def sampled(log_likelihood: Any = host, prior: Any = PRIOR, **options: Any) -> xr.DataTree:
    """Return a run of the paper's algorithm, unless the options contain a move."""
    return es.sample(log_likelihood, prior, **{**SMALL, "move": EllipticalSlice(), **options})


# --- groups, variables, attributes ----------------------------------------------------------------------------------


@pytest.mark.parametrize("engine", ["compiled", "host"])
def test_groups_and_variables(engine):
    tree = sampled(Gaussian([1.0, 1.0, 1.0], 0.5), engine=engine)
    assert isinstance(tree, xr.DataTree)
    assert set(tree.children) == {"posterior", "sample_stats"}
    assert list(tree["posterior"].data_vars) == ["f"]
    assert set(tree["sample_stats"].data_vars) >= {
        "total_log_likelihood",
        "evaluations",
        "angle",
        "nan_evaluations",
        "search_failed",
    }
    f = tree.posterior["f"]
    assert f.dims[:2] == ("chain", "draw")
    assert f.shape == (2, 30, 3)
    assert f.dtype == np.float64
    for name, variable in tree["sample_stats"].data_vars.items():
        assert variable.dims == ("chain", "draw"), name
        assert variable.shape == (2, 30), name
    statistics = tree["sample_stats"]
    assert statistics["search_failed"].dtype == bool
    assert statistics["evaluations"].dtype.kind == "i"
    assert (statistics["evaluations"] >= 1).all()
    assert (abs(statistics["angle"]) <= 2 * math.pi).all()
    assert list(tree.posterior["chain"].values) == [0, 1]
    assert list(tree.posterior["draw"].values) == list(range(30))
    likelihood = Gaussian([1.0, 1.0, 1.0], 0.5)
    np.testing.assert_allclose(statistics["total_log_likelihood"], likelihood(f.to_numpy()), rtol=1e-12)


def test_attributes_say_what_was_run():
    tree = sampled(thin=3, move=EllipticalSlice(bracket_width=2.0))
    attrs = tree.attrs
    assert attrs["ellipslice_version"] == importlib.metadata.version("ellipslice")
    assert attrs["jax_version"] == jax.__version__
    assert attrs["numpy_version"] == np.__version__
    assert int(attrs["seed"]) == 7
    assert "bracket_width=2.0" in attrs["move"]
    assert attrs["prior"] == repr(PRIOR)
    assert attrs["likelihood"] == "host"
    assert attrs["engine"] == "host"
    assert "JAX cannot trace" in attrs["engine_reason"]
    assert (attrs["draws"], attrs["warmup"], attrs["thin"], attrs["chains"]) == (30, 5, 3, 2)
    assert attrs["updates"] == 2 * (5 + 30 * 3)
    assert attrs["evaluations"] >= attrs["updates"]
    assert (attrs["nan_evaluations"], attrs["failed_searches"], attrs["interrupted"]) == (0, 0, 0)
    assert 0 < attrs["sampling_time"] < 60
    assert attrs["created_at"].startswith("20")
    assert tree["posterior"].attrs["inference_library"] == "ellipslice"


@pytest.mark.parametrize("move", [AuxiliaryEllipse(), Cycle(EllipticalSlice(), AuxiliaryEllipse())], ids=repr)
def test_the_move_is_recorded(move):
    assert sampled(move=move).attrs["move"] == repr(move)


def test_a_large_likelihood_object_does_not_flood_the_attributes():
    tree = sampled(functools.partial(lambda y, f: host(f), np.arange(100_000.0)), draws=2)
    assert len(tree.attrs["likelihood"]) < 500


def test_arviz_reads_it():
    tree = sampled(chains=4, draws=200)
    summary = arviz_stats.summary(tree)
    assert list(summary.index) == ["f[0]", "f[1]", "f[2]"]
    assert arviz_stats.ess(tree)["f"].shape == (3,)
    assert float(arviz_stats.rhat(tree)["f"].max()) < 1.5


def test_dims_and_coords():
    tree = sampled(dims={"f": ["site"]}, coords={"site": ["a", "b", "c"]})
    f = tree.posterior["f"]
    assert f.dims == ("chain", "draw", "site")
    assert f.sel(site="b").shape == (2, 30)
    assert list(arviz_stats.summary(tree).index) == ["f[a]", "f[b]", "f[c]"]


def test_two_axes_and_their_names():
    prior = es.Diagonal(np.ones((2, 3)))
    tree = sampled(prior=prior, dims={"f": ["row", "column"]}, coords={"column": [10, 20, 30]})
    f = tree.posterior["f"]
    assert f.dims == ("chain", "draw", "row", "column")
    assert f.sel(column=20).shape == (2, 30, 2)


@pytest.mark.parametrize("engine", ["compiled", "host"])
def test_a_latent_without_axes(engine):
    seen = []

    def log_likelihood(f: Any) -> Any:
        seen.append(np.shape(f))
        return -2.0 * (f - 1.0) ** 2

    tree = sampled(log_likelihood, es.Diagonal(4.0), engine=engine)
    assert tree.posterior["f"].dims == ("chain", "draw")
    assert set(seen) == {()}


@pytest.mark.parametrize("engine", ["compiled", "host"])
def test_a_latent_with_two_axes_keeps_its_shape(engine):
    seen = []
    weight = np.arange(6.0).reshape(2, 3)

    def log_likelihood(f: Any) -> Any:
        seen.append(np.shape(f))
        return -((f - weight) ** 2).sum()

    tree = sampled(log_likelihood, es.Diagonal(np.full((2, 3), 9.0), mean=weight), engine=engine, draws=300)
    assert set(seen) == {(2, 3)}
    np.testing.assert_allclose(tree.posterior["f"].mean(("chain", "draw")), weight, atol=0.5)


@pytest.mark.parametrize("suffix", ["", "named"])
def test_netcdf_round_trip(tmp_path, suffix):
    names = {"dims": {"f": ["site"]}, "coords": {"site": ["a", "b", "c"]}} if suffix else {}
    tree = sampled(**names)
    tree.to_netcdf(tmp_path / "posterior.nc")
    with xr.open_datatree(tmp_path / "posterior.nc") as again:
        again = again.load()
    for group in ("posterior", "sample_stats"):
        xr.testing.assert_identical(again[group].to_dataset(), tree[group].to_dataset())
    assert again["sample_stats"]["search_failed"].dtype == bool
    assert dict(again.attrs) == dict(tree.attrs)
    assert arviz_stats.summary(again).equals(arviz_stats.summary(tree))


# --- what is kept ---------------------------------------------------------------------------------------------------


def test_keep_an_array():
    whole, part = sampled(), sampled(keep=lambda f: f[:2] * 2)
    np.testing.assert_array_equal(part.posterior["f"], 2 * whole.posterior["f"][..., :2])


def test_keep_one_number():
    whole, part = sampled(), sampled(keep=np.max)
    np.testing.assert_array_equal(part.posterior["f"], whole.posterior["f"].max("f_dim_0"))


def test_keep_none():
    whole, bare = sampled(), sampled(keep=False)
    assert dict(bare["posterior"].data_vars) == {}
    np.testing.assert_array_equal(
        bare["sample_stats"]["total_log_likelihood"], whole["sample_stats"]["total_log_likelihood"]
    )
    assert es.diagnostics.efficiency(bare).effective_sample_size > 0
    with pytest.raises(ValueError, match="kept no latents"):
        es.diagnostics.check_convergence(bare)


def test_keep_a_dict():
    tree = sampled(keep=lambda f: {"first": f[0], "pair": f[1:], "positive": f > 0})
    assert set(tree.posterior.data_vars) == {"first", "pair", "positive"}
    assert tree.posterior["first"].shape == (2, 30)
    assert tree.posterior["pair"].shape == (2, 30, 2)
    assert tree.posterior["positive"].dtype == bool


def test_keep_with_names_from_a_stack():
    prior = es.Stack({"f": PRIOR, "b": es.Diagonal(4.0, mean=10.0)})
    whole = sampled(lambda f, b: host(f), prior)
    assert list(whole.posterior.data_vars) == ["f", "b"]
    assert whole.posterior["b"].shape == (2, 30)
    part = sampled(lambda f, b: host(f), prior, keep=lambda f, b: {"sum": f + b}, dims={"sum": ["site"]})
    np.testing.assert_array_equal(part.posterior["sum"], whole.posterior["f"] + whole.posterior["b"])
    assert part.posterior["sum"].dims == ("chain", "draw", "site")


def test_keep_written_with_jax():
    whole, part = sampled(), sampled(keep=lambda f: jnp.exp(f))
    np.testing.assert_allclose(part.posterior["f"], np.exp(whole.posterior["f"]), rtol=1e-14)
    assert part.posterior["f"].dtype == np.float64


@pytest.mark.parametrize("engine", ["compiled", "host"])
def test_thin_and_warmup_only_choose_draws(engine):
    likelihood = Gaussian([1.0, 0.0, 1.0], 0.5)
    every = sampled(likelihood, engine=engine, draws=60, warmup=0).posterior["f"].to_numpy()
    some = sampled(likelihood, engine=engine, draws=13, warmup=7, thin=4).posterior["f"].to_numpy()
    np.testing.assert_array_equal(some, every[:, 7 + 3 : 7 + 52 : 4])


def test_without_warmup():
    tree = sampled(warmup=0, draws=1, chains=1)
    assert tree.posterior["f"].shape == (1, 1, 3)
    assert tree.attrs["updates"] == 1


# --- seeds, chains, starts ------------------------------------------------------------------------------------------


def test_the_seed_gives_the_same_bits():
    first, again = sampled(), sampled()
    for group in ("posterior", "sample_stats"):
        xr.testing.assert_equal(first[group].to_dataset(), again[group].to_dataset())
    assert not np.array_equal(sampled().posterior["f"], sampled(seed=8).posterior["f"])


def test_a_seed_not_given_is_recorded():
    first = sampled(seed=None)
    again = sampled(seed=int(first.attrs["seed"]))
    np.testing.assert_array_equal(first.posterior["f"], again.posterior["f"])
    assert not np.array_equal(first.posterior["f"], sampled(seed=None).posterior["f"])


@pytest.mark.parametrize("seed", [0, 2**64, np.int64(5)])
def test_any_whole_number_is_a_seed(seed):
    assert int(sampled(seed=seed, draws=2).attrs["seed"]) == seed


@pytest.mark.parametrize("chains", [[3], [3, 0], (5, 3), np.array([3]), range(3, 5)], ids=repr)
def test_chains_by_number(chains):
    tree = sampled(chains=chains)
    assert list(tree.posterior["chain"].values) == list(chains)
    every = sampled(chains=6)
    np.testing.assert_array_equal(tree.posterior["f"].sel(chain=3), every.posterior["f"].sel(chain=3))


@pytest.mark.parametrize("engine", ["compiled", "host"])
def test_chains_start_dispersed(engine):
    """With a bracket of 1e-9 the first draw is nearly the start, which is a different prior draw for each chain."""
    still = EllipticalSlice(bracket_width=1e-9)
    likelihood = Gaussian([0.0, 0.0, 0.0], 10.0)
    options = {"move": still, "warmup": 0, "draws": 100, "chains": 100, "engine": engine}
    starts = sampled(likelihood, **options).posterior["f"].to_numpy()[:, 0]
    assert len(np.unique(starts[:, 0].round(6))) == 100
    expected = np.sqrt([1.0, 2.0, 0.5])
    np.testing.assert_allclose(starts.std(axis=0), expected, rtol=5 / math.sqrt(2 * 100))
    np.testing.assert_allclose(starts.mean(axis=0), 0, atol=5 * expected.max() / math.sqrt(100))


def test_more_chains_than_draws_is_nothing_to_warn_about():
    """ArviZ warns that the axes may have been swapped, which is not the case here."""
    assert sampled(chains=5, draws=2).posterior["f"].shape == (5, 2, 3)


def test_one_start_for_all_and_one_for_each():
    still = {"move": EllipticalSlice(bracket_width=1e-9), "warmup": 0, "draws": 2}
    point = np.array([0.3, -0.2, 0.1])
    one = sampled(initial=point, **still).posterior["f"].to_numpy()[:, 0]
    np.testing.assert_allclose(one, [point, point], atol=1e-8)
    each = sampled(initial=[point, 2 * point], **still).posterior["f"].to_numpy()[:, 0]
    np.testing.assert_allclose(each, [point, 2 * point], atol=1e-8)
    by_name = sampled(initial={"f": [1, 2, 3]}, **still).posterior["f"].to_numpy()[:, 0]
    np.testing.assert_allclose(by_name, [[1, 2, 3]] * 2, atol=1e-8)


def test_starts_of_named_latents_and_of_a_mean():
    prior = es.Stack({"f": es.Diagonal(np.ones(2), mean=5.0), "b": es.Diagonal(1.0)})
    still = {"move": EllipticalSlice(bracket_width=1e-9), "warmup": 0, "draws": 2}
    tree = sampled(lambda f, b: host(f - 5), prior, initial={"f": [4.0, 6.0], "b": [0.5, -0.5]}, **still)
    np.testing.assert_allclose(tree.posterior["f"][:, 0], [[4, 6]] * 2, atol=1e-8)
    np.testing.assert_allclose(tree.posterior["b"][:, 0], [0.5, -0.5], atol=1e-8)


def test_a_start_from_an_earlier_run():
    """A user continues from the last draw of every chain."""
    first = sampled()
    again = sampled(initial=first.posterior["f"].isel(draw=-1), move=EllipticalSlice(bracket_width=1e-9), warmup=0)
    np.testing.assert_allclose(again.posterior["f"][:, 0], first.posterior["f"][:, -1], atol=1e-7)


def test_a_mapping_that_is_not_a_dict_is_a_start_too():
    tree = sampled(initial=MappingProxyType({"f": np.zeros(3)}), draws=2)
    assert tree.posterior["f"].shape == (2, 2, 3)


# --- any callable, and the engine it gets ---------------------------------------------------------------------------

libm = ctypes.CDLL(ctypes.util.find_library("m"))
libm.pow.restype, libm.pow.argtypes = ctypes.c_double, [ctypes.c_double, ctypes.c_double]


class Opaque:
    """A class like those of scikit-learn: data in attributes, and a method that converts its input to a NumPy array."""

    def __init__(self, y: float):
        self.y_ = y

    def score(self, X: Any) -> float:
        return float(-2.0 * np.square(np.asarray(X, dtype=np.float64) - self.y_).sum())

    def __call__(self, f: Any) -> float:
        return self.score(f)


class Traceable:
    def __init__(self, y: float):
        self.y = y

    def value(self, f: Any) -> Any:
        return -2.0 * jnp.sum((f - self.y) ** 2)


def by_jax(f: Any) -> Any:
    return -2.0 * jnp.sum((f - 1.0) ** 2)


def by_numpy(f: Any) -> Any:
    return -2.0 * np.sum((f - 1.0) ** 2)


def by_operators(f: Any) -> Any:
    return -2.0 * ((f - 1.0) @ (f - 1.0))


def by_scipy(f: Any) -> Any:
    return scipy.stats.norm.logpdf(f, 1.0, 0.5).sum()


def by_math(f: Any) -> Any:
    return -2.0 * math.fsum((float(x) - 1.0) ** 2 for x in f)


def by_c(f: Any) -> Any:
    return -2.0 * sum(libm.pow(x - 1.0, 2.0) for x in f)


def in_float32(f: Any) -> Any:
    return np.float32(by_numpy(np.asarray(f)))


def as_array_without_axes(f: Any) -> Any:
    return np.array(by_numpy(np.asarray(f)))


def with_shift(shift: float, f: Any) -> Any:
    return -2.0 * ((f - shift) ** 2).sum()


def that_prints(f: Any) -> Any:
    print("here")  # noqa: T201
    return by_numpy(np.asarray(f))


def that_catches_everything(f: Any) -> Any:
    try:
        return by_math(f)
    except Exception:  # noqa: BLE001
        return -1.0


def that_catches_and_gives_up(f: Any) -> Any:
    try:
        return by_math(f)
    except Exception:  # noqa: BLE001
        return -math.inf


CALLABLES: dict[str, tuple[Any, str, str]] = {
    "jax.numpy": (by_jax, "compiled", "can trace"),
    "jitted": (jax.jit(by_jax), "compiled", "can trace"),
    "operators only": (by_operators, "compiled", "can trace"),
    "a method in jax.numpy": (Traceable(1.0).value, "compiled", "can trace"),
    "partial": (functools.partial(with_shift, 1.0), "compiled", "can trace"),
    "lambda": (lambda f: -2.0 * jnp.sum((f - 1.0) ** 2), "compiled", "can trace"),
    "NumPy that forces a NumPy array": (as_array_without_axes, "host", "cannot trace"),
    "SciPy": (by_scipy, "host", "cannot trace"),
    "math": (by_math, "host", "cannot trace"),
    "C": (by_c, "host", "cannot trace"),
    "scikit-learn-like": (Opaque(1.0), "host", "cannot trace"),
    "its method": (Opaque(1.0).score, "host", "cannot trace"),
    "prints": (that_prints, "host", "cannot trace"),
    "catches what JAX raises": (that_catches_everything, "host", "the function that JAX traced returns"),
    "catches and gives up": (that_catches_and_gives_up, "host", "the function that JAX traced returns"),
}


@pytest.fixture(scope="module")
def reference() -> np.ndarray:
    return sampled(engine="host").posterior["f"].to_numpy()


@pytest.mark.long_cases("catches and gives up")
@pytest.mark.parametrize("name", CALLABLES)
def test_any_callable(name, reference):
    """All of them compute the same function, so they must give the same chain for the same seed."""
    log_likelihood, engine, reason = CALLABLES[name]
    tree = sampled(log_likelihood)
    assert tree.attrs["engine"] == engine
    assert reason in tree.attrs["engine_reason"]
    np.testing.assert_allclose(tree.posterior["f"], reference, rtol=0, atol=1e-9)


@pytest.mark.parametrize("name", ["jax.numpy", "SciPy"])
def test_an_engine_asked_for(name, reference):
    tree = sampled(CALLABLES[name][0], engine="host", draws=10)
    assert (tree.attrs["engine"], tree.attrs["engine_reason"]) == ("host", "requested")
    np.testing.assert_allclose(tree.posterior["f"], reference[:, :10], rtol=0, atol=1e-9)


@pytest.mark.long_cases("compiled")
@pytest.mark.parametrize("engine", ["compiled", "host"])
def test_batches_of_named_latents(engine):
    """With vectorized=True every latent has a leading axis, and the chain is the same."""
    prior = es.Stack({"f": es.Diagonal(np.ones((2, 3)), mean=0.5), "b": es.Diagonal(4.0, mean=-1.0)})

    def one(f: Any, b: Any) -> Any:
        return -((f - b) ** 2).sum() - b**2

    def many(f: Any, b: Any) -> Any:
        assert f.shape[1:] == (2, 3)
        assert b.shape == f.shape[:1]
        return -((f - b[:, None, None]) ** 2).sum(axis=(1, 2)) - b**2

    expected = sampled(one, prior, engine="host").posterior
    tree = sampled(many, prior, engine=engine, vectorized=True, look_ahead=3)
    for name in ("f", "b"):
        np.testing.assert_allclose(tree.posterior[name], expected[name], rtol=0, atol=1e-9)


def test_compiled_asked_for():
    tree = sampled(by_jax, engine="compiled", draws=10)
    assert (tree.attrs["engine"], tree.attrs["engine_reason"]) == ("compiled", "requested")


def test_a_whole_number_is_a_value():
    tree = sampled(lambda f: int(-np.sum(np.asarray(f) ** 2)), draws=10)
    assert tree.sample_stats["total_log_likelihood"].dtype == np.float64


def test_single_precision_values_are_values(reference):
    tree = sampled(in_float32)
    assert tree.posterior["f"].dtype == np.float64
    np.testing.assert_allclose(tree.posterior["f"][:, 0], reference[:, 0], atol=1e-3)


def test_a_likelihood_in_single_precision_is_not_called_random():
    """A value in a compiled loop rounds differently from the same value alone, which is visible in float32."""
    y = np.linspace(0, 3, 200, dtype=np.float32)
    tree = sampled(
        lambda f: -0.5 * jnp.sum((f.astype(jnp.float32) - y) ** 2) / 0.3, es.Diagonal(np.ones(200)), chains=8
    )
    assert tree.attrs["engine"] == "compiled"


def positive(f: Any) -> float:
    try:
        if f[0] < 0:
            return -math.inf
        return by_math(f)
    except Exception:  # noqa: BLE001
        return -math.inf


def indicator(f: Any) -> float:
    try:
        return 0.0 if f[0] > 0 else -math.inf
    except Exception:  # noqa: BLE001
        return 0.0


@pytest.mark.parametrize("log_likelihood", [positive, indicator])
def test_catching_everything_is_never_compiled(log_likelihood):
    """Where the function is -inf or 0, the value that it returns after catching the exception equals it."""
    for seed in range(4):
        tree = sampled(log_likelihood, seed=seed)
        assert tree.attrs["engine"] == "host"
        assert tree.posterior["f"][..., 0].min() > 0


def test_a_callable_tuple_with_a_word_in_it():
    """JAX flattens a named tuple, and finds something that is not an array."""

    class Model(NamedTuple):
        y: np.ndarray
        link: str

        def __call__(self, f: Any) -> Any:
            return by_operators(f) if self.link == "identity" else 0.0

    assert sampled(Model(np.ones(3), "identity"), draws=5).posterior["f"].shape == (2, 5, 3)


def test_a_callable_dataclass_gets_the_same_engine_every_time():
    @dataclasses.dataclass
    class Model:
        y: np.ndarray

        def __call__(self, f: Any) -> Any:
            return -2.0 * jnp.sum((f - self.y) ** 2)

    trees = [sampled(Model(np.ones(3)), draws=5) for _ in range(2)]
    assert [tree.attrs["engine"] for tree in trees] == ["compiled", "compiled"]


def test_data_changed_in_place_between_runs_are_seen():
    """A compiled function must not use the data of the previous run."""
    y = np.random.default_rng(0).standard_normal(20_000)

    def log_likelihood(f: Any) -> Any:
        return -0.5 * jnp.sum((y - f) ** 2)

    options = {"prior": es.Diagonal(1.0), "initial": 0.0, "draws": 400}
    sampled(log_likelihood, **options)
    y += 0.015  # two posterior standard deviations
    tree = sampled(log_likelihood, **options)
    error = 1 / math.sqrt(20_000)
    assert abs(float(tree.posterior["f"].mean()) - y.mean()) < 5 * error / math.sqrt(50)


def test_new_data_of_the_same_shape_are_not_compiled_again(caplog, log_compiles):
    def compiled(likelihood: Any) -> int:
        caplog.clear()
        sampled(likelihood, draws=5)
        return sum("Finished XLA compilation" in record.message for record in caplog.records)

    def own(y: Any) -> Any:
        return lambda f: -jnp.sum(jnp.cosh(y - f))

    assert compiled(lambda f: -jnp.sum(jnp.cosh(0.7 * f))) > 0  # the program can be analysed
    compiled(Poisson([1, 2, 3], offset=0.125))
    assert compiled(Poisson([4, 0, 1], offset=0.25)) == 0
    compiled(own(np.zeros(3)))
    assert compiled(own(np.arange(3.0))) == 0  # the same program, with other data


@pytest.mark.short_cases("scan", "cond", "gather", "float32")
@pytest.mark.parametrize(
    "function",
    [
        lambda f: -(jnp.sort(f)[0] ** 2),
        lambda f: -jnp.sum(jnp.linalg.solve(jnp.eye(3) + jnp.outer(f, f), f) ** 2),
        lambda f: -jnp.sum(jnp.abs(jnp.fft.fft(f)) ** 2),
        lambda f: -jnp.sum(jnp.convolve(f, jnp.ones(2)) ** 2),
        lambda f: -jnp.sum(jax.lax.scan(lambda c, x: (c + x, c), 0.0, f)[1] ** 2),
        lambda f: -jnp.sum(jnp.cumsum(f) ** 2),
        lambda f: -jax.lax.cond(f[0] > 0, lambda f: jnp.sum(f**2), lambda f: jnp.sum(f**4), f),
        lambda f: -jax.lax.while_loop(lambda s: s[0] < 3, lambda s: (s[0] + 1, s[1] + f @ f), (0, 0.0))[1],
        lambda f: -jnp.sum((f[jnp.array([2, 0, 1])] - f) ** 2) - jnp.median(f) ** 2,
        lambda f: -jnp.sum((np.ones((20_000, 1)) - f[0]) ** 2) / 20_000,
        lambda f: -jnp.sum(f.astype(jnp.float32) ** 2),
        lambda f: -(jax.scipy.special.logsumexp(f) ** 2) - jnp.sum(jax.nn.relu(f)),
        lambda f: -jnp.sum(jnp.real((f + 1j) ** 2) ** 2),
        lambda f: -jnp.sum(jax.random.normal(jax.random.key(0), (3,)) * f**2),
    ],
    ids=[
        "sort",
        "solve",
        "fft",
        "convolve",
        "scan",
        "cumsum",
        "cond",
        "while",
        "gather",
        "large",
        "float32",
        "logsumexp",
        "complex",
        "random",
    ],
)
def test_whatever_jax_can_compute_runs_compiled(function):
    """Loops are compiled into one function where XLA can, and by plain `jax.jit` where it cannot."""
    tree = sampled(function, engine="compiled", draws=20)
    alone = jax.jit(function)  # otherwise loops would be compiled in every call
    host = sampled(lambda f: float(alone(jnp.asarray(f))), engine="host", draws=20)
    np.testing.assert_allclose(tree.posterior["f"], host.posterior["f"], rtol=1e-5, atol=1e-5)


# --- precision, and the user's own JAX settings ---------------------------------------------------------------------


@pytest.mark.parametrize("engine", ["compiled", "host"])
def test_double_precision_whatever_the_flag_says(engine):
    assert not jax.config.jax_enable_x64  # the test is for users who leave it off
    seen = set()

    def log_likelihood(f: Any) -> Any:
        value = -0.5 * jnp.sum((jnp.asarray(f) - 1.0) ** 2)
        seen.add(str(value.dtype))
        return value

    tree = sampled(log_likelihood, engine=engine, draws=5, keep=lambda f: jnp.asarray(f))
    assert seen == {"float64"}
    assert tree.posterior["f"].dtype == np.float64
    assert not jax.config.jax_enable_x64
    assert jnp.ones(3).dtype == jnp.float32
    assert jnp.asarray(np.ones(3)).dtype == jnp.float32


def test_the_flag_is_untouched_after_an_error():
    def log_likelihood(f: Any) -> Any:
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        sampled(log_likelihood)
    assert jnp.ones(3).dtype == jnp.float32


JAX_SETTINGS = {
    "jax_enable_x64": True,
    "jax_debug_nans": True,
    "jax_numpy_rank_promotion": "raise",
    "jax_numpy_dtype_promotion": "strict",
}


@pytest.mark.long
def test_the_user_s_jax_settings_do_not_break_it():
    """Each runs in its own process, because settings and JAX's caches are global."""
    output = run(f"""
        import json, jax, numpy as np, ellipslice as es
        options = dict(draws=5, warmup=0, chains=2, seed=1, progress=False)
        stack = es.Stack({{"f": es.Dense(np.eye(3) + 0.5), "b": es.Diagonal(4.0)}})
        troubles = {{}}
        for name, value in {JAX_SETTINGS!r}.items():
            before = getattr(jax.config, name)
            jax.config.update(name, value)
            jax.clear_caches()
            try:
                es.sample(lambda f, b: -((f + b) * (f + b)).sum(), stack, engine="compiled", **options)
                es.sample(lambda f: -float(np.sum(np.asarray(f) ** 2)), es.Dense(np.eye(3), mean=1.0), **options)
                assert getattr(jax.config, name) == value
            except Exception as error:
                troubles[name] = repr(error)
            jax.config.update(name, before)
        print(json.dumps(troubles))
    """)
    assert json.loads(output) == {}


# --- importing ------------------------------------------------------------------------------------------------------


def run(code: str) -> str:
    process = subprocess.run(
        [sys.executable, "-W", "error", "-c", textwrap.dedent(code)], capture_output=True, text=True, timeout=120
    )
    assert process.returncode == 0, process.stderr
    return process.stdout


def test_importing_is_light():
    """An import loads only NumPy, SciPy and JAX, and starts no JAX backend, which could claim a GPU."""
    run("""
        import sys
        import ellipslice
        heavy = {"xarray", "arviz_base", "arviz_stats", "rich", "matplotlib", "typer", "pandas", "h5netcdf", "netCDF4",
                 "sklearn", "blackjax", "numba", "tinygp", "numpyro", "zarr", "dask", "pymc"}
        loaded = heavy & {name.split(".")[0] for name in sys.modules}
        assert not loaded, loaded
        from jax._src import xla_bridge
        assert not xla_bridge.backends_are_initialized()
    """)


def test_building_a_model_starts_no_backend():
    """Priors, likelihoods and moves are plain NumPy objects until they are run."""
    run("""
        import numpy as np
        import ellipslice as es
        prior = es.Stack({"f": es.Dense(np.eye(3), mean=1.0), "b": es.Diagonal(4.0), "w": es.LowRank(np.ones((3, 1)))})
        es.likelihoods.Poisson([1, 2, 3]), es.likelihoods.Gaussian([1.0, 2.0], 0.3)
        es.moves.Cycle(es.moves.EllipticalSlice(), es.moves.AuxiliaryEllipse())
        repr(prior)
        es.step(np.zeros(2), np.ones(2), lambda f: -float(f @ f), rng=np.random.default_rng(0))
        from jax._src import xla_bridge
        assert not xla_bridge.backends_are_initialized()
    """)
