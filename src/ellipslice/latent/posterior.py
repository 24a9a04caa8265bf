"""The posterior of hyperparameters u and latents x, and its form in white coordinates of a reference."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, Protocol

import numpy as np

from ellipslice.latent.assembly import Assembly
from ellipslice.latent.hyperparameters import Hyperparameters
from ellipslice.latent.reference import Reference
from ellipslice.likelihoods import Likelihood
from ellipslice.priors.parts.sparse_cholesky import NotPositiveDefiniteError

LARGEST_U = 40.0
"""Hyperparameters whose unconstrained value is larger have posterior density 0: precisions would overflow."""

KEPT_REFERENCES = 12
"""Number of references in memory: those of the current states of the chains, and some proposals."""


class PriorTerm(Protocol):
    """The methods of a term that the posterior uses."""

    def coefficients(self, **hyperparameters: float) -> np.ndarray: ...
    def log_determinant(self, **hyperparameters: float) -> float: ...


class Conditional(NamedTuple):
    """The posterior for one value of the hyperparameters: prior precision, prior density and likelihood."""

    u: np.ndarray
    prior_entries: np.ndarray
    """Entries of the prior's precision Q in the pattern."""
    log_prior: float
    """log p(u) + log |Q|* / 2."""
    likelihood: Likelihood
    """Log-likelihood of the observed responses, a function of the linear predictor."""


class Sites(NamedTuple):
    """Gaussian factors exp(b e - w e^2 / 2) that approximate the likelihood; e is eta - offset."""

    precision: np.ndarray
    """w, shape (observed rows,), positive."""
    linear: np.ndarray
    """b, shape (observed rows,)."""


class LatentPosterior:
    """Posterior of a latent Gaussian model.

    Parameters
    ----------
    assembly : Assembly
    terms : sequence of terms
        In the order of the assembly.
    hyperparameters : Hyperparameters
    make_likelihood : callable
        From the values of the family's parameters, as keyword arguments, to a `Likelihood` of the observed responses.
    analyse : callable
        From rows, columns and size of a pattern to an object with the method `factorise`.
    """

    def __init__(
        self,
        assembly: Assembly,
        terms: Sequence[PriorTerm],
        hyperparameters: Hyperparameters,
        make_likelihood: Callable[..., Likelihood],
        analyse: Callable[[np.ndarray, np.ndarray, int], Any],
    ):
        self.assembly, self.terms, self.hyperparameters = assembly, terms, hyperparameters
        self._make_likelihood = make_likelihood
        self.analysis = analyse(assembly.rows, assembly.cols, assembly.size)
        self._constant = None if hyperparameters.family else make_likelihood()

    def at(self, u: np.ndarray) -> Conditional | None:
        """Return the posterior given hyperparameters u; None if a precision is not finite there."""
        if not (np.abs(u) <= LARGEST_U).all():
            return None
        values = self.hyperparameters.at(u)
        pairs = list(zip(self.terms, values.of_terms, strict=True))
        with np.errstate(all="ignore"):
            coefficients = np.concatenate([np.ravel(term.coefficients(**own)) for term, own in pairs])
            log_prior = values.log_density + 0.5 * sum(term.log_determinant(**own) for term, own in pairs)
        if not np.isfinite(log_prior) or not np.isfinite(coefficients).all():
            return None
        likelihood = self._constant or self._make_likelihood(**values.of_family)
        return Conditional(u, self.assembly.prior_entries(coefficients), log_prior, likelihood)

    def reference(self, at: Conditional, sites: Sites) -> Reference | None:
        """Return the reference with these sites; None if its precision is not positive definite."""
        try:
            factor = self.analysis.factorise(self.assembly.entries(at.prior_entries, sites.precision))
        except NotPositiveDefiniteError:
            return None
        return Reference(self.assembly, self.analysis, factor, at.prior_entries, *sites)

    def log_joint(self, at: Conditional, x: np.ndarray) -> float:
        """Return log p(u) p(x | u) p(y | x, u), up to a constant, for x that satisfies the constraints."""
        quadratic = self.analysis.quadratic(at.prior_entries, x)
        return at.log_prior - 0.5 * quadratic + float(at.likelihood(self.assembly.predictor(x)))


class WhitePoint(NamedTuple):
    """A point (u, z) of the posterior in white coordinates."""

    around: Around
    z: np.ndarray
    x: np.ndarray
    eta: np.ndarray
    """Linear predictor of the observed rows."""
    log_likelihood: float
    log_ratio: float
    """log of p(u) p(x | u) p(y | x, u) / q(x | u): the posterior of (u, z) is N(z; 0, I) times its exponential."""


class Around(NamedTuple):
    """The reference for one value of the hyperparameters, with its conditional."""

    at: Conditional
    reference: Reference


class WhitePosterior:
    """The posterior of (u, z), where z are the white coordinates of the reference for u.

    Parameters
    ----------
    posterior : LatentPosterior
    sites : callable
        From a `Conditional` to `Sites`. The posterior is exact for any such function.
    """

    def __init__(self, posterior: LatentPosterior, sites: Callable[[Conditional], Sites]):
        self.posterior, self.sites = posterior, sites
        self._kept: OrderedDict[bytes, Around | None] = OrderedDict()

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_kept": OrderedDict()}

    def around(self, u: np.ndarray) -> Around | None:
        """Return the reference for u; None if the posterior density is 0 there. The latest results are kept."""
        key = u.tobytes()
        try:  # without a look before, because another thread may remove it at any time
            self._kept.move_to_end(key)
            return self._kept[key]
        except KeyError:
            found = self._make(np.array(u))
        self._kept[key] = found
        if len(self._kept) > KEPT_REFERENCES:
            self._kept.popitem(last=False)
        return found

    def _make(self, u: np.ndarray) -> Around | None:
        at = self.posterior.at(u)
        if at is None:
            return None
        with np.errstate(all="ignore"):
            reference = self.posterior.reference(at, self.sites(at))
        return None if reference is None else Around(at, reference)

    def point(self, u: np.ndarray, z: np.ndarray) -> WhitePoint | None:
        """Return the point (u, z); None if the posterior density is 0 there."""
        around = self.around(u)
        return None if around is None else self.point_around(around, z)

    def point_around(self, around: Around, z: np.ndarray) -> WhitePoint | None:
        """Return the point with white noise z for the same hyperparameters; None if its density is 0."""
        at, reference = around
        with np.errstate(over="ignore", invalid="ignore"):
            x, square = reference.place(z)
            eta = self.posterior.assembly.predictor(x)
            log_likelihood = float(at.likelihood(eta))
            log_ratio = at.log_prior + log_likelihood + reference.log_prior_ratio(x, square)
        return WhitePoint(around, z, x, eta, log_likelihood, log_ratio) if np.isfinite(log_ratio) else None
