"""Elliptical slice sampling under linear constraints: the search goes along the allowed arcs of the ellipse."""

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
    """Elliptical slice sampling that never leaves A f <= b: what `sample` runs for a `TruncatedGaussian`.

    Each constraint excludes one interval of the ellipse's angles, which is known exactly (Gessner, Kanjilal & Hennig
    2020; Wu & Gardner 2024). Angles are proposed on what is left, so no proposal breaks a constraint, and without a
    likelihood every update takes exactly one. Nothing to tune. On other priors it is `EllipticalSlice()`.

    Notes
    -----
    Why it is valid. The allowed arcs are a set of points of the ellipse, and the same set from whichever of its points
    they are worked out. Put end to end, with the gaps left out, they are a circle of the arcs' total length, on which
    f and f' lie. The search is that of Figure 2 on this circle: a first point uniform on it, which is both ends of the
    bracket, and a bracket that shrinks towards the current state. So equation (12) holds as it does for the ellipse,
    with the arcs' length in place of 2 pi: the move leaves N(f; 0, Sigma) L(f), where the constraints hold, invariant.

    An update costs O(N + m log m) for N values and m constraints, beside its share of the product A nu that is made for
    a block of draws at once. A f is carried, not recomputed: the rounding of an update is a part in 10^16, is
    shrunk by the cosines that follow, and of n updates adds up to no more than sqrt(n) times that.

    `angle` is the angle on the ellipse.

    Examples
    --------
    >>> ConstrainedSlice()
    ConstrainedSlice()
    """

    stored_as = "ConstrainedSlice"

    constrained = True

    def prepare(self, prior: Prior) -> Any:
        """The bounds of the centred f, of which an unconstrained prior has none."""
        return prior.bounds if isinstance(prior, AugmentedPrior) else np.zeros(0)

    def step(self, noise: UpdateNoise, state: State, target: Target) -> tuple[State, Info]:
        """One search along the allowed arcs. The products A f and A nu are the last values of f and nu."""
        nu, bounds = noise.nu[0], target.prepared
        first = len(nu) - len(bounds)
        arcs = allowed_arcs(state.f[first:], nu[first:], bounds)
        new, info = target.search(AlongArcs(arcs), noise.search(nu), state)
        return new, info._replace(angle=where(info.search_failed, 0.0, arcs.angle(info.angle)))


@dataclass(frozen=True)
class AlongArcs(Path):
    """The allowed arcs of an ellipse, put end to end."""

    arcs: Arcs

    def begin(self, here: Any, place: Any, u: Any) -> tuple[Any, Any, Any]:
        tau = rounded(self.arcs.length * u)
        return tau, tau - self.arcs.length, tau

    def weights(self, theta: Any) -> tuple[Any, Any]:
        return cos_sin(self.arcs.angle(theta))
