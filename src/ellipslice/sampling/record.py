"""What is kept of a run."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from typing import Any, Literal

import numpy as np

from ellipslice.engines.base import Batch, Piece
from ellipslice.moves import Info
from ellipslice.posterior import CentredLikelihood
from ellipslice.sampling.keep import Keep


class Record:
    """The kept draws of every chain and the statistics of the updates that made them.

    Update `warmup + (i + 1) * thin - 1`, counted from 0, leaves draw i.
    """

    def __init__(
        self,
        centred: CentredLikelihood,
        keep: Callable[..., Any] | Literal[False] | None,
        example: np.ndarray,
        chains: Sequence[int],
        draws: int,
        warmup: int,
        thin: int,
    ):
        self._keep, self._warmup, self._thin = Keep(centred, keep, example), warmup, thin
        self._complete = [0] * len(chains)
        first = self._keep.example
        shape = (len(chains), draws)
        _check_memory(shape, first)
        self.latents = {name: np.empty(shape + value.shape[1:], value.dtype) for name, value in first.items()}
        self.statistics = {"log_likelihood": np.empty(shape), "proposals": np.empty(shape, np.int64)}
        for name in Info._fields:
            self.statistics[name] = np.empty(shape, {"stuck": bool, "angle": float}.get(name, np.int64))
        self.updates = self.evaluations = self.proposals = self.nans = self.stuck = 0
        self._last: dict[int, tuple[np.ndarray, float]] = {}

    @property
    def draws(self) -> int:
        """Draws that every chain has."""
        return min(self._complete)

    @property
    def total(self) -> int:
        """Draws of all chains together."""
        return sum(self._complete)

    @property
    def last(self) -> list[tuple[np.ndarray, float]]:
        """Each chain's last state and log-likelihood, the state centred and flat."""
        return list(self._last.values())

    def add(self, piece: Piece | Batch) -> None:
        """Take in some updates of one chain, or draws of all."""
        if isinstance(piece, Batch):
            self._add_batch(piece)
        else:
            self._add_piece(piece)

    def _add_piece(self, piece: Piece) -> None:
        count = len(piece.log_likelihood)
        self._last[piece.chain] = (piece.f[-1].copy(), float(piece.log_likelihood[-1]))
        self.updates += count
        self.evaluations += int(piece.info.evaluations.sum())
        self.proposals += int(piece.proposals.sum())
        self.nans += int(piece.info.nans.sum())
        self.stuck += int(piece.info.stuck.sum())
        _check_finite(float(piece.log_likelihood.max()))
        # The first draw at or after the piece's start, and the row that holds it.
        draw = max(0, -(-(piece.first - self._warmup - self._thin + 1) // self._thin))
        row = self._warmup + (draw + 1) * self._thin - 1 - piece.first
        rows = slice(row, count, self._thin)
        kept = len(range(row, count, self._thin))
        if not kept:
            return
        where = (piece.chain, slice(draw, draw + kept))
        for name, values in self._keep(piece.f[rows]).items():
            if not np.can_cast(values.dtype, self.latents[name].dtype):  # whole numbers first, then others
                self.latents[name] = self.latents[name].astype(np.promote_types(values.dtype, self.latents[name].dtype))
            self.latents[name][where] = values
        self.statistics["log_likelihood"][where] = piece.log_likelihood[rows]
        self.statistics["proposals"][where] = piece.proposals[rows]
        for name, values in piece.info._asdict().items():
            self.statistics[name][where] = values[rows]
        self._complete[piece.chain] = draw + kept

    def _add_batch(self, batch: Batch) -> None:
        totals, count = batch.totals, len(batch.log_likelihood)
        self.updates += totals.updates
        self.evaluations += totals.proposals
        self.proposals += totals.proposals
        self.nans += totals.nans
        self.stuck += totals.stuck
        _check_finite(totals.highest)
        if not count:
            return
        where = (slice(None), slice(batch.first, batch.first + count))
        for name, values in self._keep.of_batch(batch.f).items():
            self.latents[name][where] = np.moveaxis(values[:count], 1, 0)
        statistics = batch.info._asdict() | {
            "log_likelihood": batch.log_likelihood,
            "proposals": batch.info.evaluations,
        }
        for name, values in statistics.items():
            self.statistics[name][where] = values.T
        self._complete = [batch.first + count] * len(self._complete)
        self._last = {0: (np.asarray(batch.f[count - 1, 0]), float(batch.log_likelihood[-1, 0]))}


def _check_finite(highest: float) -> None:
    if highest == np.inf:
        raise ValueError(
            "the log-likelihood is +inf at a point the chain reached: it could never leave. A likelihood must be "
            "finite wherever it is not zero; look for a division by zero or an overflow."
        )


def _check_memory(shape: tuple[int, ...], example: dict[str, np.ndarray]) -> None:
    try:
        available = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (AttributeError, ValueError, OSError):
        return  # not a system that says
    needed = sum(int(np.prod(shape)) * value[0].nbytes for value in example.values())
    if needed > 0.8 * available:
        raise MemoryError(
            f"keeping {shape[0]} x {shape[1]} draws takes {needed / 2**30:.1f} GiB, and this machine has "
            f"{available / 2**30:.1f}. Keep less of each draw with keep=, or fewer draws."
        )
