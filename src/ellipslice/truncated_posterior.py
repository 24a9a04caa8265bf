"""The posterior under a truncated Gaussian prior. Its state includes the products A f of the constraints A f <= b."""

from __future__ import annotations

import copy
from collections.abc import Callable
from functools import cached_property
from typing import Any

import numpy as np

from ellipslice.moves.array_ops import cos_sin
from ellipslice.moves.constrained_arcs import allowed_arcs
from ellipslice.posterior import CentredLikelihood, Posterior
from ellipslice.priors.base import unpack
from ellipslice.priors.truncated import AugmentedPrior, TruncatedGaussian
from ellipslice.pytree import HostOnly, pytree, set_fields, static

START_UPDATES = 10
"""Number of updates without the likelihood from the interior point to the initial state of a chain."""


@pytree
class TruncatedLikelihood(CentredLikelihood):
    """The log-likelihood as a function of x = [state, A f]. It depends only on the state; users see f."""

    inner: CentredLikelihood
    """Log-likelihood of the state."""
    size: int = static()
    """Number of elements of the state, which come first in x."""

    host: HostOnly
    """The `TruncatedGaussian`. Products with A are computed on the host, before the run."""

    def __init__(self, inner: CentredLikelihood, size: int, truncated: TruncatedGaussian):
        set_fields(self, mean=None, data=None, function=None, layout=inner.layout, batches_only=inner.batches_only)
        set_fields(self, inner=inner, size=size, host=HostOnly(truncated))

    @property
    def truncated(self) -> TruncatedGaussian:
        """Prior with its constraints. Available only on the host."""
        return self.host.value

    def __call__(self, f: Any) -> Any:
        return self.inner(f[..., : self.size])

    def batch(self, f: Any) -> Any:
        return self.inner.batch(f[..., : self.size])

    def with_function(self, function: Callable[..., Any]) -> TruncatedLikelihood:
        other = copy.copy(self)
        set_fields(other, inner=self.inner.with_function(function))
        return other

    @property
    def callable(self) -> Callable[..., Any]:
        return self.inner.callable

    def unpack(self, f: Any) -> dict[str, Any]:
        return self.inner.unpack(f[..., : self.size])

    def pack(self, value: Any) -> np.ndarray:
        """Return x = [state, A f] of a point that the user gives. Raise if it violates a constraint."""
        state = self.inner.pack(value)
        f = state[: self.truncated.prior.size]
        slack = self.truncated.slack(f)
        if (slack < 0).any():
            i = int(np.argmin(slack))
            bound = float(self.truncated.b[i])
            raise ValueError(
                f"initial must satisfy A f <= b, but it violates {int((slack < 0).sum())} of {len(slack)} constraints. "
                f"Constraint {i} (of those with finite bounds) has A f = {bound - slack[i]:.8g} and b = {bound:.8g}. "
                "Give a point that satisfies all constraints, or leave initial out: then one is computed."
            )
        return np.concatenate([state, self.truncated.product(f)])

    @property
    def plain(self) -> bool:
        return False


class TruncatedPosterior(Posterior):
    """The posterior under a truncated Gaussian prior; the prior itself if the log-likelihood is None."""

    def __init__(
        self,
        truncated: TruncatedGaussian,
        log_likelihood: Callable[..., Any] | None,
        *,
        vectorized: bool | None = None,
        log_concave: bool | None = None,
    ):
        function = no_data if log_likelihood is None else log_likelihood
        super().__init__(truncated.prior, function, vectorized=vectorized, log_concave=log_concave)
        self.log_likelihood = TruncatedLikelihood(self.log_likelihood, self.prior.size, truncated)
        self._truncated, self._first = truncated, self.prior.size
        self.prior = self._with_products = AugmentedPrior(self.prior, truncated)

    def points(self, rng: np.random.Generator, count: int) -> np.ndarray:
        """Return points x that satisfy the constraints, shape (count, size).

        Each starts at the interior point and makes a few updates without the likelihood.
        """
        noise = self._with_products.draw_zero_mean(rng, count * START_UPDATES).reshape(count, START_UPDATES, -1)
        positions, bounds = rng.random((count, START_UPDATES)), self._with_products.bounds
        points = np.tile(self._interior, (count, 1))
        for i, (draws, uniforms) in enumerate(zip(noise, positions, strict=True)):
            for nu, u in zip(draws, uniforms, strict=True):
                arcs = allowed_arcs(points[i, self._first :], nu[self._first :], bounds)
                w_f, w_nu = cos_sin(arcs.angle(arcs.length * u))
                points[i] = w_f * points[i] + w_nu * nu
        return points

    def probe_points(self, f: np.ndarray) -> None:
        """Use the user's initial state as the interior point.

        Then none has to be computed, which may be impossible if the region is very thin.
        """
        self._interior = f

    @cached_property
    def _interior(self) -> np.ndarray:
        """Point x inside the constraints, found by linear programming."""
        gaussian = self._truncated.prior
        return self.log_likelihood.pack(unpack(self._truncated.inside, gaussian.mean, gaussian.layout))


def no_data(*_: Any, **__: Any) -> float:
    """Return the log-likelihood of no data, which is 0."""
    return 0.0
