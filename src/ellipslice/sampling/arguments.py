"""What users give to `sample` and `resume`, refused early if it makes no sense."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from ellipslice.engines.devices import share_of_process
from ellipslice.sampling.until import Until

DRAWS = 1000
"""Draws of each chain, if nothing else is said."""


def count(name: str, value: Any, least: int) -> int:
    """A whole number that is not too small."""
    if isinstance(value, bool) or not isinstance(value, int | np.integer):
        raise TypeError(f"{name} must be a whole number, but it is {value!r}.")
    if value < least:
        raise ValueError(f"{name} must be at least {least}, but it is {value}.")
    return int(value)


def chain_numbers(chains: int | Sequence[int]) -> tuple[int, ...]:
    """The numbers of the chains to run here: those named, or this process's share of so many."""
    if isinstance(chains, Sequence | np.ndarray) and not isinstance(chains, str) and np.ndim(chains):
        numbers = tuple(count("a chain's number", chain, 0) for chain in chains)
        if not numbers or len(set(numbers)) < len(numbers):
            raise ValueError(f"chains must name each chain once, and at least one, but it is {chains}.")
        return numbers
    return tuple(share_of_process(count("chains", chains, 1)))


def how_many(draws: Any, until: Any) -> int:
    """Draws of each chain, at most."""
    if until is None:
        return DRAWS if draws is None else count("draws", draws, 1)
    if not isinstance(until, Until):
        raise TypeError(f"until must be goals, such as Until(effective_size=400), but it is {until!r}.")
    if draws is not None:
        raise ValueError(
            f"draws={draws!r} was given beside until={until!r}. Say there how many may be drawn: Until(..., draws=...)."
        )
    return until.most


def check_timeout(timeout: Any, executor: Any) -> None:
    """Refuse a limit that is no number of seconds, or for nobody."""
    if timeout is None:
        return
    if isinstance(timeout, bool) or not isinstance(timeout, int | float | np.number) or not timeout > 0:
        raise ValueError(f"timeout must be a positive number of seconds, but it is {timeout!r}.")
    if executor is None:
        raise ValueError(
            f"timeout={timeout!r} was given, but no executor. A log-likelihood that hangs can be left behind only in "
            "another process: give executor=ProcessPoolExecutor(1), for one."
        )


def as_path(store: Any) -> Path:
    """Where a store is, or will be."""
    if not isinstance(store, str | os.PathLike):
        raise TypeError(f'store must be the path of a folder, such as "run.zarr", but it is {store!r}.')
    text = os.fspath(store)
    if not isinstance(text, str) or not text:
        raise TypeError(f'store must be the path of a folder, such as "run.zarr", but it is {store!r}.')
    if "://" in text:
        raise ValueError(f"store is {text!r}, but a run is written to a folder on this machine. Copy it afterwards.")
    return Path(text)
