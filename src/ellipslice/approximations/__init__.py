"""Gaussians fitted to the posterior, to sample around: for likelihoods much stronger than the prior."""

from ellipslice.approximations.approximate_evidence import approximate_evidence
from ellipslice.approximations.fit import WAYS, Fitted, accepted, fit_reference
from ellipslice.approximations.gaussian import WhiteGaussian
from ellipslice.approximations.sites import Sites

__all__ = ["WAYS", "Fitted", "accepted", "approximate_evidence", "fit_reference"]

REGISTERED = (Sites, WhiteGaussian)
"""Every reference Gaussian, for stores."""
