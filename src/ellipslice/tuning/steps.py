"""A step size for Metropolis moves, by a grid search."""

from __future__ import annotations

import functools
import inspect
import secrets
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from ellipslice.checks import warn
from ellipslice.diagnostics import effective_sample_size
from ellipslice.moves import Move
from ellipslice.priors import Prior
from ellipslice.sampling import sample

GRID = tuple(np.logspace(-2, -0.5, 10).tolist())
"""The authors' grid of step sizes: 0.01, 0.0147, ..., 0.316."""


class Tuned(NamedTuple):
    """What a grid search found."""

    move: Move
    """The one to use."""
    step_sizes: np.ndarray
    """The steps tried."""
    effective_sample_sizes: np.ndarray
    """Of the log-likelihood, for each step: what the choice was made by."""
    acceptance_rate: np.ndarray
    """The share of updates that moved, for each step."""


def tune_step(
    move: Callable[[float], Move],
    log_likelihood: Callable[..., Any],
    prior: Prior,
    *,
    step_sizes: Sequence[float] = GRID,
    draws: int = 30_000,
    warmup: int = 1_000,
    chains: int = 1,
    seed: int | None = None,
    initial: Any = None,
    engine: str | None = None,
) -> Tuned:
    """The step size with the most effective draws, by a preliminary run for each of a few.

    "The step size for Neal's Metropolis method was chosen using a grid search to maximize performance" (Section 4.2);
    grid, lengths and measure are the authors' unless others are given. All steps are run with the same noise.

    Parameters
    ----------
    move : callable
        Makes a move of a step: `moves.NealMetropolis`, `moves.RandomWalk`, or a function such as
        `lambda step_size: Cycle(NealMetropolis(step_size), ...)`.
    log_likelihood, prior, seed, initial, engine
        As for `sample`.
    step_sizes : sequence of float
    draws, warmup, chains : int
        Of each run.

    Returns
    -------
    Tuned
        `move` is the best; `step_sizes`, `effective_sample_sizes` (of the log-likelihood, by
        `diagnostics.effective_sample_size`) and `acceptance_rate` are what it was chosen from.

    Examples
    --------
    >>> import jax.numpy as jnp, numpy as np
    >>> import ellipslice as es
    >>> prior, log_likelihood = es.Diagonal(np.ones(3)), lambda f: -8 * jnp.sum((f - 1) ** 2)
    >>> tuned = es.tune_step(es.moves.NealMetropolis, log_likelihood, prior, step_sizes=[0.01, 0.4, 0.99], seed=1)
    >>> tuned.move
    NealMetropolis(step_size=0.4)
    """
    _check_takes_step(move)
    moves = [_made(move, step) for step in step_sizes]
    if not moves:
        raise ValueError("step_sizes is empty. Give the step sizes to try, such as [0.03, 0.1, 0.3].")
    if len(set(step_sizes)) > 1 and all(made == moves[0] for made in moves):
        raise TypeError(f"move makes {moves[0]!r} of every step: there is no step in it to tune. {_STEPPED}")
    seed = secrets.randbits(32) if seed is None else seed
    options: dict[str, Any] = {"draws": draws, "warmup": warmup, "seed": seed, "initial": initial}
    # By their numbers, which processes of `jax.distributed` do not share: all must find the same step.
    options["chains"] = range(chains) if isinstance(chains, int) and chains > 0 else chains
    sizes, acceptance = [], []
    for made in moves:
        tree = sample(log_likelihood, prior, move=made, engine=engine, keep=False, progress=False, **options)
        statistics = tree["sample_stats"].to_dataset()
        sizes.append(effective_sample_size(statistics["total_log_likelihood"]))
        acceptance.append((statistics["angle"].to_numpy() != 0).mean())
    best = int(np.argmax(sizes))
    if len(moves) > 1 and step_sizes[best] in (min(step_sizes), max(step_sizes)):
        which, other = ("smallest", "smaller") if step_sizes[best] == min(step_sizes) else ("largest", "larger")
        warn(
            f"the best step, {step_sizes[best]:g}, is the {which} of those tried. Try {other} ones too, with "
            "step_sizes=[...]."
        )
    return Tuned(moves[best], np.array(step_sizes), np.array(sizes), np.array(acceptance))


_STEPPED = "Moves with a step are NealMetropolis, RandomWalk and Hamiltonian; EllipticalSlice has nothing to tune."


def _check_takes_step(move: Any) -> None:
    """Raise TypeError if the step would be taken for another setting of a move, such as a width."""
    made = move
    while isinstance(made, functools.partial):
        made = made.func
    if not (isinstance(made, type) and issubclass(made, Move)):
        return  # a function of the user's, who knows what it does with a step
    open_to_it = [
        name
        for name, parameter in inspect.signature(move).parameters.items()
        if parameter.kind is not inspect.Parameter.KEYWORD_ONLY
    ]
    if open_to_it[:1] != ["step_size"]:
        first = f"its first argument is {open_to_it[0]}" if open_to_it else "it takes no argument"
        raise TypeError(
            f"{made.__name__} has no step to tune: {first}. {_STEPPED} To tune another setting, give a function: "
            f"lambda value: {made.__name__}(...)."
        )


def _made(move: Callable[[float], Move], step: float) -> Move:
    if isinstance(move, Move):
        raise TypeError(f"move is {move!r}, whose step is set. Give its class, {type(move).__name__}.")
    made = move(step)
    if not isinstance(made, Move):
        raise TypeError(
            f"move must make a move of a step, as moves.NealMetropolis does, but {move!r} made {made!r} of {step!r}."
        )
    return made
