"""Convergence check, effective sample size (ESS), and cost per effective sample."""

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
    """Return the effective sample size (ESS) of a trace, by the estimator of R's package coda (`effectiveSize`).

    It is the measure of the paper; use it to compare with numbers that were computed with coda. To check a run, use
    `check_convergence`: its estimators compare the chains, and this one does not. It can be far too large for a chain
    that is stuck, up to the length of the trace.

    Parameters
    ----------
    trace : array_like, shape (draws,) or (chains, draws, ...)
        Values of one or more quantities; at least 2 draws.

    Returns
    -------
    float, or array of shape (...)
        Effective sample size, summed over chains. 0 for a constant or a straight line. It can exceed the number of
        draws, for example if the trace alternates.

    Raises
    ------
    ValueError
        If the trace is not real and finite, or has fewer than 2 draws.

    Notes
    -----
    The estimate is draws * variance / spectral density at frequency 0. The spectral density is that of an
    autoregression, fitted by Yule-Walker, whose order of at most 10 log10(draws) minimises Akaike's criterion.

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
        raise ValueError("trace has values that are not finite. Remove them, or replace them by finite numbers.")
    if values.ndim == 1:
        return _effective_sample_size(values)
    if values.shape[1] < 2:
        raise ValueError(f"trace has shape {values.shape}, but at least 2 draws are needed along the second axis.")
    chains = values.reshape(*values.shape[:2], -1)
    sizes = [sum(_effective_sample_size(chain[:, i]) for chain in chains) for i in range(chains.shape[2])]
    return np.array(sizes).reshape(values.shape[2:])[()]


def _effective_sample_size(x: np.ndarray) -> float:
    """Return the effective sample size of one chain of one quantity."""
    n = len(x)
    if n < 2:
        raise ValueError("trace has 1 draw, but at least 2 are needed.")
    time = np.arange(n) - (n - 1) / 2
    centred = x - x.mean()
    residual = centred - time * (time @ centred) / (time @ time)
    max_order = min(n - 1, math.floor(10 * math.log10(n)))
    covariances = np.array([centred[: n - lag] @ centred[lag:] for lag in range(max_order + 1)]) / n
    if residual.std(ddof=1) <= math.sqrt(np.finfo(float).eps) or covariances[0] == 0:
        return 0.0
    return n * x.var(ddof=1) / _spectrum_at_0(covariances, n)


def _spectrum_at_0(covariances: np.ndarray, n: int) -> float:
    """Return the spectral density at frequency 0 of the autoregression with the smallest AIC (Levinson-Durbin)."""
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
    """Effective sample size of one quantity, by three estimators, and the cost per effective sample.

    Examples
    --------
    >>> import numpy as np
    >>> import ellipslice as es
    >>> tree = es.sample(es.likelihoods.Poisson([2, 0, 1]), es.Diagonal(np.ones(3)), draws=500, seed=1)
    >>> found = es.diagnostics.efficiency(tree, tree.posterior.f[..., 0])
    >>> found.bulk_ess > 400
    True
    >>> found.evaluations_per_effective_sample == tree.attrs["evaluations"] / found.effective_sample_size
    True
    """

    effective_sample_size: float
    """Effective sample size by coda's estimator, the measure of the paper."""
    bulk_ess: float
    """Bulk effective sample size of ArviZ (Vehtari et al. 2021)."""
    tail_ess: float
    """Tail effective sample size of ArviZ (Vehtari et al. 2021)."""
    evaluations_per_effective_sample: float
    """Evaluations of the log-likelihood, including warm-up, divided by `effective_sample_size`."""
    seconds_per_effective_sample: float
    """Wall-clock seconds of `sample`, including compilation and warm-up, divided by `effective_sample_size`."""


def efficiency(tree: xarray.DataTree, trace: Any = None) -> Efficiency:
    """Return the effective sample size of one quantity, by three estimators, and the cost per effective sample.

    Parameters
    ----------
    tree : xarray.DataTree
        Result of `sample`.
    trace : xarray.DataArray with dimensions (chain, draw), optional
        Quantity to use, for example `tree.posterior.f[..., 0]`. Default: the log-likelihood, as in the paper.

    Returns
    -------
    Efficiency
        The cost per effective sample is infinite if the effective sample size is 0.

    Raises
    ------
    ValueError
        If `trace` does not have the dimensions (chain, draw), or is not finite.

    Examples
    --------
    >>> import numpy as np, jax.numpy as jnp
    >>> import ellipslice as es
    >>> move = es.moves.EllipticalSlice()
    >>> tree = es.sample(lambda f: -jnp.sum((f - 1.0) ** 2), es.Diagonal(np.ones(3)), move=move, draws=2000, seed=1)
    >>> found = es.diagnostics.efficiency(tree)
    >>> 10 < found.evaluations_per_effective_sample < 50
    True
    """
    from arviz_stats import ess  # pyright: ignore[reportPrivateImportUsage]

    values = parts_of(tree)[1]["total_log_likelihood"] if trace is None else trace
    if getattr(values, "dims", None) != ("chain", "draw"):
        given = getattr(values, "dims", type(values).__name__)
        raise ValueError(f"trace must have the dimensions (chain, draw), but it has {given}. Select one element.")
    values = values.astype(np.float64)
    size = float(effective_sample_size(values))
    with np.errstate(all="ignore"):  # a constant trace divides by a variance of 0
        bulk, tail = (float(ess(values, method=method)) for method in ("bulk", "tail"))
    cost = [tree.attrs[name] / size if size else math.inf for name in ("evaluations", "sampling_time")]
    return Efficiency(size, bulk, tail, *cost)
