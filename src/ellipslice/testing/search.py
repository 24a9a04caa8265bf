"""Property tests of slice searches that hold exactly or up to rounding error."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import numpy as np

from ellipslice.engines.host.engine import HostTarget
from ellipslice.moves import Move, Search, State
from ellipslice.noise import DRAWN_UNIFORMS, Uniforms, UpdateNoise, take
from ellipslice.priors import Diagonal, Prior
from ellipslice.testing.assertions import require


def noise_of_an_update(move: Move, prior: Prior, rng: np.random.Generator, prepared: Any = None) -> UpdateNoise:
    """Return the random numbers of one update on the host. `prepared` is the result of the move's `prepare`."""
    return next(noise_of_updates(move, prior, rng, 1, prepared))


def noise_of_updates(
    move: Move, prior: Prior, rng: np.random.Generator, count: int, prepared: Any = None
) -> Iterator[UpdateNoise]:
    """Yield the random numbers of `count` updates on the host. They are drawn in one call, which is faster."""
    spec = move.noise_spec(prior, prepared)
    shape = count, spec.searches
    drawn, key = spec.draw(rng, count), rng.integers(0, 2**32, (*shape, 2), dtype=np.uint32)
    first, level = rng.random((*shape, DRAWN_UNIFORMS)), rng.standard_exponential(shape).tolist()
    for i in range(count):
        yield UpdateNoise(take(drawn, i), level[i], Uniforms(first[i], key[i]))


def check_curve(move: Search, seed: int = 0) -> None:
    """Check that the curve is an ellipse through the current state, along which (f, nu) is rotated (equation 9).

    Two independent draws from any N(0, Sigma) have the same density after a rotation. So the forward and the reverse
    search choose this ellipse with the same probability.
    """
    rng = np.random.default_rng(seed)
    for place, turn in rng.uniform(0, 1, (50, 2)).tolist():
        f, nu = rng.standard_normal((2, 5))
        here = move.here(place)
        a, b = move.curve(f, nu, here)

        def at(theta: float, a: Any = a, b: Any = b) -> Any:
            w_a, w_b = move.weights(theta)
            return a * w_a + b * w_b

        theta = here + 7 * turn
        require(np.abs(at(here) - f).max() < 1e-14, f"{move!r}: the curve does not pass through the current state")
        new, turned = at(theta), move.angle(theta, theta + math.pi / 2)
        quarter = (at(theta + math.pi / 2) - new * math.cos(turned)) / math.sin(turned)
        kept = (np.outer(new, new) + np.outer(quarter, quarter) - np.outer(f, f) - np.outer(nu, nu)) * math.sin(turned)
        require(np.abs(kept).max() < 1e-13, f"{move!r}: the curve does not leave the prior invariant")
        require(np.abs(at(theta + 2 * math.pi) - new).max() < 1e-13, f"{move!r}: the curve is not closed")


def check_level(move: Search, seed: int = 0, updates: int = 400) -> None:
    """Check that rejected points are not above the slice level and that the accepted point is (step 5 of Figure 2)."""
    rng, values = np.random.default_rng(seed), []

    def log_likelihood(f: np.ndarray) -> float:
        values.append(-60 * float((f - 0.5) @ (f - 0.5)))
        return values[-1]

    prior = Diagonal(np.ones(2))
    state = State(np.zeros(2), log_likelihood(np.zeros(2)))
    for _ in range(updates):
        values.clear()
        noise = noise_of_an_update(move, prior, rng)
        log_y = state.log_likelihood - noise.level[0]
        state, _ = move.step(noise, state, HostTarget(log_likelihood))
        require(all(not value > log_y for value in values[:-1]), f"{move!r}: a point above the level was rejected")
        require(values[-1] > log_y, f"{move!r}: a point below the level was accepted")
