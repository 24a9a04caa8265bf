"""Call the user's log-likelihood from Python, and check the values that it returns."""

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
    """The log-likelihood as the host engine calls it: for one latent vector, or for a batch.

    If the user's function raises an exception, the latent vectors at which it did are added to it as a note.
    """

    def __init__(self, posterior: Posterior, *, read_only: bool = False):
        self._posterior, self._centred = posterior, posterior.log_likelihood
        plain = self._centred.plain
        function = self._centred.callable
        self.function: Callable[[np.ndarray], Any] = (
            function if plain and not self._centred.batches_only else self._centred
        )
        """Function of a centred flat vector. It is the user's own function if that needs no shift and no reshaping."""
        self._batched = function if plain else self._centred.batch
        # A jitted function keeps its data in double precision, and fails if it is later called in single precision.
        self._first = self._centred.with_function(jaxprs.plain(function))

        self.read_only = read_only
        """True if the function is called with read-only arrays. A function that writes to its argument then raises."""

    def first(self, f: np.ndarray) -> float:
        """Call the function for the first time and return its value. Raise if that is not a valid log-likelihood.

        Sets `read_only`, according to whether the function takes read-only arrays.
        """
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
            # Some functions, such as C extensions, require a writable array although they do not write to it.
            if "destination is read-only" in str(error) or "output array is read-only" in str(error):
                raise ValueError(IN_PLACE) from error
            result, stale = None, precision.is_stale(error)
        if result is None:
            if stale:
                precision.clear_stale()
            result = self._call_writable(f)
        return as_log_likelihood(result)

    def _call_writable(self, f: np.ndarray) -> Any:
        """Call the function with a writable array, or else with a JAX array. Raise if it changes its argument."""
        given = f.copy()
        try:
            result = self._first(given)
        except Exception as error:  # noqa: BLE001
            try:
                return self._first(jnp.asarray(f))  # some functions take only JAX arrays
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
        """Return the log-likelihoods of centred flat vectors, shape (batch, size). The function must take batches."""
        try:
            values = np.asarray(self._batched(points), dtype=np.float64)
        except Exception as error:
            self.add_latents_to_error(error, points)
            raise
        if values.shape != (len(points),):
            raise ValueError(
                f"log_likelihood was called with a batch of {len(points)} latent vectors and returned shape "
                f"{values.shape}. With vectorized=True it must return one value for each, shape ({len(points)},)."
            )
        return values

    def add_latents_to_error(self, error: Exception, f: np.ndarray) -> None:
        """Add a note to an exception: the latent vectors at which the log-likelihood raised it."""
        add_latents_to_error(error, self._centred.unpack(f))

    def batch_is_bit_identical(self, largest: int, seconds: float = 0.5) -> bool:
        """Return True if batches of up to `largest` points give values bit-identical to single calls, as far as tested.

        The rounding of a row of a matrix product depends on the size of the batch, so all sizes below 32 and `largest`
        are tried, for at most about `seconds` seconds.
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
        """Raise if the function does not return one value for each vector of a batch, independently of the others."""
        pair = np.stack([f, 0.5 * f])
        try:
            values = np.asarray(self._centred.batch(pair))
        except Exception as error:
            self.add_latents_to_error(error, pair)
            error.add_note("(log_likelihood was called with a batch of 2 latent vectors because of vectorized=True)")
            raise
        if values.shape != (2,):
            raise ValueError(
                "with vectorized=True, log_likelihood must return one number for each latent vector of a batch. "
                f"Called with a batch of 2, it returned shape {values.shape}, not (2,). Sum over all axes except the "
                "first."
            )
        single = np.asarray(self._centred.batch(pair[:1]))
        if single.shape != (1,):
            raise ValueError(
                "with vectorized=True, log_likelihood must return one number for each latent vector of a batch. "
                f"Called with a batch of 1, it returned shape {single.shape}, not (1,). Do not squeeze its argument."
            )
        alone = single[0]
        if not np.isclose(values[0], alone, rtol=1e-6, atol=1e-6, equal_nan=True):
            raise ValueError(
                "with vectorized=True, log_likelihood must treat the latent vectors of a batch independently. The "
                f"first vector of a batch of 2 has the value {values[0]:.8g}, but {alone:.8g} in a batch of 1. Compute "
                "each value from one vector."
            )
