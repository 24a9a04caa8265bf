"""Metropolis moves: Neal's (equations 3 and 4 of the paper, also called pCN) and the random walk (equation 15)."""

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
    """Neal's Metropolis move (1999), also called preconditioned Crank–Nicolson (pCN).

    It proposes f' = sqrt(1 - step_size^2) f + step_size nu, and accepts with probability min(1, L(f') / L(f)). An
    update costs one draw from the prior and one evaluation. The step size must be tuned: `ellipslice.tune_step` does.
    With expensive evaluations and a good step size it may give more effective samples per second than
    `EllipticalSlice`; Figure 6 of the paper compares the two. It needs no capability of the prior.

    Parameters
    ----------
    step_size : float
        Epsilon of equation (3). In (0, 1]. 1 proposes independent draws from the prior. A smaller step size has a
        higher acceptance rate.

    Raises
    ------
    TypeError
        If `step_size` is not a number.
    ValueError
        If `step_size` is not in (0, 1].

    Notes
    -----
    Why it is valid: the proposal is reversible under the prior. If f and nu are drawn from N(0, Sigma), f and f' are
    jointly Gaussian with covariance sqrt(1 - step_size^2) Sigma, which is symmetric in the two. Only the likelihood
    remains in the acceptance ratio, equation (4).

    The statistic `angle` is the position of f' on the ellipse through f and nu, asin(step_size), and 0 after a
    rejection. So `(tree.sample_stats.angle != 0).mean()` is the acceptance rate.

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
        object.__setattr__(self, "step_size", as_step_size(step_size, most=1.0))

    def __repr__(self) -> str:
        return f"NealMetropolis(step_size={self.step_size:g})"

    def step(self, noise: UpdateNoise, state: State, target: Target) -> tuple[State, Info]:
        """Make one proposal."""
        proposal = self.propose(state.f, noise.nu[0])
        return metropolis(proposal, state.log_likelihood - noise.level[0], math.asin(self.step_size), state, target)

    def propose(self, f: Any, nu: Any) -> Any:
        """Return the proposal of equation (3)."""
        return math.sqrt(1 - self.step_size**2) * f + self.step_size * nu


@dataclass(frozen=True, init=False, repr=False)
class RandomWalk(LineMove):
    """Random-walk Metropolis: propose f' = f + step_size nu, with nu drawn from the prior.

    The proposal is accepted with probability min(1, ratio of the posterior densities). The move is meant for
    comparisons. `NealMetropolis` also shrinks f by sqrt(1 - step_size^2), which cancels the ratio of the priors, and
    "performed moderately better" (Section 3). In many dimensions a straight step leaves the shell that contains the
    mass of the prior, so only short steps are accepted. The move requires a prior with `log_density`.

    Parameters
    ----------
    step_size : float
        Epsilon of equation (15). Positive. `ellipslice.tune_step` finds one.

    Raises
    ------
    TypeError
        If `step_size` is not a number.
    ValueError
        If `step_size` is not positive and finite.

    Notes
    -----
    The move is valid because the proposal is symmetric. An update costs one evaluation, one draw from the prior and
    one product with the precision, which is computed for a block of updates in one call. The statistic `angle` is
    `step_size`, and 0 after a rejection.

    Examples
    --------
    >>> RandomWalk(0.3)
    RandomWalk(step_size=0.3)
    """

    stored_as = "RandomWalk"

    step_size: float

    def __init__(self, step_size: float):
        object.__setattr__(self, "step_size", as_step_size(step_size, most=math.inf))

    def __repr__(self) -> str:
        return f"RandomWalk(step_size={self.step_size:g})"

    def step(self, noise: UpdateNoise, state: State, target: Target) -> tuple[State, Info]:
        """Make one proposal."""
        draws: LineDraws = noise.drawn
        log_y = state.log_likelihood - noise.level[0] - prior_on_line(state.f, draws)(self.step_size)
        return metropolis(state.f + self.step_size * draws.nu, log_y, self.step_size, state, target)


def metropolis(proposal: Any, log_y: Any, distance: float, state: State, target: Target) -> tuple[State, Info]:
    """Return the proposal if its log-likelihood is above `log_y`, else `state`; and the statistics.

    With u uniform, u < ratio is equivalent to log L(f') > log_y, where log_y = log L(f) + log u - (other terms of the
    log ratio). The second form never accepts NaN.
    """
    new = target.at(proposal)
    accepted = new.log_likelihood > log_y
    info = Info(1, count(new.log_likelihood != new.log_likelihood), False, where(accepted, distance, 0.0))
    return State(*(where(accepted, ours, theirs) for ours, theirs in zip(new, state, strict=True))), info


def as_step_size(step_size: Any, most: float) -> float:
    """Return a step size as a float. Raise if it is not in (0, most]."""
    limits = "in (0, 1]" if most == 1 else "above 0 and finite"
    return number("step_size", step_size, above=0, most=most, expected=limits, advice="tune_step finds one.")
