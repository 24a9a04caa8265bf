"""What Laplace's approximation and expectation propagation say of log Z: in a moment, without an error bar."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from ellipslice.approximations.expectation_propagation import propagate, tilted_log_masses
from ellipslice.approximations.fit import Terms, read_terms
from ellipslice.approximations.laplace import laplace, slopes
from ellipslice.approximations.sites import Sites, as_rows, log_normalizer, narrow, white_root
from ellipslice.engines.choose import choose_engine
from ellipslice.jax_settings import on_cpu
from ellipslice.moves import EllipticalSlice
from ellipslice.posterior import Posterior
from ellipslice.priors import Prior

APPROXIMATIONS = ("laplace", "ep")


def approximate_evidence(log_likelihood: Callable[..., Any], prior: Prior, method: str = "ep") -> float:
    """An approximation of log Z, the logarithm of the integral of N(f; m, Sigma) L(f) over f.

    Use it to look at many models in little time: a value takes a few factorisations of an N x N matrix. It has no error
    bar; `es.evidence` estimates log Z with one. Both ways are exact for Gaussian likelihoods. For labels (`Logistic`,
    `Probit`) expectation propagation is close to the truth, and Laplace's approximation often well below it.

    Parameters
    ----------
    log_likelihood : callable
        A sum over the values of f, written with `jax.numpy`: any of `es.likelihoods`, or `LinearPredictor` with one of
        them.
    prior : Prior
        Of at most 5,000 values.
    method : {"ep", "laplace"}

    Returns
    -------
    float

    Examples
    --------
    One number f ~ N(0, 1), seen as 0.5 with noise of deviation 1: y ~ N(0, 2).

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
        rows = as_rows(posterior.prior, f'method="{method}"', "Use es.evidence(..., reference=None)")
        terms = as_terms(posterior, f'method="{method}"', "`es.evidence`, which takes any")
        rows = rows[:, terms.where]
        found = laplace(rows, terms.log_likelihood)
        if method == "laplace":
            return _by_laplace(rows, terms, found)
        return _by_propagation(rows, terms, propagate(rows, terms.of_each, found))


def as_terms(posterior: Posterior, asked: str, instead: str) -> Terms:
    """The log-likelihood as a sum over values; refused if it is none."""
    trial = posterior.points(np.random.default_rng(0), 1)[0]
    engine, why = choose_engine(posterior, None, trial, EllipticalSlice())
    terms = read_terms(posterior) if engine.traced else why
    if isinstance(terms, str):
        raise ValueError(
            f"{asked} needs a log-likelihood that is a sum over the values of f, but {terms}. Use {instead}."
        )
    return terms


def _by_laplace(rows: np.ndarray, terms: Terms, found: Sites) -> float:
    """The height of the posterior at its mode times the width of the parabola there."""
    narrowed = narrow(rows, found.precision)
    value, slope, bend = slopes(terms.log_likelihood, narrowed.T @ (narrowed @ found.linear))
    z, bend = rows @ np.asarray(slope), np.asarray(bend)  # at the mode z is the slope there
    try:
        root = white_root(rows, -bend)
    except np.linalg.LinAlgError:
        raise ValueError(
            "Laplace's approximation found no maximum of the posterior that it can put a Gaussian at. Use "
            '`method="ep"`, or `es.evidence`.'
        ) from None
    return float(value) - 0.5 * float(z @ z) - float(np.log(root.diagonal()).sum())


def _by_propagation(rows: np.ndarray, terms: Terms, found: Sites) -> float:
    """The integral of the prior times sites, each as high as makes its own integral right."""
    narrowed = narrow(rows, found.precision)
    mean, variance = narrowed.T @ (narrowed @ found.linear), np.einsum("ij,ij->j", narrowed, narrowed)
    seen = variance > 0
    heights = np.zeros(len(mean))
    heights[seen] = tilted_log_masses(terms.of_each, found, mean, variance)[seen]
    constant = float(terms.log_likelihood(mean)) - math.fsum(terms.of_each(mean[None])[0])
    return log_normalizer(rows, found) + math.fsum(heights) + constant
