"""Gaussian approximations of the posterior: reference Gaussians for `sample`, and approximate evidence.

- `fit`: fit a reference Gaussian by the method that the user names, or by one that suits the likelihood
- `laplace`: the Laplace approximation
- `expectation_propagation`: expectation propagation (EP)
- `pilot`: a reference Gaussian from a pilot run
- `sites`: site approximations of the likelihood, and the reference Gaussian that is the prior times sites
- `gaussian`: any other reference Gaussian
- `approximate_evidence`: log Z by the Laplace approximation and by EP
"""

from ellipslice.approximations.approximate_evidence import approximate_evidence
from ellipslice.approximations.fit import METHODS, Fitted, fit_reference
from ellipslice.approximations.gaussian import WhiteGaussian
from ellipslice.approximations.sites import SitesReference

__all__ = ["METHODS", "Fitted", "approximate_evidence", "fit_reference"]

REGISTERED = (SitesReference, WhiteGaussian)
"""Every class of reference Gaussians that a store can contain."""
