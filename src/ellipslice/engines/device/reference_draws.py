"""Draws from a reference Gaussian, made on the device from keys, and the data of moves around it."""

from __future__ import annotations

from copy import copy
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from ellipslice.engines.device.prior_draws import Source, as_device_array, source_of_factor
from ellipslice.jax_settings import jax_settings
from ellipslice.moves.split_hamiltonian import PriorAsReference, SplitPrepared
from ellipslice.pytree import pytree, set_fields

MAX_ERROR = 0.05
"""Largest standard deviation of the rounding error of log(Q / prior) in single precision, at draws of Q.

A larger error of the log acceptance ratio would bias the draws noticeably."""

CHECK_DRAWS = 32
"""Number of draws of Q by which this error is estimated."""


@pytree
class ReferenceSources:
    """Sources of draws for moves around a reference Gaussian Q, and the data of their updates."""

    reference: Source
    """Source of draws from Q, without its mean."""
    prior: Source | None
    """Source of draws from the prior. None if Q is the prior."""
    prepared: Any
    """Result of the move's `prepare`, in the precision of the chains."""

    def __init__(self, prior: Source, prepared: Any, padded: int, dtype: Any):
        relative = relative_of(prepared)
        alone = isinstance(relative, PriorAsReference)
        set_fields(
            self,
            reference=prior if alone else source_of_factor(relative.rows, padded, dtype),
            prior=None if alone else prior,
            prepared=jax.tree.map(lambda leaf: as_device_array(leaf, dtype), prepared),
        )

    def with_kicks(self, kicks: int) -> ReferenceSources:
        """Return a copy whose trajectories have this number of kicks."""
        sources = copy(self)
        set_fields(sources, prepared=self.prepared.with_kicks(kicks))
        return sources


def relative_of(prepared: Any) -> Any:
    """Return the reference relative to the prior, from the result of a move's `prepare`."""
    return prepared.reference if isinstance(prepared, SplitPrepared) else prepared


def check_single_precision(prepared: Any) -> None:
    """Raise ValueError if log(Q / prior) has a rounding error above MAX_ERROR in single precision."""
    relative = relative_of(prepared)
    if isinstance(relative, PriorAsReference):
        return
    x = np.asarray(relative.draw(np.random.default_rng(0), CHECK_DRAWS)).astype(np.float32)
    values = []
    for double in (True, False):
        dtype = np.dtype(np.float64 if double else np.float32)
        with jax_settings(double), jax.default_matmul_precision("highest"):
            own = jax.tree.map(lambda leaf, dtype=dtype: as_device_array(leaf, dtype), relative)
            values.append(np.asarray(jax.jit(_log_ratios)(own, jnp.asarray(x, dtype)), np.float64))
    error = float(np.std(values[1] - values[0]))
    if not error <= MAX_ERROR:
        raise ValueError(
            f'precision="single" was given, but the log ratio of the reference and the prior has a rounding error of '
            f'{error:.2g} in single precision; at most {MAX_ERROR} is acceptable. Use precision="double".'
        )


def _log_ratios(relative: Any, x: Any) -> Any:
    """Return log(Q / prior) at the states centre + x, shape (count,)."""
    return jax.vmap(relative.log_ratio)(x)
