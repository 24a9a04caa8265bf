"""One update of elliptical slice sampling, for the user's own Gibbs loop."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from functools import partial
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
    """Make one update of elliptical slice sampling, for your own Gibbs loop.

    Parameters
    ----------
    f : array of any shape
        The current state, with the prior mean subtracted: f ~ N(0, Sigma) under the prior.
    nu : array of the same shape
        A new draw from N(0, Sigma), without the mean: `prior.simulate(rng, mean=False)`, or your own.
    log_likelihood : callable
        f -> float. The log-likelihood, without the prior. Its argument is the state without the mean; add the mean in
        the function if there is one.
    rng : numpy.random.Generator
        Make it once, before the loop.
    log_likelihood_f : float, optional
        log_likelihood(f), the second return value of the last update. It saves an evaluation. Default: it is computed.
        Leave it out if anything that the likelihood depends on has changed since.
    bracket_width : float
        Width of the first bracket, in radians. In (0, 2 pi]. Default: 2 pi. See `EllipticalSlice`.

    Returns
    -------
    f : array
        The new state, without the mean, of the same shape.
    log_likelihood_f : float
        Log-likelihood of the new state.
    info : Info
        Statistics of the update: `evaluations`, `nan_evaluations`, `search_failed` and `angle` (radians).

    Raises
    ------
    TypeError
        If `log_likelihood` is not callable, `rng` is not a Generator, or an array has no real numbers.
    ValueError
        If `nu` has another shape than `f`, if the log-likelihood of `f` is not finite, or if it is +inf at the new
        state.

    Warns
    -----
    UserWarning
        If the search found no acceptable point, so that the state did not change.

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
    f, nu = _checked(f, nu, log_likelihood, rng)
    evaluate = partial(_evaluate, log_likelihood)
    value = (
        evaluate(f)
        if log_likelihood_f is None
        else float(as_numbers(log_likelihood_f, "log_likelihood_f", finite=False))
    )
    if not np.isfinite(value):
        raise ValueError(
            f"the log-likelihood of the current state is {value}; it must be finite. Start where the likelihood is not "
            "zero."
        )
    move = EllipticalSlice(bracket_width)
    level = rng.standard_exponential()
    state, info = search(move, nu, level, lambda k: rng.random(), State(f, value), evaluate)
    if info.search_failed:
        _warn_of_failed_search(info)
    if state.log_likelihood == np.inf:
        raise ValueError(
            "the log-likelihood is +inf at the new state; it must be finite there. Check log_likelihood: it must be "
            "bounded above."
        )
    return np.asarray(state.f), state.log_likelihood, info


def _checked(f: Any, nu: Any, log_likelihood: Any, rng: Any) -> tuple[np.ndarray, np.ndarray]:
    """Return f and nu as float64 arrays. Raise if an argument of `step` is not valid."""
    if not callable(log_likelihood):
        raise TypeError(f"log_likelihood must be callable, but it is a {type(log_likelihood).__name__}.")
    f, nu = as_numbers(f, "f"), as_numbers(nu, "nu")
    if f.shape != nu.shape:
        raise ValueError(f"f has shape {f.shape} and nu has shape {nu.shape}; nu must be a prior draw of f's shape.")
    if not isinstance(rng, np.random.Generator):
        raise TypeError(
            f"rng must be a numpy Generator, but it is a {type(rng).__name__}. Make one before the loop, with "
            "rng = numpy.random.default_rng(seed). A new one in every iteration would repeat the same random numbers."
        )
    return f, nu


def _evaluate(log_likelihood: Callable[[Any], float], f: Any) -> float:
    """Return the log-likelihood at f as a float. Add f to the errors that the function raises."""
    try:
        value = log_likelihood(np.array(f))  # a copy, because the function may work in place
    except Exception as error:
        add_latents_to_error(error, {"f": np.asarray(f)})
        raise
    return as_log_likelihood(value)


def _warn_of_failed_search(info: Info) -> None:
    """Warn at the line that called `step` that the search found no acceptable point."""
    nans = f", and {info.nan_evaluations} of {info.evaluations} evaluations gave NaN" if info.nan_evaluations else ""
    warnings.warn(
        f"the search found no acceptable point and kept the state{nans}. Is log_likelihood_f out of date? "
        "Leave it out if anything that the likelihood depends on has changed since.",
        stacklevel=3,
    )
