"""Hamiltonian trajectories that rotate around a reference Gaussian, with kicks by the gradient of the residual.

The posterior is Q(f) exp(U(f)), with a reference Gaussian Q = N(centre, C) and the residual U = log L - log(Q / prior).
With an auxiliary nu ~ N(0, C) the energy of (f, nu) is

    H = x' inv(C) x / 2 + nu' inv(C) nu / 2 - U(f),    x = f - centre.

A rotation of (x, nu) on their ellipse is the exact motion for the first two terms, and does not change their sum. A
kick nu + h C grad U(f) is the exact motion for the third term. It changes the second term by h nu'g + h^2 g'Cg / 2,
with g = grad U(f). A trajectory alternates rotations and kicks, and is accepted by the change of H (Metropolis). So
inv(C) is never needed, and a kick costs one gradient and one product with C.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from math import pi
from types import MappingProxyType
from typing import Any, ClassVar, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from ellipslice.checks import whole_number
from ellipslice.moves.base import Info, Move, State, Target
from ellipslice.moves.covariances import DenseCovariance, PriorAsReference, PriorCovariance
from ellipslice.moves.elliptical import EllipticalPath
from ellipslice.moves.reference_slice import Reference, RelativeReference, draw_around_reference
from ellipslice.noise import Noise, NoiseSpec, UpdateNoise
from ellipslice.priors import Prior
from ellipslice.pytree import pytree, set_fields

ANGLE = pi / 2
"""Mean angle of a trajectory, in radians. Without kicks it ends at an independent draw of the reference."""

ANGLE_SPREAD = 0.2
"""The angle of a trajectory is uniform within this share of ANGLE, so that no direction returns to its start."""

KICKS_PER_GRAPH = 8
"""Number of kicks that a GPU launches as one graph of operations."""

DIVERGED = 1e30
"""A trajectory has diverged if an element of f is at least as large as this number."""


class SplitDraws(NamedTuple):
    """The random numbers of one update of `SplitHamiltonian`."""

    nu: Any
    """A draw from the reference without its mean, or from the prior if the update is plain."""
    plain: Any
    """True if the update is an elliptical slice update around the prior. It is the same for all chains."""


@dataclass(frozen=True)
class SplitHamiltonian(Move):
    """Rotations around a reference Gaussian with kicks by the gradient: split Hamiltonian Monte Carlo.

    Use it for informative data and a log-likelihood that JAX can differentiate. `ReferenceSlice` moves along one
    ellipse of the reference. Where the reference is a poor approximation, it accepts only small angles. This move
    corrects the ellipse on the way: it rotates by about pi / 2 in several steps, with a kick by the gradient of log L -
    log(Q / prior) in each. If Q is the posterior, the gradient is zero, and every trajectory is accepted.

    Every `plain_every`-th update is an elliptical slice update around the prior, which needs no gradient. It moves
    chains from where all trajectories are rejected. If one ends at a log-likelihood of NaN or -inf, it is rejected.

    Parameters
    ----------
    reference : Reference or None
        The reference Gaussian, as fitted by `sample(..., reference=...)`. None: the prior itself.
    kicks : int
        Number of kicks in a trajectory. At least 1. More kicks are accepted more often, and cost more. `sample`
        chooses it by a pilot run. Default: 4.
    plain_every : int
        Interval between elliptical slice updates around the prior. At least 2. Default: 10.

    Raises
    ------
    ValueError
        If `kicks` or `plain_every` is out of range.

    Notes
    -----
    An update costs `kicks` gradients and products with the covariance of the reference (for a dense one O(N^2) each),
    one draw and one evaluation. Chains run in groups of four, so that the four products are one matrix product. The
    statistic `acceptance` is the acceptance probability of the trajectory, and 1 for a plain update. The statistic
    `evaluations` counts gradients, too.

    References
    ----------
    Shahbaba, Lan, Johnson & Neal (2014), Split Hamiltonian Monte Carlo, Statistics and Computing 24.
    Beskos, Pinski, Sanz-Serna & Stuart (2011), Hybrid Monte Carlo on Hilbert spaces, Stochastic Processes and their
    Applications 121.

    Examples
    --------
    Around the prior:

    >>> import numpy as np
    >>> import ellipslice as es
    >>> data = es.likelihoods.Poisson([2, 0, 1])
    >>> move = es.moves.SplitHamiltonian(None, kicks=4)
    >>> tree = es.sample(data, es.Diagonal(np.ones(3)), move=move, draws=200, chains=2, seed=1)
    >>> float(tree.sample_stats.acceptance.mean()) > 0.9
    True
    """

    stored_as = "SplitHamiltonian"
    gradients = True
    lock_step = True
    statistics: ClassVar[Mapping[str, type]] = MappingProxyType({"acceptance": float})

    # Neither is compared: both are data of compiled code, so that other values need no new compilation.
    reference: Reference | None = field(compare=False)
    kicks: int = field(default=4, compare=False)
    plain_every: int = 10

    def __post_init__(self) -> None:
        whole_number("kicks", self.kicks, 1, "a whole number, at least 1")
        whole_number("plain_every", self.plain_every, 2, "a whole number, at least 2")

    def prepare(self, prior: Prior) -> SplitPrepared:
        if self.reference is None:
            return SplitPrepared(PriorAsReference(prior), PriorCovariance(prior), self.kicks)
        return SplitPrepared.around(self.reference.relative_to(prior), self.kicks)

    def noise_spec(self, prior: Prior, prepared: SplitPrepared) -> NoiseSpec:
        return NoiseSpec(partial(self._draw, prior, prepared.reference), numbers=prior.size, shared=("plain",))

    def _draw(self, prior: Prior, reference: Any, rng: np.random.Generator, updates: int) -> SplitDraws:
        """Return the random numbers of `updates` updates."""
        nu = draw_around_reference(reference, prior, rng, updates, self.plain_every)
        return SplitDraws(nu, np.arange(updates) % self.plain_every == self.plain_every - 1)

    def step(self, noise: UpdateNoise, state: State, target: Target) -> tuple[State, Info]:
        """Make one trajectory or, in a plain update, one slice search on an ellipse of the prior."""
        if isinstance(state.f, np.ndarray):
            raise TypeError(
                "SplitHamiltonian needs gradients, which the host engine does not have. Write the log-likelihood with "
                "jax.numpy so that it can be compiled, or use EllipticalSlice."
            )
        draws: SplitDraws = noise.drawn
        own = noise.search(draws.nu)

        def plain(state: State) -> tuple[State, Info]:
            new, info = target.search(EllipticalPath(), own, state)
            return new, info._replace(more=(jnp.ones_like(info.angle),))

        return lax.cond(draws.plain, plain, lambda state: accept(own, state, target), state)


class Residual(NamedTuple):
    """The residual U(centre + x) of a posterior and its gradient, with the covariance of the reference."""

    value: Callable[[Any, Any], Any]
    """Function of x and the log-likelihood at centre + x."""
    gradient: Callable[[Any], Any]
    covariance: DenseCovariance | PriorCovariance


def residual_of(target: Target) -> Residual:
    """Return the residual of a target whose move is a `SplitHamiltonian`."""
    centre, log_ratio = target.prepared.reference.centre, target.prepared.reference.log_ratio
    return Residual(
        value=lambda x, log_likelihood: log_likelihood - log_ratio(x),
        gradient=jax.grad(lambda x: target.log_likelihood(centre + x) - log_ratio(x)),
        covariance=target.prepared.covariance,
    )


def trajectory(residual: Residual, x: Any, nu: Any, angle: Any, kicks: Any) -> tuple[Any, Any, Any]:
    """Rotate (x, nu) by `angle` in total, with `kicks` kicks. Return x, nu and how much the kicks changed H.

    The first and the last rotation are half as long as the others, so that the reversed trajectory has the same form.
    """
    h = angle / kicks
    half, whole = ((jnp.cos(turn), jnp.sin(turn)) for turn in (0.5 * h, h))

    def rotate_and_kick(number: Any, now: tuple[Any, Any, Any]) -> tuple[Any, Any, Any]:
        x, nu, work = now
        turn = (jnp.where(number == 0, *parts) for parts in zip(half, whole, strict=True))
        x, nu = _rotate(x, nu, *turn)
        g = residual.gradient(x)
        kick = h * residual.covariance.product(g)
        return x, nu + kick, work + h * jnp.sum(nu * g) + 0.5 * h * jnp.sum(g * kick)

    # A constant number of kicks on a GPU, which launches many operations at once only if they are not in a loop.
    together = min(int(kicks), KICKS_PER_GRAPH) if isinstance(kicks, np.integer) else None
    x, nu, work = lax.fori_loop(0, kicks, rotate_and_kick, (x, nu, jnp.zeros_like(angle)), unroll=together)
    return *_rotate(x, nu, *half), work


def propose(noise: Noise, state: State, target: Target) -> tuple[State, Any, Any]:
    """Make one trajectory from `state`. Return its end, its angle and the log acceptance ratio, which is never NaN."""
    centre, residual = target.prepared.reference.centre, residual_of(target)
    angle = ANGLE * (1.0 + ANGLE_SPREAD * (2.0 * noise.uniforms(0) - 1.0))
    start = state.f - centre
    x, _, work = trajectory(residual, start, noise.nu, angle, target.prepared.kicks)
    end = target.at(centre + x)
    log_ratio = residual.value(x, end.log_likelihood) - residual.value(start, state.log_likelihood) - work
    return end, angle, jnp.where(jnp.isnan(log_ratio), -jnp.inf, log_ratio)


def accept(noise: Noise, state: State, target: Target) -> tuple[State, Info]:
    """Make one trajectory, and accept or reject its end."""
    end, angle, log_ratio = propose(noise, state, target)
    accepted = log_ratio > -noise.level
    info = Info(
        (target.prepared.kicks + 1).astype(jnp.int32),
        # A trajectory with too few kicks may diverge to infinity, where a log-likelihood may be NaN without a mistake.
        (jnp.isnan(end.log_likelihood) & (jnp.abs(end.f).max() < DIVERGED)).astype(jnp.int32),
        search_failed=jnp.zeros((), bool),
        angle=jnp.where(accepted, angle, 0.0),
        more=(jnp.exp(jnp.minimum(log_ratio, 0.0)),),
    )
    return State(*(jnp.where(accepted, new, old) for new, old in zip(end, state, strict=True))), info


def _rotate(x: Any, nu: Any, cos: Any, sin: Any) -> tuple[Any, Any]:
    """Rotate (x, nu) on their ellipse."""
    return x * cos + nu * sin, nu * cos - x * sin


@pytree
class SplitPrepared:
    """Data of the updates of a `SplitHamiltonian`."""

    reference: RelativeReference | PriorAsReference
    covariance: DenseCovariance | PriorCovariance
    kicks: Any

    def __init__(self, reference: Any, covariance: Any, kicks: int):
        set_fields(self, reference=reference, covariance=covariance, kicks=np.int32(kicks))

    @classmethod
    def around(cls, relative: RelativeReference, kicks: int) -> SplitPrepared:
        """Return the data of updates around a reference."""
        return cls(relative, DenseCovariance(relative.rows), kicks)

    def with_kicks(self, kicks: int) -> SplitPrepared:
        """Return the data with another number of kicks."""
        return SplitPrepared(self.reference, self.covariance, kicks)
