"""Elliptical slices around a Gaussian fitted to the posterior, for likelihoods much stronger than the prior."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import partial
from math import pi
from typing import Any, ClassVar, NamedTuple, Protocol

import numpy as np

from ellipslice.checks import whole_number
from ellipslice.moves.array_ops import cos_sin, where
from ellipslice.moves.base import Info, Move, State, Target
from ellipslice.moves.elliptical import EllipticalPath
from ellipslice.noise import NoiseSpec, UpdateNoise, aligned_empty
from ellipslice.priors import Prior


class Reference(Protocol):
    """A Gaussian Q near the posterior, as `approximations` fits it."""

    elementwise: ClassVar[bool]
    """Whether `RelativeReference.along` takes sums over values, and no products of matrices."""

    def relative_to(self, prior: Prior) -> RelativeReference:
        """Return Q relative to this prior."""
        ...


class RelativeReference(Protocol):
    """A Gaussian Q relative to a prior P, both over centred flat vectors; a pytree."""

    centre: Any
    """The mean of Q, with that of P taken away."""

    def along(self, x: Any, nu: Any) -> Ratio:
        """log(Q / P) on the ellipse centre + x cos(theta) + nu sin(theta)."""
        ...

    def draw(self, rng: np.random.Generator, count: int) -> np.ndarray:
        """Draws from Q with its mean taken away, shape (count, size)."""
        ...


class Ratio(NamedTuple):
    """log(Q / P) on an ellipse, up to a constant: both are Gaussians, so five numbers are enough."""

    by_x: Any
    by_nu: Any
    x_x: Any
    x_nu: Any
    nu_nu: Any

    def __call__(self, cos: Any, sin: Any) -> Any:
        squares = self.x_x * cos * cos + 2.0 * self.x_nu * sin * cos + self.nu_nu * sin * sin
        return self.by_x * cos + self.by_nu * sin - 0.5 * squares


PLAIN, AROUND, ALONE = 0, 1, 2
"""An update on the prior's ellipse, on the reference's, or one that tries a draw of the reference alone."""


class ReferenceSliceDraws(NamedTuple):
    """What is drawn for one update of `ReferenceSlice`."""

    nu: Any
    """A draw from the reference without its mean, or from the prior if the update is PLAIN."""
    kind: Any
    """PLAIN, AROUND or ALONE."""


@dataclass(frozen=True)
class ReferenceSlice(Move):
    """Move on ellipses around the mean of a reference Q instead of the prior's, now and then on plain ones.

    The posterior is prior times likelihood, and so it is Q times (prior times likelihood over Q). That is a Gaussian
    times a function again, on which `EllipticalSlice` runs as it stands: nu is drawn from Q, and log L - log(Q / prior)
    takes the place of log L. If Q is near the posterior, the function is nearly constant and most first proposals are
    accepted, however far the posterior is from the prior.

    Every `plain_every`-th update is one of the prior's own ellipses. Any Q gives the right posterior, but one that is
    too narrow leaves the tails only rarely; plain updates do not depend on Q, so it can cost time and no more.

    An ellipse goes through the current state, so that however good Q is, squares of f remember where they were. With
    `independence`, most updates try a draw of Q itself instead, and stay where they are if it is below the level: the
    independence sampler of Metropolis and Hastings. `sample` chooses it where most such draws would be accepted.

    Parameters
    ----------
    reference : Reference
        As `sample(..., reference=...)` fits it.
    plain_every : int
        At least 2.
    independence : bool

    References
    ----------
    Nishihara, Murray & Adams (2014), Parallel MCMC with generalized elliptical slice sampling, JMLR 15.
    """

    stored_as = "ReferenceSlice"

    reference: Reference = field(compare=False)  # it is handed to compiled code, which does not depend on it
    plain_every: int = 10
    independence: bool = False

    def __post_init__(self) -> None:
        whole_number("plain_every", self.plain_every, 2, "a whole number, at least 2")

    @property
    def elementwise(self) -> bool:  # pyright: ignore[reportIncompatibleVariableOverride]
        """As far as the reference is."""
        return self.reference.elementwise

    def prepare(self, prior: Prior) -> RelativeReference:
        return self.reference.relative_to(prior)

    def noise_spec(self, prior: Prior, prepared: RelativeReference) -> NoiseSpec:
        return NoiseSpec(partial(self._draw, prior, prepared), numbers=prior.size)

    def _draw(
        self, prior: Prior, reference: RelativeReference, rng: np.random.Generator, updates: int
    ) -> ReferenceSliceDraws:
        number = np.arange(updates) % self.plain_every
        is_plain = number == self.plain_every - 1
        # Draws of the reference come first, and are given to updates 0, plain_every, 2 plain_every, ..., then to
        # updates 1, plain_every + 1, ...: slices are copied faster than a mask. This order is part of what a seed
        # means.
        around, done = np.asarray(reference.draw(rng, int((~is_plain).sum()))), 0
        nu = aligned_empty((updates, around.shape[1]))
        for first in range(min(self.plain_every - 1, updates)):
            rows = nu[first :: self.plain_every]
            rows[:] = around[done : done + len(rows)]
            done += len(rows)
        if is_plain.any():
            nu[self.plain_every - 1 :: self.plain_every] = np.asarray(prior.draw_zero_mean(rng, int(is_plain.sum())))
        # Even independent updates use an ellipse now and then: it moves where no draw of the reference is accepted.
        alone = self.independence & (number != (self.plain_every - 1) // 2)
        return ReferenceSliceDraws(nu, np.where(is_plain, PLAIN, np.where(alone, ALONE, AROUND)))

    def step(self, noise: UpdateNoise, state: State, target: Target) -> tuple[State, Info]:
        """Elliptical slice sampling in coordinates around the reference's mean, or the prior's."""
        draws: ReferenceSliceDraws = noise.drawn
        reference: RelativeReference = target.prepared
        around = where(draws.kind == PLAIN, 0.0, 1.0)
        centre = around * reference.centre
        x = state.f - centre
        ratio = Ratio(*(around * part for part in reference.along(x, draws.nu)))
        ellipse = RatioEllipse(ratio=ratio, alone=draws.kind == ALONE if self.independence else False)
        shifted = target.with_likelihood(lambda x: target.log_likelihood(centre + x), None)
        new, info = shifted.search(ellipse, noise.search(draws.nu), State(x, state.log_likelihood))
        return State(where(info.search_failed, state.f, centre + new.f), new.log_likelihood), info


@dataclass(frozen=True, kw_only=True)
class RatioEllipse(EllipticalPath):
    """An ellipse on which the ratio of the reference and the prior is known.

    If it is `alone`, nu is tried, and after that the current state.
    """

    ratio: Ratio
    alone: Any = False

    def begin(self, here: Any, place: Any, u: Any) -> tuple[Any, Any, Any]:
        theta, theta_min, theta_max = super().begin(here, place, u)
        return where(self.alone, pi / 2, theta), where(self.alone, 0.0, theta_min), where(self.alone, 0.0, theta_max)

    def shrink(self, theta: Any, theta_min: Any, theta_max: Any, here: Any) -> tuple[Any, Any]:
        theta_min, theta_max = super().shrink(theta, theta_min, theta_max, here)
        return where(self.alone, 0.0, theta_min), where(self.alone, 0.0, theta_max)

    def log_factor(self, theta: Any) -> Any:
        return self.ratio(1.0, 0.0) - self.ratio(*cos_sin(theta))
