"""Site approximations of the likelihood, as a function of the hyperparameters; `fit_sites` fits them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np

from ellipslice.approximations.laplace import derivatives
from ellipslice.approximations.sites import Sites
from ellipslice.parameters.joint import Point


class SiteInterpolator(NamedTuple):
    """Sites for any value of the hyperparameters, interpolated between some values, the anchors.

    For hyperparameters of the likelihood, the change of its second-order expansion at a fixed f is added. For Gaussian
    noise this is exact: sites that fit for one noise scale fit for all.
    """

    anchors: Any
    """Values of the hyperparameters, shape (count, size)."""
    metric: Any
    """The weight of an anchor is a standard Gaussian of metric @ (u - anchor). Shape (size, size)."""
    sites: Sites
    """Sites of each anchor, shape (count, latents, n). All have the same origin, which interpolation requires."""
    f: Any = None
    """Point at which the log-likelihood is expanded, shape (latents, n). None if it has no hyperparameters."""
    expansions: Sites | None = None
    """The expansion at f for each anchor, shape (count, latents, n)."""

    @classmethod
    def constant(cls, sites: Sites, size: int) -> SiteInterpolator:
        """Return an interpolator with the same sites for every u; `size` is the number of elements of u."""
        return cls(
            np.zeros((1, size)), np.zeros((size, size)), Sites(sites.linear[None], sites.precision[None], sites.origin)
        )

    def at(self, u: Any, log_likelihood: Callable[[Any], Any]) -> Sites:
        """Return the sites for hyperparameters u.

        On the host, where derivatives are not available, they do not depend on hyperparameters of the likelihood.
        """
        xp = np if isinstance(u, np.ndarray) else jnp
        distance = ((u - self.anchors) @ self.metric.T) ** 2
        log_weights = -0.5 * distance.sum(-1)
        weights = xp.exp(log_weights - log_weights.max())
        weights = weights / weights.sum()

        def average(of: Sites) -> Sites:
            return Sites(xp.tensordot(weights, of.linear, 1), xp.tensordot(weights, of.precision, 1), of.origin)

        sites = average(self.sites)
        if self.expansions is None or xp is np:
            return sites
        interpolated = average(self.expansions)
        now = expansion(derivatives(lambda f: log_likelihood(Point(u, 0.0 * f, f).flat), jnp.asarray(self.f)), self.f)
        now = now.about(sites.origin)
        precision = xp.maximum(sites.precision + now.precision - interpolated.precision, 0.0)
        linear = sites.linear + now.linear - interpolated.linear
        finite = xp.isfinite(linear) & xp.isfinite(precision)
        linear, precision = xp.where(finite, linear, sites.linear), xp.where(finite, precision, sites.precision)
        return Sites(linear, precision, sites.origin)


def expansion(derivatives: tuple[Any, Any, Any], f: Any) -> Sites:
    """Return the second-order expansion of a log-likelihood at f as sites, with precision 0 where it is convex.

    `derivatives` are its value, and its first and second derivatives at f.
    """
    _, slope, curvature = derivatives
    precision = jnp.maximum(-curvature, 0.0)
    return Sites(slope, precision, f)
