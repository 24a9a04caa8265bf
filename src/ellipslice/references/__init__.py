"""Gaussians fitted to the posterior, to sample around: for likelihoods much stronger than the prior."""

from ellipslice.references.approximate import approximate_evidence
from ellipslice.references.fit import WAYS, Fitted, accepted, fit_reference
from ellipslice.references.gaussian import WhiteGaussian
from ellipslice.references.sites import Sites

__all__ = ["WAYS", "Fitted", "accepted", "approximate_evidence", "fit_reference"]

REGISTERED = (Sites, WhiteGaussian)
"""Every reference Gaussian, for stores."""
