"""Our update under BlackJAX's `init` and `step`: a drop-in for `blackjax.elliptical_slice`."""

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
    """What an update reports: BlackJAX's three fields, and two of ours."""

    momentum: Any
    """The other axis of the ellipse, turned along with the position."""
    theta: Any
    """The accepted angle; 0 if the state stayed."""
    subiter: Any
    """Angles tried, each one evaluation of the log-likelihood."""
    nan_evaluations: Any
    """How many of them gave NaN. Such a point is never accepted."""
    search_failed: Any
    """True if the search was given up and the state stayed where it was."""


def elliptical_slice(
    loglikelihood_fn: Callable[[Any], Any], *, mean: Any = 0.0, cov: Any = None, prior: Prior | None = None
) -> SamplingAlgorithm:
    """Elliptical slice sampling as a BlackJAX algorithm, a drop-in for `blackjax.elliptical_slice`.

    The answers are the same. What differs: NaNs are rejected and counted rather than accepted, a search that finds
    nothing ends, a covariance may be singular, and one of our priors with structure can take its place. On CPUs an
    update is faster. To run chains by themselves, `ellipslice.sample` is faster still.

    Parameters
    ----------
    loglikelihood_fn : callable
        position -> log-likelihood, written with `jax.numpy`. Without the prior, or it would count twice.
    mean, cov : arrays
        Of the Gaussian prior: `cov` has shape (N, N), or (N,) for independent values; `mean` is a number or has shape
        (N,). A position may be any pytree of N values in all, in the order of `jax.flatten_util.ravel_pytree`. Both may
        be traced, in a function of parameters that change; such a `cov` must be positive definite in its precision.
    prior : Prior, optional
        Instead of `mean` and `cov`: one of this library's priors that JAX can trace. Positions have its shape, or are
        dicts of named latents for a `Stack`.

    Returns
    -------
    SamplingAlgorithm
        With `init(position)` and `step(rng_key, state)`, for `jax.jit`, `jax.vmap`, `jax.lax.scan` and
        `blackjax.util.run_inference_algorithm`. `info` is an `EllipticalSliceInfo`.

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
    """The state at a position; `logdensity_fn` is the log-likelihood. For BlackJAX's SMC, as `mcmc_init_fn`."""
    position = jax.tree.map(_real, position)
    value = jnp.asarray(logdensity_fn(position))
    if not isinstance(value, Tracer) and value.shape == () and not jnp.isfinite(value):
        raise ValueError(
            f"the log-likelihood of the first position is {value}; it must be finite. Start where the likelihood is "
            "not zero."
        )
    return EllipSliceState(position, value)


def build_kernel(
    cov_matrix: Any = None, mean: Any = 0.0, *, prior: Prior | None = None
) -> Callable[[Any, EllipSliceState, Callable[[Any], Any]], tuple[EllipSliceState, EllipticalSliceInfo]]:
    """The update as kernel(rng_key, state, loglikelihood_fn). For BlackJAX's SMC, as `mcmc_step_fn`.

    Parameters are those of `elliptical_slice`. In `blackjax.adaptive_tempered_smc` the kernel has the prior already, so
    `logprior_fn` must be a constant, `lambda position: 0.0`, or the prior would count twice.
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
        position = jnp.where(info.search_failed, flat, new.f + centre)  # as it was, to the bit
        return EllipSliceState(unravel(position), new.log_likelihood), _info(info, f, nu, lambda f: unravel(f + centre))

    return kernel


def _info(info: Info, f: Any, nu: Any, unravel: Callable[[Any], Any]) -> EllipticalSliceInfo:
    momentum = unravel(nu * jnp.cos(info.angle) - f * jnp.sin(info.angle))
    return EllipticalSliceInfo(momentum, info.angle, info.evaluations, info.nan_evaluations, info.search_failed)


class _Gaussian(NamedTuple):
    """A prior as JAX code: where its mean is, how it draws, and how positions become flat vectors."""

    mean: Any
    draw: Callable[[Any, Any], Any]
    """(key, dtype) -> a draw less the mean, flat."""
    flatten: Callable[[Any], tuple[Any, Callable[[Any], Any]]]
    """position -> (a flat vector, the way back)."""

    @classmethod
    def of(cls, prior: Prior | None, cov: Any, mean: Any) -> _Gaussian:
        if (prior is None) == (cov is None):
            raise TypeError("give the covariance of the prior, cov=, or one of ellipslice's priors, prior=, not both.")
        if prior is not None:
            if not isinstance(mean, int | float) or mean != 0:
                raise TypeError("mean= goes with cov=; a prior has its own: prior=Dense(covariance, mean).")
            return cls._of_prior(prior)
        if any(isinstance(part, Tracer) for part in (cov, mean)):
            return cls._traced(cov, mean)
        dimensions = np.ndim(cov)
        if dimensions not in (1, 2):
            raise ValueError(
                f"cov has {dimensions} dimensions; expected 2, a matrix, or 1, the variances of independent values."
            )
        ours = Diagonal(cov, mean=mean) if dimensions == 1 else Dense(cov, mean=mean)
        return cls._of_prior(ours)._replace(flatten=_any_pytree(ours.size))

    @classmethod
    def _of_prior(cls, prior: Prior) -> _Gaussian:
        if not isinstance(prior, Prior):
            raise TypeError(f"prior must be one of ellipslice's priors, but it is a {type(prior).__name__}.")
        if not prior.traceable:
            raise TypeError(
                f"{type(prior).__name__} draws on the host, which JAX cannot compile. Use ellipslice.sample, or "
                "Dense below about 5,000 values."
            )

        def draw(key: Any, dtype: Any) -> Any:
            ours = jax.tree.map(lambda leaf: _as(leaf, dtype), prior)
            return ours.unwhiten(jax.random.normal(key, (prior.noise_size,), dtype))

        return cls(0.0 if prior.mean is None else prior.mean, draw, _of_layout(prior))

    @classmethod
    def _traced(cls, cov: Any, mean: Any) -> _Gaussian:
        cov = jnp.asarray(cov)
        if cov.ndim not in (1, 2):
            raise ValueError(f"cov has {cov.ndim} dimensions; expected 2, a matrix, or 1, variances.")
        if cov.ndim == 2 and cov.shape[0] != cov.shape[1]:
            raise ValueError(f"cov has shape {cov.shape}; expected a square matrix, (N, N), or variances, (N,).")
        if jnp.shape(mean) not in ((), cov.shape[:1]):
            raise ValueError(
                f"mean has shape {jnp.shape(mean)}, but cov is for {len(cov)} values. Give a number or shape "
                f"({len(cov)},)."
            )
        factor = jnp.sqrt(cov) if cov.ndim == 1 else jnp.linalg.cholesky(cov)

        def draw(key: Any, dtype: Any) -> Any:
            z = jax.random.normal(key, (len(cov),), dtype)
            return factor.astype(dtype) * z if cov.ndim == 1 else factor.astype(dtype) @ z

        return cls(mean, draw, _any_pytree(len(cov)))


def _any_pytree(size: int) -> Callable[[Any], tuple[Any, Callable[[Any], Any]]]:
    def flatten(position: Any) -> tuple[Any, Callable[[Any], Any]]:
        flat, unravel = ravel_pytree(position)
        if flat.size != size:
            raise ValueError(f"the position has {flat.size} values, but the prior has {size}.")
        return flat, unravel

    return flatten


def _of_layout(prior: Prior) -> Callable[[Any], tuple[Any, Callable[[Any], Any]]]:
    """Named latents in the prior's own order, where a dict would be in that of the alphabet."""
    layout = prior.layout
    single = is_single(layout)

    def flatten(position: Any) -> tuple[Any, Callable[[Any], Any]]:
        latents = {"f": position} if single else position
        if not isinstance(latents, dict) or set(latents) != {name for name, _ in layout}:
            raise ValueError(f"the position must be a dict of {', '.join(name for name, _ in layout)}.")
        for name, shape in layout:
            value, what = latents[name], "the position" if single else name
            if isinstance(value, dict | list | tuple):
                raise ValueError(
                    f"{what} is a {type(value).__name__}, but the prior has one array there, of shape {shape}."
                )
            if jnp.shape(value) != shape:
                raise ValueError(f"{what} has shape {jnp.shape(value)}, but the prior has shape {shape} there.")
        flat = jnp.concatenate([jnp.ravel(latents[name]) for name, _ in layout])

        def back(flat: Any) -> Any:
            latents = unpack(flat, None, layout)
            return latents["f"] if single else latents

        return flat, back

    return flatten


def _real(value: Any) -> Any:
    value = jnp.asarray(value)
    if jnp.issubdtype(value.dtype, np.floating):
        return value
    if jnp.issubdtype(value.dtype, np.integer):
        return value.astype(float)
    raise TypeError(f"positions must be real numbers, but their dtype is {value.dtype}.")


def _as(leaf: Any, dtype: Any) -> Any:
    return jnp.asarray(leaf, dtype) if np.issubdtype(np.asarray(leaf).dtype, np.floating) else jnp.asarray(leaf)
