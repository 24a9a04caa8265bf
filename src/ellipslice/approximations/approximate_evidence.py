"""`approximate_evidence`: log Z by the Laplace approximation or expectation propagation, without a standard error."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from ellipslice.approximations.expectation_propagation import fit_ep, tilted_log_masses
from ellipslice.approximations.fit import FactorisedLikelihood, factorise_likelihood
from ellipslice.approximations.laplace import derivatives, fit_laplace
from ellipslice.approximations.sites import (
    Sites,
    covariance_factor,
    log_normalizer,
    posterior_factor,
    white_precision_factor,
)
from ellipslice.engines.choose import choose_engine
from ellipslice.jax_settings import on_cpu
from ellipslice.moves import EllipticalSlice
from ellipslice.posterior import Posterior
from ellipslice.priors import Prior

APPROXIMATIONS = ("laplace", "ep")


def approximate_evidence(log_likelihood: Callable[..., Any], prior: Prior, method: str = "ep") -> float:
    """Approximate the log marginal likelihood (log evidence), log Z, by a deterministic method.

    Z is the integral of N(f; m, Sigma) L(f) over f. Use this function to compare many models quickly: one value takes a
    few factorisations of an N x N matrix. It has no standard error; `es.evidence` estimates log Z with one.

    Parameters
    ----------
    log_likelihood : callable
        Log-likelihood, including all normalising constants. It must be written with `jax.numpy` and factorise over the
        elements of f: any class of `es.likelihoods`, or `LinearPredictor` with one of them.
    prior : Prior
        Prior of f, with at most 5,000 elements.
    method : {"ep", "laplace"}
        Expectation propagation or the Laplace approximation. Default: "ep". Both are exact for Gaussian likelihoods.
        For labels (`Logistic`, `Probit`) expectation propagation is accurate, and the Laplace approximation is often
        far too low.

    Returns
    -------
    float
        Approximation of log Z.

    Raises
    ------
    TypeError
        If the prior is known only through its draws (`FromDraws`).
    ValueError
        If `method` is unknown, the prior has more than 5,000 elements, the log-likelihood does not factorise, or the
        approximation fails.

    Examples
    --------
    One element f ~ N(0, 1), observed as 0.5 with noise of standard deviation 1: y ~ N(0, 2).

    >>> import ellipslice as es
    >>> round(es.approximate_evidence(es.likelihoods.Gaussian([0.5], 1.0), es.Diagonal([1.0])), 4)
    -1.328

    References
    ----------
    Rasmussen & Williams (2006), Gaussian Processes for Machine Learning, equations 3.32 and 3.65.
    """
    if method not in APPROXIMATIONS:
        raise ValueError(f'method must be "ep" or "laplace", but it is {method!r}.')
    posterior = Posterior(prior, log_likelihood)
    with on_cpu():
        rows = covariance_factor(posterior.prior, f'method="{method}"', "Use es.evidence(..., reference=None)")
        terms = require_factorised(posterior, f'method="{method}"', "`es.evidence`, which accepts any log-likelihood")
        rows = rows[:, terms.elements]
        found = fit_laplace(rows, terms.log_likelihood)
        if method == "laplace":
            return _laplace_log_z(rows, terms, found)
        return _ep_log_z(rows, terms, fit_ep(rows, terms.pointwise, found))


def require_factorised(posterior: Posterior, asked: str, instead: str) -> FactorisedLikelihood:
    """Return the log-likelihood as a sum over elements of f. Raise if it does not factorise.

    In the message, `asked` is the argument that requires it, and `instead` what to use otherwise.
    """
    trial = posterior.points(np.random.default_rng(0), 1)[0]
    engine, why = choose_engine(posterior, None, trial, EllipticalSlice())
    terms = factorise_likelihood(posterior) if engine.traced else why
    if isinstance(terms, str):
        raise ValueError(
            f"{asked} requires a log-likelihood that factorises over the elements of f, but {terms}. Use {instead}."
        )
    return terms


def _laplace_log_z(rows: np.ndarray, terms: FactorisedLikelihood, found: Sites) -> float:
    """Return log Z by the Laplace approximation (Rasmussen & Williams, equation 3.32)."""
    factor = posterior_factor(rows, found.precision)
    value, gradient, curvature = derivatives(terms.log_likelihood, factor.T @ (factor @ found.linear))
    curvature = np.asarray(curvature)
    z = rows @ np.asarray(gradient)  # at the mode, this is f in whitened coordinates
    try:
        precision_factor = white_precision_factor(rows, -curvature)
    except np.linalg.LinAlgError:
        raise ValueError(
            "the Laplace approximation found no maximum of the posterior with a negative definite Hessian. Use "
            'method="ep" or `es.evidence`.'
        ) from None
    return float(value) - 0.5 * float(z @ z) - float(np.log(precision_factor.diagonal()).sum())


def _ep_log_z(rows: np.ndarray, terms: FactorisedLikelihood, found: Sites) -> float:
    """Return log Z by expectation propagation: the integral of the prior times the scaled sites (equation 3.65)."""
    factor = posterior_factor(rows, found.precision)
    mean, variance = factor.T @ (factor @ found.linear), np.einsum("ij,ij->j", factor, factor)
    uncertain = variance > 0
    log_scales = np.zeros(len(mean))
    log_scales[uncertain] = tilted_log_masses(terms.pointwise, found, mean, variance)[uncertain]
    constant = float(terms.log_likelihood(mean)) - math.fsum(terms.pointwise(mean[None])[0])
    return log_normalizer(rows, found) + math.fsum(log_scales) + constant
