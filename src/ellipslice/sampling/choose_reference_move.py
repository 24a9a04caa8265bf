"""Choose the move of a run with `reference=`: independent draws, ellipses, or rotations with kicks.

All three sample the same posterior. Independent draws are best if the reference is nearly the posterior, ellipses if it
is a good approximation, and rotations with kicks otherwise. The choice uses numbers of updates and never a clock, so
that it depends on the seed alone.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from ellipslice.engines.base import Engine
from ellipslice.moves import Move, ReferenceSlice, SplitHamiltonian
from ellipslice.moves.reference_slice import Reference, RelativeReference
from ellipslice.moves.split_hamiltonian import SplitPrepared
from ellipslice.sampling.initial_states import reference_starts
from ellipslice.sampling.kick_pilot import CHAINS, KickPilot, ellipse_mixing, log_weights, trajectory_mixing

MIN_INDEPENDENCE_ACCEPTANCE = 0.75
"""Acceptance rate of independent draws from the reference above which most updates propose them."""

DRAWS = 100
"""Number of draws from the reference by which this rate is estimated."""

KICK_COST = 1.25
"""Cost of a kick of a trajectory, relative to a whole update along an ellipse. Measured with four chains on a CPU."""

SLOW_ELLIPSES = 0.02
"""Independent states per update below which the estimate for ellipses is not trusted.

It is made from single updates. Chains that move little in an update often move even less over many updates, for example
if they rarely change between modes: with outliers under Student-t noise the estimate was 30 times too large."""

MIN_ACCEPTANCE = 0.1
"""Acceptance rate of trajectories below which they are not preferred to slow ellipses."""


class ChosenMove(NamedTuple):
    """A move, the result of its `prepare`, and the reason for its choice in one sentence."""

    move: Move
    prepared: Any
    reason: str


def choose_reference_move(
    reference: Reference, relative: RelativeReference, engine: Engine, seed: int, why_no_kicks: str | None
) -> ChosenMove:
    """Return the move around a fitted reference.

    Parameters
    ----------
    reference : Reference
    relative : RelativeReference
        The reference relative to the prior.
    engine : Engine
        Engine that evaluates the log-likelihood, and makes the pilot run.
    seed : int
        Seed of the pilot run.
    why_no_kicks : str or None
        Reason not to use trajectories with kicks. None: they are used if there are gradients and a pilot run shows that
        they are better.
    """
    independence = independence_acceptance(relative, engine, seed)
    if independence > MIN_INDEPENDENCE_ACCEPTANCE:
        reason = f"independent draws: {independence:.0%} of the draws from the reference would be accepted"
        return ChosenMove(ReferenceSlice(reference, independence=True), relative, reason)
    ellipses = ReferenceSlice(reference)
    why_no_kicks = why_no_kicks or engine.why_no_gradient()
    if why_no_kicks is not None:
        return ChosenMove(ellipses, relative, f"ellipses, because {why_no_kicks}")
    starts = reference_starts(engine, relative, seed, range(CHAINS))
    prepared = SplitPrepared.around(relative, 1)
    kicks, reason = kicks_or_ellipses(KickPilot(reference, prepared, engine, starts, seed), relative, engine, seed)
    if kicks is None:
        return ChosenMove(ellipses, relative, reason)
    return ChosenMove(SplitHamiltonian(reference, kicks), prepared.with_kicks(kicks), reason)


def kicks_or_ellipses(pilot: KickPilot, relative: Any, engine: Engine, seed: int) -> tuple[int | None, str]:
    """Return the number of kicks, or None if ellipses are better, and the reason in one sentence."""
    found = pilot.tune()
    kicks, ellipses = trajectory_mixing(found), ellipse_mixing(found, relative, engine, seed)
    trusted = ellipses**2 / (ellipses + SLOW_ELLIPSES) if found.acceptance > MIN_ACCEPTANCE else ellipses
    if trusted >= kicks / (KICK_COST * found.kicks):
        return None, (
            f"ellipses: about {ellipses:.2g} independent states per update, and {kicks:.2g} by trajectories with "
            f"{found.kicks} kicks, which cost more"
        )
    return found.kicks, (
        f"trajectories with {found.kicks} kicks: about {found.acceptance:.0%} are accepted, with {kicks:.2g} "
        f"independent states per update, and ellipses would have {ellipses:.2g}"
    )


# A weight that underflows is 0, a ratio above 1 counts as 1, and a run with an infinite log-likelihood raises later.
@np.errstate(over="ignore", under="ignore", invalid="ignore")
def independence_acceptance(relative: RelativeReference, engine: Engine, seed: int) -> float:
    """Estimate the acceptance rate of independence Metropolis with the reference as the proposal.

    A proposal is accepted with probability min(1, w' / w), where w is posterior divided by reference. The states of a
    chain in equilibrium are represented by draws from the reference with weights w.
    """
    log_w = log_weights(relative, engine, relative.draw(np.random.default_rng(seed), DRAWS))
    if not np.isfinite(log_w).any():
        return 0.0
    w = np.exp(log_w - log_w.max())
    ratio = np.minimum(1.0, w / np.where(w > 0, w, 1.0)[:, None])
    return float(w @ ratio.mean(axis=1) / w.sum())
