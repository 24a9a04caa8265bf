"""The more obvious Metropolis proposal: equation (15) of the paper."""

from __future__ import annotations

import math
from dataclasses import dataclass

from ellipslice.moves.base import Info, State, Target
from ellipslice.moves.metropolis import as_step, metropolis
from ellipslice.moves.straight import Straight, prior_on_line
from ellipslice.noise import Noise


@dataclass(frozen=True, init=False, repr=False)
class RandomWalk(Straight):
    """Propose f' = f + step nu, and accept with the ratio of posteriors: N(f'; 0, Sigma) L(f') / N(f; 0, Sigma) L(f).

    For comparisons. `NealMetropolis` takes the same proposal shortened by sqrt(1 - step^2), which spares the prior's
    ratio and "performed moderately better" (Section 3); in many dimensions a straight step leaves the shell where the
    prior's mass is, so only short ones are accepted.

    Parameters
    ----------
    step : float
        Epsilon of equation (15), above 0. `ellipslice.tune_step` finds one.

    Notes
    -----
    The proposal is symmetric, hence valid. Needs a prior with `log_density`; the products it takes are made for a whole
    block of updates at once. `angle` is `step`, and 0 after a rejection.

    Examples
    --------
    >>> RandomWalk(0.3)
    RandomWalk(step=0.3)
    """

    stored_as = "RandomWalk"

    epsilon: float

    def __init__(self, step: float):
        object.__setattr__(self, "epsilon", as_step(step, most=math.inf))

    def __repr__(self) -> str:
        return f"RandomWalk(step={self.epsilon:g})"

    def step(self, noise: Noise, state: State, target: Target) -> tuple[State, Info]:
        """One proposal."""
        log_prior_ratio = prior_on_line(state.f, noise.nu)(self.epsilon)
        log_y = state.log_likelihood - noise.level[0] - log_prior_ratio
        return metropolis(state.f + self.epsilon * noise.nu[0], log_y, self.epsilon, state, target)
