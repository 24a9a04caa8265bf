"""Choose the move of a run without `move` and `reference`.

A reference Gaussian is fitted where this is quick: for a compiled log-likelihood that factorises over the elements of
f. For others a preliminary run with plain ellipses shows whether they need one. Above `MAX_SIZE` elements a fit would
take too long, and a pilot run chooses between ellipses and rotations with kicks around the prior.
"""

from __future__ import annotations

import jax
import numpy as np

from ellipslice.approximations import pilot
from ellipslice.approximations.fit import factorise_likelihood
from ellipslice.engines.base import Checkpoint, Engine, RunSpec
from ellipslice.engines.choose import choose_engine
from ellipslice.engines.rows import collect
from ellipslice.jax_settings import on_cpu
from ellipslice.moves import Cycle, EllipticalSlice, SplitHamiltonian, State
from ellipslice.noise import start_generator
from ellipslice.posterior import Posterior
from ellipslice.sampling.choose_reference_move import kicks_or_ellipses
from ellipslice.sampling.forecast import forecast_pilot_runs
from ellipslice.sampling.initial_states import first_draw, prior_starts
from ellipslice.sampling.kick_pilot import CHAINS, KickPilot
from ellipslice.sampling.measures import measure
from ellipslice.sampling.mode import near_mode
from ellipslice.sampling.reference_move import ReferenceMove, fit_with_engine, pilot_seed
from ellipslice.sampling.result import import_in_background

MAX_SIZE = 2500
"""Largest number of elements of f, and of standard normals of the prior, for which a reference is fitted by default.

The time of a fit grows with the third power of the size."""

PRELIMINARY_UPDATES = (250, 1000)
"""Updates of each of four chains with plain ellipses, for a log-likelihood that does not factorise.

The longer run is made if the shorter one was not enough."""

ENOUGH_EFFECTIVE_SAMPLES = 50
"""Effective sample size of the second half of these updates with which no reference is fitted.

The pilot runs of a reference take 8,000 updates of each chain. With this effective sample size after 1,000 updates,
plain ellipses need about 4,000 updates to converge."""

NO_PILOT_RUNS = "move=es.moves.EllipticalSlice() samples without them, and may need longer runs."
"""Sentence for users whose pilot runs are slow."""


def choose_automatic_move(
    posterior: Posterior,
    spec: RunSpec,
    engine: str | None,
    by_workers: bool,
    log_concave: bool,
    progress: bool,
    why_plain: str | None,
) -> ReferenceMove:
    """Return the move of a run without `move` and `reference`.

    Parameters
    ----------
    posterior : Posterior
    spec : RunSpec
        Its move is that of a run with plain ellipses.
    engine : str or None
        Argument of `sample`.
    by_workers : bool
        True if workers run the chains. They do not make the pilot runs.
    log_concave : bool
        Argument of `sample`.
    progress : bool
        Whether to print a forecast if the pilot runs are slow.
    why_plain : str or None
        Reason for plain ellipses; None if there is none.
    """
    plain = ReferenceMove.plain(spec.move, "")
    if why_plain is not None:
        return plain._replace(reason=f"plain ellipses, because {why_plain}")
    seed = pilot_seed(spec.seed)
    trial = first_draw(posterior, start_generator(seed, 0))
    not_on_gpu = Cycle(EllipticalSlice())  # device engines cannot run a Cycle, so they are not chosen
    runner, _ = choose_engine(posterior, engine, trial, not_on_gpu)
    if not runner.traced:
        return plain._replace(reason="plain ellipses, because the log-likelihood is not compiled")
    if not by_workers:  # they may fork, which is unsafe during an import
        import_in_background()
    is_large = max(posterior.prior.size, posterior.prior.noise_size) > MAX_SIZE
    try:
        if is_large:
            return _around_prior(plain, runner, seed)
        with on_cpu():
            terms = factorise_likelihood(posterior)
        if progress and isinstance(terms, str):
            updates = pilot.ROUNDS * pilot.UPDATES + sum(PRELIMINARY_UPDATES)
            forecast_pilot_runs(runner, trial, updates, CHAINS, NO_PILOT_RUNS)
        enough = _plain_if_enough(plain, runner, seed) if isinstance(terms, str) else None
        # In this process also if there are workers, so that they do not change the draws.
        return enough or fit_with_engine("auto", runner, None, trial, seed, log_concave, terms)
    except Exception as error:  # noqa: BLE001  pilot runs are optional; the run itself raises if the user's function does
        what = "the pilot run around the prior failed" if is_large else "no reference could be fitted"
        first_line = str(error).partition("\n")[0]
        return plain._replace(reason=f"plain ellipses, because {what}: {first_line}")


def _plain_if_enough(plain: ReferenceMove, engine: Engine, seed: int) -> ReferenceMove | None:
    """Return plain ellipses if they mix well in a short run, else None."""
    for updates in PRELIMINARY_UPDATES:
        size = _preliminary_sample_size(plain, engine, seed, updates)
        if size >= ENOUGH_EFFECTIVE_SAMPLES:
            kept = CHAINS * updates // 2
            return plain._replace(reason=f"plain ellipses: about {size:,.0f} effective samples in {kept:,} updates")
    return None


def why_plain_ellipses(posterior: Posterior, spec: RunSpec, engine: str | None) -> str | None:
    """Return the reason in the arguments of `sample` for plain ellipses; None if there is none."""
    if not posterior.prior.linear:
        return "the prior can only draw"
    if spec.look_ahead is not None:
        return "look_ahead was given"
    if engine in ("host", "batched", "fused"):
        return f'engine="{engine}" was given'
    if spec.precision != "double":
        return f'precision="{spec.precision}" was given'
    if engine is None and jax.default_backend() == "gpu":
        return "the chains run on a GPU"
    return None


def _around_prior(plain: ReferenceMove, engine: Engine, seed: int) -> ReferenceMove:
    """Return plain ellipses, or rotations with kicks around the prior if a pilot run shows that they are better."""
    move = SplitHamiltonian(None, kicks=1)
    try:
        prepared = move.prepare(engine.posterior.prior)
    except TypeError as error:
        return plain._replace(reason=f"plain ellipses, because {str(error).partition('. ')[0]}")
    no_gradient = engine.why_no_gradient()
    if no_gradient is not None:
        return plain._replace(reason=f"plain ellipses, because {no_gradient}")
    mode = near_mode(engine)  # trajectories from prior draws may all be rejected
    starts = (
        prior_starts(engine, seed, range(CHAINS)) if mode is None else [State(mode, engine.evaluate(mode))] * CHAINS
    )
    pilot = KickPilot(None, prepared, engine, starts, seed)
    kicks, reason = kicks_or_ellipses(pilot, prepared.reference, engine, seed)
    if kicks is None:
        return plain._replace(reason=reason)
    found = SplitHamiltonian(None, kicks), prepared.with_kicks(kicks)
    reached = tuple(state.f for state in pilot.states)
    return ReferenceMove(*found, None, None, f"around the prior, {reason}", reached)


def _preliminary_sample_size(plain: ReferenceMove, engine: Engine, seed: int, updates: int) -> float:
    """Return the effective sample size of the second half of a short run with plain ellipses."""
    starts = [Checkpoint(0, state) for state in prior_starts(engine, seed, range(CHAINS))]
    spec = RunSpec(plain.move, seed, tuple(range(CHAINS)), warmup=updates // 2)
    made = collect(engine.run(spec, starts, updates), CHAINS)
    f = np.stack([np.concatenate([part.f[0] for part in rows]) for rows in made])
    value = np.stack([np.concatenate([part.statistics["total_log_likelihood"][0] for part in rows]) for rows in made])
    return measure({"f": f, "total_log_likelihood": value}, at_most=16).effective_sample_size
