"""Gaussian approximations of the posterior, to sample around and for approximate evidence.

- `fit`: find an approximation, by the method that is named or that suits the likelihood
- `laplace`: the Laplace approximation
- `expectation_propagation`: expectation propagation
- `pilot`: an approximation from a pilot run
- `sites`: Gaussian sites in place of the likelihood, and the reference that is the prior times sites
- `gaussian`: any Gaussian
- `approximate_evidence`: log Z by Laplace and expectation propagation
"""

from ellipslice.approximations.approximate_evidence import approximate_evidence
from ellipslice.approximations.fit import WAYS, Fitted, accepted, fit_reference
from ellipslice.approximations.gaussian import WhiteGaussian
from ellipslice.approximations.sites import SitesReference

__all__ = ["WAYS", "Fitted", "accepted", "approximate_evidence", "fit_reference"]

REGISTERED = (SitesReference, WhiteGaussian)
"""Every reference Gaussian, for stores."""
