"""What users give to `sample` and `resume`, refused early if it makes no sense."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ellipslice.checks import is_number, whole_number
from ellipslice.engines.device.sharding import chains_of_process
from ellipslice.sampling.until import Until

DRAWS = 1000
"""Draws of each chain, if nothing else is said."""


def chain_numbers(chains: int | Sequence[int]) -> tuple[int, ...]:
    """The numbers of the chains to run here: those named, or this process's share of so many."""
    if isinstance(chains, Sequence | np.ndarray) and not isinstance(chains, str) and np.ndim(chains):
        numbers = tuple(whole_number("a chain's number", chain, 0) for chain in chains)
        if not numbers or len(set(numbers)) < len(numbers):
            raise ValueError(f"chains must name each chain once, and at least one, but it is {chains}.")
        return numbers
    return tuple(chains_of_process(whole_number("chains", chains, 1)))


def how_many(draws: Any, until: Any) -> int:
    """Draws of each chain, at most."""
    if until is None:
        return DRAWS if draws is None else whole_number("draws", draws, 1)
    if not isinstance(until, Until):
        raise TypeError(f"until must be goals, such as Until(effective_size=400), but it is {until!r}.")
    if draws is not None:
        raise ValueError(
            f"draws={draws!r} was given beside until={until!r}. Say there how many may be drawn: Until(..., draws=...)."
        )
    return until.most


def check_timeout(timeout: Any, executor: Any) -> None:
    """Raise if `timeout` is not a positive number of seconds, or if it is given without an executor."""
    if timeout is None:
        return
    if not is_number(timeout) or not timeout > 0:
        raise ValueError(f"timeout must be a positive number of seconds, but it is {timeout!r}.")
    if executor is None:
        raise ValueError(
            f"timeout={timeout!r} was given, but no executor. A log-likelihood that hangs can be left behind only in "
            "another process: give executor=ProcessPoolExecutor(1), for one."
        )
