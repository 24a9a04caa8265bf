"""Step size of Metropolis moves, by a grid search."""

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
"""Grid of step sizes of the paper's authors: 0.01, 0.0147, ..., 0.316."""


class Tuned(NamedTuple):
    """Result of `tune_step`."""

    move: Move
    """Move with the best step size."""
    step_sizes: np.ndarray
    """Step sizes that were tried."""
    effective_sample_sizes: np.ndarray
    """Effective sample size of the log-likelihood for each step size, which is the criterion."""
    acceptance_rate: np.ndarray
    """Acceptance rate for each step size."""


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
    """Choose the step size with the largest effective sample size, by one preliminary run for each step size.

    "The step size for Neal's Metropolis method was chosen using a grid search to maximize performance" (Section 4.2).
    The defaults are the grid, the run lengths and the criterion of the authors. All runs use the same seed.

    Parameters
    ----------
    move : callable
        Function from a step size to a move: `moves.NealMetropolis`, `moves.RandomWalk`, or for example
        `lambda step_size: Cycle(NealMetropolis(step_size), ...)`.
    log_likelihood, prior
        Model, as for `sample`.
    step_sizes : sequence of float
        Step sizes to try. Default: 10 values from 0.01 to 0.316, evenly spaced in the logarithm.
    draws, warmup, chains : int
        Number of draws per chain, warm-up updates and chains of each run. Default: 30,000, 1,000 and 1.
    seed : int, optional
        Seed of all runs. Default: a random one.
    initial : optional
        Initial state, as for `sample`.
    engine : str, optional
        Engine, as for `sample`.

    Returns
    -------
    Tuned
        The move with the best step size. `step_sizes`, `effective_sample_sizes` (of the log-likelihood, by
        `diagnostics.effective_sample_size`) and `acceptance_rate` describe all runs.

    Raises
    ------
    TypeError
        If `move` does not make moves, or has no step size.
    ValueError
        If `step_sizes` is empty.

    Warns
    -----
    UserWarning
        If the best step size is the smallest or largest that was tried.

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
    moves = [_make_move(move, step) for step in step_sizes]
    if not moves:
        raise ValueError("step_sizes is empty. Give the step sizes to try, for example [0.03, 0.1, 0.3].")
    if len(set(step_sizes)) > 1 and all(made == moves[0] for made in moves):
        raise TypeError(
            f"move makes {moves[0]!r} for every step size, so there is no step size to tune. {_MOVES_WITH_STEP_SIZE}"
        )
    seed = secrets.randbits(32) if seed is None else seed
    options: dict[str, Any] = {"draws": draws, "warmup": warmup, "seed": seed, "initial": initial}
    # Chain indices, because processes of `jax.distributed` would divide a number of chains among them, and choose
    # different step sizes.
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
            f"the best step size, {step_sizes[best]:g}, is the {which} that was tried. Try {other} ones, too, with "
            "step_sizes=[...]."
        )
    return Tuned(moves[best], np.array(step_sizes), np.array(sizes), np.array(acceptance))


_MOVES_WITH_STEP_SIZE = (
    "Moves with a step size are NealMetropolis, RandomWalk and Hamiltonian. EllipticalSlice has nothing to tune."
)


def _check_takes_step(move: Any) -> None:
    """Raise TypeError if the step size would be passed as another setting of a move, for example a width."""
    made = move
    while isinstance(made, functools.partial):
        made = made.func
    if not (isinstance(made, type) and issubclass(made, Move)):
        return  # the user's function: it decides where the step size goes
    positional = [
        name
        for name, parameter in inspect.signature(move).parameters.items()
        if parameter.kind is not inspect.Parameter.KEYWORD_ONLY
    ]
    if positional[:1] != ["step_size"]:
        first = f"its first argument is {positional[0]}" if positional else "it takes no argument"
        raise TypeError(
            f"{made.__name__} has no step size to tune: {first}. {_MOVES_WITH_STEP_SIZE} To tune another setting, give "
            f"a function: lambda value: {made.__name__}(...)."
        )


def _make_move(move: Callable[[float], Move], step: float) -> Move:
    """Return the move for a step size. Raise TypeError if `move` is a move already, or does not make one."""
    if isinstance(move, Move):
        raise TypeError(f"move is {move!r}, which has a step size already. Give its class, {type(move).__name__}.")
    made = move(step)
    if not isinstance(made, Move):
        raise TypeError(
            f"move must return a move for a step size, as moves.NealMetropolis does, but {move!r} returned {made!r} "
            f"for the step size {step!r}."
        )
    return made
