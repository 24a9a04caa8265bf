"""Initial states of chains: a draw from the prior or the reference for each, or what the user gives."""

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

TRIES = 100


def first_draw(posterior: Posterior, rng: np.random.Generator) -> np.ndarray:
    """The next point that a chain could start from."""
    return posterior.points(rng, 1)[0]


def trial_point(
    posterior: Posterior, spec: RunSpec, points: Sequence[np.ndarray] | None, around: RelativeReference | None
) -> np.ndarray:
    """Return the point at which engines try the log-likelihood: where the first chain starts, or near it."""
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
    """For each chain a draw from the prior with non-zero likelihood: the first of at most `TRIES`."""
    posterior = engine.posterior
    generators = [start_generator(seed, chain) for chain in chains]
    points = engine.first_points(seed, chains) or [first_draw(posterior, rng) for rng in generators]
    states = []
    for chain, rng, f, value in zip(chains, generators, points, engine.evaluate_all(points), strict=True):
        tries = 1
        while not np.isfinite(value) and value != np.inf and tries < TRIES:
            f = first_draw(posterior, rng)
            value = engine.evaluate(f)
            tries += 1
        if not np.isfinite(value):
            raise ValueError(
                f"the log-likelihood is {value} at the prior draw that chain {chain} would start from"
                + (f" and at {tries - 1} others" if tries > 1 else "")
                + ". Pass initial=, a point where it is finite; or is the log-likelihood wrong at draws from the prior?"
            )
        states.append(State(f, value))
    return states


def reference_starts(engine: Engine, reference: RelativeReference, seed: int, chains: Sequence[int]) -> list[State]:
    """For each chain a draw from the reference with non-zero likelihood; from the prior, if that is hard to find."""
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
    """The centred flat starts in `initial`: one point for all chains, or one for each along a leading axis."""
    centred = posterior.log_likelihood
    names = {name for name, _ in centred.layout}
    if not isinstance(initial, Mapping) and not centred.single:
        raise TypeError(f"initial must be a dict with the prior's latents, {sorted(names)}, but it is an array.")
    points = initial if isinstance(initial, Mapping) else {"f": initial}
    if set(points) != names:
        raise ValueError(f"initial has {sorted(map(str, points))}, but the prior's latents are {sorted(names)}.")
    columns = {}
    for name, shape in centred.layout:
        values = as_numbers(points[name], "initial" if centred.single else f"initial[{name!r}]")
        if values.shape not in (shape, (len(chains), *shape)):
            raise ValueError(
                f"initial has shape {values.shape} for {name}; expected {shape}, or {(len(chains), *shape)} with one "
                "point for each chain."
            )
        columns[name] = np.broadcast_to(values, (len(chains), *shape))
    points = [centred.pack({name: column[i] for name, column in columns.items()}) for i in range(len(chains))]
    _check_reachable(posterior.prior, np.stack(points))
    return points


def _check_reachable(prior: Prior, f: np.ndarray) -> None:
    """Refuse points that a singular prior gives no draws like: a chain would never quite get away from them."""
    if "whiten" not in prior.capabilities or prior.rank == prior.size:
        return
    gap = np.abs(f - np.asarray(prior.unwhiten(prior.whiten(f)))).max()
    if gap > 1e-6 * np.abs(f).max():
        raise ValueError(
            f"initial is not a point that this prior can draw: its covariance has rank {prior.rank} for {prior.size} "
            f"values, and initial, less the mean, is off its span by {gap:.3g}. Start from a draw, "
            "prior.simulate(rng), or leave initial out."
        )


def user_starts(engine: Engine, points: Sequence[np.ndarray], chains: Sequence[int]) -> list[State]:
    """The states at starts the user gave; refused if no chain can run from one of them."""
    values = engine.evaluate_all(points)
    for chain, value in zip(chains, values, strict=True):
        if not np.isfinite(value):
            raise ValueError(
                f"the log-likelihood is {value} at initial for chain {chain}; it must be finite there. Start inside "
                "the region where the likelihood is not zero, or leave initial out to start from prior draws."
            )
    return [State(f, value) for f, value in zip(points, values, strict=True)]
