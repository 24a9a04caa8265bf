"""Product grids: one factor per axis, the product never formed."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import cached_property, partial
from typing import Any

import jax
import numpy as np
from scipy.linalg import LinAlgError

from ellipslice.checks import as_mean
from ellipslice.jax_settings import jax_settings
from ellipslice.priors.base import MAX_DENSE_BLOCK, Prior, check_small, inverse_factor, log_normal, on_span
from ellipslice.priors.dense import Dense
from ellipslice.priors.parts.conditional import BlockConditional, as_block, zero_block
from ellipslice.priors.stack import Stack
from ellipslice.pytree import pytree, set_fields, static

Axis = Any
"""The precision of a factor: a matrix, or for a long axis the prior itself, through whose `whiten` it multiplies."""


@pytree
class Kronecker(Prior):
    """A Gaussian on a product grid whose covariance is a product of one covariance per axis.

    Use it when the inputs are all combinations of a few lists (space and time, rows and columns, outputs and inputs)
    and the kernel is a product over them. The lists need not be regular. A missing combination still has a value; leave
    it out in the likelihood.

    Parameters
    ----------
    *factors : Prior or array, shape (N_i, N_i)
        One per axis, in the order of the latent's axes: a prior of any structure with `unwhiten`, or a covariance
        matrix. A factor that is a grid itself gives all of its axes.
    mean : float or array
        Of the product's shape.

    Notes
    -----
    A draw costs each factor's draw, for every value of the other axes: O(N (N_1 + ... + N_k)) if all are dense. The
    same for `whiten` and `log_density`, if all factors have them, and for the mean of `condition`, which needs
    covariances that are not singular. It makes a matrix of each axis's precision, but for axes of more than 5,000
    values, and one of the block.

    Examples
    --------
    >>> import numpy as np
    >>> t, x = np.arange(50.0), np.arange(30.0)
    >>> time = np.exp(-np.abs(t[:, None] - t) / 10)
    >>> space = np.exp(-np.abs(x[:, None] - x) / 4)
    >>> Kronecker(time, space)
    Kronecker(Dense(50 values, rank 50), Dense(30 values, rank 30))
    """

    stored_as = "Kronecker"

    factors: tuple[Prior, ...]
    log_determinant: Any
    mean: Any
    total: int | None = static()
    """The rank, where it is known."""

    instead = "one of its factors has not. Use EllipticalSlice, which needs only draws, or factors that have it."

    def __init__(self, *factors: Any, mean: Any = 0.0):
        if not factors:
            raise TypeError("Kronecker needs at least one factor: a prior or a covariance matrix for each axis.")
        members = tuple(_as_factor(factor, i) for i, factor in enumerate(factors))
        set_fields(self, factors=members, mean=as_mean(mean, sum((p.shape for p in members), ())))
        total, log_determinant = None, None
        if all("log_density" in prior.capabilities for prior in members):
            total = math.prod(prior.rank for prior in members)
            log_determinant = np.asarray(sum(_log_determinant(prior) * total / max(prior.rank, 1) for prior in members))
        set_fields(self, total=total, log_determinant=log_determinant)

    @property
    def shape(self) -> tuple[int, ...]:  # type: ignore[override]
        return sum((prior.shape for prior in self.factors), ())

    @property
    def noise_size(self) -> int:
        return math.prod(prior.noise_size for prior in self.factors)

    @property
    def rank(self) -> int:
        return math.prod(prior.rank for prior in self.factors)

    @property
    def capabilities(self) -> frozenset[str]:
        """What all factors can do; `condition` besides needs a covariance that is not singular."""
        shared = frozenset.intersection(*(prior.capabilities for prior in self.factors)) - {"condition"}
        can = "whiten" in shared and self.total == self.size and all(map(_can_be_axis, self.factors))
        return shared | {"condition"} if can else shared

    @property
    def traceable(self) -> bool:
        return all(prior.traceable for prior in self.factors)

    def unwhiten(self, z: Any) -> Any:
        return _along_each_axis(z, [p.noise_size for p in self.factors], [p.unwhiten for p in self.factors])

    def whiten(self, f: Any) -> Any:
        if "whiten" not in self.capabilities:
            raise self._missing_capability("whiten")
        return _along_each_axis(f, [p.size for p in self.factors], [p.whiten for p in self.factors])

    def log_density(self, f: Any) -> Any:
        if self.total is None:
            raise self._missing_capability("log_density")
        z = self.whiten(f)
        log_density = log_normal(z, self.log_determinant, self.total)
        return log_density if self.total == self.size else on_span(log_density, f, self.unwhiten(z))

    def condition(self, block: Any) -> BlockConditional:
        if "condition" not in self.capabilities:
            raise self._missing_capability("condition")
        block = check_small(as_block(block, self.size))
        return _KroneckerConditional(block, self._axes)

    @cached_property
    def _axes(self) -> tuple[Axis, ...]:
        """The precision of each factor, for all blocks."""
        return tuple(map(_as_axis, self.factors))

    def _missing_capability(self, capability: str) -> TypeError:
        """The error of a missing capability."""
        if capability == "condition" and self.total is not None:
            return TypeError(
                "Kronecker has no `condition`: a factor's covariance is singular, or one of over 5,000 values works "
                "on the host only. Use EllipticalSlice, which needs only draws, or Dense below 5,000 values."
            )
        return super()._missing_capability(capability)

    def __repr__(self) -> str:
        return f"Kronecker({', '.join(map(repr, self.factors))})"


@pytree
class _KroneckerConditional(BlockConditional):
    """The values of a block of a product grid given the rest, through the precision of each axis.

    With Q the inverse of Sigma and C that of Q[block, block], the mean is -C (Q f)[block] for f with the block at 0.
    Q is the product of the axes' precisions: Q f is a product along each axis, and an entry of Q a product of entries.
    """

    block: Any
    axes: tuple[Axis, ...]
    covariance: Any
    prior: Prior

    def __init__(self, block: np.ndarray, axes: tuple[Axis, ...]):
        places = np.unravel_index(block, [_size(axis) for axis in axes])
        precision = np.ones((len(block), len(block)))
        for axis, place in zip(axes, places, strict=True):
            precision *= _entries(axis, place)
        try:
            factor = inverse_factor(precision)
        except LinAlgError:
            raise ValueError(
                "the product has no precision to double precision: its covariance is singular, or nearly. Use Dense "
                "below 5,000 values, which can condition such a one."
            ) from None
        set_fields(self, block=block, axes=axes, covariance=factor @ factor.T, prior=Dense(factor=factor))

    @property
    def by_numpy(self) -> bool:  # type: ignore[override]
        return not any(isinstance(axis, Prior) for axis in self.axes)

    def mean(self, f: Any) -> Any:
        rest = zero_block(f, self.block)
        product = _along_each_axis(
            rest, [_size(axis) for axis in self.axes], [partial(_times, axis) for axis in self.axes]
        )
        return -product[..., self.block] @ self.covariance


def _as_factor(factor: Any, number: int) -> Prior:
    if not isinstance(factor, Prior):
        try:
            return Dense(factor)
        except (TypeError, ValueError) as error:
            several = " Several go in one by one: Kronecker(*factors)." if isinstance(factor, list | tuple) else ""
            error.add_note(
                f"It is factor {number} of a Kronecker, which must be a prior or a covariance matrix.{several}"
            )
            raise
    if isinstance(factor, Stack):
        raise TypeError(
            f"factor {number} is a Stack, whose latents have names of their own. Use a prior of one latent."
        )
    if factor.mean is not None:
        raise ValueError(f"factor {number} has a mean. Give the mean of the whole grid: Kronecker(..., mean=...).")
    try:
        _ = factor.noise_size
    except TypeError as error:
        raise TypeError(f"factor {number} cannot be one of a product. {error}") from None
    return factor


def _log_determinant(prior: Prior) -> float:
    with jax_settings():
        at_zero = float(prior.log_density(np.zeros(prior.size)))
    return -2 * at_zero - prior.rank * math.log(2 * math.pi)


def _along_each_axis(values: Any, sizes: Sequence[int], maps: Sequence[Callable[[Any], Any]]) -> Any:
    """Map flat vectors (..., product of sizes) along each axis in turn."""
    batch = values.shape[:-1]
    values = values.reshape(*batch, *sizes)
    for axis, apply in enumerate(maps):
        at = len(batch) + axis
        values = apply(values.swapaxes(at, -1)).swapaxes(at, -1)
    return values.reshape(*batch, -1)


def _can_be_axis(prior: Prior) -> bool:
    """Return whether the precision of a factor can be used: as a matrix, or in compiled code."""
    return prior.size <= MAX_DENSE_BLOCK or prior.traceable


def _as_axis(prior: Prior) -> Axis:
    """Return the precision of a factor whose covariance is not singular."""
    if prior.size > MAX_DENSE_BLOCK:
        return prior
    with jax_settings():
        white = np.asarray(prior.whiten(np.eye(prior.size)))
    return white @ white.T


def _size(axis: Axis) -> int:
    return axis.size if isinstance(axis, Prior) else len(axis)


def _times(axis: Axis, f: Any) -> Any:
    """Return Q f along the last axis."""
    if not isinstance(axis, Prior):
        return f @ axis
    z, transpose = jax.vjp(axis.whiten, f)
    return transpose(z)[0]


def _entries(axis: Axis, places: np.ndarray, step: int = 64) -> np.ndarray:
    """Return Q[places, places]. For a long axis it is made from products with unit vectors, `step` at a time."""
    if not isinstance(axis, Prior):
        return axis[np.ix_(places, places)]
    distinct, which = np.unique(places, return_inverse=True)
    pieces = []
    with jax_settings():
        for start in range(0, len(distinct), step):
            some = distinct[start : start + step]
            units = np.zeros((step, axis.size))  # always `step` rows, so that the product is compiled once
            units[np.arange(len(some)), some] = 1.0
            pieces.append(np.asarray(_compiled_times(axis, units))[: len(some), distinct])
    precision = np.concatenate(pieces)
    return ((precision + precision.T) / 2)[np.ix_(which, which)]


_compiled_times = jax.jit(_times)
