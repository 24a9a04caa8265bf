"""The base class of observation models, and special functions for NumPy and JAX.

The host engine calls a likelihood hundreds of thousands of times on short NumPy vectors, for which each array operation
takes about a microsecond. A call therefore compares one shape, and constants are computed beforehand.
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
from ellipslice.likelihoods.derivatives import jax_curvature, jax_slope

ARRAYS = (np.ndarray, jax.Array)
NUMPY = (np.ndarray, np.generic)


class Likelihood(ABC):
    """Base class of observation models: a log-likelihood that factorises over the elements of the latent vector f.

    An instance is a callable, so `sample` accepts it directly. It is also a pytree whose leaves are the data, so
    compiled code is used again for new data of the same shape.

    NumPy and SciPy evaluate it for a NumPy array f, and JAX for a JAX array; the results are equal up to rounding
    error. f must be finite: an infinite element may give NaN, and NaN gives NaN.

    Examples
    --------
    >>> import numpy as np
    >>> import ellipslice as es
    >>> likelihood = es.likelihoods.Gaussian([1.0, 2.0], noise_scale=0.5)
    >>> f = np.zeros(2)
    >>> bool(np.isclose(likelihood(f), likelihood.pointwise(f).sum()))
    True
    >>> likelihood.simulate(f, np.random.default_rng(1)).shape
    (2,)
    """

    vectorized: ClassVar[bool] = True
    """True if f may have leading batch axes. A batch of f gives one log-likelihood for each vector."""
    log_concave: ClassVar[bool] = False
    """True if the log-likelihood of each observation is known to be a concave function of its element of f."""
    curvature_rate_bound: ClassVar[float | None] = None
    """Upper bound of abs(third derivative) / abs(second derivative) of each term; None if there is none."""
    identity_link: ClassVar[bool] = False
    """True if f has the unit of the observations, and f = y fits an observation best."""
    command: ClassVar[Command | None] = None
    """Description for `ellipslice fit`; None if the command line does not offer the class."""

    y: Any
    """Observations: a float64 NumPy array with at least one axis (a JAX array inside compiled code)."""

    _repr_noun: ClassVar[str] = "observation"
    """Name of an observation in `repr`."""
    _repr_fields: ClassVar[tuple[str, ...]] = ()
    """Parameters that `repr` shows."""

    def __call__(self, f: Any) -> Any:
        """Return the log-likelihood of all observations, including normalising constants.

        Parameters
        ----------
        f : array, shape ``(..., *y.shape)``
            Latent vector, or a batch of them.

        Returns
        -------
        array, shape (...)
            Log-likelihood; a scalar for a single f.
        """
        f = self._as_array(f)
        xp, special = namespace(f, self.y)
        # A likelihood or rate that underflows is zero, and one that overflows is infinite: neither is an error.
        with np.errstate(over="ignore", under="ignore"):
            flat = self._pointwise(f, xp, special).reshape(*f.shape[: f.ndim - self.y.ndim], self.y.size)
            if xp is np:
                # Look-ahead needs bit-identical sums of a row alone and in a batch, so memory must be contiguous.
                return np.add.reduce(np.ascontiguousarray(flat), axis=-1)
        return flat.sum(-1)

    def pointwise(self, f: Any) -> Any:
        """Return the pointwise log-likelihood: one value per observation, including normalising constants.

        Parameters
        ----------
        f : array, shape ``(..., *y.shape)``
            Latent vector, or a batch of them.

        Returns
        -------
        array, same shape as f
        """
        f = self._as_array(f)
        with np.errstate(over="ignore", under="ignore"):
            return self._pointwise(f, *namespace(f, self.y))

    @abstractmethod
    def _pointwise(self, f: Any, xp: Any, special: Any) -> Any:
        """Return the pointwise log-likelihood, computed only with `xp` (NumPy or JAX) and `special` (SciPy or JAX)."""

    def slope(self, f: Any) -> np.ndarray:
        """Return the first derivative of each pointwise value with respect to its own element of f.

        Parameters
        ----------
        f : array, shape ``(..., *y.shape)``
            Latent vector, or a batch of them.

        Returns
        -------
        NumPy array, same shape as f

        Raises
        ------
        TypeError
            If a pointwise value depends on other elements of f, too.
        """
        f = np.asarray(self._as_array(f), dtype=np.float64)
        with np.errstate(over="ignore", under="ignore"):
            return self._slope(f)

    def curvature(self, f: Any) -> np.ndarray:
        """Return the second derivative of each pointwise value with respect to its own element of f.

        It is at most 0 everywhere if the likelihood is log-concave. Arguments, result and errors are those of `slope`.
        """
        f = np.asarray(self._as_array(f), dtype=np.float64)
        with np.errstate(over="ignore", under="ignore"):
            return self._curvature(f)

    def _slope(self, f: np.ndarray) -> np.ndarray:
        """Return `slope` of a NumPy array. JAX computes it here; a formula in NumPy is much faster for few values."""
        return jax_slope(self, f)

    def _curvature(self, f: np.ndarray) -> np.ndarray:
        """Return `curvature` of a NumPy array. JAX computes it here."""
        return jax_curvature(self, f)

    def expected(self, f: Any) -> np.ndarray:
        """Return the expected observation given f; for binary labels the probability of +1.

        Parameters
        ----------
        f : array, shape ``(..., *y.shape)``
            Latent vector, or a batch of them.

        Returns
        -------
        NumPy array, same shape as f

        Raises
        ------
        NotImplementedError
            If a class does not define it.
        """
        raise NotImplementedError(
            f"{type(self).__name__} has no expected observation. Define its method `expected(f)`."
        )

    @abstractmethod
    def simulate(self, f: Any, rng: np.random.Generator) -> np.ndarray:
        """Draw new observations given f.

        Parameters
        ----------
        f : array, shape ``(..., *y.shape)``
            Latent vector, or a batch of them.
        rng : numpy.random.Generator

        Returns
        -------
        NumPy array, same shape as f
            Values that the class accepts as `y`.
        """

    def __repr__(self) -> str:
        size = math.prod(np.shape(self.y))
        parts = [f"{size} {self._repr_noun}{'' if size == 1 else 's'}"]
        parts += [f"{name}={_format_parameter(getattr(self, name))}" for name in self._repr_fields]
        if getattr(self, "converted", False):
            parts.append("0/1 read as -1/+1")
        return f"{type(self).__name__}({', '.join(parts)})"

    def _as_array(self, f: Any) -> Any:
        """Return f as a NumPy or JAX array. Raise if its shape does not fit y."""
        if not isinstance(f, ARRAYS):
            f = np.asarray(f, dtype=np.float64)
        shape = self.y.shape
        if f.shape != shape and f.shape[-len(shape) :] != shape:
            raise ValueError(
                f"{type(self).__name__}: f has shape {f.shape}, but y has shape {shape}. Expected one element of f per "
                f"observation: shape {shape}, or (..., {', '.join(map(str, shape))}) for a batch. If the observations "
                "depend on a function of f, write your own log-likelihood, which computes that function and calls this "
                "object with the result."
            )
        return f


# --- NumPy or JAX ---------------------------------------------------------------------------------------------------


def namespace(*arrays: Any) -> tuple[Any, Any]:
    """Return the array module and the special functions for some arrays: JAX's if one is a JAX array, else NumPy's."""
    for array in arrays:
        if not isinstance(array, NUMPY):
            return jnp, jax.scipy.special
    return np, scipy.special


def softplus(x: Any, xp: Any) -> Any:
    """Return log(1 + exp(x)) without overflow, and without loss of digits for large or small x."""
    if xp is np:
        # This takes half the time of NumPy's logaddexp(0, x), which uses no vector instructions.
        return np.maximum(x, 0.0) + np.log1p(np.exp(-np.abs(x)))
    return _softplus(x)


@jax.custom_jvp
def _softplus(x: Any) -> Any:
    """Return log(1 + exp(x)) of a JAX array, in a third of the time of XLA's log1p on a CPU.

    XLA's CPU backend calls a library function for each number, whereas this is vectorised. The fused GPU kernel
    recognises this function by its name, and replaces it.
    """
    return jnp.maximum(x, 0.0) + log1p(jnp.exp(-jnp.abs(x)))


@_softplus.defjvp
def _softplus_jvp(primals: tuple[Any], tangents: tuple[Any]) -> tuple[Any, Any]:
    (x,), (t,) = primals, tangents
    return _softplus(x), t * _sigmoid(x)


@jax.custom_jvp
def _sigmoid(x: Any) -> Any:
    small = jnp.exp(-jnp.abs(x))  # the same expression as in _softplus, so XLA computes it once
    return jnp.where(x > 0, 1.0, small) / (1.0 + small)


@_sigmoid.defjvp
def _sigmoid_jvp(primals: tuple[Any], tangents: tuple[Any]) -> tuple[Any, Any]:
    (x,), (t,) = primals, tangents
    value = _sigmoid(x)
    return value, t * value * _sigmoid(-x)


def log1p(u: Any) -> Any:
    """Return log(1 + u) for 0 <= u <= 1, to 2 units in the last place.

    It is 2 s (1 + s^2/3 + s^4/5 + ...) with s = u / (2 + u). The coefficients interpolate the series in s^2 at the
    Chebyshev nodes of [0, 1/9].
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


def _format_parameter(value: Any) -> str:
    """Return a parameter as text for `repr`: its value if it is one known number, otherwise its shape."""
    if np.ndim(value) == 0 and not isinstance(value, Tracer):
        return f"{float(value):.4g}"
    return f"array of shape {np.shape(value)}"
