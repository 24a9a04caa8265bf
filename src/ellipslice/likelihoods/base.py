"""What every observation model shares: calling, shapes, and special functions by NumPy or JAX.

The host engine calls a likelihood hundreds of thousands of times on short NumPy vectors, where each array operation
costs about a microsecond whatever it does. Hence one shape comparison per call, and constants worked out beforehand.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from typing import Any, ClassVar

import jax
import jax.numpy as jnp
import jax.scipy.special
import numpy as np
import scipy.special
from jax.core import Tracer

from ellipslice.likelihoods.command import Command

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
    curvature_rate_bound: ClassVar[float | None] = None
    """A number that every term's third derivative is at most times its second, in size; None if there is none."""
    command: ClassVar[Command | None] = None
    """How `ellipslice fit` offers it; None if it does not."""

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
            flat = self._pointwise(f, xp, special).reshape(*f.shape[: f.ndim - self.y.ndim], self.y.size)
            if xp is np:
                # Summed along contiguous memory, a row has the same bits alone and in a batch: so for look-ahead.
                return np.add.reduce(np.ascontiguousarray(flat), axis=-1)
        return flat.sum(-1)

    def pointwise(self, f: Any) -> Any:
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
            return self._pointwise(f, *namespace(f, self.y))

    @abstractmethod
    def _pointwise(self, f: Any, xp: Any, special: Any) -> Any:
        """What `pointwise` returns, written with NumPy-like `xp` and SciPy-like `special` only."""

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


def _short(value: Any) -> str:
    """A parameter for `__repr__`: its value if it is one known number, else its shape."""
    if np.ndim(value) == 0 and not isinstance(value, Tracer):
        return f"{float(value):.4g}"
    return f"array of shape {np.shape(value)}"
