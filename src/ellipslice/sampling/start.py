"""Where chains start: a prior draw each, or where the user says."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ellipslice.moves import State
from ellipslice.noise import start_generator
from ellipslice.posterior import CentredLikelihood, Posterior

TRIES = 100


def prior_start(posterior: Posterior, seed: int, chain: int, evaluate: Callable[[np.ndarray], float]) -> State:
    """A draw from the prior with non-zero likelihood: the first of at most `TRIES`."""
    rng = start_generator(seed, chain)
    value = np.nan
    for _ in range(TRIES):
        f = np.asarray(posterior.prior.draw(rng, 1))[0]
        value = evaluate(f)
        if np.isfinite(value):
            return State(f, value)
        if value == np.inf:
            break
    raise ValueError(
        f"the log-likelihood is {value} at the prior draw that chain {chain} would start from"
        + (f" and at {TRIES - 1} others" if value != np.inf else "")
        + ". Pass initial=, a point where it is finite; or is the log-likelihood wrong at draws from the prior?"
    )


def given_starts(centred: CentredLikelihood, initial: Any, chains: Sequence[int]) -> list[np.ndarray]:
    """The centred flat starts in `initial`: one point for all chains, or one for each along a leading axis."""
    names = {name for name, _ in centred.layout}
    if not isinstance(initial, dict) and not centred.single:
        raise TypeError(f"initial must be a dict with the prior's latents, {sorted(names)}, but it is an array.")
    points = initial if isinstance(initial, dict) else {"f": initial}
    if set(points) != names:
        raise ValueError(f"initial has {sorted(map(str, points))}, but the prior's latents are {sorted(names)}.")
    columns = {}
    for name, shape in centred.layout:
        values = np.asarray(points[name], dtype=np.float64)
        if values.shape not in (shape, (len(chains), *shape)):
            raise ValueError(
                f"initial has shape {values.shape} for {name}; expected {shape}, or {(len(chains), *shape)} with one "
                "point for each chain."
            )
        if not np.isfinite(values).all():
            raise ValueError(f"initial is not finite: {name} contains NaN or infinity.")
        columns[name] = np.broadcast_to(values, (len(chains), *shape))
    return [centred.pack({name: column[i] for name, column in columns.items()}) for i in range(len(chains))]


def given_start(f: np.ndarray, chain: int, evaluate: Callable[[np.ndarray], float]) -> State:
    """The state at a start the user gave; refused if no chain can run from it."""
    value = evaluate(f)
    if not np.isfinite(value):
        raise ValueError(
            f"the log-likelihood is {value} at initial for chain {chain}; it must be finite there. Start inside the "
            "region where the likelihood is not zero, or leave initial out to start from prior draws."
        )
    return State(f, value)
