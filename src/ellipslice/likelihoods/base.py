"""What every observation model shares: calling, shapes, NumPy or JAX, and the checks of data.

The host engine calls a likelihood hundreds of thousands of times on short NumPy vectors, where each array operation
costs about a microsecond whatever it does. Hence one shape comparison per call, and constants worked out beforehand.
"""

from __future__ import annotations

import math
import warnings
from abc import ABC, abstractmethod
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, ClassVar

import jax
import jax.numpy as jnp
import jax.scipy.special
import numpy as np
import scipy.special
from jax.core import Tracer

ARRAYS = (np.ndarray, jax.Array)
NUMPY = (np.ndarray, np.generic)


class Likelihood(ABC):
    """A log-likelihood of the latent values f in which every observation has its own latent value.

    An instance is a callable, so it is handed to `sample` as it is. It is also a pytree whose leaves are the data:
    compiled code runs on new data of the same shape without being compiled again.

    For a NumPy array f the work is done by NumPy and SciPy, for a JAX array by JAX; the two agree to rounding. f must
    be finite: an infinite latent value may give NaN, and a NaN gives NaN.
    """

    vectorized: ClassVar[bool] = True
    """f may have leading batch axes; a batch gives a batch of values."""
    log_concave: ClassVar[bool] = False
    """Whether every term is known to be a concave function of its latent value."""
    bend_rate: ClassVar[float | None] = None
    """A number that every term's third derivative is at most times its second, in size; None if there is none."""

    y: Any
    """The observations: a float64 NumPy array with at least one axis (a JAX array inside compiled code)."""

    _noun: ClassVar[str] = "observation"
    _shown: ClassVar[tuple[str, ...]] = ()

    def __call__(self, f: Any) -> Any:
        """The log-likelihood of all observations together.

        Parameters
        ----------
        f : array of shape ``(..., *y.shape)``

        Returns
        -------
        array of shape (...), a float for a single f
        """
        f = self._read(f)
        xp, special = namespace(f, self.y)
        # A likelihood too small for a float is zero, which is no mishap, and neither is a rate that is.
        with np.errstate(over="ignore", under="ignore"):
            flat = self._terms(f, xp, special).reshape(*f.shape[: f.ndim - self.y.ndim], self.y.size)
            if xp is np:
                # Summed along contiguous memory, a row has the same bits alone and in a batch: so for look-ahead.
                return np.add.reduce(np.ascontiguousarray(flat), axis=-1)
        return flat.sum(-1)

    def terms(self, f: Any) -> Any:
        """The log-likelihood of each observation, normalising constants included.

        Parameters
        ----------
        f : array of shape ``(..., *y.shape)``

        Returns
        -------
        array of f's shape
        """
        f = self._read(f)
        with np.errstate(over="ignore", under="ignore"):
            return self._terms(f, *namespace(f, self.y))

    @abstractmethod
    def _terms(self, f: Any, xp: Any, special: Any) -> Any:
        """What `terms` returns, written with NumPy-like `xp` and SciPy-like `special` only."""

    def expected(self, f: Any) -> np.ndarray:
        """What is observed on average, given f; for labels the probability of +1.

        Parameters
        ----------
        f : array of shape ``(..., *y.shape)``

        Returns
        -------
        NumPy array of f's shape
        """
        raise NotImplementedError(f"{type(self).__name__} does not say what is observed on average.")

    @abstractmethod
    def simulate(self, f: Any, rng: np.random.Generator) -> np.ndarray:
        """Draw new observations given f.

        Parameters
        ----------
        f : array of shape ``(..., *y.shape)``
        rng : numpy.random.Generator

        Returns
        -------
        NumPy array of f's shape, of the form that the class accepts as `y`
        """

    def __repr__(self) -> str:
        size = math.prod(np.shape(self.y))
        parts = [f"{size} {self._noun}{'' if size == 1 else 's'}"]
        parts += [f"{name}={_short(getattr(self, name))}" for name in self._shown]
        if getattr(self, "converted", False):
            parts.append("0/1 read as -1/+1")
        return f"{type(self).__name__}({', '.join(parts)})"

    def _read(self, f: Any) -> Any:
        """Return f as an array of NumPy or JAX, if its shape is right."""
        if not isinstance(f, ARRAYS):
            f = np.asarray(f, dtype=np.float64)
        shape = self.y.shape
        if f.shape != shape and f.shape[-len(shape) :] != shape:
            raise ValueError(
                f"{type(self).__name__}: f has shape {f.shape}, but y has shape {shape}. Expected one latent value per "
                f"observation: f of shape {shape}, or (..., {', '.join(map(str, shape))}) for a batch. Where the "
                "observations see other values than f itself, compute those in a function of your own and call the "
                "likelihood on them."
            )
        return f


# --- NumPy or JAX ---------------------------------------------------------------------------------------------------


def namespace(*arrays: Any) -> tuple[Any, Any]:
    """The array module and the special functions for these arrays: NumPy and SciPy, or JAX if one of them is JAX's."""
    for array in arrays:
        if not isinstance(array, NUMPY):
            return jnp, jax.scipy.special
    return np, scipy.special


def softplus(x: Any, xp: Any) -> Any:
    """log(1 + exp(x)), which neither overflows nor loses digits at either end."""
    if xp is np:
        # NumPy's logaddexp(0, x) by hand: it has no vector instructions, and this takes half the time.
        return np.maximum(x, 0.0) + np.log1p(np.exp(-np.abs(x)))
    return _softplus(x)


@jax.custom_jvp
def _softplus(x: Any) -> Any:
    """XLA's CPU backend calls the library's log1p for each number; this takes a third of the time, as one vector.

    (The fused GPU kernel has a quicker way, and knows this function by its name.)
    """
    return jnp.maximum(x, 0.0) + log1p(jnp.exp(-jnp.abs(x)))


@_softplus.defjvp
def _softplus_jvp(primals: tuple[Any], tangents: tuple[Any]) -> tuple[Any, Any]:
    (x,), (t,) = primals, tangents
    return _softplus(x), t * _sigmoid(x)


@jax.custom_jvp
def _sigmoid(x: Any) -> Any:
    small = jnp.exp(-jnp.abs(x))  # as in _softplus, so that it is computed once
    return jnp.where(x > 0, 1.0, small) / (1.0 + small)


@_sigmoid.defjvp
def _sigmoid_jvp(primals: tuple[Any], tangents: tuple[Any]) -> tuple[Any, Any]:
    (x,), (t,) = primals, tangents
    value = _sigmoid(x)
    return value, t * value * _sigmoid(-x)


def log1p(u: Any) -> Any:
    """log(1 + u) for 0 <= u <= 1, to 2 units in the last place: 2 s (1 + s^2/3 + s^4/5 + ...) with s = u / (2 + u).

    The coefficients interpolate the series at the Chebyshev nodes of [0, 1/9], where s^2 lies.
    """
    s = u / (2.0 + u)
    z = s * s
    polynomial = jnp.full_like(z, _ATANH[-1])
    for coefficient in reversed(_ATANH[:-1]):
        polynomial = polynomial * z + coefficient
    return 2.0 * s * polynomial


_ATANH = (
    1.0,
    0.33333333333333076,
    0.20000000000092874,
    0.14285714272727057,
    0.11111112040373837,
    0.09090870416252403,
    0.07693307021152004,
    0.06650187016337313,
    0.06055084364034609,
    0.0416225325593041,
    0.08522081781390699,
)


def draw_counts(owner: str, rate: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Poisson counts, with an error in our own words where NumPy has no integers large enough."""
    bad = ~(rate < 9e18)
    refuse(owner, "the rate", rate, bad, "cannot be simulated: it must be below 9e18. Check f's scale.")
    return rng.poisson(rate)


# --- checks of data: what was given, what was expected, what to do --------------------------------------------------


def observations(owner: str, y: Any) -> np.ndarray:
    """Finite numbers, with at least one axis."""
    return leaf(np.atleast_1d(_numbers(owner, "y", y)))


def counts(owner: str, name: str, values: np.ndarray, advice: str) -> None:
    """Raise unless all values are 0, 1, 2, ..."""
    bad = (values < 0) | (values != np.floor(values))
    refuse(owner, name, values, bad, f"is not a count. Expected whole numbers, 0 or more. {advice}")


def labels(owner: str, y: Any) -> tuple[np.ndarray, bool]:
    """Labels as -1/+1, and whether they were given as 0/1."""
    values = observations(owner, y)
    bad = np.unique(values[~np.isin(values, (-1.0, 0.0, 1.0))])
    advice = "Expected -1 and +1, or 0 and 1. Recode the two classes as -1 and +1."
    if bad.size:
        more = ", ..." if bad.size > 5 else ""
        raise ValueError(f"{owner}: y holds {', '.join(f'{value:g}' for value in bad[:5])}{more} as labels. {advice}")
    if not (np.asarray(y).dtype == np.bool_ or (values == 0.0).any()):
        return values, False
    if (values == -1.0).any():
        raise ValueError(f"{owner}: y holds both -1 and 0, so 0/1 labels cannot be told from -1/+1 ones. {advice}")
    if not _SAID.get():
        warnings.warn(
            f"{owner}: labels 0/1 were read as -1/+1. Pass 2 * y - 1 to say so yourself.", UserWarning, stacklevel=3
        )
    return leaf(2.0 * values - 1.0), True


_SAID: ContextVar[bool] = ContextVar("how labels were read has been said", default=False)


@contextmanager
def said_before() -> Iterator[None]:
    """In here, data that a model has seen before are made likelihoods of again, without the same warning again."""
    token = _SAID.set(True)
    try:
        yield
    finally:
        _SAID.reset(token)


def parameter(owner: str, name: str, value: Any, shape: tuple[int, ...], positive: bool = False) -> Any:
    """A finite number, or an array that broadcasts to y's shape; or one that is unknown, inside compiled code.

    (The values of that one cannot be checked. Models with unknown parameters make likelihoods of them.)
    """
    traced = isinstance(value, Tracer)
    values: Any = value if traced else _numbers(owner, name, value)
    try:
        fits = np.broadcast_shapes(values.shape, shape) == shape
    except ValueError:
        fits = False
    if not fits:
        raise ValueError(
            f"{owner}: {name} has shape {values.shape}, which does not broadcast to y's shape {shape}. "
            f"Give one number, or an array of shape {shape}."
        )
    if positive and not traced:
        refuse(owner, name, values, values <= 0, f"is not positive. Expected {name} > 0 everywhere.")
    return leaf(values)


def leaf(values: Any) -> Any:
    """A float64 array nobody can write to: constants computed from it would no longer fit."""
    if isinstance(values, Tracer):
        return values
    values = np.asarray(values, dtype=np.float64)
    values.setflags(write=False)
    return values


def refuse(owner: str, name: str, values: np.ndarray, bad: np.ndarray, problem: str) -> None:
    """Raise, naming the first bad value and where it is, if there is one."""
    if bad.any():
        index = tuple(int(i) for i in np.argwhere(bad)[0])
        place = f"[{', '.join(map(str, index))}]" if index else ""
        raise ValueError(f"{owner}: {name}{place} = {values[index]:g} {problem}")


def _numbers(owner: str, name: str, value: Any) -> np.ndarray:
    """A copy of the data as float64, since what the caller does to his array later must not change ours."""
    if isinstance(value, Tracer):
        raise TypeError(
            f"{owner}: {name} is traced by JAX, so its values cannot be checked. Expected numbers. Build the "
            "likelihood outside the compiled function and pass it in as an argument: it is a pytree."
        )
    if np.ma.is_masked(value):
        raise ValueError(
            f"{owner}: {name} has masked values. Expected a value everywhere. Drop them, and their part of f."
        )
    try:
        array = np.asarray(value)
    except ValueError as error:
        raise ValueError(f"{owner}: {name} is not a rectangular array. Expected rows of equal length.") from error
    if array.dtype.kind not in "biuf":
        raise TypeError(
            f"{owner}: {name} has dtype {array.dtype}. Expected real numbers. Convert it first, with "
            f"numpy.asarray({name}, dtype=float) if it holds numbers."
        )
    if array.size == 0:
        raise ValueError(f"{owner}: {name} is empty (shape {array.shape}). Expected at least one value.")
    array = np.array(array, dtype=np.float64)
    bad = ~np.isfinite(array)
    refuse(owner, name, array, bad, "is not finite. Expected finite numbers. Drop missing values, and their part of f.")
    return array


def _short(value: Any) -> str:
    """A parameter for `__repr__`: its value if it is one known number, else its shape."""
    if np.ndim(value) == 0 and not isinstance(value, Tracer):
        return f"{float(value):.4g}"
    return f"array of shape {np.shape(value)}"
