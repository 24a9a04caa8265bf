"""Elliptical slice sampling around a reference Gaussian, for data that are much more informative than the prior."""

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
    """A reference Gaussian Q: an approximation of the posterior, fitted in `approximations`."""

    elementwise: ClassVar[bool]
    """True if `RelativeReference.log_ratio_on_ellipse` uses sums over elements, and no matrix products."""

    def relative_to(self, prior: Prior) -> RelativeReference:
        """Return Q with its density ratio to `prior`, log(Q / prior)."""
        ...


class RelativeReference(Protocol):
    """A reference Gaussian Q relative to a prior P, both over centred flat vectors. It is a pytree."""

    centre: Any
    """Mean of Q less that of P, shape (size,)."""

    def log_ratio_on_ellipse(self, x: Any, nu: Any) -> LogRatio:
        """Return log(Q / P) on the ellipse centre + x cos(theta) + nu sin(theta)."""
        ...

    def log_ratio(self, x: Any) -> Any:
        """Return log(Q / P) at centre + x, up to a constant."""
        ...

    def draw(self, rng: np.random.Generator, count: int) -> np.ndarray:
        """Draw from Q, without its mean. Return an array of shape (count, size)."""
        ...

    @property
    def rows(self) -> np.ndarray:
        """Factor of the covariance of Q, rows.T @ rows, shape (rank, size). Available only on the host."""
        ...


class LogRatio(NamedTuple):
    """log(Q / P) on an ellipse, up to a constant. Both are Gaussians, so five numbers determine it."""

    by_x: Any
    by_nu: Any
    x_x: Any
    x_nu: Any
    nu_nu: Any

    def __call__(self, cos: Any, sin: Any) -> Any:
        squares = self.x_x * cos * cos + 2.0 * self.x_nu * sin * cos + self.nu_nu * sin * sin
        return self.by_x * cos + self.by_nu * sin - 0.5 * squares


PLAIN, AROUND_REFERENCE, INDEPENDENT = 0, 1, 2
"""Kinds of update: on an ellipse of the prior, on one of the reference, or an independent proposal of the reference."""


class ReferenceSliceDraws(NamedTuple):
    """The random numbers of one update of `ReferenceSlice`."""

    nu: Any
    """A draw from the reference without its mean, or from the prior if the update is PLAIN."""
    kind: Any
    """PLAIN, AROUND_REFERENCE or INDEPENDENT."""


@dataclass(frozen=True)
class ReferenceSlice(Move):
    """Elliptical slice sampling on ellipses around a reference Gaussian Q, with some updates on ellipses of the prior.

    Use it if the data are much more informative than the prior. The posterior is prior times likelihood, and therefore
    also Q times (prior times likelihood over Q). That is again a Gaussian times a function. So `EllipticalSlice`
    applies, with nu drawn from Q, and log L - log(Q / prior) in place of log L. If Q is close to the posterior, the
    function is nearly constant and most first proposals are accepted, even if the posterior is far from the prior.

    Every `plain_every`-th update uses an ellipse of the prior. Any Q gives the correct posterior, but a chain with a Q
    that is too narrow leaves the tails only rarely. The plain updates do not depend on Q, so a poor Q only costs time.

    An ellipse passes through the current state, so squares of f are autocorrelated even with a perfect Q. With
    `independence`, most updates propose a draw of Q instead, and stay at the current state if it is below the slice
    level: the independence sampler of Metropolis and Hastings. `sample` chooses it if most such draws would be
    accepted.

    Parameters
    ----------
    reference : Reference
        The reference Gaussian, as fitted by `sample(..., reference=...)`.
    plain_every : int
        Interval between updates on ellipses of the prior. At least 2. Default: 10.
    independence : bool
        Whether most updates are independent proposals. Default: False.

    Raises
    ------
    ValueError
        If `plain_every` is not a whole number of at least 2.

    Notes
    -----
    An update costs one draw from Q or the prior, the log ratio of Q and the prior on the ellipse, and one evaluation
    per proposal.

    References
    ----------
    Nishihara, Murray & Adams (2014), Parallel MCMC with generalized elliptical slice sampling, JMLR 15.

    Examples
    --------
    `sample` fits the reference and makes the move. Here the data are far from the prior, but most first proposals are
    accepted:

    >>> import numpy as np
    >>> import ellipslice as es
    >>> data = es.likelihoods.Gaussian([3.0, 5.0, 4.0], noise_scale=0.1)
    >>> tree = es.sample(data, es.Diagonal(np.ones(3)), reference="laplace", draws=200, chains=2, seed=1)
    >>> tree.attrs["move"].split("(")[0], tree.attrs["first_proposal_acceptance_rate"] > 0.8
    ('ReferenceSlice', True)
    """

    stored_as = "ReferenceSlice"

    reference: Reference = field(compare=False)  # it is handed to compiled code, which does not depend on it
    plain_every: int = 10
    independence: bool = False

    def __post_init__(self) -> None:
        whole_number("plain_every", self.plain_every, 2, "a whole number, at least 2")

    @property
    def elementwise(self) -> bool:  # pyright: ignore[reportIncompatibleVariableOverride]
        """True if updates use sums over the elements of f, and no matrix products. It depends on the reference."""
        return self.reference.elementwise

    def prepare(self, prior: Prior) -> RelativeReference:
        return self.reference.relative_to(prior)

    def noise_spec(self, prior: Prior, prepared: RelativeReference) -> NoiseSpec:
        return NoiseSpec(partial(self._draw, prior, prepared), numbers=prior.size)

    def _draw(
        self, prior: Prior, reference: RelativeReference, rng: np.random.Generator, updates: int
    ) -> ReferenceSliceDraws:
        """Return the random numbers of `updates` updates."""
        nu = draw_around_reference(reference, prior, rng, updates, self.plain_every)
        number = np.arange(updates) % self.plain_every
        is_plain = number == self.plain_every - 1
        # With independence, one update in plain_every still uses an ellipse of the reference, which moves the chain
        # where no draw of the reference is accepted.
        independent = self.independence & (number != (self.plain_every - 1) // 2)
        return ReferenceSliceDraws(nu, np.where(is_plain, PLAIN, np.where(independent, INDEPENDENT, AROUND_REFERENCE)))

    def step(self, noise: UpdateNoise, state: State, target: Target) -> tuple[State, Info]:
        """Make one search in coordinates around the mean of the reference or, in a plain update, of the prior."""
        draws: ReferenceSliceDraws = noise.drawn
        reference: RelativeReference = target.prepared
        around = where(draws.kind == PLAIN, 0.0, 1.0)
        centre = around * reference.centre
        x = state.f - centre
        ratio = LogRatio(*(around * part for part in reference.log_ratio_on_ellipse(x, draws.nu)))
        ellipse = ReferenceEllipse(ratio=ratio, independent=draws.kind == INDEPENDENT if self.independence else False)
        shifted = target.with_likelihood(lambda x: target.log_likelihood(centre + x), None)
        new, info = shifted.search(ellipse, noise.search(draws.nu), State(x, state.log_likelihood))
        return State(where(info.search_failed, state.f, centre + new.f), new.log_likelihood), info


def draw_around_reference(
    reference: Any, prior: Prior, rng: np.random.Generator, updates: int, plain_every: int
) -> np.ndarray:
    """Return nu of `updates` updates, shape (updates, size): a draw of the prior for every `plain_every`-th of them.

    The others are draws of the reference, without its mean.
    """
    is_plain = np.arange(updates) % plain_every == plain_every - 1
    # Draws of the reference come first. They go to updates 0, plain_every, 2 plain_every, ..., then to updates 1,
    # plain_every + 1, ..., because slices are copied faster than a mask. The draws for a seed depend on this order.
    around, done = np.asarray(reference.draw(rng, int((~is_plain).sum()))), 0
    nu = aligned_empty((updates, around.shape[1]))
    for first in range(min(plain_every - 1, updates)):
        rows = nu[first::plain_every]
        rows[:] = around[done : done + len(rows)]
        done += len(rows)
    if is_plain.any():
        nu[plain_every - 1 :: plain_every] = np.asarray(prior.draw_zero_mean(rng, int(is_plain.sum())))
    return nu


@dataclass(frozen=True, kw_only=True)
class ReferenceEllipse(EllipticalPath):
    """An ellipse on which the ratio of the reference and the prior is known."""

    ratio: LogRatio
    independent: Any = False
    """True to try only nu, at the angle pi / 2, and then the current state, at the angle 0."""

    def begin(self, here: Any, place: Any, u: Any) -> tuple[Any, Any, Any]:
        theta, theta_min, theta_max = super().begin(here, place, u)
        return (
            where(self.independent, pi / 2, theta),
            where(self.independent, 0.0, theta_min),
            where(self.independent, 0.0, theta_max),
        )

    def shrink(self, theta: Any, theta_min: Any, theta_max: Any, here: Any) -> tuple[Any, Any]:
        theta_min, theta_max = super().shrink(theta, theta_min, theta_max, here)
        return where(self.independent, 0.0, theta_min), where(self.independent, 0.0, theta_max)

    def log_factor(self, theta: Any) -> Any:
        return self.ratio(1.0, 0.0) - self.ratio(*cos_sin(theta))
