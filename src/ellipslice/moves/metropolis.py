"""Metropolis moves: Neal's (equations 3 and 4, from which the paper starts) and the random walk (equation 15)."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

from ellipslice.checks import number
from ellipslice.moves.array_ops import count, where
from ellipslice.moves.base import Info, Move, State, Target
from ellipslice.moves.line import LineDraws, LineMove, prior_on_line
from ellipslice.noise import UpdateNoise


@dataclass(frozen=True, init=False, repr=False)
class NealMetropolis(Move):
    """Propose f' = sqrt(1 - step_size^2) f + step_size nu, and accept it with probability min(1, L(f') / L(f)).

    Neal (1999), also called preconditioned Crank–Nicolson. One evaluation per update, and a step size to tune:
    `ellipslice.tune_step` does. Where evaluations are dear and the step is well chosen it may draw more per second than
    `EllipticalSlice`; the paper's Figure 6 compares the two. The prior needs only to draw.

    Parameters
    ----------
    step_size : float
        Epsilon of equation (3), in (0, 1]. 1 proposes draws of the prior; the smaller, the more are accepted.

    Notes
    -----
    Valid because the proposal is reversible under the prior: of f and nu drawn from N(0, Sigma), f and f' are jointly
    Gaussian with covariance sqrt(1 - step_size^2) Sigma, the same in either order. What is left of the acceptance ratio
    is the likelihood, equation (4).

    Statistics: `angle` is where f' lies on the ellipse through f and nu, asin(step_size), and 0 after a rejection, so
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

    step_size: float

    def __init__(self, step_size: float):
        object.__setattr__(self, "step_size", as_step(step_size, most=1.0))

    def __repr__(self) -> str:
        return f"NealMetropolis(step_size={self.step_size:g})"

    def step(self, noise: UpdateNoise, state: State, target: Target) -> tuple[State, Info]:
        """Make one proposal."""
        proposal = self.propose(state.f, noise.nu[0])
        return metropolis(proposal, state.log_likelihood - noise.level[0], math.asin(self.step_size), state, target)

    def propose(self, f: Any, nu: Any) -> Any:
        """Equation (3)."""
        return math.sqrt(1 - self.step_size**2) * f + self.step_size * nu


@dataclass(frozen=True, init=False, repr=False)
class RandomWalk(LineMove):
    """Propose f' = f + step_size nu, and accept it with probability min(1, ratio of the posterior densities).

    For comparisons. `NealMetropolis` takes the same proposal shortened by sqrt(1 - step_size^2), which spares the
    prior's ratio and "performed moderately better" (Section 3); in many dimensions a straight step leaves the shell
    where the prior's mass is, so only short ones are accepted.

    Parameters
    ----------
    step_size : float
        Epsilon of equation (15), above 0. `ellipslice.tune_step` finds one.

    Notes
    -----
    The proposal is symmetric, hence valid. Needs a prior with `log_density`; the products it takes are made for a whole
    block of updates at once. `angle` is `step_size`, and 0 after a rejection.

    Examples
    --------
    >>> RandomWalk(0.3)
    RandomWalk(step_size=0.3)
    """

    stored_as = "RandomWalk"

    step_size: float

    def __init__(self, step_size: float):
        object.__setattr__(self, "step_size", as_step(step_size, most=math.inf))

    def __repr__(self) -> str:
        return f"RandomWalk(step_size={self.step_size:g})"

    def step(self, noise: UpdateNoise, state: State, target: Target) -> tuple[State, Info]:
        """Make one proposal."""
        draws: LineDraws = noise.drawn
        log_y = state.log_likelihood - noise.level[0] - prior_on_line(state.f, draws)(self.step_size)
        return metropolis(state.f + self.step_size * draws.nu, log_y, self.step_size, state, target)


def metropolis(proposal: Any, log_y: Any, distance: float, state: State, target: Target) -> tuple[State, Info]:
    """The proposal if its log-likelihood is above `log_y`, else the state as it was.

    With u uniform, u < ratio and log L(f') > log_y = log L(f) + log u - (what else is in the ratio) say the same. The
    second, written this way round, never accepts NaN.
    """
    new = target.at(proposal)
    accepted = new.log_likelihood > log_y
    info = Info(1, count(new.log_likelihood != new.log_likelihood), False, where(accepted, distance, 0.0))
    return State(*(where(accepted, ours, theirs) for ours, theirs in zip(new, state, strict=True))), info


def as_step(step_size: Any, most: float) -> float:
    """Validate a step size, which must lie in (0, most]."""
    limits = "in (0, 1]" if most == 1 else "above 0 and finite"
    return number("step_size", step_size, above=0, most=most, expected=limits, advice="tune_step finds one.")
