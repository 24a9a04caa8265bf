"""Gaussians fitted to the posterior, to sample around: for likelihoods much stronger than the prior."""

from ellipslice.references.approximate import approximate_evidence
from ellipslice.references.fit import WAYS, Fitted, accepted, fit_reference

__all__ = ["WAYS", "Fitted", "accepted", "approximate_evidence", "fit_reference"]
