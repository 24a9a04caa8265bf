"""The curve of a slice search and its counters, in compiled code."""

from __future__ import annotations

from typing import Any, NamedTuple

import jax.numpy as jnp
from jax import lax

from ellipslice.moves import Path, State
from ellipslice.moves.search import next_angle
from ellipslice.noise import Noise


class LoopCounters(NamedTuple):
    """Angles, bracket and counts of a search in progress. All are scalars of the state's type."""

    theta: Any
    """Next angle to try."""
    theta_min: Any
    """Lower end of the bracket of `theta`."""
    theta_max: Any
    """Upper end of the bracket of `theta`."""
    tried: Any
    """Number of angles that were evaluated or skipped."""
    evaluations: Any
    """Number of evaluations."""
    nan_evaluations: Any
    """Number of evaluations that were NaN."""
    last_theta: Any
    """Angle of the last evaluation."""

    def packed(self) -> Any:
        """Return the counters as one array, shape (7,).

        Each array that a loop carries costs time if XLA does not compile the loop into one function.
        """
        return jnp.stack(self)

    def skipped(self, curve: Curve) -> LoopCounters:
        """Return the counters after `theta` was rejected without an evaluation."""
        theta, theta_min, theta_max = curve.after(self)
        return self._replace(theta=theta, theta_min=theta_min, theta_max=theta_max, tried=self.tried + 1)

    def evaluated(self, curve: Curve, counted: Any, is_nan: Any) -> LoopCounters:
        """Return the counters after `theta` was evaluated and rejected. Counts increase only if `counted` is true.

        If the angle is accepted, the next angle and its bracket are not used. Computing them in any case means that
        they do not have to wait for the log-likelihood.
        """
        theta, theta_min, theta_max = curve.after(self)
        return LoopCounters(
            theta,
            theta_min,
            theta_max,
            tried=self.tried + counted,
            evaluations=self.evaluations + counted,
            nan_evaluations=self.nan_evaluations + (counted & is_nan),
            last_theta=self.theta,
        )


class Curve:
    """The curve of one slice search: point(theta) = a w_a(theta) + b w_b(theta).

    Attributes
    ----------
    path : Path
    here : scalar
        Position of the current state on the curve.
    a, b : arrays, shape (size,)
        The two vectors that span the curve.
    log_y : scalar
        The slice level, without `Path.log_factor`, which is 0 for an ellipse.
    """

    def __init__(self, path: Path, noise: Noise, state: State):
        self.path, self._uniforms, self._dtype = path, noise.uniforms, noise.nu.dtype
        self._place = noise.uniforms(0)
        self.here = self._number(path.here(self._place))
        self.a, self.b = path.curve(state.f, noise.nu, self.here)
        self.log_y = state.log_likelihood - noise.level

    def begin(self) -> LoopCounters:
        """Return the counters at the first angle."""
        theta, theta_min, theta_max = map(self._number, self.path.begin(self.here, self._place, self._uniforms(1)))
        zero = self._number(0)
        return LoopCounters(
            theta, theta_min, theta_max, tried=zero, evaluations=zero, nan_evaluations=zero, last_theta=zero
        )

    def after(self, counters: LoopCounters) -> tuple[Any, Any, Any]:
        """Return the angle that follows if `theta` is rejected, and its bracket: (theta, theta_min, theta_max)."""
        # Uniform 0 places the bracket and uniform 1 the first angle in it, so the angle after `tried` others uses
        # uniform tried + 2.
        uniform = self._uniforms(counters.tried.astype(jnp.int32) + 2)
        last = counters.theta, counters.theta_min, counters.theta_max
        return next_angle(self.path, self.here, last, uniform)

    def weights(self, theta: Any) -> tuple[Any, Any]:
        """Return the weights of a and b at theta."""
        # The barrier stops XLA from computing the weights again for each element of f.
        return lax.optimization_barrier(self.path.weights(theta))

    def point(self, w_a: Any, w_b: Any) -> Any:
        """Return the point with the weights `w_a` and `w_b`, shape (size,)."""
        return self.a * w_a + self.b * w_b

    def level(self, theta: Any) -> Any:
        """Return the value that the log-likelihood must exceed at theta for acceptance."""
        return self.log_y - self.path.log_factor(theta)

    def angle_moved(self, found: Any, theta: Any) -> Any:
        """Return the angle from the current state to theta if a point was `found`, else 0."""
        return jnp.where(found, self.path.angle(self.here, theta), 0.0)

    def _number(self, value: Any) -> Any:
        return jnp.asarray(value, self._dtype)


def evaluate_point(log_likelihood: Any, point: Any) -> State:
    """Return a point with its log-likelihood.

    The barriers make XLA compute each of them only once. Two computations could round differently.
    """
    point = lax.optimization_barrier(point)
    return State(point, lax.optimization_barrier(jnp.asarray(log_likelihood(point), point.dtype)))
