"""Every mistake raises the right type of error, with what was given, what was expected or what to do.

It is raised before any long work: the likelihood is called only a few times. Each case lists words that the message
must contain.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import scipy.linalg
import scipy.sparse
import scipy.stats

import ellipslice as es
from ellipslice import likelihoods, moves

PRIOR = es.Diagonal(np.ones(3))
LONG: dict[str, Any] = {"draws": 1_000_000, "warmup": 0, "chains": 2, "seed": 1, "progress": False}
"""Options of a run so long that a late error would be noticed."""


class Counted:
    """A valid likelihood that counts its calls."""

    def __init__(self, function: Callable[..., Any] = lambda f: -float(np.sum(np.asarray(f) ** 2))):
        self.function, self.calls = function, 0

    def __call__(self, *arguments: Any, **named: Any) -> Any:
        self.calls += 1
        return self.function(*arguments, **named)


def check(error: pytest.ExceptionInfo[BaseException], words: str) -> None:
    """Check that the message or its notes contain every word. Bars separate alternatives."""
    message = " ".join([str(error.value), *getattr(error.value, "__notes__", [])]).lower()
    for word in words.split(" & "):
        assert any(choice.lower() in message for choice in word.split("|")), f"{word!r} is not in: {message}"


# --- options of sample ----------------------------------------------------------------------------------------------

OPTIONS = [
    ({"draws": 2.5}, TypeError, "draws & whole number & 2.5"),
    ({"draws": 10.0}, TypeError, "draws & whole number & 10.0"),
    ({"draws": "10"}, TypeError, "draws & whole number & '10'"),
    ({"draws": True}, TypeError, "draws & whole number & True"),
    ({"draws": 0}, ValueError, "draws & at least 1 & 0"),
    ({"draws": -3}, ValueError, "draws & at least 1 & -3"),
    ({"draws": 10**12}, MemoryError, "GiB & keep="),
    ({"warmup": -1}, ValueError, "warmup & at least 0 & -1"),
    ({"warmup": 0.5}, TypeError, "warmup & whole number & 0.5"),
    ({"thin": 0}, ValueError, "thin & at least 1 & 0"),
    ({"thin": 1.5}, TypeError, "thin & whole number & 1.5"),
    ({"look_ahead": 0}, ValueError, "look_ahead & at least 1"),
    ({"look_ahead": 4}, ValueError, "look_ahead=4 & host & vectorized=True"),
    ({"look_ahead": 4, "move": moves.Cycle(moves.EllipticalSlice())}, ValueError, "look_ahead=4 & Cycle"),
    ({"look_ahead": 4, "reference": "pilot"}, ValueError, "look_ahead=4 & reference & Leave one"),
    ({"look_ahead": "2"}, TypeError, "look_ahead & whole number & '2'"),
    ({"seed": -1}, ValueError, "seed & at least 0 & -1"),
    ({"seed": 1.5}, TypeError, "seed & whole number & 1.5"),
    ({"seed": "one"}, TypeError, "seed & whole number & 'one'"),
    ({"seed": True}, TypeError, "seed & whole number & True"),
    ({"seed": np.random.default_rng(1)}, TypeError, "seed & whole number & Generator"),
    ({"chains": 0}, ValueError, "chains & at least 1 & 0"),
    ({"chains": []}, ValueError, "chains & at least one & []"),
    ({"chains": [1, 1]}, ValueError, "chains & once & [1, 1]"),
    ({"chains": [-1]}, ValueError, "chain & at least 0 & -1"),
    ({"chains": [0.5]}, TypeError, "chain & whole number & 0.5"),
    ({"chains": 2.0}, TypeError, "chains & whole number & 2.0"),
    ({"chains": "4"}, TypeError, "chains & whole number & '4'"),
    ({"chains": {0, 1}}, TypeError, "chains & {0, 1}"),
    ({"chains": np.array(2)}, TypeError, "chains & whole number"),
    ({"engine": "gpu"}, ValueError, "engine & compiled & host & 'gpu'"),
    ({"engine": "Host"}, ValueError, "engine & compiled & host & 'Host'"),
    ({"engine": 1}, ValueError, "engine & compiled & host & 1"),
    ({"engine": "compiled"}, ValueError, "compiled & cannot trace & jax.numpy & host"),
    ({"move": moves.EllipticalSlice}, TypeError, "move & EllipticalSlice() & instance"),
    ({"move": "elliptical"}, TypeError, "move & ellipslice.moves & 'elliptical'"),
    ({"move": [moves.EllipticalSlice()]}, TypeError, "move & ellipslice.moves"),
    ({"tune": 10}, TypeError, "unexpected keyword & tune"),
    # initial
    ({"initial": np.zeros(4)}, ValueError, "initial & (4,) & (3,) & (2, 3) & each chain"),
    ({"initial": np.zeros((3, 3))}, ValueError, "initial & (3, 3) & (2, 3)"),
    ({"initial": 0.0}, ValueError, "initial & () & (3,)"),
    ({"initial": [np.nan, 0, 0]}, ValueError, "initial[0] & finite & nan"),
    ({"initial": [np.inf, 0, 0]}, ValueError, "initial[0] & finite & inf"),
    ({"initial": {"g": np.zeros(3)}}, ValueError, "initial & g & f"),
    ({"initial": {"f": np.zeros(3), "g": 0.0}}, ValueError, "initial & g & f"),
    ({"initial": "abc"}, (TypeError, ValueError), "initial"),
    ({"initial": [1j, 0, 0]}, (TypeError, ValueError), "initial"),
    ({"initial": np.array([1j, 0, 0])}, (TypeError, ValueError), "initial"),
    ({"initial": [[1], [2, 3]]}, ValueError, "initial"),
    ({"initial": lambda: 0}, TypeError, "initial"),
    # dims and coords
    ({"dims": {"g": ["t"]}}, ValueError, "dims & 'g' & f"),
    ({"dims": {"f": "t"}}, ValueError, "dims & 't' & (3,) & list"),
    ({"dims": {"f": ["t", "u"]}}, ValueError, "dims & ['t', 'u'] & (3,)"),
    ({"dims": {"f": []}}, ValueError, "dims & [] & (3,)"),
    ({"dims": ["t"]}, (TypeError, ValueError), "dims"),
    ({"dims": {"f": ["chain"]}}, ValueError, "dims & chain"),
    ({"dims": {"f": ["draw"]}}, ValueError, "dims & draw"),
    ({"dims": {"f": ["f"]}}, ValueError, "dims & f"),
    ({"dims": {"f": [1]}}, (TypeError, ValueError), "dims"),
    ({"coords": {"t": [1, 2, 3]}}, ValueError, "coords & 't' & dims"),
    ({"dims": {"f": ["t"]}, "coords": {"t": [1, 2]}}, ValueError, "coords & 2 values & 3"),
    ({"dims": {"f": ["t"]}, "coords": {"t": 3}}, (TypeError, ValueError), "coords"),
    ({"dims": {"f": ["t"]}, "coords": {"t": np.ones((3, 2))}}, ValueError, "coords"),
    ({"dims": {"f": ["t"]}, "coords": {"t": "abc"}}, ValueError, "coords"),
    ({"dims": {"f": ["t"]}, "coords": [1, 2, 3]}, (TypeError, ValueError), "coords & mapping"),
    ({"coords": {"chain": [7, 8]}}, ValueError, "chain & chains="),
    # keep
    ({"keep": 3}, TypeError, "keep & callable|function"),
    ({"keep": "f"}, TypeError, "keep & callable|function"),
    ({"keep": lambda f: 1 / 0}, ZeroDivisionError, "keep"),
    ({"keep": lambda f: None}, (TypeError, ValueError), "keep & None"),
    ({"keep": lambda f: {}}, ValueError, "keep"),
    ({"keep": lambda f: f[:0]}, ValueError, "keep & (0,) & at least one"),
    ({"keep": lambda f: {"a": f, "b": np.zeros((2, 0))}}, ValueError, "keep & b & (2, 0)"),
    ({"keep": lambda f: "word"}, TypeError, "keep & number"),
    ({"keep": lambda f: [f[0], f[1:]]}, (TypeError, ValueError), "keep"),
    ({"keep": lambda f: {"chain": f}}, ValueError, "keep & chain"),
    ({"keep": lambda: 0.0}, TypeError, "keep"),
]


def names(table: list[Any]) -> list[str]:
    """Return short names of the cases without memory addresses, so that they are equal in every process."""
    return [short(case.values[0] if hasattr(case, "values") else case[0]) for case in table]


def short(value: Any) -> str:
    if isinstance(value, dict):
        return ",".join(f"{key}={short(item)}" for key, item in value.items())
    plain = isinstance(value, bool | int | float | str | list | tuple | None)
    return repr(value)[:30] if plain else getattr(value, "__name__", type(value).__name__)


@pytest.mark.parametrize(("options", "kind", "words"), OPTIONS, ids=names(OPTIONS))
def test_options(options, kind, words):
    log_likelihood = Counted()
    short = {} if "MemoryError" in str(kind) else {"draws": 3}  # so that a failing test does not take long
    with pytest.raises(kind) as error:
        es.sample(log_likelihood, PRIOR, **{**LONG, **short, **options})
    check(error, words)
    assert log_likelihood.calls <= 10


def test_a_shared_dimension_of_two_lengths():
    prior = es.Stack({"f": PRIOR, "g": es.Diagonal(np.ones(5))})
    with pytest.raises(ValueError) as error:  # noqa: PT011
        es.sample(Counted(lambda f, g: 0.0), prior, **{**LONG, "draws": 3}, dims={"f": ["t"], "g": ["t"]})
    check(error, "dims & t & 3 & 5")


@pytest.mark.parametrize(
    ("keep", "words"),
    [
        (lambda f: f[f > 0], "keep & shape"),
        (lambda f: f if f[0] > 0 else f[:1], "keep & shape"),
        (lambda f: {"a" if f[0] > 0 else "b": f}, "keep & a & b"),
    ],
    ids=["ragged", "changing", "names"],
)
def test_keep_that_changes_its_mind(keep, words):
    with pytest.raises((TypeError, ValueError)) as error:
        es.sample(Counted(), PRIOR, **{**LONG, "draws": 50}, keep=keep)
    check(error, words)


def test_keep_that_starts_with_a_whole_number():
    """If the first value is the integer 0, the other values must not be truncated to integers."""
    for seed in range(8):
        tree = es.sample(Counted(), PRIOR, **{**LONG, "draws": 20, "seed": seed}, keep=lambda f: max(0, f[0]))
        whole = es.sample(Counted(), PRIOR, **{**LONG, "draws": 20, "seed": seed})
        np.testing.assert_array_equal(tree.posterior["f"], np.maximum(whole.posterior["f"][..., 0], 0))


# --- the log-likelihood ---------------------------------------------------------------------------------------------

RETURNS = [
    (None, TypeError, "one real number & NoneType"),
    ("-1.5", TypeError, "one real number & str"),
    (1j, TypeError, "one real number & complex"),
    ({}, TypeError, "one real number & dict"),
    (object(), TypeError, "one real number & object"),
    (np.datetime64("2020"), TypeError, "one real number & datetime64"),
    (np.zeros(3), ValueError, "one number & (3,) & sum & vectorized=True"),
    (np.zeros(1), ValueError, "one number & (1,) & one element"),
    (np.zeros((1, 1)), ValueError, "one number & (1, 1) & one element"),
    ([0.0], ValueError, "one number & (1,)"),
    ((0.0, 1.0), ValueError, "one number & (2,) & sum"),
    (np.zeros(0), ValueError, "one number & (0,)"),
    (True, TypeError, "bool & log"),
    (np.bool_(False), TypeError, "bool & log"),
]


@pytest.mark.parametrize(("value", "kind", "words"), RETURNS, ids=names(RETURNS))
@pytest.mark.parametrize("engine", [None, "host"])
def test_what_a_likelihood_returns(value, kind, words, engine):
    log_likelihood = Counted(lambda f: value)
    with pytest.raises(kind) as error:
        es.sample(log_likelihood, PRIOR, **{**LONG, "draws": 3}, engine=engine)
    check(error, words)
    assert log_likelihood.calls <= 10


def two(f: Any, g: Any) -> float:
    return 0.0


LIKELIHOODS = [
    (None, TypeError, "log_likelihood & callable & NoneType"),
    (-1.5, TypeError, "log_likelihood & callable & float"),
    (np.zeros(3), TypeError, "log_likelihood & callable & ndarray"),
    (scipy.stats.norm(0, 1), TypeError, "log_likelihood & callable & frozen"),
    (lambda: 0.0, TypeError, "0 positional arguments & log-likelihood & f ="),
    (two, TypeError, "missing & 'g' & log-likelihood & f ="),
    (likelihoods.Poisson([1, 2]), ValueError, "Poisson & (2,) & one element of f per observation"),
    (likelihoods.Poisson([[1, 2, 3]] * 2), ValueError, "Poisson & (2, 3) & one element of f per observation"),
    (likelihoods.Poisson([1, 2]), ValueError, "(3,)"),
    (likelihoods.Gaussian, TypeError, "Gaussian(|instance|class"),
    (likelihoods.Poisson, TypeError, "Poisson(|instance|class"),
]


@pytest.mark.parametrize(("log_likelihood", "kind", "words"), LIKELIHOODS, ids=names(LIKELIHOODS))
def test_what_a_likelihood_is(log_likelihood, kind, words):
    with pytest.raises(kind) as error:
        es.sample(log_likelihood, PRIOR, **{**LONG, "draws": 3})
    check(error, words)


@pytest.mark.parametrize(
    "function", [lambda x, y: 0.0, lambda f: 0.0, lambda f, b, c: 0.0], ids=["other", "few", "many"]
)
def test_arguments_that_are_not_the_stack_s_names(function):
    prior = es.Stack({"f": PRIOR, "b": es.Diagonal(1.0)})
    with pytest.raises(TypeError) as error:
        es.sample(function, prior, **LONG)
    check(error, "log_likelihood & f, b & argument & def log_likelihood(f, b)")


STARTS = [
    (lambda f: -math.inf, {}, "-inf & prior draw & chain 0 & initial="),
    (lambda f: math.nan, {}, "nan & prior draw & chain 0 & initial="),
    (lambda f: math.inf, {}, "inf & prior draw & chain 0"),
    (lambda f: -math.inf, {"initial": np.zeros(3)}, "-inf & initial & chain 0 & finite"),
    (lambda f: math.nan, {"initial": np.zeros(3)}, "nan & initial & chain 0 & finite"),
    (lambda f: math.inf, {"initial": np.zeros(3)}, "inf & initial & chain 0 & finite"),
    (lambda f: 0.0 if f[0] > 0 else -math.inf, {"initial": [[1, 0, 0], [-1, 0, 0]]}, "-inf & initial & chain 1"),
]


@pytest.mark.parametrize(("function", "options", "words"), STARTS)
def test_a_start_with_no_likelihood(function, options, words):
    log_likelihood = Counted(function)
    with pytest.raises(ValueError) as error:  # noqa: PT011
        es.sample(log_likelihood, PRIOR, engine="host", **LONG, **options)
    check(error, words)
    assert log_likelihood.calls < 200


@pytest.mark.parametrize("engine", ["host", "compiled"])
def test_infinite_likelihood_on_the_way(engine):
    import jax.numpy as jnp

    xp = jnp if engine == "compiled" else np
    with pytest.raises(ValueError, match=r"\+inf at a state of a chain.*division by zero"):
        es.sample(lambda f: xp.where(f[0] > 0.5, xp.inf, 0.0), PRIOR, engine=engine, initial=-np.ones(3), **LONG)


@pytest.mark.parametrize(
    ("function", "words"),
    [
        (lambda f: -np.sum(f**2), "vectorized=True & shape () & (2,) & all axes except the first"),
        (lambda f: -np.sum(f**2, axis=0), "vectorized=True & shape (3,) & (2,)"),
        (lambda f: -np.sum(f**2, axis=-1) - np.mean(f), "vectorized=True & independently & batch of 1"),
        (lambda f: -(f[0] ** 2 + f[1] ** 2 + f[2] ** 2), "batch of 2 & vectorized=True"),
        (lambda f: -np.sum(np.squeeze(f) ** 2, axis=-1), "vectorized=True & batch of 1 & shape () & (1,) & squeeze"),
    ],
)
def test_not_really_vectorized(function, words):
    with pytest.raises((ValueError, IndexError)) as error:
        es.sample(function, PRIOR, vectorized=True, **LONG)
    check(error, words)


# --- the prior, and the order of arguments --------------------------------------------------------------------------

PRIORS = [
    (np.eye(3), "prior & ndarray & Dense(covariance)"),
    ([[1.0]], "prior & list & Dense(covariance)"),
    (None, "prior & NoneType"),
    (es.Dense, "prior & Dense"),
    (lambda rng: rng.standard_normal(3), "prior & function & FromDraws"),
    (scipy.stats.multivariate_normal(np.zeros(3)), "prior & multivariate_normal & Dense(covariance)"),
    ({"f": PRIOR}, "prior & dict & Stack"),
]


@pytest.mark.parametrize(("prior", "words"), PRIORS, ids=names(PRIORS))
def test_not_a_prior(prior, words):
    log_likelihood = Counted()
    with pytest.raises(TypeError) as error:
        es.sample(log_likelihood, prior, **LONG)
    check(error, words)
    assert log_likelihood.calls == 0


def test_prior_and_likelihood_swapped():
    with pytest.raises(TypeError) as error:
        es.sample(PRIOR, Counted(), **LONG)
    check(error, "prior & swap|order|first")


ASYMMETRIC = np.array([[1.0, 0.5], [0.2, 1.0]])
INDEFINITE = np.array([[1.0, 2.0], [2.0, 1.0]])
MASKED = np.ma.masked_array(np.eye(2), mask=[[True, False], [False, False]])

CONSTRUCTORS = [
    # Dense
    ("list of words", lambda: es.Dense([["a"]]), TypeError, "covariance & real numbers"),
    ("word", lambda: es.Dense("squared exponential"), TypeError, "covariance & real numbers"),
    ("nothing", lambda: es.Dense(), TypeError, "covariance & factor"),
    ("both", lambda: es.Dense(np.eye(2), factor=np.eye(2)), TypeError, "covariance & factor & not both"),
    ("objects", lambda: es.Dense(np.array([[1, None], [2, 3]])), TypeError, "covariance & real numbers & object"),
    ("complex", lambda: es.Dense(np.eye(2) + 0j), TypeError, "covariance & real numbers & complex"),
    ("number", lambda: es.Dense(2.0), ValueError, "covariance & () & (N, N) & Diagonal"),
    ("vector", lambda: es.Dense(np.ones(3)), ValueError, "covariance & (3,) & (N, N) & Diagonal"),
    ("3-D", lambda: es.Dense(np.ones((2, 2, 2))), ValueError, "covariance & (2, 2, 2) & (N, N)"),
    ("rectangle", lambda: es.Dense(np.ones((2, 3))), ValueError, "covariance & (2, 3) & square"),
    ("empty", lambda: es.Dense(np.ones((0, 0))), ValueError, "covariance & (0, 0)"),
    ("NaN", lambda: es.Dense([[1.0, np.nan], [np.nan, 1.0]]), ValueError, "covariance[0, 1] & finite & nan"),
    ("inf", lambda: es.Dense([[np.inf, 0.0], [0.0, 1.0]]), ValueError, "covariance[0, 0] & finite & inf"),
    ("asymmetric", lambda: es.Dense(ASYMMETRIC), ValueError, "not symmetric & [0, 1] is 0.5 & 0.2 & factor="),
    ("Cholesky factor", lambda: es.Dense([[1.0, 0.0], [0.5, 1.0]]), ValueError, "not symmetric & Dense(factor=...)"),
    ("indefinite", lambda: es.Dense(INDEFINITE), ValueError, "positive semi-definite & -1 & kernel"),
    ("negative", lambda: es.Dense(-np.eye(2)), ValueError, "covariance[0, 0] & -1 & negative"),
    ("zero variance", lambda: es.Dense([[0.0, 0.5], [0.5, 1.0]]), ValueError, "covariance[0, 0] is 0 & row 0"),
    ("mean's shape", lambda: es.Dense(np.eye(2), np.ones(3)), ValueError, "mean & (3,) & (2,)"),
    ("mean's axes", lambda: es.Dense(np.eye(2), np.ones((2, 1))), ValueError, "mean & (2, 1) & (2,)"),
    ("mean is None", lambda: es.Dense(np.eye(2), None), TypeError, "mean & real numbers"),
    ("mean has NaN", lambda: es.Dense(np.eye(2), [0.0, np.nan]), ValueError, "mean[1] & finite"),
    ("mean is complex", lambda: es.Dense(np.eye(2), 1j), TypeError, "mean & real numbers"),
    ("factor's shape", lambda: es.Dense(factor=np.ones(3)), ValueError, "factor & (3,) & (N, M)"),
    ("factor has NaN", lambda: es.Dense(factor=[[np.nan]]), ValueError, "factor[0, 0] & finite"),
    ("ragged", lambda: es.Dense([[1.0, 0.0], [0.0]]), ValueError, "covariance"),
    ("sparse", lambda: es.Dense(scipy.sparse.eye(3)), TypeError, "covariance & sparse|dia_"),
    ("a kernel", lambda: es.Dense(lambda x, y: 1.0), TypeError, "covariance & function"),
    ("masked", lambda: es.Dense(MASKED), (TypeError, ValueError), "mask"),
    ("mean is NaN", lambda: es.Dense(np.eye(2), np.nan), ValueError, "mean is nan"),
    # Diagonal, LowRank
    ("negative variance", lambda: es.Diagonal([1.0, -2.0]), ValueError, "variance & negative & -2"),
    ("variance NaN", lambda: es.Diagonal([np.nan]), ValueError, "variance[0] & finite"),
    ("no variance", lambda: es.Diagonal([]), ValueError, "variance & empty & at least one"),
    ("variance None", lambda: es.Diagonal(None), TypeError, "variance & real numbers"),
    ("variance word", lambda: es.Diagonal("one"), TypeError, "variance & real numbers"),
    ("a covariance", lambda: es.Diagonal(np.eye(3)), ValueError, "variance & (3, 3) & numpy.diag & Dense"),
    ("variance's mean", lambda: es.Diagonal(np.ones(2), np.ones(3)), ValueError, "mean & (3,) & (2,)"),
    ("flat factor", lambda: es.LowRank(np.ones(3)), ValueError, "factor & (3,) & (N, M)"),
    ("no columns", lambda: es.LowRank(np.ones((3, 0))), ValueError, "factor & (3, 0)"),
    # Stack
    ("a list", lambda: es.Stack([PRIOR]), TypeError, "mapping & names"),
    ("no latents", lambda: es.Stack({}), TypeError, "mapping & names"),
    ("space in a name", lambda: es.Stack({"a b": PRIOR}), ValueError, "'a b' & identifier"),
    ("keyword", lambda: es.Stack({"lambda": PRIOR}), ValueError, "'lambda' & identifier"),
    ("number as a name", lambda: es.Stack({1: PRIOR}), ValueError, "1 & identifier"),
    ("chain", lambda: es.Stack({"chain": PRIOR}), ValueError, "'chain' & dimension & another name"),
    ("draw", lambda: es.Stack({"draw": PRIOR}), ValueError, "'draw' & dimension & another name"),
    ("a matrix", lambda: es.Stack({"f": np.eye(3)}), TypeError, "'f' & ndarray & Dense"),
    ("nested", lambda: es.Stack({"f": es.Stack({"g": PRIOR})}), TypeError, "'f' & Stack & one Stack"),
    # FromDraws
    ("no routine", lambda: es.FromDraws(np.eye(3), 3), TypeError, "sampler & callable & ndarray & Dense"),
    ("other shape", lambda: es.FromDraws(lambda rng: np.zeros(4), 3), ValueError, "sampler & (4,) & (3,)"),
    ("not finite", lambda: es.FromDraws(lambda rng: np.full(3, np.nan), 3), ValueError, "sampler & not finite"),
    ("no size", lambda: es.FromDraws(lambda rng: 0.0, 0), ValueError, "size & positive & 0"),
    ("size < 0", lambda: es.FromDraws(lambda rng: 0.0, (2, -1)), ValueError, "size & positive"),
    (
        "not batched",
        lambda: es.FromDraws(lambda rng, n: rng.standard_normal((3, n)), 3, batched=True),
        ValueError,
        "sampler(rng, count) & (3, 2) & (2, 3)",
    ),
    ("size 2.5", lambda: es.FromDraws(lambda rng: rng.random(2), 2.5), TypeError, "size & 2.5"),
    ("size '2'", lambda: es.FromDraws(lambda rng: rng.random(2), "2"), TypeError, "size & '2'"),
    ("size None", lambda: es.FromDraws(lambda rng: rng.random(2), None), TypeError, "size"),
    ("words drawn", lambda: es.FromDraws(lambda rng: "abc", 3), (TypeError, ValueError), "sampler"),
    ("complex drawn", lambda: es.FromDraws(lambda rng: 1j * rng.random(3), 3), TypeError, "sampler"),
    ("the same draw", lambda: es.FromDraws(lambda rng: np.ones(3), 3), ValueError, "sampler & same draw"),
    # moves
    ("no width", lambda: moves.EllipticalSlice(bracket_width=0), ValueError, "bracket_width & (0, 2 pi] & 0"),
    ("negative width", lambda: moves.EllipticalSlice(bracket_width=-1.0), ValueError, "bracket_width & (0, 2 pi] & -1"),
    ("wide", lambda: moves.EllipticalSlice(bracket_width=7.0), ValueError, "bracket_width & (0, 2 pi] & 7"),
    ("NaN width", lambda: moves.EllipticalSlice(bracket_width=np.nan), ValueError, "bracket_width & (0, 2 pi] & nan"),
    (
        "shrinking",
        lambda: moves.EllipticalSlice(shrinking="Cut"),
        ValueError,
        "shrinking & cut & halve & other_half & 'Cut'",
    ),
    ("empty cycle", lambda: moves.Cycle(), ValueError, "Cycle & at least one"),
    ("cycle of a list", lambda: moves.Cycle([moves.EllipticalSlice()]), TypeError, "Cycle & moves & list"),
    ("cycle of a class", lambda: moves.Cycle(moves.EllipticalSlice), TypeError, "Cycle & moves & EllipticalSlice"),
    ("width '1'", lambda: moves.EllipticalSlice("1"), TypeError, "bracket_width & '1'"),
    ("width None", lambda: moves.EllipticalSlice(None), TypeError, "bracket_width & None"),
    ("two widths", lambda: moves.EllipticalSlice(np.ones(2)), TypeError, "bracket_width"),
    # observations
    ("negative count", lambda: likelihoods.Poisson([1, -1]), ValueError, "Poisson & y[1] = -1 & whole numbers"),
    ("half a count", lambda: likelihoods.Poisson([0.5]), ValueError, "Poisson & y[0] = 0.5 & whole numbers & Gaussian"),
    ("three labels", lambda: likelihoods.Logistic([0, 1, 2]), ValueError, "Logistic & 2 & -1 and +1 & 0 and 1"),
    ("mixed labels", lambda: likelihoods.Probit([-1, 0, 1]), ValueError, "Probit & both -1 and 0 & Recode"),
    ("more than trials", lambda: likelihoods.Binomial([5], 4), ValueError, "Binomial & y[0] = 5 & trials"),
    ("no noise", lambda: likelihoods.Gaussian([1.0], 0.0), ValueError, "Gaussian & noise_scale = 0 & not positive"),
    ("missing value", lambda: likelihoods.Gaussian([1.0, np.nan]), ValueError, "Gaussian & y[1] = nan & missing"),
    ("dispersion", lambda: likelihoods.NegativeBinomial([1], -1.0), ValueError, "dispersion = -1 & not positive"),
    ("words", lambda: likelihoods.Poisson(["one"]), TypeError, "Poisson & y & real numbers"),
    ("offset's shape", lambda: likelihoods.Poisson([1, 2], offset=[1, 2, 3]), ValueError, "offset & (3,) & (2,)"),
]


@pytest.mark.filterwarnings("ignore::numpy.exceptions.ComplexWarning")
@pytest.mark.parametrize(("what", "build", "kind", "words"), CONSTRUCTORS, ids=names(CONSTRUCTORS))
def test_constructors(what, build, kind, words):
    with pytest.raises(kind) as error:
        build()
    check(error, words)


def test_the_other_cholesky_factor_is_said_so():
    """The Cholesky factor of SciPy is upper triangular by default."""
    covariance = np.array([[1.0, 0.9], [0.9, 4.0]])
    with pytest.warns(UserWarning, match=r"upper triangular.*factor\.T"):
        es.Dense(factor=scipy.linalg.cholesky(covariance))
    es.Dense(factor=scipy.linalg.cholesky(covariance, lower=True))


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: es.testing.check_prior(es.Dense), "check_prior & instance & pytree"),
        (lambda: es.testing.check_move(moves.EllipticalSlice), "check_move & instance & EllipticalSlice()"),
        (lambda: PRIOR.simulate(500), "rng & Generator & default_rng & 500"),
    ],
)
def test_the_proof_kit_and_simulate(call, words):
    with pytest.raises(TypeError) as error:
        call()
    check(error, words)


def test_an_exception_in_step_carries_its_f():
    def broken(f: np.ndarray) -> float:
        raise ArithmeticError("did not converge")

    with pytest.raises(ArithmeticError) as error:
        es.step(np.ones(2), np.zeros(2), broken, rng=np.random.default_rng(0))
    assert error.value.latents["f"].tolist() == [1.0, 1.0]
    assert "shape (2,)" in "".join(error.value.__notes__)


def test_labels_0_and_1_are_read_and_said_so():
    with pytest.warns(UserWarning, match="0/1 were read as -1/\\+1"):
        assert "0/1" in repr(likelihoods.Logistic([0, 1, 1]))


# --- one step by itself ---------------------------------------------------------------------------------------------

NAN = np.array([np.nan, 1.0])

STEPS = [
    ("nu's shape", {"nu": np.ones(3)}, ValueError, "(2,) & (3,) & prior draw"),
    ("rng is a number", {"rng": 1}, TypeError, "rng & Generator & int & default_rng"),
    ("rng is None", {"rng": None}, TypeError, "rng & Generator & NoneType"),
    ("rng of old", {"rng": np.random.RandomState(0)}, TypeError, "rng & Generator & RandomState"),
    ("rng is a module", {"rng": np.random}, TypeError, "rng & Generator & module"),
    ("width", {"bracket_width": 10.0}, ValueError, "bracket_width & (0, 2 pi] & 10"),
    ("zero here", {"log_likelihood": lambda f: -math.inf}, ValueError, "-inf & finite & not zero"),
    ("NaN here", {"log_likelihood": lambda f: math.nan}, ValueError, "nan & finite"),
    ("known NaN", {"log_likelihood_f": math.nan}, ValueError, "nan & finite"),
    ("known inf", {"log_likelihood_f": math.inf}, ValueError, "inf & finite"),
    (
        "infinite there",
        {"log_likelihood": lambda f: math.inf, "log_likelihood_f": 0.0},
        ValueError,
        "+inf & bounded",
    ),
    ("raises", {"log_likelihood": lambda f: 1 / 0}, ZeroDivisionError, "division"),
    ("no function", {"log_likelihood": None}, TypeError, "log_likelihood & callable"),
    ("None", {"log_likelihood": lambda f: None}, TypeError, "log_likelihood"),
    ("array", {"log_likelihood": lambda f: f}, (TypeError, ValueError), "log_likelihood & (2,)"),
    ("word", {"log_likelihood": lambda f: "-1.5"}, TypeError, "log_likelihood & str"),
    ("bool", {"log_likelihood": lambda f: True}, TypeError, "log_likelihood & bool"),
    ("nu has NaN", {"nu": NAN}, ValueError, "nu & finite"),
    ("f has NaN", {"f": NAN}, ValueError, "f & finite"),
    ("f complex", {"f": np.array([1j, 1])}, (TypeError, ValueError), "f & real"),
    ("f named", {"f": {"a": [1.0]}}, TypeError, "f must & mapping & one array"),
    ("cache a word", {"log_likelihood_f": "-1"}, TypeError, "log_likelihood_f & real numbers"),
    ("f a word", {"f": "ab"}, (TypeError, ValueError), "f must|f is|f has"),
    ("nu a prior", {"nu": PRIOR}, TypeError, "nu must|nu is|nu has & Diagonal|draw"),
]


@pytest.mark.filterwarnings("ignore::numpy.exceptions.ComplexWarning")
@pytest.mark.parametrize(("what", "changes", "kind", "words"), STEPS, ids=names(STEPS))
def test_step(what, changes, kind, words):
    good = {"f": np.zeros(2), "nu": np.ones(2), "log_likelihood": lambda f: 0.0, "rng": np.random.default_rng(0)}
    with pytest.raises(kind) as error:
        es.step(**{**good, **changes})
    check(error, words)


def test_step_needs_a_generator():
    with pytest.raises(TypeError, match="rng"):
        es.step(np.zeros(2), np.ones(2), lambda f: 0.0)  # pyright: ignore[reportCallIssue]


def test_a_function_that_works_in_place_cannot_change_the_state():
    """C code may overwrite its argument. The sampler passes a copy, so that its own state does not change."""

    def in_place(f: np.ndarray) -> float:
        f *= f
        return -float(f.sum())

    arguments = np.full(2, 0.5), np.ones(2)
    f, value, _ = es.step(*arguments, in_place, rng=np.random.default_rng(1))
    expected, _, _ = es.step(*arguments, lambda f: -float((f * f).sum()), rng=np.random.default_rng(1))
    np.testing.assert_array_equal(f, expected)
    assert value == -float((f * f).sum())
