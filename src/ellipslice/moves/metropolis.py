"""What Metropolis moves share: a step size, and one proposal that is taken or not."""

from __future__ import annotations

from typing import Any

import numpy as np

from ellipslice.moves.arithmetic import count, where
from ellipslice.moves.base import Info, State, Target


def metropolis(proposal: Any, log_y: Any, distance: float, state: State, target: Target) -> tuple[State, Info]:
    """The proposal if its log-likelihood is above `log_y`, else the state as it was.

    With u uniform, u < ratio and log L(f') > log_y = log L(f) + log u - (what else is in the ratio) say the same. The
    second, written this way round, never accepts NaN.
    """
    new = target.at(proposal)
    accepted = new.log_likelihood > log_y
    info = Info(1, count(new.log_likelihood != new.log_likelihood), False, where(accepted, distance, 0.0))
    return State(*(where(accepted, ours, theirs) for ours, theirs in zip(new, state, strict=True))), info


def as_step(step: Any, most: float) -> float:
    """Validate a step size, which must lie in (0, most]."""
    if isinstance(step, bool) or not isinstance(step, int | float | np.integer | np.floating):
        raise TypeError(f"step must be a number, but it is {step!r}. tune_step finds one.")
    if not 0 < step <= most or np.isinf(step):
        limits = "in (0, 1]" if most == 1 else "above 0 and finite"
        raise ValueError(f"step must be {limits}, but it is {step}. tune_step finds one.")
    return float(step)
