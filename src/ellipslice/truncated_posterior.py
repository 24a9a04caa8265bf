"""A truncated Gaussian times a likelihood: the state has the constraints' products beside it."""

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

STEPS = 10
"""Updates without a likelihood that lead from the point inside to one that a chain starts from."""


@pytree
class TruncatedLikelihood(CentredLikelihood):
    """A log-likelihood of x = [state, A f], which reads the state alone, as users see f alone."""

    inner: CentredLikelihood
    """The log-likelihood of the state."""
    size: int = static()
    """Number of values of the state, which come first."""

    host: HostOnly
    """The `TruncatedGaussian`: products with A are made on the host, before the run."""

    def __init__(self, inner: CentredLikelihood, size: int, truncated: TruncatedGaussian):
        set_fields(self, mean=None, data=None, function=None, layout=inner.layout, batches_only=inner.batches_only)
        set_fields(self, inner=inner, size=size, host=HostOnly(truncated))

    @property
    def truncated(self) -> TruncatedGaussian:
        """The prior with its constraints, on the host."""
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
        """The state of a point as the user gives it; refused if it breaks a constraint."""
        state = self.inner.pack(value)
        f = state[: self.truncated.prior.size]
        slack = self.truncated.slack(f)
        if (slack < 0).any():
            i = int(np.argmin(slack))
            bound = float(self.truncated.b[i])
            raise ValueError(
                f"initial must keep A f <= b, but {int((slack < 0).sum())} of {len(slack)} constraints are broken: "
                f"number {i}, of those with finite bounds, has A f = {bound - slack[i]:.8g} and b = {bound:.8g}. Start "
                "inside, or leave initial out: a point inside is then found."
            )
        return np.concatenate([state, self.truncated.product(f)])

    @property
    def plain(self) -> bool:
        return False


class TruncatedPosterior(Posterior):
    """A truncated Gaussian times a likelihood, or by itself if the log-likelihood is None."""

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
        """Points that keep the constraints: from one inside, a few updates on."""
        noise = self._with_products.draw_zero_mean(rng, count * STEPS).reshape(count, STEPS, -1)
        places, bounds = rng.random((count, STEPS)), self._with_products.bounds
        points = np.tile(self._inside, (count, 1))
        for i, (draws, uniforms) in enumerate(zip(noise, places, strict=True)):
            for nu, u in zip(draws, uniforms, strict=True):
                arcs = allowed_arcs(points[i, self._first :], nu[self._first :], bounds)
                w_f, w_nu = cos_sin(arcs.angle(arcs.length * u))
                points[i] = w_f * points[i] + w_nu * nu
        return points

    def probe_points(self, f: np.ndarray) -> None:
        self._inside = f  # so none need be found: a region may be too thin for that

    @cached_property
    def _inside(self) -> np.ndarray:
        gaussian = self._truncated.prior
        return self.log_likelihood.pack(unpack(self._truncated.inside, gaussian.mean, gaussian.layout))


def no_data(*_: Any, **__: Any) -> float:
    """The log-likelihood of no data."""
    return 0.0
