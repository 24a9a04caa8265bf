"""Product kernels on product grids: one covariance per axis. The product is never formed."""

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
"""The precision of a factor: a matrix, or for a long axis the prior itself, whose `whiten` gives products with it."""


@pytree
class Kronecker(Prior):
    """A Gaussian prior on a product grid whose covariance is the Kronecker product of one covariance per axis.

    Use it when the inputs are all combinations of a few lists (space and time, rows and columns, outputs and inputs)
    and the kernel is a product over the lists. The lists need not be regular. A combination without data still has an
    element of f; leave it out in the likelihood.

    Parameters
    ----------
    *factors : Prior or array, shape (N_i, N_i)
        One per axis, in the order of the axes of the latent: a prior with `unwhiten` and without a mean, or a
        covariance matrix. A prior with several axes contributes all of them.
    mean : float or array
        Prior mean, a number or an array of the shape of the grid. Default: 0.

    Raises
    ------
    TypeError
        If there are no factors, or if one is a `Stack` or a prior without `unwhiten`.
    ValueError
        If a factor has a mean, or is not a covariance matrix.

    Notes
    -----
    Set-up costs that of the factors; memory is O(N_1^2 + ... + N_k^2) if all are dense, plus O(N) per draw. A draw
    costs one draw of each factor for every element of the other axes: O(N (N_1 + ... + N_k)) if all are dense.

    `whiten` and `log_density` have the same cost, and require that all factors have them. `condition` also requires
    covariances that are not singular, and the same cost gives the conditional mean. It makes a matrix of the precision
    of each axis of at most 5,000 elements, and a matrix of the block.

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
    """The rank of the covariance; None if a factor has no `log_density`."""

    instead = "one of its factors has none. Use EllipticalSlice, which needs only draws, or factors that provide it."

    def __init__(self, *factors: Any, mean: Any = 0.0):
        if not factors:
            raise TypeError(
                "Kronecker got no factors; expected at least one. Give a prior or a covariance matrix for each axis."
            )
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
        """Operations that all factors have. `condition` also requires a covariance that is not singular."""
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
        """The precision of each factor, computed once for all blocks."""
        return tuple(map(_as_axis, self.factors))

    def _missing_capability(self, capability: str) -> TypeError:
        """Return the error for a missing capability."""
        if capability == "condition" and self.total is not None:
            return TypeError(
                "Kronecker has no `condition`: the covariance of a factor is singular, or a factor of more than 5,000 "
                "elements cannot be compiled. Use EllipticalSlice, which needs only draws, or Dense below 5,000 "
                "elements."
            )
        return super()._missing_capability(capability)

    def __repr__(self) -> str:
        return f"Kronecker({', '.join(map(repr, self.factors))})"


@pytree
class _KroneckerConditional(BlockConditional):
    """The conditional of a block of a product grid given the rest, by the precision of each axis.

    With Q = inv(Sigma) and C = inv(Q[block, block]), the mean is -C (Q f)[block] for f with the block set to 0. Q is
    the Kronecker product of the axes' precisions: Q f is one product along each axis, and an entry of Q is a product of
    their entries.
    """

    block: Any
    axes: tuple[Axis, ...]
    covariance: Any
    prior: Prior

    def __init__(self, block: np.ndarray, axes: tuple[Axis, ...]):
        indices = np.unravel_index(block, [_size(axis) for axis in axes])
        precision = np.ones((len(block), len(block)))
        for axis, index in zip(axes, indices, strict=True):
            precision *= _precision_entries(axis, index)
        try:
            factor = inverse_factor(precision)
        except LinAlgError:
            raise ValueError(
                "the covariance of the Kronecker product is singular, or nearly, in double precision, so it has no "
                "precision matrix. Use Dense below 5,000 elements, which can condition a singular covariance."
            ) from None
        set_fields(self, block=block, axes=axes, covariance=factor @ factor.T, prior=Dense(factor=factor))

    @property
    def by_numpy(self) -> bool:  # type: ignore[override]
        return not any(isinstance(axis, Prior) for axis in self.axes)

    def mean(self, f: Any) -> Any:
        rest = zero_block(f, self.block)
        product = _along_each_axis(
            rest, [_size(axis) for axis in self.axes], [partial(_multiply_precision, axis) for axis in self.axes]
        )
        return -product[..., self.block] @ self.covariance


def _as_factor(factor: Any, number: int) -> Prior:
    """Return factor `number` as a prior. Raise if it cannot be a factor of a Kronecker product."""
    if not isinstance(factor, Prior):
        try:
            return Dense(factor)
        except (TypeError, ValueError) as error:
            several = " Pass a list of factors as Kronecker(*factors)." if isinstance(factor, list | tuple) else ""
            error.add_note(
                f"This is factor {number} of Kronecker, which must be a prior or a covariance matrix.{several}"
            )
            raise
    if isinstance(factor, Stack):
        raise TypeError(f"factor {number} is a Stack, which has several named latents. Expected a prior of one latent.")
    if factor.mean is not None:
        raise ValueError(
            f"factor {number} has a mean. Give the mean of the whole grid instead, Kronecker(..., mean=...)."
        )
    try:
        _ = factor.noise_size
    except TypeError as error:
        raise TypeError(f"factor {number} cannot be a factor of Kronecker. {error}") from None
    return factor


def _log_determinant(prior: Prior) -> float:
    """Return the log (pseudo-)determinant of a prior's covariance, from its density at the mean."""
    with jax_settings():
        at_zero = float(prior.log_density(np.zeros(prior.size)))
    return -2 * at_zero - prior.rank * math.log(2 * math.pi)


def _along_each_axis(values: Any, sizes: Sequence[int], maps: Sequence[Callable[[Any], Any]]) -> Any:
    """Apply a map along each axis in turn to flat vectors (..., product of sizes)."""
    batch = values.shape[:-1]
    values = values.reshape(*batch, *sizes)
    for axis, apply in enumerate(maps):
        at = len(batch) + axis
        values = apply(values.swapaxes(at, -1)).swapaxes(at, -1)
    return values.reshape(*batch, -1)


def _can_be_axis(prior: Prior) -> bool:
    """Return whether products with the precision of a factor are possible: by a matrix, or by compiled code."""
    return prior.size <= MAX_DENSE_BLOCK or prior.traceable


def _as_axis(prior: Prior) -> Axis:
    """Return the precision of a factor whose covariance is not singular."""
    if prior.size > MAX_DENSE_BLOCK:
        return prior
    with jax_settings():
        white = np.asarray(prior.whiten(np.eye(prior.size)))
    return white @ white.T


def _size(axis: Axis) -> int:
    """Return the number of elements along an axis."""
    return axis.size if isinstance(axis, Prior) else len(axis)


def _multiply_precision(axis: Axis, f: Any) -> Any:
    """Return Q f along the last axis, with Q the precision of `axis`."""
    if not isinstance(axis, Prior):
        return f @ axis
    z, transpose = jax.vjp(axis.whiten, f)
    return transpose(z)[0]


def _precision_entries(axis: Axis, indices: np.ndarray, step: int = 64) -> np.ndarray:
    """Return Q[indices, indices]. For a long axis, compute it by products with unit vectors, `step` at a time."""
    if not isinstance(axis, Prior):
        return axis[np.ix_(indices, indices)]
    distinct, which = np.unique(indices, return_inverse=True)
    pieces = []
    with jax_settings():
        for start in range(0, len(distinct), step):
            some = distinct[start : start + step]
            units = np.zeros((step, axis.size))  # always `step` rows, so that the product is compiled once
            units[np.arange(len(some)), some] = 1.0
            pieces.append(np.asarray(_compiled_multiply(axis, units))[: len(some), distinct])
    precision = np.concatenate(pieces)
    return ((precision + precision.T) / 2)[np.ix_(which, which)]


_compiled_multiply = jax.jit(_multiply_precision)
