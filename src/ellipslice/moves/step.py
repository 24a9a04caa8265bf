"""One update by itself, for people with a Gibbs loop of their own."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np

from ellipslice.checks import as_numbers
from ellipslice.moves.base import Info, State
from ellipslice.moves.elliptical import FULL_TURN, EllipticalSlice
from ellipslice.moves.search import search
from ellipslice.posterior import add_latents_to_error, as_log_likelihood


def step(
    f: Any,
    nu: Any,
    log_likelihood: Callable[[Any], float],
    *,
    rng: np.random.Generator,
    log_likelihood_f: float | None = None,
    bracket_width: float = FULL_TURN,
) -> tuple[np.ndarray, float, Info]:
    """One update of elliptical slice sampling, for your own Gibbs loop.

    Parameters
    ----------
    f : array of any shape
        The current state. If your prior has a mean, subtract it: f - mean ~ N(0, Sigma).
    nu : array of the same shape
        A fresh draw from N(0, Sigma), the mean left out: `prior.simulate(rng, mean=False)`, or your own.
    log_likelihood : callable
        f -> float. The likelihood alone, without the prior.
    rng : numpy.random.Generator
    log_likelihood_f : float, optional
        log_likelihood(f), if known from the last update (its second return value): saves an evaluation. Leave it out if
        anything the likelihood depends on has changed since.
    bracket_width : float
        See `EllipticalSlice`.

    Returns
    -------
    f : array
        The new state.
    log_likelihood_f : float
        Its log-likelihood.
    info : Info
        Evaluations, NaNs, whether the search was given up, and the angle.

    Examples
    --------
    A prior N(0, 1) and one observation, 1.0 with standard deviation 0.5: the posterior is N(0.8, 0.2).

    >>> import numpy as np
    >>> rng = np.random.default_rng(1)
    >>> f, log_l, draws = np.zeros(1), None, []
    >>> for _ in range(5000):
    ...     nu = rng.standard_normal(1)
    ...     f, log_l, info = step(f, nu, lambda f: -2 * (f[0] - 1) ** 2, rng=rng, log_likelihood_f=log_l)
    ...     draws.append(f[0])
    >>> bool(abs(np.mean(draws) - 0.8) < 0.05)
    True
    """
    if not callable(log_likelihood):
        raise TypeError(f"log_likelihood must be callable, but it is a {type(log_likelihood).__name__}.")
    f, nu = as_numbers(f, "f"), as_numbers(nu, "nu")
    if f.shape != nu.shape:
        raise ValueError(f"f has shape {f.shape} and nu has shape {nu.shape}; nu must be a prior draw of f's shape.")
    if not isinstance(rng, np.random.Generator):
        raise TypeError(
            f"rng must be a numpy Generator, but it is a {type(rng).__name__}. Make one before the loop, with "
            "rng = numpy.random.default_rng(seed): a new one for every step would repeat the same noise."
        )

    def evaluate(f: Any) -> float:
        try:
            value = log_likelihood(np.array(f))  # a copy: a function that works in place must not change the state
        except Exception as error:
            add_latents_to_error(error, {"f": np.asarray(f)})
            raise
        return as_log_likelihood(value)

    value = (
        evaluate(f)
        if log_likelihood_f is None
        else float(as_numbers(log_likelihood_f, "log_likelihood_f", finite=False))
    )
    if not np.isfinite(value):
        raise ValueError(
            f"the log-likelihood of the current state is {value}; it must be finite. Start where the "
            "likelihood is not zero."
        )
    move = EllipticalSlice(bracket_width)
    level = rng.standard_exponential()
    state, info = search(move, nu, level, lambda k: rng.random(), State(f, value), evaluate)
    if info.search_failed:
        nans = (
            f", and {info.nan_evaluations} of {info.evaluations} evaluations gave NaN" if info.nan_evaluations else ""
        )
        warnings.warn(
            f"the search found no acceptable point and stayed where it was{nans}. Is log_likelihood_f stale? Leave it "
            "out when anything that the likelihood depends on has changed since.",
            stacklevel=2,
        )
    if state.log_likelihood == np.inf:
        raise ValueError(
            "the log-likelihood is +inf at the new state; a likelihood must be bounded where it is sampled."
        )
    return np.asarray(state.f), state.log_likelihood, info
