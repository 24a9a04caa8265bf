"""Exact laws of searches, which the laws' tests keep and the planted bugs break."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ellipslice.engines.host import HostTarget
from ellipslice.moves import Move, Search, State
from ellipslice.noise import Noise


def fresh_noise(move: Move, rng: np.random.Generator) -> Noise:
    """Noise of one update for a standard normal prior of two values, as the host hands it to a move."""
    keys = [rng.random(1100).tolist().__getitem__ for _ in range(move.parts)]
    return Noise(rng.standard_normal((move.parts, 2)), rng.standard_exponential(move.parts).tolist(), keys)


def check_curve(move: Search, seed: int = 0) -> None:
    """The curve is an ellipse through the current state, and f, nu on it are turned into f', nu' (equation 9).

    A rotation of (f, nu) has the same density under two independent draws from any N(0, Sigma), so both ends of a move
    choose this ellipse with the same probability.
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
        assert np.abs(at(here) - f).max() < 1e-14, "the curve does not go through the current state"
        new, quarter = at(theta), at(theta + math.pi / 2)
        kept = np.outer(new, new) + np.outer(quarter, quarter) - np.outer(f, f) - np.outer(nu, nu)
        assert np.abs(kept).max() < 1e-13, "the curve is not an ellipse that keeps the prior"
        assert np.abs(at(theta + 2 * math.pi) - new).max() < 1e-13, "the curve does not close"


def check_level(move: Search, seed: int = 0, updates: int = 400) -> None:
    """What a search rejected is not above its level, and what it took is: step 5 of Figure 2, without any tolerance."""
    rng, values = np.random.default_rng(seed), []

    def log_likelihood(f: np.ndarray) -> float:
        values.append(-60 * float((f - 0.5) @ (f - 0.5)))
        return values[-1]

    state = State(np.zeros(2), log_likelihood(np.zeros(2)))
    tried = 0
    for _ in range(updates):
        values.clear()
        noise = fresh_noise(move, rng)
        log_y = state.log_likelihood - noise.level[0]
        state, _ = move.step(noise, state, HostTarget(log_likelihood))
        assert all(not value > log_y for value in values[:-1]), "a point above the level was rejected"
        assert values[-1] > log_y, "a point below the level was accepted"
        tried += len(values)
    assert tried > updates
