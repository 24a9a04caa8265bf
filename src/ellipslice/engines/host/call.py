"""Calls of the user's log-likelihood from Python, and checks of what it returns."""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable
from typing import Any

import jax.numpy as jnp
import numpy as np

from ellipslice.posterior import Posterior, add_latents_to_error, as_log_likelihood
from ellipslice.undocumented import jaxprs, precision

IN_PLACE = "log_likelihood changes its argument in place. Work on a copy: f = f.copy()."


class Call:
    """The log-likelihood as the host engine calls it: of one latent, or of a batch.

    An exception that the user's function raises carries the latents that caused it.
    """

    def __init__(self, posterior: Posterior, *, read_only: bool = False):
        self._posterior, self._centred = posterior, posterior.log_likelihood
        plain = self._centred.plain
        function = self._centred.callable
        self.function: Callable[[np.ndarray], Any] = (
            function if plain and not self._centred.batches_only else self._centred
        )
        """Function of a centred flat vector: the user's own if it takes such vectors, without shift and reshaping."""
        self._batched = function if plain else self._centred.batch
        # A jitted function would keep its data in double precision, and fail when it is called by hand in single.
        self._first = self._centred.with_function(jaxprs.plain(function))

        self.read_only = read_only
        """Whether the function is given read-only arrays, so that one that writes to its argument raises."""

    def first(self, f: np.ndarray) -> float:
        """Return the value of a first call. Raise if it is not that of a log-likelihood."""
        if self._centred.batches_only:
            self._check_batches(f)
        frozen = f.copy()
        frozen.flags.writeable = False
        stale = False
        try:
            with warnings.catch_warnings(record=True) as caught:
                result = self._first(frozen)
            self.read_only = not caught  # some libraries warn about read-only arrays
        except Exception as error:
            # Some functions that do not write to the array require a writable one: C extensions, for example.
            if "destination is read-only" in str(error) or "output array is read-only" in str(error):
                raise ValueError(IN_PLACE) from error
            result, stale = None, precision.is_stale(error)
        if result is None:
            if stale:
                precision.clear_stale()
            result = self._call_writable(f)
        return as_log_likelihood(result)

    def _call_writable(self, f: np.ndarray) -> Any:
        given = f.copy()
        try:
            result = self._first(given)
        except Exception as error:  # noqa: BLE001
            try:
                return self._first(jnp.asarray(f))  # some functions take only these
            except Exception:  # noqa: BLE001
                self.add_latents_to_error(error, f)
                raise error from None
        if not np.array_equal(given, f):
            raise ValueError(IN_PLACE)
        return result

    def one(self, f: np.ndarray) -> float:
        """Return the log-likelihood of one centred flat vector."""
        try:
            return float(self.function(f))
        except Exception as error:
            self.add_latents_to_error(error, f)
            raise

    def batch(self, points: np.ndarray) -> np.ndarray:
        """Return the log-likelihoods of centred flat vectors, shape (batch, size), if the function takes batches."""
        try:
            values = np.asarray(self._batched(points), dtype=np.float64)
        except Exception as error:
            self.add_latents_to_error(error, points)
            raise
        if values.shape != (len(points),):
            raise ValueError(
                f"log_likelihood was given a batch of {len(points)} latents and returned shape {values.shape}; with "
                f"vectorized=True it must return one value for each, shape ({len(points)},)."
            )
        return values

    def add_latents_to_error(self, error: Exception, f: np.ndarray) -> None:
        """Add to an exception a note with the latents at which the log-likelihood raised it."""
        add_latents_to_error(error, self._centred.unpack(f))

    def batch_is_bit_identical(self, largest: int, seconds: float = 0.5) -> bool:
        """Return whether points have the same bits alone and in batches of up to `largest` points, as far as is tested.

        The rounding of a row of a matrix product depends on the size of the batch, so all sizes up to 32 are tried,
        for at most about `seconds`.
        """
        points = self._posterior.points(np.random.default_rng(0), max(32, largest))
        began = time.perf_counter()
        alone: dict[int, float] = {}
        for size in (largest, *range(1, min(largest, 32))):
            for first in range(0, max(32, largest) - size + 1, size):
                values = self.batch(points[first : first + size])
                for row in (0, size - 1, *range(min(size, 32))):
                    if first + row not in alone:
                        alone[first + row] = self.one(points[first + row])
                    if not np.array_equal(values[row], alone[first + row], equal_nan=True):
                        return False
                    if len(alone) > 1 and time.perf_counter() - began > seconds:
                        return True
        return True

    def _check_batches(self, f: np.ndarray) -> None:
        pair = np.stack([f, 0.5 * f])
        try:
            values = np.asarray(self._centred.batch(pair))
        except Exception as error:
            self.add_latents_to_error(error, pair)
            error.add_note("(a batch of 2, because vectorized=True says that it takes one)")
            raise
        if values.shape != (2,):
            raise ValueError(
                f"with vectorized=True, log_likelihood must return one number for each latent of a batch; given 2 of "
                f"them it returned shape {values.shape}, not (2,). Sum over all axes but the first."
            )
        single = np.asarray(self._centred.batch(pair[:1]))
        if single.shape != (1,):
            raise ValueError(
                f"with vectorized=True, log_likelihood must return one number for each latent of a batch; given a "
                f"batch of 1 it returned shape {single.shape}, not (1,). Does it squeeze its argument?"
            )
        alone = single[0]
        if not np.isclose(values[0], alone, rtol=1e-6, atol=1e-6, equal_nan=True):
            raise ValueError(
                f"with vectorized=True, log_likelihood must treat the latents of a batch independently, but the first "
                f"of 2 got {values[0]:.8g} and alone it got {alone:.8g}."
            )
