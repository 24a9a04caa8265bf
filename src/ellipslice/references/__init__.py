"""Gaussians fitted to the posterior, to sample around: for likelihoods much stronger than the prior."""

from ellipslice.references.approximate import approximate_evidence
from ellipslice.references.fit import WAYS, Fitted, fit_reference

__all__ = ["WAYS", "Fitted", "approximate_evidence", "fit_reference"]
