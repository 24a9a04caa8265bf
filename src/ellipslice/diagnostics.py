"""Convergence checks, effective sample sizes, and the cost of an effective sample."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from ellipslice.convergence import ConvergenceProblem, ConvergenceReport, check_convergence
from ellipslice.result_parts import parts_of

if TYPE_CHECKING:
    import xarray

__all__ = [
    "ConvergenceProblem",
    "ConvergenceReport",
    "Efficiency",
    "check_convergence",
    "effective_sample_size",
    "efficiency",
]


def effective_sample_size(trace: Any) -> Any:
    """How many independent draws a trace is worth, exactly as R's package coda computes it (`effectiveSize`).

    The paper's measure, for comparing with its numbers and with others that quote coda. To judge a run prefer
    `check_convergence`: it uses ArviZ's estimators, which notice chains that disagree, and this one does not. A chain
    that is stuck for all but one jump can score as high as its length.

    Parameters
    ----------
    trace : array, shape (draws,) or (chains, draws, ...)

    Returns
    -------
    float, or array of shape (...)
        Several chains are summed. Not capped: a trace that alternates is worth more than its length. 0 for a constant
        or a straight line.

    Notes
    -----
    The variance of the trace beside its spectral density at frequency 0, which is that of an autoregression: fitted by
    Yule–Walker, its order at most 10 log10(draws), chosen by Akaike's criterion.

    Examples
    --------
    >>> import numpy as np
    >>> rng = np.random.default_rng(1)
    >>> float(effective_sample_size(rng.standard_normal(1000)))
    1000.0
    >>> slow = np.convolve(rng.standard_normal(1100), 0.9 ** np.arange(100))[100:1100]
    >>> 20 < float(effective_sample_size(slow)) < 120
    True
    """
    values = np.asarray(trace)
    if values.dtype.kind not in "fiub" or values.ndim == 0 or 0 in values.shape:
        raise ValueError(
            "trace must be real numbers of shape (draws,) or (chains, draws, ...), but it has dtype "
            f"{values.dtype} and shape {values.shape}."
        )
    values = values.astype(np.float64)
    if not np.isfinite(values).all():
        raise ValueError("trace holds values that are not finite, of which there is no effective sample size.")
    if values.ndim == 1:
        return _effective_sample_size(values)
    if values.shape[1] < 2:
        raise ValueError(f"trace has shape {values.shape}; at least 2 draws are needed, along the second axis.")
    chains = values.reshape(*values.shape[:2], -1)
    sizes = [sum(_effective_sample_size(chain[:, i]) for chain in chains) for i in range(chains.shape[2])]
    return np.array(sizes).reshape(values.shape[2:])[()]


def _effective_sample_size(x: np.ndarray) -> float:
    n = len(x)
    if n < 2:
        raise ValueError("trace has 1 draw; at least 2 are needed.")
    time = np.arange(n) - (n - 1) / 2
    centred = x - x.mean()
    residual = centred - time * (time @ centred) / (time @ time)
    most = min(n - 1, math.floor(10 * math.log10(n)))
    covariances = np.array([centred[: n - lag] @ centred[lag:] for lag in range(most + 1)]) / n
    if residual.std(ddof=1) <= math.sqrt(np.finfo(float).eps) or covariances[0] == 0:
        return 0.0
    return n * x.var(ddof=1) / _spectrum_at_0(covariances, n)


def _spectrum_at_0(covariances: np.ndarray, n: int) -> float:
    """Of the autoregression, of any order, that Akaike's criterion prefers; Levinson and Durbin's recursion."""
    coefficients, variance = np.zeros(0), covariances[0]
    best, spectrum = n * math.log(variance), variance * n / (n - 1)
    for order in range(1, len(covariances)):
        partial = (covariances[order] - coefficients @ covariances[order - 1 : 0 : -1]) / variance
        coefficients = np.append(coefficients - partial * coefficients[::-1], partial)
        variance = variance * (1 - partial**2)
        criterion = n * math.log(variance) + 2 * order
        if criterion < best:
            correction = n / (n - order - 1) if order < n - 1 else math.inf
            best, spectrum = criterion, correction * variance / (1 - coefficients.sum()) ** 2
    return spectrum


class Efficiency(NamedTuple):
    """What a run is worth, and what it cost."""

    effective_sample_size: float
    """Of the trace, by `effective_sample_size`: the paper's measure."""
    bulk_ess: float
    """ArviZ's bulk effective sample size (Vehtari et al. 2021)."""
    tail_ess: float
    """The same for its tails."""
    evaluations_per_effective_sample: float
    """Evaluations of the likelihood for each effective draw, by the paper's measure; warm-up included."""
    seconds_per_effective_sample: float
    """Seconds for each effective draw, likewise: from the call of `sample` to its return, compiling included."""


def efficiency(tree: xarray.DataTree, trace: Any = None) -> Efficiency:
    """What a run is worth in effective draws, by three measures, and what each cost.

    Parameters
    ----------
    tree : xarray.DataTree
        What `sample` returned.
    trace : xarray.DataArray with dimensions (chain, draw), optional
        The number to judge by, such as `tree.posterior.f[..., 0]`; the log-likelihood, as in the paper, unless given.

    Examples
    --------
    >>> import numpy as np, jax.numpy as jnp
    >>> import ellipslice as es
    >>> tree = es.sample(lambda f: -jnp.sum((f - 1.0) ** 2), es.Diagonal(np.ones(3)), draws=2000, seed=1)
    >>> found = es.diagnostics.efficiency(tree)
    >>> 10 < found.evaluations_per_effective_sample < 50
    True
    """
    from arviz_stats import ess  # pyright: ignore[reportPrivateImportUsage]

    values = parts_of(tree)[1]["total_log_likelihood"] if trace is None else trace
    if getattr(values, "dims", None) != ("chain", "draw"):
        given = getattr(values, "dims", type(values).__name__)
        raise ValueError(f"trace must have the dimensions (chain, draw), but it has {given}. Index it to one number.")
    values = values.astype(np.float64)
    size = float(effective_sample_size(values))
    with np.errstate(all="ignore"):  # of a trace that never changes
        bulk, tail = (float(ess(values, method=method)) for method in ("bulk", "tail"))
    cost = [tree.attrs[name] / size if size else math.inf for name in ("evaluations", "sampling_time")]
    return Efficiency(size, bulk, tail, *cost)
