"""Moves along a straight line f + w nu, where the prior does not cancel: its density is worked out a block ahead."""

from __future__ import annotations

from typing import Any, NamedTuple

import jax
import numpy as np

from ellipslice.moves.base import Lots, Move
from ellipslice.priors import Prior
from ellipslice.settings import jax_settings


class PriorOnLine(NamedTuple):
    """The prior's log density along f + w nu: less its value at w = 0 it is - w slope - w^2 square / 2."""

    slope: Any
    """f' S nu, with S the inverse of Sigma."""
    square: Any
    """nu' S nu."""

    def __call__(self, w: Any) -> Any:
        """The logarithm of N(f + w nu) / N(f)."""
        return -w * (self.slope + 0.5 * w * self.square)


class Straight(Move):
    """A move whose noise has S nu beside each nu, S being the inverse of Sigma.

    The products of a whole block of updates are made at once, before its first update, like the draws themselves. An
    update is then left with two inner products, on any engine.
    """

    def prepare(self, prior: Prior) -> None:
        """Refuse a prior without a density that can be compiled."""
        try:
            jax.eval_shape(prior.log_density, np.zeros(prior.size))
        except TypeError as error:
            raise TypeError(f"{type(self).__name__} needs the prior's density along a line. {error}") from None

    def lots(self, prior: Prior, prepared: Any) -> Lots:
        return Lots(_WithProducts(prior), 2, 1)


def prior_on_line(f: Any, nu: Any) -> PriorOnLine:
    """The prior along f + w nu[0], given that nu[1] is S nu[0]."""
    return PriorOnLine((f * nu[1]).sum(), (nu[0] * nu[1]).sum())


class _WithProducts:
    """The draws of a prior, each followed by its product with S."""

    def __init__(self, prior: Prior):
        self._prior = prior

    def draw(self, rng: np.random.Generator, count: int) -> np.ndarray:
        """As many rows as asked for, in pairs; shape (count, size)."""
        nu = np.asarray(self._prior.draw(rng, count // 2))
        with jax_settings():
            products = np.asarray(_products(self._prior, nu))
        return np.stack([nu, products], axis=1).reshape(count, -1)


@jax.jit
def _products(prior: Prior, nu: Any) -> Any:
    # log N(nu) = - nu' S nu / 2 + constant. If Sigma is singular, S is its inverse on the span of its draws.
    return -jax.grad(lambda nu: prior.log_density(nu).sum())(nu)
