"""Elliptical slice sampling as a BlackJAX algorithm, a replacement for `blackjax.elliptical_slice`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.core import Tracer
from jax.flatten_util import ravel_pytree

from ellipslice.interop.shared import require
from ellipslice.interop.update import update
from ellipslice.moves import Info
from ellipslice.priors import Dense, Diagonal, Prior
from ellipslice.priors.base import is_single, unpack

require("blackjax")

from blackjax.base import SamplingAlgorithm  # noqa: E402
from blackjax.mcmc.elliptical_slice import EllipSliceState  # noqa: E402

__all__ = ["EllipticalSliceInfo", "build_kernel", "elliptical_slice", "init"]


class EllipticalSliceInfo(NamedTuple):
    """Statistics of one update: BlackJAX's three fields, and two more."""

    momentum: Any
    """The second vector of the ellipse, rotated by the accepted angle; a pytree like the position."""
    theta: Any
    """The accepted angle, in radians. 0 if the search failed."""
    subiter: Any
    """Number of proposals tried, each with one evaluation of the log-likelihood."""
    nan_evaluations: Any
    """Number of evaluations that returned NaN. Such a proposal is never accepted."""
    search_failed: Any
    """True if the search ended without an accepted proposal, so that the state is unchanged."""


def elliptical_slice(
    loglikelihood_fn: Callable[[Any], Any], *, mean: Any = 0.0, cov: Any = None, prior: Prior | None = None
) -> SamplingAlgorithm:
    """Return elliptical slice sampling as a BlackJAX algorithm, a replacement for `blackjax.elliptical_slice`.

    It samples the same distribution. There are four differences: NaN is rejected and counted instead of accepted; a
    search without an accepted proposal ends; the covariance may be singular; and the prior may be one of ellipslice's
    structured priors. On CPUs an update is faster. If you need no other part of BlackJAX, `ellipslice.sample` is faster
    still.

    Parameters
    ----------
    loglikelihood_fn : callable
        Log-likelihood as a function of the position, written with `jax.numpy`. It must not include the prior.
    mean : float or array, shape (N,)
        Mean of the Gaussian prior. Default: 0.
    cov : array, shape (N, N) or (N,)
        Covariance of the Gaussian prior, or its variances if the elements are independent. Mean and covariance may be
        traced, for example as functions of hyperparameters. A traced `cov` must be numerically positive definite.
    prior : Prior, optional
        A prior of ellipslice that JAX can trace, instead of `mean` and `cov`. Positions have its shape, or are dicts of
        named latents for a `Stack`.

    Returns
    -------
    SamplingAlgorithm
        The functions `init(position)` and `step(rng_key, state)`, for `jax.jit`, `jax.vmap`, `jax.lax.scan` and
        `blackjax.util.run_inference_algorithm`. With `cov`, a position is any pytree with N elements in the order of
        `jax.flatten_util.ravel_pytree`. `step` returns the new state and an `EllipticalSliceInfo`.

    Raises
    ------
    TypeError
        If not exactly one of `cov` and `prior` is given, or JAX cannot trace the prior.
    ValueError
        If shapes do not fit, or the covariance is not positive semi-definite.

    Examples
    --------
    A prior N(0, 1) and one observation, 1.0 with standard deviation 0.5: the posterior is N(0.8, 0.2).

    >>> import jax, jax.numpy as jnp
    >>> from blackjax.util import run_inference_algorithm
    >>> from ellipslice.interop.blackjax import elliptical_slice
    >>> algorithm = elliptical_slice(lambda f: -2 * jnp.sum((f - 1) ** 2), mean=0.0, cov=jnp.ones(1))
    >>> _, (states, info) = run_inference_algorithm(jax.random.key(1), algorithm, 5000, initial_position=jnp.zeros(1))
    >>> bool(abs(states.position.mean() - 0.8) < 0.05), int(info.search_failed.sum())
    (True, 0)
    """
    kernel = build_kernel(cov, mean, prior=prior)

    def start(position: Any, rng_key: Any = None) -> EllipSliceState:
        return init(position, loglikelihood_fn)

    def step(rng_key: Any, state: EllipSliceState) -> tuple[EllipSliceState, EllipticalSliceInfo]:
        return kernel(rng_key, state, loglikelihood_fn)

    return SamplingAlgorithm(start, step)  # pyright: ignore[reportArgumentType]


def init(position: Any, logdensity_fn: Callable[[Any], Any]) -> EllipSliceState:
    """Return the state at a position. In BlackJAX's SMC it is the `mcmc_init_fn`.

    Parameters
    ----------
    position : pytree of real arrays
        Initial position.
    logdensity_fn : callable
        Log-likelihood as a function of the position, without the prior.

    Raises
    ------
    ValueError
        If the log-likelihood at the position is not finite. Not checked in traced code.
    """
    position = jax.tree.map(_real, position)
    value = jnp.asarray(logdensity_fn(position))
    if not isinstance(value, Tracer) and value.shape == () and not jnp.isfinite(value):
        raise ValueError(
            f"the log-likelihood of the first position is {value}, but it must be finite. Start at a position where "
            "the likelihood is not zero."
        )
    return EllipSliceState(position, value)


def build_kernel(
    cov_matrix: Any = None, mean: Any = 0.0, *, prior: Prior | None = None
) -> Callable[[Any, EllipSliceState, Callable[[Any], Any]], tuple[EllipSliceState, EllipticalSliceInfo]]:
    """Return the update as a function kernel(rng_key, state, loglikelihood_fn). In BlackJAX's SMC it is `mcmc_step_fn`.

    In `blackjax.adaptive_tempered_smc` the kernel already includes the prior. So `logprior_fn` must be a constant,
    `lambda position: 0.0`; otherwise the prior would count twice.

    Parameters
    ----------
    cov_matrix, mean, prior
        As `cov`, `mean` and `prior` of `elliptical_slice`.

    Returns
    -------
    callable
        It returns the new state and an `EllipticalSliceInfo`.
    """
    gaussian = _Gaussian.of(prior, cov_matrix, mean)

    def kernel(
        rng_key: Any, state: EllipSliceState, logdensity_fn: Callable[[Any], Any]
    ) -> tuple[EllipSliceState, EllipticalSliceInfo]:
        flat, unravel = gaussian.flatten(state.position)
        draw_key, search_key = jax.random.split(rng_key)
        centre = jnp.broadcast_to(jnp.asarray(gaussian.mean, flat.dtype), flat.shape)
        f, nu = flat - centre, gaussian.draw(draw_key, flat.dtype)
        new, info = update(search_key, f, state.logdensity, nu, lambda f: logdensity_fn(unravel(f + centre)))
        position = jnp.where(info.search_failed, flat, new.f + centre)  # if it failed, unchanged without rounding error
        return EllipSliceState(unravel(position), new.log_likelihood), _info(info, f, nu, lambda f: unravel(f + centre))

    return kernel


def _info(info: Info, f: Any, nu: Any, unravel: Callable[[Any], Any]) -> EllipticalSliceInfo:
    momentum = unravel(nu * jnp.cos(info.angle) - f * jnp.sin(info.angle))
    return EllipticalSliceInfo(momentum, info.angle, info.evaluations, info.nan_evaluations, info.search_failed)


class _Gaussian(NamedTuple):
    """A prior as JAX code: its mean, and functions to draw from it and to flatten positions."""

    mean: Any
    """Mean of the prior: a number, or shape (size,)."""
    draw: Callable[[Any, Any], Any]
    """Function of (key, dtype) that returns a draw without the mean, shape (size,)."""
    flatten: Callable[[Any], tuple[Any, Callable[[Any], Any]]]
    """Function of a position that returns its flat vector, and the inverse function."""

    @classmethod
    def of(cls, prior: Prior | None, cov: Any, mean: Any) -> _Gaussian:
        if (prior is None) == (cov is None):
            raise TypeError(
                "give either the covariance of the prior, cov=, or one of ellipslice's priors, prior=, not both."
            )
        if prior is not None:
            if not isinstance(mean, int | float) or mean != 0:
                raise TypeError("mean= is only for cov=; a prior has its own mean: prior=Dense(covariance, mean).")
            return cls._of_prior(prior)
        if any(isinstance(part, Tracer) for part in (cov, mean)):
            return cls._traced(cov, mean)
        dimensions = np.ndim(cov)
        if dimensions not in (1, 2):
            raise ValueError(
                f"cov has {dimensions} dimensions. Expected a matrix, shape (N, N), or variances, shape (N,)."
            )
        ours = Diagonal(cov, mean=mean) if dimensions == 1 else Dense(cov, mean=mean)
        return cls._of_prior(ours)._replace(flatten=_any_pytree(ours.size))

    @classmethod
    def _of_prior(cls, prior: Prior) -> _Gaussian:
        if not isinstance(prior, Prior):
            raise TypeError(f"prior must be one of ellipslice's priors, but it is a {type(prior).__name__}.")
        if not prior.traceable:
            raise TypeError(
                f"{type(prior).__name__} draws on the host, which JAX cannot compile. Use ellipslice.sample, or a "
                "Dense prior for at most about 5,000 elements."
            )

        def draw(key: Any, dtype: Any) -> Any:
            ours = jax.tree.map(lambda leaf: _as(leaf, dtype), prior)
            return ours.unwhiten(jax.random.normal(key, (prior.noise_size,), dtype))

        return cls(0.0 if prior.mean is None else prior.mean, draw, _of_layout(prior))

    @classmethod
    def _traced(cls, cov: Any, mean: Any) -> _Gaussian:
        cov = jnp.asarray(cov)
        if cov.ndim not in (1, 2):
            raise ValueError(
                f"cov has {cov.ndim} dimensions. Expected a matrix, shape (N, N), or variances, shape (N,)."
            )
        if cov.ndim == 2 and cov.shape[0] != cov.shape[1]:
            raise ValueError(f"cov has shape {cov.shape}. Expected a square matrix, (N, N), or variances, (N,).")
        if jnp.shape(mean) not in ((), cov.shape[:1]):
            raise ValueError(
                f"mean has shape {jnp.shape(mean)}, but cov is for {len(cov)} elements. Give a number or shape "
                f"({len(cov)},)."
            )
        factor = jnp.sqrt(cov) if cov.ndim == 1 else jnp.linalg.cholesky(cov)

        def draw(key: Any, dtype: Any) -> Any:
            z = jax.random.normal(key, (len(cov),), dtype)
            return factor.astype(dtype) * z if cov.ndim == 1 else factor.astype(dtype) @ z

        return cls(mean, draw, _any_pytree(len(cov)))


def _any_pytree(size: int) -> Callable[[Any], tuple[Any, Callable[[Any], Any]]]:
    """Return the function that flattens a pytree with `size` elements, in JAX's order."""

    def flatten(position: Any) -> tuple[Any, Callable[[Any], Any]]:
        flat, unravel = ravel_pytree(position)
        if flat.size != size:
            raise ValueError(f"the position has {flat.size} elements, but the prior has {size}. Give one for each.")
        return flat, unravel

    return flatten


def _of_layout(prior: Prior) -> Callable[[Any], tuple[Any, Callable[[Any], Any]]]:
    """Return the function that flattens positions of a prior.

    Named latents are in the order of the prior, which JAX's order of a dict, by name, would change.
    """
    layout = prior.layout
    single = is_single(layout)

    def flatten(position: Any) -> tuple[Any, Callable[[Any], Any]]:
        latents = {"f": position} if single else position
        if not isinstance(latents, dict) or set(latents) != {name for name, _ in layout}:
            given = (
                f"has the keys {', '.join(map(str, latents))}"
                if isinstance(latents, dict)
                else f"is a {type(latents).__name__}"
            )
            raise ValueError(f"the position must be a dict of {', '.join(name for name, _ in layout)}, but it {given}.")
        for name, shape in layout:
            value, subject = latents[name], "the position" if single else name
            if isinstance(value, dict | list | tuple):
                raise ValueError(
                    f"{subject} is a {type(value).__name__}, but the prior has one array there, of shape {shape}. Give "
                    "an array."
                )
            if jnp.shape(value) != shape:
                raise ValueError(
                    f"{subject} has shape {jnp.shape(value)}, but the prior has shape {shape} there. Give that shape."
                )
        flat = jnp.concatenate([jnp.ravel(latents[name]) for name, _ in layout])

        def unflatten(flat: Any) -> Any:
            latents = unpack(flat, None, layout)
            return latents["f"] if single else latents

        return flat, unflatten

    return flatten


def _real(value: Any) -> Any:
    """Return an array of floating-point numbers. Raise if the values are not real."""
    value = jnp.asarray(value)
    if jnp.issubdtype(value.dtype, np.floating):
        return value
    if jnp.issubdtype(value.dtype, np.integer):
        return value.astype(float)
    raise TypeError(f"positions must be real numbers, but the dtype is {value.dtype}. Convert them to float.")


def _as(leaf: Any, dtype: Any) -> Any:
    """Return a leaf of a prior as a JAX array. Floating-point numbers have the dtype of the position."""
    return jnp.asarray(leaf, dtype) if np.issubdtype(np.asarray(leaf).dtype, np.floating) else jnp.asarray(leaf)
