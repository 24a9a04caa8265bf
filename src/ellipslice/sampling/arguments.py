"""Check the arguments of `sample` and `resume` before any long work."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import jax
import numpy as np

from ellipslice.checks import is_number, whole_number
from ellipslice.engines.device.sharding import chains_of_process
from ellipslice.engines.rows import statistics_of
from ellipslice.moves import ConstrainedSlice, EllipticalSlice, Move
from ellipslice.moves.search import Path
from ellipslice.posterior import Posterior
from ellipslice.priors import TruncatedGaussian
from ellipslice.sampling.automatic_length import DRAWS
from ellipslice.sampling.until import Until, draw_limit
from ellipslice.truncated_posterior import TruncatedPosterior


def chain_indices(chains: int | Sequence[int]) -> tuple[int, ...]:
    """Return the indices of the chains that this process runs: those given, or its part of a number of chains."""
    if isinstance(chains, Sequence | np.ndarray) and not isinstance(chains, str) and np.ndim(chains):
        indices = tuple(whole_number("a chain index", chain, 0) for chain in chains)
        if not indices or len(set(indices)) < len(indices):
            raise ValueError(f"chains must contain at least one index, and each index once, but it is {chains}.")
        return indices
    return tuple(chains_of_process(whole_number("chains", chains, 1)))


def check_draw_limit(draws: Any, until: Any) -> int:
    """Return the largest number of draws of each chain. Raise if `draws` or `until` is invalid, or both are given."""
    if until is None:
        return DRAWS if draws is None else whole_number("draws", draws, 1)
    if not isinstance(until, Until):
        raise TypeError(f"until must be an Until, such as Until(effective_sample_size=400), but it is {until!r}.")
    if draws is not None:
        raise ValueError(
            f"draws={draws!r} was given with until={until!r}. Leave draws out, and limit the draws with Until(..., "
            "max_draws=...)."
        )
    return draw_limit(until)


def has_automatic_length(draws: Any, until: Any, chains: Any, nothing_to_check: bool) -> bool:
    """Return whether a run ends when it passes the convergence check.

    It does without `draws` and `until`, if it is not a part of a larger run (with given chains, or one of several
    processes), whose parts must have equal lengths, and if there is something to check.
    """
    part = np.ndim(chains) > 0 or jax.process_count() > 1
    return draws is None and until is None and not part and not nothing_to_check


def check_timeout(timeout: Any, executor: Any) -> None:
    """Raise if `timeout` is not a positive number of seconds, or if it is given without an executor."""
    if timeout is None:
        return
    if not is_number(timeout) or not timeout > 0:
        raise ValueError(f"timeout must be a positive number of seconds, but it is {timeout!r}.")
    if executor is None:
        raise ValueError(
            f"timeout={timeout!r} was given, but no executor. An evaluation that hangs can be abandoned only in "
            "another process. Give an executor, for example ProcessPoolExecutor(1)."
        )


def check_precision(precision: Any) -> None:
    """Raise if `precision` is not "double" or "single"."""
    if precision not in ("double", "single"):
        raise ValueError(f'precision must be "double" or "single", but it is {precision!r}.')


def as_move(move: Any, prior: Any) -> Move:
    """Return the move of a run: the one given, or the default for the prior. Raise if engines cannot run it."""
    if move is None:
        return ConstrainedSlice() if isinstance(prior, TruncatedGaussian) else EllipticalSlice()
    if not isinstance(move, Move):
        hint = " Make an instance of the class." if isinstance(move, type) and issubclass(move, Move) else ""
        raise TypeError(
            f"move must be a move of ellipslice.moves, such as EllipticalSlice(), but it is {move!r}.{hint}"
        )
    if move.path is not None and type(move.path).log_factor is not Path.log_factor:
        raise TypeError(
            f"{move!r} overrides log_factor of its path, which engines ignore for a move that is a single search. Call "
            "target.search in the step of a class derived from Move instead, like moves.LineSlice."
        )
    statistics_of(move)
    return move


def make_posterior(
    prior: Any, log_likelihood: Any, move: Move, *, vectorized: bool | None, log_concave: bool | None
) -> Posterior:
    """Return prior times likelihood. Raise if the prior is truncated and the move ignores constraints."""
    if not isinstance(prior, TruncatedGaussian):
        return Posterior(prior, log_likelihood, vectorized=vectorized, log_concave=log_concave)
    if not move.constrained:
        raise TypeError(
            f"{move!r} ignores the constraints of a TruncatedGaussian. Leave move out to use ConstrainedSlice(). "
            "(Or give the Gaussian as prior, and a log-likelihood that is -inf outside the constraints. This is "
            "correct but slower.)"
        )
    return TruncatedPosterior(prior, log_likelihood, vectorized=vectorized, log_concave=log_concave)
