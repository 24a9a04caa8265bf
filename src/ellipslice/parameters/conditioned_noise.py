"""The distribution of the white noise of latent functions given sites, which approximate the likelihood."""

from __future__ import annotations

from typing import Any

from ellipslice.approximations.sites import Sites
from ellipslice.parameters.factor import Factor


class ConditionedNoise:
    """The distribution of the white noise z of f = mean + L z given sites: N(centre, inv(P)). Without sites: N(0, I).

    P = I + L' diag(precision) L = R R', so eta = R' (z - centre) is white noise.

    Parameters
    ----------
    factor : Factor
        L, the factor of the prior covariance.
    mean : array, shape (latents, n)
        Prior mean.
    sites : Sites or None
        Sites of f.

    Attributes
    ----------
    centre, offset : array, shape (latents, n)
        The values of z and f at eta = 0.
    log_evidence : float
        Logarithm of the integral of the prior times the sites. It exists only with sites.
    """

    def __init__(self, factor: Factor, mean: Any, sites: Sites | None):
        self.factor, self.sites = factor, sites
        self.centre, self.offset = 0.0 * mean, mean
        if sites is None:
            return
        self._precision = factor.noise_precision(sites.precision)
        self.centre, square_norm = self._precision.mean(sites.linear - sites.precision * (mean - sites.origin))
        self.offset = mean + factor.unwhiten(self.centre)
        self.log_evidence = 0.5 * square_norm - self._precision.log_determinant + sites.log_value(mean)

    def log_sites(self, f: Any) -> Any:
        """Return the logarithm of the sites at f; 0 without sites."""
        return 0.0 if self.sites is None else self.sites.log_value(f)

    def whiten(self, z: Any) -> Any:
        """Return eta = R' (z - centre). Requires sites."""
        return self._precision.whiten(z - self.centre)

    def unwhiten(self, eta: Any) -> Any:
        """Return z = centre + inv(R') eta. Requires sites."""
        return self.centre + self._precision.unwhiten(eta)

    def draw_zero_mean(self, normals: Any) -> Any:
        """Return draws of z - centre from standard normals, both of shape (count, latents, n)."""
        return normals if self.sites is None else self._precision.draw(normals)
