"""Product grids: one factor per axis, the product never formed."""

from __future__ import annotations

import math
from functools import cached_property
from typing import Any

import numpy as np

from ellipslice.checks import as_mean
from ellipslice.jax_settings import jax_settings
from ellipslice.priors.base import Prior, log_normal, on_span
from ellipslice.priors.dense import Dense
from ellipslice.priors.kronecker_condition import Axis, ThroughAxes, as_axis, can_be_axis, each_axis
from ellipslice.priors.parts.conditional import Conditional, as_block
from ellipslice.priors.stack import Stack
from ellipslice.priors.through_precision import check_small
from ellipslice.pytree import pytree, set_fields, static


@pytree
class Kronecker(Prior):
    """A Gaussian on a product grid whose covariance is a product of one covariance per axis.

    Use it when the inputs are all combinations of a few lists (space and time, rows and columns, outputs and inputs)
    and the kernel is a product over them. The lists need not be regular. A missing combination still has a value; leave
    it out in the likelihood.

    Parameters
    ----------
    *factors : Prior or array, shape (N_i, N_i)
        One per axis, in the order of the latent's axes: a prior of any structure with `color`, or a covariance matrix.
        A factor that is a grid itself gives all of its axes.
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
        if all("log_density" in prior.abilities for prior in members):
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
    def abilities(self) -> frozenset[str]:
        """What all factors can do; `condition` besides needs a covariance that is not singular."""
        shared = frozenset.intersection(*(prior.abilities for prior in self.factors)) - {"condition"}
        can = "whiten" in shared and self.total == self.size and all(map(can_be_axis, self.factors))
        return shared | {"condition"} if can else shared

    @property
    def traceable(self) -> bool:
        return all(prior.traceable for prior in self.factors)

    def color(self, z: Any) -> Any:
        return each_axis(z, [p.noise_size for p in self.factors], [p.color for p in self.factors])

    def whiten(self, f: Any) -> Any:
        if "whiten" not in self.abilities:
            raise self.lacks("whiten")
        return each_axis(f, [p.size for p in self.factors], [p.whiten for p in self.factors])

    def log_density(self, f: Any) -> Any:
        if self.total is None:
            raise self.lacks("log_density")
        z = self.whiten(f)
        log_density = log_normal(z, self.log_determinant, self.total)
        return log_density if self.total == self.size else on_span(log_density, f, self.color(z))

    def condition(self, block: Any) -> Conditional:
        if "condition" not in self.abilities:
            raise self.lacks("condition")
        block = check_small(as_block(block, self.size))
        return ThroughAxes(block, self._axes)

    @cached_property
    def _axes(self) -> tuple[Axis, ...]:
        """The precision of each factor, for all blocks."""
        return tuple(map(as_axis, self.factors))

    def lacks(self, ability: str) -> TypeError:
        """The error of a missing ability."""
        if ability == "condition" and self.total is not None:
            return TypeError(
                "Kronecker has no `condition`: a factor's covariance is singular, or one of over 5,000 values works "
                "on the host only. Use EllipticalSlice, which needs only draws, or Dense below 5,000 values."
            )
        return super().lacks(ability)

    def __repr__(self) -> str:
        return f"Kronecker({', '.join(map(repr, self.factors))})"


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
