"""The interface of a prior: a Gaussian with some structure, defined by how it draws."""

from __future__ import annotations

import abc
import math
from typing import TYPE_CHECKING, Any

import jax
import jax.numpy as jnp
import numpy as np
from scipy.linalg import cholesky, solve_triangular

from ellipslice.checks import whole_number
from ellipslice.jax_settings import jax_settings
from ellipslice.priors.parts.null_space import DENSE_LIMIT, null_space_of_factor, rounding

if TYPE_CHECKING:
    from ellipslice.priors.parts.conditional import BlockConditional

CAPABILITIES = ("whiten", "log_density", "condition")
"""Optional operations of a prior. Elliptical slice sampling requires none of them; other moves do."""

MAX_DENSE_BLOCK = 5_000
"""Largest number of elements in a block whose conditional is a dense matrix."""

Layout = tuple[tuple[str, tuple[int, ...]], ...]
"""Names and shapes of the latents in the flat vector, in order. A prior that is not a `Stack` has one, called "f"."""


class Prior(abc.ABC):
    """Base class of all priors: a Gaussian N(mean, Sigma) over a latent array.

    A subclass sets `mean` and `shape`, and defines `noise_size` and `unwhiten`, the linear map from standard normals to
    a zero-mean draw. Elliptical slice sampling requires nothing else. `ellipslice.testing.check_prior` checks a
    subclass.

    The capabilities `whiten`, `log_density` and `condition` are optional. A missing one raises a TypeError that names
    an alternative. No prior makes a dense covariance matrix to provide one.

    Attributes
    ----------
    mean : array, shape (size,), or None
        None means zero. `draw_zero_mean` and `unwhiten` do not add it, because the sampler works with centred vectors.
    shape : tuple of int
        Shape of the latent as the likelihood receives it. Inside the sampler the latent is flat, in C order.

    Examples
    --------
    >>> import numpy as np
    >>> import ellipslice as es
    >>> prior = es.Dense([[1.0, 0.5], [0.5, 1.0]], mean=[10.0, 20.0])
    >>> prior.simulate(np.random.default_rng(1)).round()
    array([10., 21.])
    >>> sorted(prior.capabilities)
    ['condition', 'log_density', 'whiten']
    """

    mean: Any
    shape: tuple[int, ...]

    instead = (
        "its class does not define one. Use EllipticalSlice, which needs only draws, or Dense below 5,000 elements."
    )
    """Reason why a capability is missing, and what to use instead: the second half of the error message."""

    def __repr__(self) -> str:
        return f"{type(self).__name__}(shape {self.shape})"

    @property
    def size(self) -> int:
        """Number of elements of the latent array."""
        return int(np.prod(self.shape))

    @property
    def layout(self) -> Layout:
        """Names and shapes of the latents in the flat vector, in order: pairs (name, shape)."""
        return (("f", self.shape),)

    @property
    @abc.abstractmethod
    def noise_size(self) -> int:
        """Number of standard normals that `unwhiten` maps to one draw."""

    @abc.abstractmethod
    def unwhiten(self, z: Any) -> Any:
        """Map standard normals (..., noise_size) to draws from N(0, Sigma), shape (..., size).

        The map is linear. JAX can trace it if `traceable` is True.
        """

    def covariance_product(self, g: Any) -> Any:
        """Return Sigma @ g for one flat vector g of `size` elements. JAX can trace it.

        The default uses `unwhiten` and its transpose, and raises TypeError if JAX cannot trace `unwhiten`. Products
        have full precision on every device.
        """
        with jax.default_matmul_precision("highest"):
            z = jax.ShapeDtypeStruct((self.noise_size,), g.dtype)
            (back,) = jax.linear_transpose(self.unwhiten, z)(g)
            return self.unwhiten(back)

    @property
    def linear(self) -> bool:
        """True if draws are a linear map of standard normals. If False, `noise_size` and `unwhiten` raise."""
        return True

    def device_factor(self) -> np.ndarray | None:
        """Return the matrix M of `unwhiten`, f = z @ M, shape (noise_size, size), if a device should draw with it.

        None if it should not. The default returns None.
        """
        return None

    move_uses_jax = False
    """True if the prior has its own move, which calls functions that JAX compiled."""

    by_numpy = False
    """True if `unwhiten` is faster in NumPy than compiled, when it is called with NumPy arrays."""

    @property
    def traceable(self) -> bool:
        """True if JAX can trace `unwhiten` and `whiten`. If False, they accept only concrete arrays, on the host."""
        return True

    def draw_zero_mean(self, rng: np.random.Generator, count: int) -> Any:
        """Draw from N(0, Sigma), without the mean. Return an array of shape (count, size)."""
        z = rng.standard_normal((count, self.noise_size))
        if self.by_numpy:
            return self.unwhiten(z)
        with jax_settings():
            return _unwhiten(self, z) if self.traceable else self.unwhiten(z)

    @property
    def rank(self) -> int:
        """Rank of the covariance: the dimension of the span of the draws, less than `size` if it is singular."""
        return min(self.size, self.noise_size)

    def null_space(self) -> np.ndarray | None:
        """Return directions in which draws do not vary, as orthonormal rows (M, size); None if they are not known.

        Each element may be in its own unit: row @ (f / scale) is 0 for every draw f, with positive scales that the
        prior chooses. M is 0 if the covariance is not singular up to rounding error. The default makes a dense matrix,
        and therefore returns None for a singular prior of more than 2,000 elements.
        """
        try:
            rank = self.rank
        except TypeError:
            return None
        if rank >= self.size:
            return np.zeros((0, self.size))
        if self.size > DENSE_LIMIT:
            return None
        with jax_settings():
            rows = np.asarray(self.unwhiten(np.eye(self.noise_size)))
        return null_space_of_factor(rows, rounding(self.size))

    @property
    def capabilities(self) -> frozenset[str]:
        """Names of the optional operations of this prior, among `whiten`, `log_density` and `condition`."""
        return frozenset(name for name in CAPABILITIES if getattr(type(self), name) is not getattr(Prior, name))

    def whiten(self, f: Any) -> Any:
        """Return the shortest z (..., noise_size) with unwhiten(z) = f, for centred flat f (..., size) in its range.

        The map is linear. JAX can trace it if `traceable` is True. Raise TypeError if the prior cannot whiten.
        """
        raise self._missing_capability("whiten")

    def log_density(self, f: Any) -> Any:
        """Return log N(f; 0, Sigma) at centred flat vectors f (..., size), shape (...). JAX can trace it.

        If Sigma is singular, this is the density on the span of the draws, with the pseudo-determinant. It is then
        minus infinity at an f that differs from the span by more than about one part in a million. Raise TypeError if
        the prior has no density.
        """
        raise self._missing_capability("log_density")

    def condition(self, block: Any) -> BlockConditional:
        """Return the conditional distribution of the elements at the indices `block` of the flat vector given the rest.

        It is factorised once. It has the attributes `block` (sorted) and `prior`, the zero-mean Gaussian around the
        conditional mean, and the method `mean(f)`. Raise TypeError if the prior cannot condition.
        """
        raise self._missing_capability("condition")

    def _missing_capability(self, capability: str) -> TypeError:
        """Return the error for a missing capability."""
        return TypeError(f"{type(self).__name__} has no `{capability}`: {self.instead}")

    def simulate(self, rng: np.random.Generator, count: int | None = None, *, mean: bool = True) -> Any:
        """Draw from the prior, in the shape that the likelihood receives. Use it for prior predictive checks.

        Parameters
        ----------
        rng : numpy.random.Generator
        count : int, optional
            Number of draws, along a leading axis. Default: one draw, without that axis.
        mean : bool
            Whether to add the prior mean. Without it, a draw can be the `nu` of `ellipslice.step`. Default: True.

        Returns
        -------
        array of shape `shape`, or with `count` a leading axis; for a `Stack`, a dict of such arrays by name

        Raises
        ------
        TypeError
            If `rng` is not a `numpy.random.Generator`.
        """
        if not isinstance(rng, np.random.Generator):
            raise TypeError(f"rng must be a numpy Generator, numpy.random.default_rng(seed), but it is {rng!r}.")
        number = 1 if count is None else whole_number("count", count, 0, "a whole number, 0 or more")
        draws = np.asarray(self.draw_zero_mean(rng, number))
        latents = unpack(draws[0] if count is None else draws, self.mean if mean else None, self.layout)
        return latents["f"] if is_single(self.layout) else latents


_unwhiten = jax.jit(lambda prior, z: prior.unwhiten(z))


def is_single(layout: Layout) -> bool:
    """Return whether there is one unnamed latent, which functions receive as their only argument."""
    return len(layout) == 1 and layout[0][0] == "f"


def unpack(f: Any, mean: Any, layout: Layout) -> dict[str, Any]:
    """Return the named latents of a centred flat vector, or of a batch of them, with the mean added."""
    if mean is not None:
        f = f + in_precision_of(f, mean)
    latents, start = {}, 0
    for name, shape in layout:
        stop = start + math.prod(shape)
        latents[name] = f[..., start:stop].reshape(f.shape[:-1] + shape)
        start = stop
    return latents


def in_precision_of(f: Any, values: Any) -> Any:
    """Return `values` in single precision if f is in single precision, so that their sum is too; else unchanged."""
    return values.astype(np.float32) if f.dtype == np.float32 else values


def log_normal(z: Any, log_determinant: Any, rank: int) -> Any:
    """Return the log density of a Gaussian at the vector with whitened form z. `rank` is the rank of its covariance."""
    return -0.5 * (jnp.sum(z**2, -1) + log_determinant + rank * math.log(2 * math.pi))


def on_span(log_density: Any, f: Any, nearest: Any) -> Any:
    """Return `log_density`, or minus infinity where f differs from `nearest`, its projection onto the span of draws."""
    gap, size = jnp.abs(f - nearest).max(-1), jnp.abs(f).max(-1)
    return jnp.where(gap <= 1e-6 * size, log_density, -jnp.inf)


def inverse_factor(precision: np.ndarray) -> np.ndarray:
    """Return the lower triangular F with F @ F.T = inv(precision). Raise LinAlgError if it is not positive definite."""
    lower = cholesky(precision[::-1, ::-1], lower=True)  # in reverse order, so that the result is lower triangular
    return solve_triangular(lower, np.eye(len(lower)), lower=True).T[::-1, ::-1]


def check_small(block: np.ndarray) -> np.ndarray:
    """Return the block. Raise ValueError if it is too large for a conditional that is a dense matrix."""
    if len(block) > MAX_DENSE_BLOCK:
        raise ValueError(
            f"block has {len(block)} elements, and its conditional would be a dense matrix of that size. Use blocks "
            f"of at most {MAX_DENSE_BLOCK} elements."
        )
    return block
