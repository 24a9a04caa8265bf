"""Slice sampling along a curve: the path, the move that is one search along a path, and the reference loop."""

from __future__ import annotations

import abc
from collections.abc import Callable
from typing import Any

from ellipslice.moves.array_ops import where
from ellipslice.moves.base import Info, Move, State, Target
from ellipslice.noise import DRAWN_UNIFORMS, UpdateNoise

MAX_EVALUATIONS = 1000
"""When a search is given up. Rounding ends it long before: 150 cuts leave a bracket too small to move any float."""


WIDTH = DRAWN_UNIFORMS - 1
"""Number of angles that engines compute ahead of the evaluations, the width of their tables.

The first uniform of an update places the bracket, each other one an angle."""


class Path(abc.ABC):
    """The curve of a slice search through the current state.

    It does not loop. It defines where the curve runs, how the search begins, how the bracket shrinks and what is tried
    next. `search` below loops, and so do the engines, which may look several angles ahead or run chains without a
    barrier. They can because the sequence of angles does not depend on the likelihood, which only decides where it
    stops.

    Positions on the curve are called theta. `here` is the position of the current state; the bracket
    [theta_min, theta_max] always contains it.
    """

    def here(self, place: Any) -> Any:
        """Position of the current state on the curve; `place` is uniform on [0, 1)."""
        return 0.0

    def curve(self, f: Any, nu: Any, here: Any) -> tuple[Any, Any]:
        """The two vectors that span the curve."""
        return f, nu

    @abc.abstractmethod
    def weights(self, theta: Any) -> tuple[Any, Any]:
        """How much of each of the two vectors makes the state at theta."""

    @abc.abstractmethod
    def begin(self, here: Any, place: Any, u: Any) -> tuple[Any, Any, Any]:
        """The first theta and the bracket, (theta, theta_min, theta_max), from two uniforms on [0, 1)."""

    def log_factor(self, theta: Any) -> Any:
        """The logarithm of what multiplies the likelihood at theta: the prior's density, if the curve changes it.

        An ellipse does not. A move whose path does calls `target.search` in its `step`; a `Search` must not have one,
        because engines compare the likelihood alone with the level.
        """
        return 0.0

    def shrink(self, theta: Any, theta_min: Any, theta_max: Any, here: Any) -> tuple[Any, Any]:
        """The bracket after theta was rejected: cut there, on the side away from the current state."""
        below = theta < here
        return where(below, theta, theta_min), where(below, theta_max, theta)

    def propose(self, theta_min: Any, theta_max: Any, u: Any) -> Any:
        """The next theta, uniform in the bracket."""
        return theta_min + u * (theta_max - theta_min)


class Search(Path, Move):
    """A move that is one slice search along itself, on a draw from the prior: `EllipticalSlice` and its relatives."""

    @property
    def path(self) -> Path:  # pyright: ignore[reportIncompatibleVariableOverride]
        """The move itself."""
        return self

    def step(self, noise: UpdateNoise, state: State, target: Target) -> tuple[State, Info]:
        """Make one search, run by the engine."""
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
    """One update, one angle at a time: Figure 2, for any curve. The compiled engine does the same in JAX.

    A search that does not end stays at the current state, and says so. That keeps the chain valid: a path and its
    reverse are equally long, so both are given up together.
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
        if value > log_y - path.log_factor(theta):  # step 5; written this way round, NaN is never accepted
            return State(f, value), Info(evaluations, nans, False, theta - here)  # step 6
        nans += value != value
        theta_min, theta_max = path.shrink(theta, theta_min, theta_max, here)  # step 8
        theta = path.propose(theta_min, theta_max, uniform(evaluations + 1))  # step 9
    return state, Info(MAX_EVALUATIONS, nans, True, 0.0)
