"""Initial states of chains: draws from the prior or the reference, or the states that the user gives."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from ellipslice.checks import as_numbers
from ellipslice.engines.base import Engine, RunSpec
from ellipslice.moves import State
from ellipslice.moves.reference_slice import RelativeReference
from ellipslice.noise import start_generator
from ellipslice.posterior import Posterior
from ellipslice.priors import Prior

MAX_START_DRAWS = 100
"""Largest number of prior draws that are tried for an initial state with non-zero likelihood."""


def first_draw(posterior: Posterior, rng: np.random.Generator) -> np.ndarray:
    """Return a random point from which a chain can start, centred and flat."""
    return posterior.points(rng, 1)[0]


def trial_point(
    posterior: Posterior, spec: RunSpec, points: Sequence[np.ndarray] | None, around: RelativeReference | None
) -> np.ndarray:
    """Return the point at which engines first evaluate the log-likelihood: a possible start of the first chain."""
    if points is not None:
        posterior.probe_points(points[0])
        return points[0]
    if around is not None:
        return np.asarray(around.centre)
    return first_draw(posterior, start_generator(spec.seed, spec.chains[0]))


def first_states(
    engine: Engine, spec: RunSpec, points: Sequence[np.ndarray] | None, around: RelativeReference | None
) -> list[State]:
    """Return the initial state of each chain: the user's, or a draw from the reference or from the prior."""
    if points is not None:
        return user_starts(engine, points, spec.chains)
    if around is not None:
        return reference_starts(engine, around, spec.seed, spec.chains)
    return prior_starts(engine, spec.seed, spec.chains)


def prior_starts(engine: Engine, seed: int, chains: Sequence[int]) -> list[State]:
    """Return the first prior draw with non-zero likelihood, for each chain. Raise after `MAX_START_DRAWS` draws."""
    posterior = engine.posterior
    generators = [start_generator(seed, chain) for chain in chains]
    points = engine.first_points(seed, chains) or [first_draw(posterior, rng) for rng in generators]
    states = []
    for chain, rng, f, value in zip(chains, generators, points, engine.evaluate_all(points), strict=True):
        tries = 1
        while not np.isfinite(value) and value != np.inf and tries < MAX_START_DRAWS:
            f = first_draw(posterior, rng)
            value = engine.evaluate(f)
            tries += 1
        if not np.isfinite(value):
            raise ValueError(
                f"the log-likelihood is {value} at the prior draw from which chain {chain} would start"
                + (f", and not finite at {tries - 1} others" if tries > 1 else "")
                + ". Check the log-likelihood at draws from the prior, or give initial=, a point where it is finite."
            )
        states.append(State(f, value))
    return states


def reference_starts(engine: Engine, reference: RelativeReference, seed: int, chains: Sequence[int]) -> list[State]:
    """Return a draw from the reference with non-zero likelihood for each chain.

    If ten draws do not contain one for some chain, all chains start from the prior.
    """
    states = []
    for chain in chains:
        rng = start_generator(seed, chain)
        for f in reference.centre + reference.draw(rng, 10):
            value = engine.evaluate(f)
            if np.isfinite(value):
                states.append(State(f, value))
                break
    return states if len(states) == len(chains) else prior_starts(engine, seed, chains)


def given_points(posterior: Posterior, initial: Any, chains: Sequence[int]) -> list[np.ndarray]:
    """Return the argument `initial` as one centred flat vector per chain. Raise if it is invalid."""
    centred = posterior.log_likelihood
    names = {name for name, _ in centred.layout}
    if not isinstance(initial, Mapping) and not centred.single:
        raise TypeError(f"initial must be a dict with the latents of the prior, {sorted(names)}, but it is an array.")
    points = initial if isinstance(initial, Mapping) else {"f": initial}
    if set(points) != names:
        raise ValueError(
            f"initial has {sorted(map(str, points))}, but the latents of the prior are {sorted(names)}. Give one entry "
            "for each of them."
        )
    columns = {}
    for name, shape in centred.layout:
        values = as_numbers(points[name], "initial" if centred.single else f"initial[{name!r}]")
        if values.shape not in (shape, (len(chains), *shape)):
            raise ValueError(
                f"initial has shape {values.shape} for {name}; expected {shape}, or {(len(chains), *shape)} with one "
                "state for each chain."
            )
        columns[name] = np.broadcast_to(values, (len(chains), *shape))
    points = [centred.pack({name: column[i] for name, column in columns.items()}) for i in range(len(chains))]
    _check_reachable(posterior.prior, np.stack(points))
    return points


def _check_reachable(prior: Prior, f: np.ndarray) -> None:
    """Raise if a point is outside the span of a singular prior, because the chain would never leave its offset."""
    if "whiten" not in prior.capabilities or prior.rank == prior.size:
        return
    gap = np.abs(f - np.asarray(prior.unwhiten(prior.whiten(f)))).max()
    if gap > 1e-6 * np.abs(f).max():
        raise ValueError(
            f"initial is not a possible draw from this prior: the covariance has rank {prior.rank} for {prior.size} "
            f"elements, and initial minus the mean is outside its span by {gap:.3g}. Start from a draw, "
            "prior.simulate(rng), or leave initial out."
        )


def user_starts(engine: Engine, points: Sequence[np.ndarray], chains: Sequence[int]) -> list[State]:
    """Return the initial states that the user gave. Raise if the log-likelihood is not finite at one of them."""
    values = engine.evaluate_all(points)
    for chain, value in zip(chains, values, strict=True):
        if not np.isfinite(value):
            raise ValueError(
                f"the log-likelihood is {value} at initial for chain {chain}, but it must be finite. Start where the "
                "likelihood is not zero, or leave initial out to start from prior draws."
            )
    return [State(f, value) for f, value in zip(points, values, strict=True)]
