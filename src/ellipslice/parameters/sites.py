"""Gaussians in place of the likelihood, which follow the parameters; `fit_sites.py` finds them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np

from ellipslice.approximations.laplace import slopes
from ellipslice.parameters.joint import Point


class Sites(NamedTuple):
    """Gaussians in place of the likelihood, exp(linear g - precision g^2 / 2) of g = f - origin; (latents, n)."""

    linear: Any
    precision: Any
    origin: Any = 0.0
    """Near f: squares of data far from 0 would leave no digits for what they differ by."""

    def about(self, origin: Any) -> Sites:
        """The same, but for a factor, with another origin."""
        return Sites(self.linear - self.precision * (origin - self.origin), self.precision, origin)

    def log_value(self, f: Any) -> Any:
        """Of all of them together."""
        away = f - self.origin
        return (self.linear * away - 0.5 * self.precision * away * away).sum()


class StandIns(NamedTuple):
    """Sites for any value of the parameters: found for some values, the anchors, and blended in between.

    They follow parameters that the likelihood has as its expansion to second order at some f does. For Gaussian noise
    this is exact: sites that fit for one value of its deviation fit for all.
    """

    anchors: Any
    """(count, size)."""
    metric: Any
    """Blending weighs an anchor by a standard Gaussian of metric @ (u - anchor), (size, size)."""
    sites: Sites
    """Of each anchor, (count, latents, n), with one origin for all, or they could not be blended."""
    f: Any = None
    """Where the log-likelihood is expanded, (latents, n); None if it has no parameters."""
    then: Sites | None = None
    """Its expansion for each anchor, (count, latents, n)."""

    @classmethod
    def always(cls, sites: Sites, size: int) -> StandIns:
        """The same for all parameters, of which there are `size`."""
        return cls(
            np.zeros((1, size)), np.zeros((size, size)), Sites(sites.linear[None], sites.precision[None], sites.origin)
        )

    def at(self, u: Any, log_likelihood: Callable[[Any], Any]) -> Sites:
        """The sites for parameters u. On the host, where nothing says how the likelihood bends, they do not follow."""
        xp = np if isinstance(u, np.ndarray) else jnp
        away = ((u - self.anchors) @ self.metric.T) ** 2
        height = -0.5 * away.sum(-1)
        weights = xp.exp(height - height.max())
        weights = weights / weights.sum()

        def blended(of: Sites) -> Sites:
            return Sites(xp.tensordot(weights, of.linear, 1), xp.tensordot(weights, of.precision, 1), of.origin)

        sites = blended(self.sites)
        if self.then is None or xp is np:
            return sites
        then = blended(self.then)
        now = expansion(slopes(lambda f: log_likelihood(Point(u, 0.0 * f, f).flat), jnp.asarray(self.f)), self.f)
        now = now.about(sites.origin)
        precision = xp.maximum(sites.precision + now.precision - then.precision, 0.0)
        linear = sites.linear + now.linear - then.linear
        sound = xp.isfinite(linear) & xp.isfinite(precision)
        linear, precision = xp.where(sound, linear, sites.linear), xp.where(sound, precision, sites.precision)
        return Sites(linear, precision, sites.origin)


def expansion(there: tuple[Any, Any, Any], f: Any) -> Sites:
    """A log-likelihood to second order at f, without what bends upwards, from its `slopes` there."""
    _, slope, bend = there
    precision = jnp.maximum(-bend, 0.0)
    return Sites(slope, precision, f)
