"""Fit a reference Gaussian, by the method that the user names or by one that suits the likelihood."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from ellipslice.approximations.expectation_propagation import fit_ep
from ellipslice.approximations.gaussian import WhiteGaussian
from ellipslice.approximations.laplace import fit_laplace
from ellipslice.approximations.pilot import CHAINS, fit_pilot
from ellipslice.approximations.sites import Sites, SitesReference, covariance_factor
from ellipslice.engines.base import Engine
from ellipslice.jax_settings import on_cpu
from ellipslice.moves import State
from ellipslice.moves.reference_slice import Reference
from ellipslice.posterior import Posterior, PredictorLikelihood
from ellipslice.priors import Dense, Prior
from ellipslice.priors.parts.augmented import PredictorPrior
from ellipslice.programs.site_program import CPU, Elementwise
from ellipslice.programs.site_sums import NotFactorised, elementwise
from ellipslice.programs.traced import compilable

METHODS = ("auto", "laplace", "ep", "pilot")
"""Names that `reference=` accepts."""


class Fitted(NamedTuple):
    """A reference Gaussian and the method that fitted it."""

    reference: Reference
    method: str
    """One of "laplace", "ep", "pilot" and "given"."""


def fit_reference(
    method: Any,
    engine: Engine,
    starts: Callable[[int], list[State]],
    seed: int,
    terms: FactorisedLikelihood | str | None = None,
) -> Fitted:
    """Fit a Gaussian approximation of the posterior.

    Parameters
    ----------
    method : one of `METHODS`, or a Prior that is the reference Gaussian
    engine : Engine
        Engine that evaluates the log-likelihood, and runs the pilot run.
    starts : callable
        Function from a number of chains to their initial states, for a pilot run.
    seed : int
        Seed of the pilot run.
    terms : optional
        Result of `factorise_likelihood`, if it is known.
    """
    posterior = engine.posterior
    prior = posterior.prior
    if not isinstance(method, Prior) and method not in METHODS:
        names = ", ".join(f'"{name}"' for name in METHODS)
        raise ValueError(
            f"reference must be one of {names}, or a Gaussian such as Dense(covariance), but it is {method!r}."
        )
    with on_cpu():
        rows = covariance_factor(prior, "reference=" + ("a Gaussian" if isinstance(method, Prior) else f'"{method}"'))
        if isinstance(method, Prior):
            return Fitted(_from_user(method, prior, rows), "given")
        if terms is None:
            terms = factorise_likelihood(posterior) if engine.traced else "it is not traced by JAX"
        if isinstance(terms, str) and method in ("laplace", "ep"):
            raise ValueError(
                f'reference="{method}" requires a log-likelihood that factorises over the elements of f, but {terms}. '
                'Use reference=None or, in `sample`, reference="pilot", which works for any log-likelihood.'
            )
        if isinstance(terms, str) or method == "pilot":
            return Fitted(fit_pilot(engine, rows, starts(CHAINS), seed), "pilot")
        found = fit_laplace(rows[:, terms.elements], terms.log_likelihood)
        if method != "laplace":
            found = fit_ep(rows[:, terms.elements], terms.pointwise, found)
        return Fitted(terms.reference_from(found, prior.size), "laplace" if method == "laplace" else "ep")


def _from_user(gaussian: Prior, prior: Prior, rows: np.ndarray) -> WhiteGaussian:
    """Return a Gaussian that the user gave in whitened coordinates, in which the prior is N(0, I)."""
    if gaussian.layout != prior.layout:
        raise ValueError(
            f"reference has the latents (names and shapes) {gaussian.layout}, but the prior has {prior.layout}. Give a "
            "Gaussian of the same latents."
        )
    white, shift = Dense(factor=rows.T), np.zeros(gaussian.size)
    base = prior.base if isinstance(prior, PredictorPrior) else prior
    for sign, mean in ((1.0, gaussian.mean), (-1.0, base.mean)):
        shift = shift if mean is None else shift + sign * np.asarray(mean)
    instead = 'Use reference="auto", which fits a Gaussian'
    points = np.vstack([shift, covariance_factor(gaussian, "reference", instead)])
    points = np.asarray(prior.augment(points)) if isinstance(prior, PredictorPrior) else points
    z = np.asarray(white.whiten(points))
    off = float(np.abs(z @ white.rows - points).max())
    if off > 1e-6 * float(np.abs(points).max()):
        raise ValueError(
            f"reference has draws that the prior does not have: they differ by up to {off:.3g}. It must be a Gaussian "
            f"on the prior's support, whose dimension is {white.noise_size} for {prior.size} elements."
        )
    covariance = z[1:].T @ z[1:]
    if np.linalg.matrix_rank(covariance) < len(covariance):
        raise ValueError(
            "reference has no variance in some direction in which the prior has. Give a Gaussian with a positive "
            "variance in every direction."
        )
    return WhiteGaussian(z[0], covariance)


class FactorisedLikelihood(NamedTuple):
    """A log-likelihood that is a sum over some elements of f, or of the linear predictor."""

    log_likelihood: Callable[[Any], Any]
    """Log-likelihood of these elements."""
    pointwise: Callable[[np.ndarray], np.ndarray]
    """Pointwise log-likelihood: (count, elements) to the same shape."""
    elements: slice
    """Position of these elements in the state."""

    def reference_from(self, found: Sites, size: int) -> SitesReference:
        """Return the reference for a state of `size` elements. Those that the likelihood ignores have no site."""
        linear, precision = np.zeros(size), np.zeros(size)
        linear[self.elements], precision[self.elements] = found.linear, found.precision
        return SitesReference(linear, precision)


def factorise_likelihood(posterior: Posterior) -> FactorisedLikelihood | str:
    """Return the log-likelihood as a sum over the elements of f, or of A f for `LinearPredictor`.

    If it does not factorise, return the reason as a string.
    """
    centred, size = posterior.log_likelihood, posterior.prior.size
    elements, function = slice(0, size), compilable(centred, size)
    batched = centred.batches_only  # traced with a batch of one, and reshaped: indexing would not be factorisable
    if isinstance(centred, PredictorLikelihood):
        elements, inner = slice(centred.size, size), centred

        def function(values: Any) -> Any:
            predictor = values if inner.shift is None else values + inner.shift
            return inner.callable(predictor[None]).reshape(()) if batched else inner.callable(predictor)

    elif batched:

        def function(values: Any) -> Any:
            return centred.batch(values[None]).reshape(())

    try:
        read = elementwise(function, elements.stop - elements.start, np.float64, CPU, batched=batched)
    except NotFactorised as reason:
        return str(reason)

    # Not compiled: there are few operations, and JAX caches each of them across likelihoods.
    return FactorisedLikelihood(function, lambda values: np.asarray(pointwise(read, values)), elements)


def pointwise(read: Elementwise, values: Any) -> Any:
    """Return the terms of a factorised log-likelihood: (count, size) to the same shape."""

    def pointwise_of_one(row: Any) -> tuple[Any, Any]:
        a, m = read.parts(row, read.data, read.scalars, CPU)
        return a, jnp.ones_like(row) if m is None else m

    a, m = jax.vmap(pointwise_of_one)(values)
    return a - jnp.log(m)
