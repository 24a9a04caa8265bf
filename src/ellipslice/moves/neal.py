"""Neal's Metropolis–Hastings method: equations (3) and (4), from which the paper starts."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

from ellipslice.moves.base import Info, Move, State, Target
from ellipslice.moves.metropolis import as_step, metropolis
from ellipslice.noise import Noise


@dataclass(frozen=True, init=False, repr=False)
class NealMetropolis(Move):
    """Propose f' = sqrt(1 - step^2) f + step nu, and accept it with probability min(1, L(f') / L(f)).

    Neal (1999), also called preconditioned Crank–Nicolson. One evaluation per update, and a step size to tune:
    `ellipslice.tune_step` does. Where evaluations are dear and the step is well chosen it may draw more per second than
    `EllipticalSlice`; the paper's Figure 6 compares the two. The prior needs only to draw.

    Parameters
    ----------
    step : float
        Epsilon of equation (3), in (0, 1]. 1 proposes draws of the prior; the smaller, the more are accepted.

    Notes
    -----
    Valid because the proposal is reversible under the prior: of f and nu drawn from N(0, Sigma), f and f' are jointly
    Gaussian with covariance sqrt(1 - step^2) Sigma, the same in either order. What is left of the acceptance ratio is
    the likelihood, equation (4).

    Statistics: `angle` is where f' lies on the ellipse through f and nu, asin(step), and 0 after a rejection, so
    `(tree.sample_stats.angle != 0).mean()` is the acceptance rate.

    Examples
    --------
    >>> import jax.numpy as jnp, numpy as np
    >>> import ellipslice as es
    >>> move = es.moves.NealMetropolis(0.5)
    >>> tree = es.sample(lambda f: -jnp.sum((f - 1.0) ** 2), es.Diagonal(np.ones(3)), move=move, seed=1)
    >>> 0.2 < (tree.sample_stats.angle != 0).mean().item() < 0.8
    True
    """

    stored_as = "NealMetropolis"

    epsilon: float

    def __init__(self, step: float):
        object.__setattr__(self, "epsilon", as_step(step, most=1.0))

    def __repr__(self) -> str:
        return f"NealMetropolis(step={self.epsilon:g})"

    def step(self, noise: Noise, state: State, target: Target) -> tuple[State, Info]:
        """One proposal."""
        proposal = self.propose(state.f, noise.nu[0])
        return metropolis(proposal, state.log_likelihood - noise.level[0], math.asin(self.epsilon), state, target)

    def propose(self, f: Any, nu: Any) -> Any:
        """Equation (3)."""
        return math.sqrt(1 - self.epsilon**2) * f + self.epsilon * nu
