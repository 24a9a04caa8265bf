"""The white noise behind latent functions, given Gaussian sites in place of the likelihood."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax.numpy as jnp
import numpy as np

from ellipslice.parameters.factor import inner_root, log_determinant, multiply, solve, solve_many
from ellipslice.parameters.sites import Sites


class Given:
    """The white noise z given sites: N(centre, inv(P)) for P = I + L' diag(precision) L; or N(0, I) without sites.

    With P = R R', eta = R' (z - centre) is white. A narrow L leaves the rest of z as it is.

    Parameters
    ----------
    lower : array, shape (latents, n, r)
        L.
    mean : array, shape (latents, n)
    sites : Sites, optional
        Of f = mean + L z.
    """

    def __init__(self, lower: Any, mean: Any, sites: Sites | None):
        self.lower, self.sites = lower, sites
        self.centre, self.offset = 0.0 * mean, mean
        """Where z and f are when eta is 0."""
        if sites is None:
            return
        self._root = inner_root(lower, sites.precision)
        linear = sites.linear - sites.precision * (mean - sites.origin)
        toward = solve(self._root, multiply(lower.swapaxes(-1, -2), linear))
        self.centre = self._first(lambda zeros: zeros + solve(self._root, toward, transposed=True), self.centre)
        self.offset = mean + multiply(lower, self.centre)
        self.log_evidence = 0.5 * (toward * toward).sum() - log_determinant(self._root) + sites.log_value(mean)
        """Of the sites: the logarithm of what their product integrates to."""

    def log_sites(self, f: Any) -> Any:
        """The logarithm of the sites at f."""
        return 0.0 if self.sites is None else self.sites.log_value(f)

    def whiten(self, z: Any) -> Any:
        """The eta of a z."""
        return self._first(lambda z: multiply(self._root.swapaxes(-1, -2), z), z - self.centre)

    def color(self, eta: Any) -> Any:
        """The z of an eta."""
        return self.centre + self._first(lambda eta: solve(self._root, eta, transposed=True), eta)

    def spread(self, normals: Any) -> Any:
        """Draws from N(0, inv(P)), one for each of (count, latents, n)."""
        return normals if self.sites is None else self._first(lambda normals: solve_many(self._root, normals), normals)

    def _first(self, change: Callable[[Any], Any], z: Any) -> Any:
        """Change the part of z that L takes."""
        xp, width = (np if isinstance(z, np.ndarray) else jnp), self.lower.shape[-1]
        changed = change(z[..., :width])
        return changed if width == z.shape[-1] else xp.concatenate([changed, z[..., width:]], axis=-1)
