"""Elliptical slice sampling under linear inequalities: the search is restricted to the allowed arcs of the ellipse."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from ellipslice.moves.array_ops import cos_sin, rounded, where
from ellipslice.moves.base import Info, Move, State, Target
from ellipslice.moves.constrained_arcs import Arcs, allowed_arcs
from ellipslice.moves.search import Path
from ellipslice.noise import UpdateNoise
from ellipslice.priors import Prior
from ellipslice.priors.truncated import AugmentedPrior


@dataclass(frozen=True)
class ConstrainedSlice(Move):
    """Elliptical slice sampling that satisfies A f <= b: the default move for a `TruncatedGaussian`.

    Each constraint excludes one interval of angles, which is computed exactly (Gessner, Kanjilal & Hennig 2020; Wu &
    Gardner 2024). Angles are proposed on the remaining arcs. So every proposal satisfies the constraints, and without a
    likelihood the first one is always accepted. There is nothing to tune. On other priors the move is
    `EllipticalSlice()`.

    Notes
    -----
    Why it is valid: the allowed arcs are a set of points of the ellipse, which does not depend on the point from which
    they are computed. Joined end to end, without the gaps, they are a circle that contains f and f'. Its circumference
    is the total length of the arcs. The search is that of Figure 2 on this circle: the first point is uniform on it and
    is both ends of the bracket, and the bracket shrinks towards the current state. So equation (12) holds as for the
    ellipse, with the length of the arcs in place of 2 pi. The move leaves N(f; 0, Sigma) L(f), restricted to the
    constraints, invariant.

    An update costs O(N + m log m) for N elements and m constraints, and its part of the product A nu, which is computed
    for a block of draws in one call. A f is updated and not recomputed. The rounding error of an update is about 1e-16,
    is multiplied by the cosines of later updates, and after n updates is at most sqrt(n) times that.

    The statistic `angle` is the angle on the ellipse, in radians.

    Examples
    --------
    >>> ConstrainedSlice()
    ConstrainedSlice()
    """

    stored_as = "ConstrainedSlice"

    constrained = True

    def prepare(self, prior: Prior) -> Any:
        """Return the bounds of A f for the centred f, shape (constraints,); shape (0,) for an unconstrained prior."""
        return prior.bounds if isinstance(prior, AugmentedPrior) else np.zeros(0)

    def step(self, noise: UpdateNoise, state: State, target: Target) -> tuple[State, Info]:
        """Make one search along the allowed arcs. The last elements of f and nu are the products A f and A nu."""
        nu, bounds = noise.nu[0], target.prepared
        first = len(nu) - len(bounds)
        arcs = allowed_arcs(state.f[first:], nu[first:], bounds)
        new, info = target.search(AlongArcs(arcs), noise.search(nu), state)
        return new, info._replace(angle=where(info.search_failed, 0.0, arcs.angle(info.angle)))


@dataclass(frozen=True)
class AlongArcs(Path):
    """The path along the allowed arcs of an ellipse, joined end to end."""

    arcs: Arcs

    def begin(self, here: Any, place: Any, u: Any) -> tuple[Any, Any, Any]:
        tau = rounded(self.arcs.length * u)
        return tau, tau - self.arcs.length, tau

    def weights(self, theta: Any) -> tuple[Any, Any]:
        return cos_sin(self.arcs.angle(theta))
