"""What every prior is: a Gaussian with some structure, known by how it draws."""

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
"""What a prior may be able to do beyond drawing. Elliptical slice sampling needs none of it; other moves do."""

MAX_DENSE_BLOCK = 5_000
"""Largest number of elements in a block whose conditional is a dense matrix."""

Layout = tuple[tuple[str, tuple[int, ...]], ...]
"""The named latents inside the flat vector, in order. A prior that is not a `Stack` has one, called "f"."""


class Prior(abc.ABC):
    """A Gaussian N(mean, Sigma) over a latent array.

    A new structure is one file with a class that sets `mean` and `shape` and writes `noise_size` and `unwhiten`, the
    linear map from standard normals to a zero-mean draw. The sampler needs nothing else. Check it with
    `ellipslice.testing.check_prior`.

    Where its mathematics allows, a prior has capabilities besides: `whiten`, `log_density` and `condition`, each
    optional. One that is missing raises a TypeError that names the alternative; nothing becomes a dense matrix in
    silence.

    Attributes
    ----------
    mean : array, shape (size,), or None
        None stands for zero. `draw_zero_mean` and `unwhiten` leave it out: the sampler works with zero-mean vectors.
    shape : tuple of int
        Shape of the latent as the likelihood receives it. Inside the sampler it is flat, in C order.
    """

    mean: Any
    shape: tuple[int, ...]

    instead = "its class does not write one. Use EllipticalSlice, which needs only draws, or Dense below 5,000 values."
    """Why a capability is missing, and what to use: the end of the error's sentence."""

    def __repr__(self) -> str:
        return f"{type(self).__name__}(shape {self.shape})"

    @property
    def size(self) -> int:
        """Number of latent values."""
        return int(np.prod(self.shape))

    @property
    def layout(self) -> Layout:
        """Names and shapes of the latents inside the flat vector."""
        return (("f", self.shape),)

    @property
    @abc.abstractmethod
    def noise_size(self) -> int:
        """How many standard normals one draw takes."""

    @abc.abstractmethod
    def unwhiten(self, z: Any) -> Any:
        """Map standard normals (..., noise_size) to draws from N(0, Sigma) (..., size); linear, traceable by JAX."""

    @property
    def linear(self) -> bool:
        """Whether draws are a linear map of standard normals: False if there is no `noise_size` and no `unwhiten`."""
        return True

    def device_factor(self) -> np.ndarray | None:
        """Return the matrix M (noise_size, size) of `unwhiten`, z @ M, if a device should draw with it; None if not."""
        return None

    by_numpy = False
    """Whether `unwhiten` is quickest as it stands, by NumPy, when it is given NumPy arrays."""

    @property
    def traceable(self) -> bool:
        """Whether `unwhiten` and `whiten` can be compiled. If not, they work on arrays, on the host."""
        return True

    def draw_zero_mean(self, rng: np.random.Generator, count: int) -> Any:
        """Draws from N(0, Sigma), the mean left out, shape (count, size)."""
        z = rng.standard_normal((count, self.noise_size))
        if self.by_numpy:
            return self.unwhiten(z)
        with jax_settings():
            return _unwhiten(self, z) if self.traceable else self.unwhiten(z)

    @property
    def rank(self) -> int:
        """The dimension of the span of its draws: less than `size` if the covariance is singular."""
        return min(self.size, self.noise_size)

    def null_space(self) -> np.ndarray | None:
        """Return directions in which draws do not vary, orthonormal rows (M, size); None if they are not known.

        Each value is measured in any unit of its own. M is 0 if the covariance is not singular to rounding. The
        default makes a dense matrix, and so returns None for a singular prior of more than 2,000 values.
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
        """Which of `whiten`, `log_density` and `condition` this prior has."""
        return frozenset(name for name in CAPABILITIES if getattr(type(self), name) is not getattr(Prior, name))

    def whiten(self, f: Any) -> Any:
        """The smallest z (..., noise_size) with unwhiten(z) = f, for centred flat f (..., size) in its range.

        Linear, and traceable by JAX.
        """
        raise self._missing_capability("whiten")

    def log_density(self, f: Any) -> Any:
        """The logarithm of N(f; 0, Sigma) at centred flat vectors (..., size), shape (...); traceable by JAX.

        If Sigma is singular, the density on the span of its draws (with the pseudo-determinant), and minus infinity
        for an f that is not a draw to about six digits.
        """
        raise self._missing_capability("log_density")

    def condition(self, block: Any) -> BlockConditional:
        """The distribution of the values at the indices `block` of the flat vector given all others, factorised once.

        The conditional has `block` (sorted), `mean(f)` and `prior`, the Gaussian around that mean.
        """
        raise self._missing_capability("condition")

    def _missing_capability(self, capability: str) -> TypeError:
        """The error of a missing capability."""
        return TypeError(f"{type(self).__name__} has no `{capability}`: {self.instead}")

    def simulate(self, rng: np.random.Generator, count: int | None = None, *, mean: bool = True) -> Any:
        """Draws as the likelihood would receive them, for prior predictive checks.

        Parameters
        ----------
        rng : numpy.random.Generator
        count : int, optional
            How many, along a leading axis; one without that axis unless given.
        mean : bool
            Whether to add the prior's mean. Without it a draw is the nu that `step` takes.

        Returns
        -------
        array, or for a `Stack` a dict of arrays
        """
        if not isinstance(rng, np.random.Generator):
            raise TypeError(f"rng must be a numpy Generator, numpy.random.default_rng(seed), but it is {rng!r}.")
        number = 1 if count is None else whole_number("count", count, 0, "a whole number, 0 or more")
        draws = np.asarray(self.draw_zero_mean(rng, number))
        latents = unpack(draws[0] if count is None else draws, self.mean if mean else None, self.layout)
        return latents["f"] if is_single(self.layout) else latents


_unwhiten = jax.jit(lambda prior, z: prior.unwhiten(z))


def is_single(layout: Layout) -> bool:
    """Whether there is one latent without a name of its own, handed to functions as their only argument."""
    return len(layout) == 1 and layout[0][0] == "f"


def unpack(f: Any, mean: Any, layout: Layout) -> dict[str, Any]:
    """The named latents, mean included, of a centred flat vector (or of a batch of them)."""
    if mean is not None:
        f = f + in_precision_of(f, mean)
    latents, start = {}, 0
    for name, shape in layout:
        stop = start + math.prod(shape)
        latents[name] = f[..., start:stop].reshape(f.shape[:-1] + shape)
        start = stop
    return latents


def in_precision_of(f: Any, values: Any) -> Any:
    """Return an array in single precision if f is, so that their sum is; else as it is."""
    return values.astype(np.float32) if f.dtype == np.float32 else values


def log_normal(z: Any, log_determinant: Any, rank: int) -> Any:
    """The log density of a Gaussian at a vector whose whitened form is z; `rank` is the dimension of its span."""
    return -0.5 * (jnp.sum(z**2, -1) + log_determinant + rank * math.log(2 * math.pi))


def on_span(log_density: Any, f: Any, nearest: Any) -> Any:
    """Minus infinity where f is not its nearest draw: a singular Gaussian has no mass there."""
    gap, size = jnp.abs(f - nearest).max(-1), jnp.abs(f).max(-1)
    return jnp.where(gap <= 1e-6 * size, log_density, -jnp.inf)


def inverse_factor(precision: np.ndarray) -> np.ndarray:
    """Return the lower triangular F with F @ F.T the inverse of a precision. Raise LinAlgError if there is none."""
    lower = cholesky(precision[::-1, ::-1], lower=True)  # backwards, so that the inverse is lower triangular again
    return solve_triangular(lower, np.eye(len(lower)), lower=True).T[::-1, ::-1]


def check_small(block: np.ndarray) -> np.ndarray:
    """Return a block, or raise if it is too large for a conditional that is a dense matrix."""
    if len(block) > MAX_DENSE_BLOCK:
        raise ValueError(
            f"block has {len(block)} values, and its conditional would be a dense matrix of that size. Use blocks "
            f"of at most {MAX_DENSE_BLOCK} values."
        )
    return block
