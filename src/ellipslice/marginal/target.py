"""What particles are drawn from and weighed by: prior and likelihood, or a Gaussian near the posterior instead."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np

from ellipslice.approximations.sites import SitesReference, as_rows, log_normalizer
from ellipslice.engines.base import Engine
from ellipslice.engines.compiled import CompiledEngine
from ellipslice.engines.device.prior_draws import can_draw, source_of
from ellipslice.jax_settings import jax_settings
from ellipslice.marginal.particle_moves import DeviceMover, HostMover, Mover
from ellipslice.posterior import Posterior
from ellipslice.priors import Dense, Prior
from ellipslice.programs.traced import compilable
from ellipslice.pytree import pytree, set_fields

DOUBLE = np.dtype(np.float64)


class Target(NamedTuple):
    """A Gaussian N(0, Sigma) and a function, whose product has the integral Z."""

    gaussian: Prior
    centre: np.ndarray | float
    """What to add to a point for a centred flat vector of the posterior."""
    mover: Callable[[int, int], Mover]
    """Makes one from a seed and a number of particles."""
    engine: str
    """Where particles are moved: "batched" is a device, if only the CPU, and "host" is NumPy."""

    def points(self, rng: np.random.Generator, count: int) -> np.ndarray:
        """Draws from the Gaussian."""
        return np.asarray(self.gaussian.draw_zero_mean(rng, count))


def around_prior(posterior: Posterior, engine: Engine) -> Target:
    """The prior, and the likelihood as it is: on a device, here, or by an executor's workers."""
    prior, size = posterior.prior, posterior.prior.size
    if engine.traced and can_draw(prior):
        with jax_settings():
            likelihood, source = compilable(posterior.log_likelihood, size), source_of(prior, size + -size % 8, DOUBLE)
        return Target(prior, 0.0, lambda seed, count: DeviceMover(likelihood, source, seed, count), "batched")
    values = _by_jax(posterior) if engine.traced else engine.evaluate_together
    return Target(prior, 0.0, lambda seed, count: HostMover(values, prior, seed, count), "host")


def around_reference(posterior: Posterior, sites: SitesReference) -> Target:
    """A Gaussian Q near the posterior, and prior times likelihood over Q: the same product, so the same Z."""
    rows, size = as_rows(posterior.prior), posterior.prior.size
    relative = sites.relative_to(posterior.prior)
    gaussian = Dense(factor=relative.rows.T)
    constant = log_normalizer(rows, sites)
    with jax_settings():
        inner = compilable(posterior.log_likelihood, size)
        arrays = (jnp.asarray(part) for part in (relative.centre, sites.linear, sites.precision, constant))
        likelihood, source = _OverReference(inner, *arrays), source_of(gaussian, size + -size % 8, DOUBLE)
    return Target(
        gaussian, relative.centre, lambda seed, count: DeviceMover(likelihood, source, seed, count), "batched"
    )


@pytree
class _OverReference:
    """log (L P / Q) around the mean of Q, which is P times sites over their integral."""

    inner: Any
    centre: Any
    linear: Any
    precision: Any
    constant: Any

    def __init__(self, inner: Any, centre: Any, linear: Any, precision: Any, constant: Any):
        set_fields(self, inner=inner, centre=centre, linear=linear, precision=precision, constant=constant)

    def __call__(self, x: Any) -> Any:
        f = self.centre + x
        sites = jnp.sum(f * (self.linear - 0.5 * self.precision * f))
        return self.inner(f) - sites + self.constant


def _by_jax(posterior: Posterior) -> Callable[[np.ndarray], np.ndarray]:
    """Compiled code, in batches of a few sizes: each is compiled for itself."""
    compiled = CompiledEngine(posterior)

    def values(points: np.ndarray) -> np.ndarray:
        room = 1 << (len(points) - 1).bit_length()
        return compiled.evaluate_together(np.resize(points, (room, points.shape[1])))[: len(points)]

    return values
