"""The Gaussian that particles are drawn from, and the function that weights them.

They are the prior and the likelihood, or a reference Gaussian Q and prior times likelihood divided by Q.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np

from ellipslice.approximations.sites import SitesReference, covariance_factor, log_normalizer
from ellipslice.engines.base import Engine
from ellipslice.engines.compiled import CompiledEngine
from ellipslice.engines.device.prior_draws import can_draw, source_of
from ellipslice.jax_settings import jax_settings
from ellipslice.marginal.particle_moves import DeviceParticleMove, HostParticleMove, ParticleMove
from ellipslice.posterior import Posterior
from ellipslice.priors import Dense, Prior
from ellipslice.programs.traced import compilable
from ellipslice.pytree import pytree, set_fields

DOUBLE = np.dtype(np.float64)


class AnnealedTarget(NamedTuple):
    """A Gaussian N(0, Sigma) and a function whose product has the integral Z."""

    gaussian: Prior
    """Gaussian at the inverse temperature 0."""
    centre: np.ndarray | float
    """Mean of the Gaussian as a centred flat vector of the posterior. Particles are relative to it."""
    make_move: Callable[[int, int, int], ParticleMove]
    """Function that makes a move from a seed, a number of particles, and the number that a CPU moves in one call."""
    engine: str
    """Name of the engine that moves particles: "batched" (compiled code) or "host" (NumPy)."""

    def draw(self, rng: np.random.Generator, count: int) -> np.ndarray:
        """Draw from the Gaussian, shape (count, size)."""
        return np.asarray(self.gaussian.draw_zero_mean(rng, count))


def target_from_prior(posterior: Posterior, engine: Engine) -> AnnealedTarget:
    """Return the target that begins at the prior, evaluated on a device, in this process or by workers."""
    prior, size = posterior.prior, posterior.prior.size
    if engine.traced and can_draw(prior):
        with jax_settings():
            likelihood, source = compilable(posterior.log_likelihood, size), source_of(prior, size + -size % 8, DOUBLE)
        return AnnealedTarget(
            prior, 0.0, lambda *settings: DeviceParticleMove(likelihood, source, *settings), "batched"
        )
    values = _compiled_values(posterior) if engine.traced else engine.evaluate_together
    return AnnealedTarget(prior, 0.0, lambda seed, count, _: HostParticleMove(values, prior, seed, count), "host")


def target_from_reference(posterior: Posterior, sites: SitesReference) -> AnnealedTarget:
    """Return the target that begins at a reference Gaussian Q and has the weight prior times likelihood divided by Q.

    The product is the same as with the prior, and so is Z.
    """
    rows, size = covariance_factor(posterior.prior), posterior.prior.size
    relative = sites.relative_to(posterior.prior)
    gaussian = Dense(factor=relative.rows.T)
    constant = log_normalizer(rows, sites)
    with jax_settings():
        inner = compilable(posterior.log_likelihood, size)
        arrays = (jnp.asarray(part) for part in (relative.centre, sites.linear, sites.precision, constant))
        likelihood, source = _OverReference(inner, *arrays), source_of(gaussian, size + -size % 8, DOUBLE)
    return AnnealedTarget(
        gaussian, relative.centre, lambda *settings: DeviceParticleMove(likelihood, source, *settings), "batched"
    )


@pytree
class _OverReference:
    """The function log(P L / Q) of a point relative to the mean of Q. Q is the prior P times sites, normalised."""

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


def _compiled_values(posterior: Posterior) -> Callable[[np.ndarray], np.ndarray]:
    """Return a function that evaluates points by compiled code.

    Batches are padded to a power of 2 points, because JAX compiles the code again for each size of a batch.
    """
    compiled = CompiledEngine(posterior)

    def values(points: np.ndarray) -> np.ndarray:
        padded_count = 1 << (len(points) - 1).bit_length()
        return compiled.evaluate_together(np.resize(points, (padded_count, points.shape[1])))[: len(points)]

    return values
