"""Gaussian approximations of the posterior, to sample around and for approximate evidence.

- `fit`: find an approximation, by the method that is named or that suits the likelihood
- `laplace`: the Laplace approximation
- `expectation_propagation`: expectation propagation
- `pilot`: an approximation from a pilot run
- `sites`: the prior times a Gaussian for each element of f
- `gaussian`: any Gaussian
- `approximate_evidence`: log Z by Laplace and expectation propagation
"""

from ellipslice.approximations.approximate_evidence import approximate_evidence
from ellipslice.approximations.fit import WAYS, Fitted, accepted, fit_reference
from ellipslice.approximations.gaussian import WhiteGaussian
from ellipslice.approximations.sites import Sites

__all__ = ["WAYS", "Fitted", "accepted", "approximate_evidence", "fit_reference"]

REGISTERED = (Sites, WhiteGaussian)
"""Every reference Gaussian, for stores."""
