"""Slice sampling along a curve: paths, moves that are one search along a path, and the reference loop."""

from __future__ import annotations

import abc
from collections.abc import Callable
from typing import Any

from ellipslice.moves.array_ops import where
from ellipslice.moves.base import Info, Move, State, Target
from ellipslice.noise import DRAWN_UNIFORMS, UpdateNoise

MAX_EVALUATIONS = 1000
"""Largest number of proposals of a search. It then fails, and the state stays.

Rounding ends a search much earlier: after about 150 rejections the bracket is too small to change a float."""


WIDTH = DRAWN_UNIFORMS - 1
"""Number of angles that engines compute before the evaluations: the width of their tables.

The first uniform of an update places the bracket, and each other one gives an angle."""


class Path(abc.ABC):
    """The curve of a slice search through the current state.

    A path defines the curve, the first bracket, how the bracket shrinks, and the next angle. It does not loop: `search`
    below does, and so do the engines, which may look several angles ahead or run chains without a barrier. That is
    possible because the sequence of angles does not depend on the likelihood, which only decides where it stops.

    Positions on the curve are called theta. `here` is the position of the current state, which the bracket
    [theta_min, theta_max] always contains.
    """

    def here(self, place: Any) -> Any:
        """Return the position of the current state on the curve; `place` is uniform on [0, 1). Default: 0."""
        return 0.0

    def curve(self, f: Any, nu: Any, here: Any) -> tuple[Any, Any]:
        """Return the two vectors that span the curve. Default: f and nu."""
        return f, nu

    @abc.abstractmethod
    def weights(self, theta: Any) -> tuple[Any, Any]:
        """Return the weights of the two vectors whose weighted sum is the state at theta."""

    @abc.abstractmethod
    def begin(self, here: Any, place: Any, u: Any) -> tuple[Any, Any, Any]:
        """Return the first theta and the first bracket, (theta, theta_min, theta_max).

        `place` and `u` are uniform on [0, 1).
        """

    def log_factor(self, theta: Any) -> Any:
        """Return the log of the factor of the likelihood at theta, relative to the current state. Default: 0.

        It is the density of the prior if that changes along the curve, which it does not on an ellipse. A move with
        such a path must call `target.search` in its `step`. A `Search` must not have a factor, because engines compare
        only the likelihood with the slice level.
        """
        return 0.0

    def angle(self, here: Any, theta: Any) -> Any:
        """Return the statistic `angle` of a move from `here` to theta. Default: theta - here."""
        return theta - here

    def shrink(self, theta: Any, theta_min: Any, theta_max: Any, here: Any) -> tuple[Any, Any]:
        """Return the bracket after theta was rejected. Default: it ends at theta, and contains the current state."""
        below = theta < here
        return where(below, theta, theta_min), where(below, theta_max, theta)

    def propose(self, theta_min: Any, theta_max: Any, u: Any) -> Any:
        """Return the next theta, uniform in the bracket; `u` is uniform on [0, 1)."""
        return theta_min + u * (theta_max - theta_min)


class Search(Path, Move):
    """A move that is its own path: one slice search on a draw from the prior, such as `EllipticalSlice`."""

    @property
    def path(self) -> Path:  # pyright: ignore[reportIncompatibleVariableOverride]
        """The move itself."""
        return self

    def step(self, noise: UpdateNoise, state: State, target: Target) -> tuple[State, Info]:
        """Make one search, whose loop the engine runs."""
        return target.search(self, noise.search(noise.nu[0]), state)


def next_angle(path: Path, here: Any, last: Any, u: Any) -> tuple[Any, Any, Any]:
    """Return the angle after a rejected one, and the bracket it was drawn from: (theta, theta_min, theta_max)."""
    theta, theta_min, theta_max = last
    theta_min, theta_max = path.shrink(theta, theta_min, theta_max, here)
    return path.propose(theta_min, theta_max, u), theta_min, theta_max


def search(
    path: Path,
    nu: Any,
    level: float,
    uniform: Callable[[int], float],
    state: State,
    log_likelihood: Callable[[Any], float],
) -> tuple[State, Info]:
    """Run one slice search, one angle at a time: Figure 2 for any curve. This is the reference for all engines.

    Parameters
    ----------
    path : Path
    nu : array
        Draw that defines the curve, of the shape of f.
    level : float
        Standard exponential: log y is the log-likelihood of the state less `level`.
    uniform : callable
        Returns the k-th uniform number of the update, on [0, 1).
    state : State
        Current state.
    log_likelihood : callable
        f -> float.

    Returns
    -------
    state : State
        New state; the current one if the search failed.
    info : Info
        Statistics. `search_failed` is True if no proposal was accepted. The chain is still valid then, because a
        search and its reverse have the same length, so both fail.
    """
    place = uniform(0)
    here = path.here(place)
    a, b = path.curve(state.f, nu, here)  # step 1: nu chooses the ellipse
    log_y = state.log_likelihood - level  # step 2
    theta, theta_min, theta_max = path.begin(here, place, uniform(1))  # step 3
    nans = 0
    for evaluations in range(1, MAX_EVALUATIONS + 1):
        w_a, w_b = path.weights(theta)
        f = a * w_a + b * w_b  # step 4
        value = log_likelihood(f)
        if value > log_y - path.log_factor(theta):  # step 5; in this form NaN is never accepted
            return State(f, value), Info(evaluations, nans, False, path.angle(here, theta))  # step 6
        nans += value != value
        theta_min, theta_max = path.shrink(theta, theta_min, theta_max, here)  # step 8
        theta = path.propose(theta_min, theta_max, uniform(evaluations + 1))  # step 9
    return state, Info(MAX_EVALUATIONS, nans, True, 0.0)
