"""Site approximations of the likelihood that follow the hyperparameters; `fit_sites` finds them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np

from ellipslice.approximations.laplace import derivatives
from ellipslice.approximations.sites import Sites
from ellipslice.parameters.joint import Point


class SiteInterpolator(NamedTuple):
    """Sites for any value of the hyperparameters: found at some values, the anchors, and interpolated between them.

    They follow hyperparameters of the likelihood as its expansion to second order at some f does. For Gaussian noise
    this is exact: sites that fit for one noise scale fit for all.
    """

    anchors: Any
    """Shape (count, size)."""
    metric: Any
    """The weight of an anchor is a standard Gaussian of metric @ (u - anchor). Shape (size, size)."""
    sites: Sites
    """Sites of each anchor, shape (count, latents, n). One origin for all, or they could not be interpolated."""
    f: Any = None
    """Where the log-likelihood is expanded, shape (latents, n). None if it has no hyperparameters."""
    expansions: Sites | None = None
    """The expansion at each anchor, shape (count, latents, n)."""

    @classmethod
    def constant(cls, sites: Sites, size: int) -> SiteInterpolator:
        """Return the same sites for all hyperparameters u, of which there are `size`."""
        return cls(
            np.zeros((1, size)), np.zeros((size, size)), Sites(sites.linear[None], sites.precision[None], sites.origin)
        )

    def at(self, u: Any, log_likelihood: Callable[[Any], Any]) -> Sites:
        """Return the sites for hyperparameters u.

        On the host they do not follow those of the likelihood, because its derivatives are not known there.
        """
        xp = np if isinstance(u, np.ndarray) else jnp
        away = ((u - self.anchors) @ self.metric.T) ** 2
        height = -0.5 * away.sum(-1)
        weights = xp.exp(height - height.max())
        weights = weights / weights.sum()

        def average(of: Sites) -> Sites:
            return Sites(xp.tensordot(weights, of.linear, 1), xp.tensordot(weights, of.precision, 1), of.origin)

        sites = average(self.sites)
        if self.expansions is None or xp is np:
            return sites
        then = average(self.expansions)
        now = expansion(derivatives(lambda f: log_likelihood(Point(u, 0.0 * f, f).flat), jnp.asarray(self.f)), self.f)
        now = now.about(sites.origin)
        precision = xp.maximum(sites.precision + now.precision - then.precision, 0.0)
        linear = sites.linear + now.linear - then.linear
        sound = xp.isfinite(linear) & xp.isfinite(precision)
        linear, precision = xp.where(sound, linear, sites.linear), xp.where(sound, precision, sites.precision)
        return Sites(linear, precision, sites.origin)


def expansion(derivatives: tuple[Any, Any, Any], f: Any) -> Sites:
    """Return a log-likelihood to second order at f as sites, with precision 0 where it is convex.

    `derivatives` are its value, first and second derivatives there, as `laplace.derivatives` returns them.
    """
    _, slope, bend = derivatives
    precision = jnp.maximum(-bend, 0.0)
    return Sites(slope, precision, f)
