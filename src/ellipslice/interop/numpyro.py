"""Elliptical slice sampling as a NumPyro kernel, for NumPyro sites with a Gaussian prior."""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax.core import Tracer
from jax.flatten_util import ravel_pytree

from ellipslice.checks import whole_number
from ellipslice.interop.shared import require
from ellipslice.interop.update import update
from ellipslice.moves import Info

require("numpyro")

from numpyro.handlers import seed, substitute, trace  # noqa: E402
from numpyro.infer.gibbs import conditioned, prototype_trace, with_conditioning  # noqa: E402
from numpyro.infer.mcmc import MCMCKernel  # noqa: E402
from numpyro.infer.util import compute_log_probs  # noqa: E402
from numpyro.util import is_prng_key  # noqa: E402

from ellipslice.interop.numpyro_sites import gaussian_sites, in_blocks, own_sites  # noqa: E402

__all__ = ["EllipticalSlice", "EllipticalSliceState", "gaussian_sites"]

MAX_START_DRAWS = 100
"""Largest number of prior draws that are tried as initial point, until the log-likelihood is finite. As in NumPyro."""


class EllipticalSliceState(NamedTuple):
    """State of a chain, and statistics of its last draw. Any field can be in `extra_fields` of `MCMC.run`."""

    z: dict[str, Any]
    """Values of the sites, by name."""
    total_log_likelihood: Any
    """Log density of the model at z, without the prior of the sites; with several blocks, without that of the last one.

    In `Gibbs` it includes the priors of the sites of other kernels."""
    evaluations: Any
    """Number of proposals tried, each with one evaluation of the model."""
    nan_evaluations: Any
    """Number of evaluations that returned NaN. Such a proposal is never accepted."""
    search_failed: Any
    """True if a search ended without an accepted proposal, so that its sites are unchanged."""
    angle: Any
    """Accepted angle of the last search, in radians."""
    rng_key: Any
    """Random key of the next draw."""


class EllipticalSlice(MCMCKernel):
    """NumPyro kernel for sites with Gaussian priors, by elliptical slice sampling. Use it with `MCMC` or in `Gibbs`.

    It suits latent functions and coefficients with Gaussian priors, particularly if gradients are slow or do not
    exist. It has nothing to tune, so a short warm-up is enough. It mixes slowly if the data are much more informative
    than the prior.

    Sites may have any Gaussian distribution of NumPyro (normal and multivariate normal in all parametrisations,
    low-rank, matrix normal, random walk, state space, conditional autoregression, zero-sum), under plates, `expand` and
    `to_event`, or tinygp's `numpyro_dist`. The likelihood is the rest of the model, so the prior cannot count twice.

    For a model with other latent sites, make it a block of NumPyro's `Gibbs`, with NUTS for the rest. Means and
    covariances may depend on the other sites.

    Parameters
    ----------
    model : callable
        A NumPyro model.
    sites : sequence of str, optional
        Names of the sites to update. They must be all latent sites that no other kernel updates. Default: all latent
        sites.
    updates_per_draw : int
        Number of updates for each draw. Default: 1. An update is cheap compared with one of NUTS, so in `Gibbs` more
        updates cost little.

    Notes
    -----
    Sites whose priors do not depend on each other are updated jointly, on one ellipse. If the prior of a site depends
    on another one, such as a scale with a normal prior, they are updated in turn, each given the others.

    With `progress_bar=False` the loop is compiled as a whole, and a constant covariance is factorised once. With a
    progress bar and one chain, NumPyro calls each update separately, and every call factorises the covariance.

    Examples
    --------
    >>> import jax, numpyro, numpyro.distributions as dist
    >>> from numpyro.infer import MCMC
    >>> from ellipslice.interop.numpyro import EllipticalSlice
    >>> def model(y):
    ...     f = numpyro.sample("f", dist.Normal(0, 1))
    ...     numpyro.sample("y", dist.Normal(f, 0.5), obs=y)
    >>> mcmc = MCMC(EllipticalSlice(model), num_warmup=100, num_samples=5000, progress_bar=False)
    >>> mcmc.run(jax.random.key(1), 1.0, extra_fields=["evaluations"])
    >>> bool(abs(mcmc.get_samples()["f"].mean() - 0.8) < 0.05)  # the posterior is N(0.8, 0.2)
    True
    """

    sample_field = "z"  # pyright: ignore[reportAssignmentType]

    def __init__(self, model: Callable[..., Any], sites: Sequence[str] | None = None, *, updates_per_draw: int = 1):
        if not callable(model):
            raise TypeError(f"model must be a function with NumPyro's primitives, but it is a {type(model).__name__}.")
        if isinstance(sites, str):
            raise TypeError(f"sites must be a list of names: sites=[{sites!r}].")
        self._updates_per_draw = whole_number("updates_per_draw", updates_per_draw, 1, "a whole number, at least 1")
        self._model, self._sites = model, None if sites is None else tuple(sites)
        self._blocks: tuple[tuple[str, ...], ...] = ()
        self._deterministic = False

    @property
    def model(self) -> Callable[..., Any]:
        """The NumPyro model."""
        return self._model

    def init(
        self,
        rng_key: Any,
        num_warmup: int,
        init_params: Any = None,
        model_args: tuple[Any, ...] = (),
        model_kwargs: dict[str, Any] | None = None,
    ) -> EllipticalSliceState:
        """Inspect the model, and return the state at `init_params` or, by default, at a draw from the prior.

        NumPyro calls it. The log-likelihood there must be finite; up to 100 prior draws are tried.
        """
        kwargs = model_kwargs or {}
        single = is_prng_key(rng_key)
        self._inspect_model(rng_key if single else rng_key[0], model_args, kwargs)

        def start(key: Any, params: Any) -> EllipticalSliceState:
            return self._start(key, params, model_args, kwargs)

        state = start(rng_key, init_params) if single else jax.vmap(start)(rng_key, init_params)
        if not isinstance(state.total_log_likelihood, Tracer) and not jnp.isfinite(state.total_log_likelihood).all():
            where = "at init_params" if init_params else f"at any of {MAX_START_DRAWS} draws from the prior"
            raise ValueError(
                f"the log-likelihood is not finite {where}. Give initial values at which the likelihood is not zero: "
                "mcmc.run(..., init_params={site: value})."
            )
        return state

    def _inspect_model(self, key: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        model_trace = prototype_trace(self._model, key, args, kwargs)
        self._blocks = in_blocks(self._model, args, kwargs, own_sites(model_trace, self._sites))
        self._deterministic = any(site["type"] == "deterministic" for site in model_trace.values())

    def _start(self, key: Any, params: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> EllipticalSliceState:
        names = [name for block in self._blocks for name in block]
        if unknown := sorted(set(params or {}) - set(names)):
            raise ValueError(
                f"init_params has {', '.join(unknown)}, but the sites of this kernel are {', '.join(names)}. Leave the "
                "others out."
            )

        def draw(key: Any) -> tuple[dict[str, Any], Any]:
            model_trace = prototype_trace(self._model, key, args, kwargs)
            z = {name: jnp.asarray(model_trace[name]["value"]) for name in names}
            z |= {name: jnp.broadcast_to(value, z[name].shape) for name, value in (params or {}).items()}
            return z, self._log_likelihood(self._blocks[-1], z, args, kwargs)

        def again(carry: tuple[Any, ...]) -> tuple[Any, ...]:
            key, number, _, _ = carry
            key, own = jax.random.split(key)
            return key, number + 1, *draw(own)

        key, own = jax.random.split(key)
        _, _, z, value = jax.lax.while_loop(
            lambda carry: ~jnp.isfinite(carry[3]) & (carry[1] < MAX_START_DRAWS), again, (own, jnp.int32(1), *draw(own))
        )
        none = jnp.int32(0)
        return EllipticalSliceState(z, value, none, none, jnp.asarray(False), jnp.zeros_like(value), key)

    def sample(
        self, state: EllipticalSliceState, model_args: tuple[Any, ...], model_kwargs: dict[str, Any] | None
    ) -> EllipticalSliceState:
        """Return the state after `updates_per_draw` updates of each block. NumPyro calls it once per draw."""

        def one(state: EllipticalSliceState) -> EllipticalSliceState:
            return self._update(state, model_args, model_kwargs or {})

        return one(state) if is_prng_key(state.rng_key) else jax.vmap(one)(state)

    def _update(
        self, state: EllipticalSliceState, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> EllipticalSliceState:
        zero = jnp.int32(0)
        state = state._replace(evaluations=zero, nan_evaluations=zero, search_failed=jnp.asarray(False))
        if self._updates_per_draw == 1:
            return self._sweep(state, args, kwargs)
        return jax.lax.fori_loop(0, self._updates_per_draw, lambda _, state: self._sweep(state, args, kwargs), state)

    def _sweep(
        self, state: EllipticalSliceState, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> EllipticalSliceState:
        """Update each block once, and add the statistics to those of the state."""
        key, z, value = state.rng_key, state.z, state.total_log_likelihood
        info = Info(state.evaluations, state.nan_evaluations, state.search_failed, state.angle)
        for block in self._blocks:
            if len(self._blocks) > 1:  # `value` belongs to another block
                value = self._log_likelihood(block, z, args, kwargs)
            key, own = jax.random.split(key)
            z, value, this = self._move(own, block, z, value, args, kwargs)
            info = info.combine(this)
        return EllipticalSliceState(
            z, value, info.evaluations, info.nan_evaluations, info.search_failed, info.angle, key
        )

    def _move(
        self, key: Any, block: tuple[str, ...], z: dict[str, Any], value: Any, args: tuple[Any, ...], kwargs: dict
    ) -> tuple[dict[str, Any], Any, Info]:
        """Update the sites of a block on one ellipse. Return all sites, the log-likelihood and the statistics."""
        search_key, *keys = jax.random.split(key, 1 + len(block))
        model_trace = trace(substitute(self._model, data=z)).get_trace(*args, **kwargs)
        priors = [model_trace[name]["fn"] for name in block]
        here, unravel = ravel_pytree({name: z[name] for name in block})
        mean, _ = ravel_pytree({name: fn.mean for name, fn in zip(block, priors, strict=True)})
        draw, _ = ravel_pytree({name: fn.sample(key) for name, fn, key in zip(block, priors, keys, strict=True)})

        def log_likelihood(f: Any) -> Any:
            return self._log_likelihood(block, {**z, **unravel(f + mean)}, args, kwargs)

        state, info = update(search_key, here - mean, value, draw - mean, log_likelihood)
        new = jnp.where(info.search_failed, here, state.f + mean)  # if it failed, unchanged without rounding error
        return {**z, **unravel(new)}, state.log_likelihood, info

    def _log_likelihood(
        self, block: tuple[str, ...], z: dict[str, Any], args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> Any:
        """Return the log density of the model without the prior of the block."""
        parts, _ = compute_log_probs(self._model, args, kwargs, z)
        return jnp.asarray(sum(value for name, value in parts.items() if name not in block), float)

    # --- methods that NumPyro requires of a kernel ------------------------------------------------------------------

    def refresh(
        self, state: EllipticalSliceState, model_args: tuple[Any, ...], model_kwargs: dict[str, Any] | None
    ) -> EllipticalSliceState:
        """Return the state with its log-likelihood recomputed, after other kernels have changed their sites."""
        value = self._log_likelihood(self._blocks[-1], state.z, model_args, model_kwargs or {})
        return state._replace(total_log_likelihood=value)

    def wrap_model(self, wrapper: Callable[[Any], Any]) -> EllipticalSlice:
        """Return a copy of the kernel for the model wrapper(model)."""
        other = copy.copy(self)
        other._model, other._blocks = wrapper(self._model), ()
        return other

    def get_constrain_fn(
        self, model_args: tuple[Any, ...], model_kwargs: dict[str, Any] | None
    ) -> Callable[[Any], Any]:
        """Return the identity, because the sites are sampled without a transformation."""
        return lambda z: z

    def postprocess_fn(self, model_args: tuple[Any, ...], model_kwargs: dict[str, Any] | None) -> Callable[[Any], Any]:
        """Return a function that adds the model's deterministic sites to a draw."""
        if not self._deterministic:
            return lambda z: z

        def with_deterministic(z: dict[str, Any]) -> dict[str, Any]:
            model = substitute(seed(self._model, jax.random.key(0)), data=z)
            sites = trace(model).get_trace(*model_args, **(model_kwargs or {}))
            return {**z, **{name: site["value"] for name, site in sites.items() if site["type"] == "deterministic"}}

        return with_deterministic

    def get_diagnostics_str(self, state: EllipticalSliceState) -> str:
        """Return the text for the progress bar."""
        return f"{state.evaluations} evaluations"

    def gibbs_fn(
        self, model_args: tuple[Any, ...] = (), model_kwargs: dict[str, Any] | None = None
    ) -> Callable[..., dict[str, Any]]:
        """Return the update as a `gibbs_fn` for NumPyro's `HMCGibbs`, which does not pass on the model's arguments.

        A block of `Gibbs` does the same, also reports statistics, and needs one evaluation of the model less.

        >>> HMCGibbs(NUTS(model), EllipticalSlice(model).gibbs_fn((x, y)), gibbs_sites=["f"])  # doctest: +SKIP
        """
        kernel = self.wrap_model(conditioned)

        def gibbs_fn(rng_key: Any, gibbs_sites: dict[str, Any], hmc_sites: dict[str, Any]) -> dict[str, Any]:
            kwargs = with_conditioning(model_kwargs, hmc_sites)
            if not kernel._blocks:
                kernel._inspect_model(rng_key, model_args, kwargs)
            value = kernel._log_likelihood(kernel._blocks[-1], gibbs_sites, model_args, kwargs)
            zero = jnp.int32(0)
            state = EllipticalSliceState(gibbs_sites, value, zero, zero, False, jnp.zeros_like(value), rng_key)
            return kernel._update(state, model_args, kwargs).z

        return gibbs_fn
