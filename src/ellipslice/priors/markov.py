"""Time series at irregular times, in linear time, by the quasi-separable kernels of tinygp."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import jax
import jax.numpy as jnp
import numpy as np

from ellipslice.checks import as_mean, as_numbers
from ellipslice.jax_settings import jax_settings
from ellipslice.priors.base import Prior, log_normal
from ellipslice.priors.parts.conditional import BlockConditional, as_block
from ellipslice.priors.parts.kernels import comes_from
from ellipslice.priors.parts.markov_conditional import condition
from ellipslice.priors.parts.null_space import DENSE_LIMIT, null_space_of_factor, rounding
from ellipslice.priors.parts.state_space import state_space
from ellipslice.pytree import pytree, set_fields, static

if TYPE_CHECKING:
    from tinygp.kernels.quasisep import Quasisep


@pytree
class Markov(Prior):
    """A Gaussian process prior in time whose past and future are independent given a small state.

    Use it for time series of any length, at any times. The kernels are Matérn-1/2, -3/2 and -5/2, random walks, damped
    and undamped oscillations, and sums and products of these. Requires tinygp.

    Parameters
    ----------
    kernel : tinygp.kernels.quasisep.Quasisep
        For example `tinygp.kernels.quasisep.Matern32(scale=1.5)`, or `Markov.random_walk(...)`.
    times : array, shape (N,)
        Strictly increasing. For other times use `times, where = np.unique(times, return_inverse=True)`, and f[where]
        in the likelihood.
    mean : float or array, shape (N,)
        Prior mean. Default: 0.

    Raises
    ------
    ImportError
        If tinygp is not installed.
    TypeError
        If `kernel` is not a kernel of `tinygp.kernels.quasisep`, or `times` are dates.
    ValueError
        If `times` do not increase, or the kernel is not finite, not positive definite, or has a variance of 0 there.

    Notes
    -----
    The state has S numbers: 1, 2 and 3 for the Matérn kernels. S adds up in a sum of kernels, and multiplies in a
    product. Set-up costs O(N S^3). A draw, `whiten`, `log_density` and a conditional mean cost O(N S^2), and memory is
    O(N S^2). `condition` also costs O(B^3) once, for a block that spans B elements.

    The covariance is that of the kernel up to rounding error. If times are so close that it is singular in double
    precision, the variance of an element is raised by a unit in the last place.

    Examples
    --------
    >>> import numpy as np
    >>> from tinygp.kernels import quasisep
    >>> times = np.sort(np.random.default_rng(0).uniform(0, 100, 1000))
    >>> Markov(quasisep.Matern32(scale=5.0) + quasisep.Exp(scale=0.5, sigma=0.3), times)
    Markov(1000 values, state of 3)
    """

    stored_as = "Markov"

    diagonal: Any
    left: Any
    right: Any
    transition: Any
    """With `diagonal`, `left` and `right`, the Cholesky factor L of the covariance: L[n, n] = diagonal[n] and, for
    k < n, L[n, k] = left[n] @ transition[n - 1] ... [k + 1] @ right[k]."""
    mean: Any
    shape: tuple[int, ...] = static()

    def __init__(self, kernel: Quasisep, times: Any, mean: Any = 0.0):
        times = _as_times(times)
        with jax_settings():
            start, observed, transition = (np.asarray(part) for part in _state_space(kernel, times))
            if not all(np.isfinite(part).all() for part in (start, observed, transition)):
                raise ValueError(
                    "kernel is not finite at these times. Check its parameters. A random walk is defined only at times "
                    "after its origin."
                )
            variance = np.einsum("ni,ij,nj->n", observed, start, observed)
            if not (variance > 0).all():
                n = int(np.argmin(variance))
                raise ValueError(
                    f"kernel has the variance {variance[n]:.6g} at times[{n}] = {times[n]:.6g}; expected a positive "
                    "one. A random walk is 0 at its origin: leave that time out, or give the walk start=..."
                )
            noise = _clip_eigenvalues(start - np.einsum("nij,jk,nlk->nil", transition, start, transition))
            diagonal, right = (np.asarray(part) for part in _filter(start, observed, transition, noise, variance))
        if not np.isfinite(diagonal).all() or not np.isfinite(right).all():
            raise ValueError(
                "kernel is not positive definite at these times; expected a covariance. Check its parameters."
            )
        left = np.einsum("ni,nij->nj", observed, transition)
        set_fields(self, diagonal=diagonal, left=left, right=right, transition=transition)
        set_fields(self, mean=as_mean(mean, times.shape), shape=times.shape)

    @staticmethod
    def random_walk(scale: float = 1.0, *, start: float = 0.0, origin: float = 0.0) -> Quasisep:
        """Return the kernel of a random walk (Brownian motion). It can be part of sums and products of kernels.

        The variance of the walk is start^2 + scale^2 (time - origin), for times after the origin.

        Parameters
        ----------
        scale : float
            Standard deviation of an increment over a unit of time. Positive. Default: 1.
        start : float
            Standard deviation at the origin. At least 0. Default: 0.
        origin : float
            Time at which the walk starts. Default: 0.

        Returns
        -------
        tinygp.kernels.quasisep.Quasisep

        Examples
        --------
        >>> Markov(Markov.random_walk(0.5, start=2.0), [0.0, 1.0, 4.0])
        Markov(3 values, state of 1)
        """
        _import_tinygp()
        from ellipslice.priors.parts.random_walk_kernel import RandomWalkKernel

        for name, value, least in (("scale", scale, "positive"), ("start", start, "not negative")):
            number = as_numbers(value, name)
            if number.ndim or number < 0 or (least == "positive" and number == 0):
                raise ValueError(f"{name} must be one number, {least}, but it is {value!r}.")
        return RandomWalkKernel(scale=float(scale), start=float(start), origin=float(origin))

    @property
    def noise_size(self) -> int:
        return self.size

    def unwhiten(self, z: Any) -> Any:
        return _apply_to_rows(self._factor.matmul, z)

    def whiten(self, f: Any) -> Any:
        return _apply_to_rows(self._factor.solve, f)

    def log_density(self, f: Any) -> Any:
        return log_normal(self.whiten(f), 2 * jnp.sum(jnp.log(self.diagonal)), self.size)

    def condition(self, block: Any) -> BlockConditional:
        return condition(self, as_block(block, self.size))

    def null_space(self) -> np.ndarray | None:
        diagonal = np.asarray(self.diagonal)
        if diagonal.min() > 1e-6 * diagonal.max():
            return np.zeros((0, self.size))
        left, right, transition = (np.asarray(part) for part in (self.left, self.right, self.transition))
        state, variance = np.zeros(transition.shape[1:]), np.empty(self.size)
        for n in range(self.size):
            variance[n] = diagonal[n] ** 2 + left[n] @ state @ left[n]
            state = transition[n] @ state @ transition[n].T + np.outer(right[n], right[n])
        # A kernel without innovations, such as a cosine, is singular. `_filter` has raised its innovations to rounding.
        if not (diagonal**2 <= 4 * np.finfo(float).eps * variance).any():
            return np.zeros((0, self.size))
        if self.size > DENSE_LIMIT:
            return None
        with jax_settings():
            return null_space_of_factor(np.asarray(self.unwhiten(np.eye(self.size))), rounding(self.size))

    @property
    def _factor(self) -> Any:
        """The Cholesky factor of the covariance, as a matrix of tinygp."""
        from tinygp.solvers.quasisep.core import DiagQSM, LowerTriQSM, StrictLowerTriQSM

        lower = StrictLowerTriQSM(p=jnp.asarray(self.left), q=jnp.asarray(self.right), a=jnp.asarray(self.transition))
        return LowerTriQSM(diag=DiagQSM(jnp.asarray(self.diagonal)), lower=lower)

    def __repr__(self) -> str:
        return f"Markov({self.size} values, state of {self.left.shape[1]})"


def _apply_to_rows(apply: Any, values: Any) -> Any:
    """Apply a matrix of tinygp, which acts on columns, to all vectors (..., N) in one pass through time."""
    columns = values.reshape(-1, values.shape[-1]).T
    return apply(columns).T.reshape(values.shape)


@jax.jit
def _filter(start: Any, observed: Any, transition: Any, noise: Any, variance: Any) -> tuple[Any, Any]:
    """Return the diagonal of the Cholesky factor and its right vectors, by the Kalman filter.

    tinygp's `SymmQSM.cholesky` subtracts the explained covariance of the state from its prior covariance. If times are
    close, the digits cancel and it fails. The filter propagates the remaining covariance instead. An innovation
    variance below rounding error is raised to the last place of the variance of that element. No other entry of the
    covariance changes.
    """

    def forward(state_covariance: Any, now: tuple[Any, ...]) -> tuple[Any, tuple[Any, Any]]:
        observed_n, transition_n, noise_n, variance_n = now
        state_covariance = transition_n @ state_covariance @ transition_n.T + noise_n
        with_value = state_covariance @ observed_n
        computed = observed_n @ with_value
        innovation = jnp.maximum(computed, jnp.finfo(computed.dtype).eps * variance_n)
        gain = with_value / innovation
        # Joseph's form, which stays symmetric and positive.
        residual = jnp.eye(len(gain), dtype=gain.dtype) - jnp.outer(gain, observed_n)
        state_covariance = residual @ state_covariance @ residual.T + (innovation - computed) * jnp.outer(gain, gain)
        return state_covariance, (jnp.sqrt(innovation), with_value / jnp.sqrt(innovation))

    return jax.lax.scan(forward, start, (observed, transition, noise, variance))[1]


def _clip_eigenvalues(noise: np.ndarray) -> np.ndarray:
    """Return covariances (N, S, S) without their negative eigenvalues, which are rounding errors.

    The filter would divide by these eigenvalues.
    """
    values, vectors = np.linalg.eigh(noise)
    values = np.maximum(values, 0.0) + 4 * np.finfo(float).eps * np.abs(values[:, -1:])
    return np.einsum("nij,nj,nkj->nik", vectors, values, vectors)


def _state_space(kernel: Any, times: np.ndarray) -> tuple[Any, Any, Any]:
    """Return the kernel as a state space model: see `state_space`. Raise TypeError if it is not quasi-separable."""
    _import_tinygp()
    from tinygp.kernels.quasisep import Quasisep

    if not isinstance(kernel, Quasisep):
        given = f"the class {kernel.__name__}" if isinstance(kernel, type) else f"a {type(kernel).__name__}"
        hint = " For other kernels use Stationary (regular times), LowRank.inducing_points, or Dense."
        if comes_from(kernel, "tinygp"):
            hint = " tinygp.kernels.quasisep has Exp, Matern32 and Matern52 under the same names." + hint
        raise TypeError(f"kernel must be an instance of a kernel of tinygp.kernels.quasisep, but it is {given}.{hint}")

    return state_space(kernel, jnp.asarray(times))


def _as_times(times: Any) -> np.ndarray:
    """Return times as an array (N,). Raise if they are dates, or do not increase strictly."""
    if np.asarray(times).dtype.kind in "mM":
        raise TypeError(
            "times are dates; expected numbers. Convert them, for example by "
            "(times - times[0]) / np.timedelta64(1, 'D')."
        )
    array = as_numbers(times, "times")
    if array.ndim != 1 or array.size == 0:
        raise ValueError(f"times has shape {array.shape}; expected (N,).")
    steps = np.diff(array)
    advice = "Use `times, where = np.unique(times, return_inverse=True)`, and f[where] in the likelihood."
    if (steps < 0).any():
        n = int(np.argmax(steps < 0))
        raise ValueError(
            f"times must increase, but times[{n}] is {array[n]:.6g} and times[{n + 1}] is {array[n + 1]:.6g}. {advice}"
        )
    if (steps == 0).any():
        n = int(np.argmax(steps == 0))
        raise ValueError(f"times must increase, but times[{n}] and times[{n + 1}] are both {array[n]:.6g}. {advice}")
    return array


def _import_tinygp() -> None:
    """Raise ImportError with the command that installs tinygp, if it is not installed."""
    try:
        import tinygp  # noqa: F401
    except ImportError:
        raise ImportError(
            "Markov requires the kernels of tinygp. Install it with: pip install 'ellipslice[gp]'."
        ) from None
