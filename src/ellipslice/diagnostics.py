"""Is the run good enough? In numbers and in plain words; and what an effective draw cost."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from ellipslice.result_parts import as_numbers, not_judged, parts_of

if TYPE_CHECKING:
    import xarray


def verdict(tree: xarray.DataTree) -> str:
    """What a run's diagnostics say, in plain words.

    Parameters
    ----------
    tree : xarray.DataTree
        What `sample` returned.

    Returns
    -------
    str
        A few lines: how many draws, how many they are worth, whether the chains agree, and what the search cost.

    Notes
    -----
    Effective sizes (the smaller of bulk and tail) and R-hat (rank-normalised) are ArviZ's. The thresholds, R-hat 1.01
    and 100 effective draws per chain, are those of Vehtari et al. (2021).

    Examples
    --------
    >>> import numpy as np, jax.numpy as jnp
    >>> import ellipslice as es
    >>> tree = es.sample(lambda f: -jnp.sum((f - 1.0) ** 2), es.Diagonal(np.ones(3)), draws=2000, seed=1)
    >>> print(es.diagnostics.verdict(tree))
    4 chains of 2,000 draws on the compiled engine, ... evaluations per update.
    Effective size: log-likelihood ..., kept values at least ... (f[...]).
    R-hat: at most 1.0...
    The chains agree and have drawn enough to use.
    """
    from arviz_stats import ess, rhat  # pyright: ignore[reportPrivateImportUsage]

    latents, statistics = (as_numbers(group) for group in parts_of(tree))
    chains, draws = statistics.sizes["chain"], statistics.sizes["draw"]
    attrs = tree.attrs
    cost = attrs["evaluations"] / attrs["updates"]
    many = "chain" if chains == 1 else "chains"
    lines = [f"{chains} {many} of {draws:,} draws on the {attrs['engine']} engine, {cost:.1f} evaluations per update."]
    if attrs["interrupted"]:
        lines.append("The run was interrupted: these are the draws it had made.")
    if draws < 4:
        return "\n".join([*lines, "Too few draws to judge: at least 4 per chain are needed."])

    if not latents.data_vars:
        raise ValueError(
            "the run kept no latents (keep=False), which a verdict judges. Keep some of them with keep=, such as "
            "lambda f: f[:10]; or see what the log-likelihood's trace is worth with diagnostics.efficiency."
        )
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore", RuntimeWarning)  # of dividing by the variance of what never changes
        sizes = [ess(values, method=method) for values in (latents, statistics) for method in ("bulk", "tail")]
        rhats = [rhat(values) for values in (latents, statistics)]
    (name, of_latents), (_, of_log_l) = _extreme(sizes[:2], np.nanmin), _extreme(sizes[2:], np.nanmin)
    lines.append(f"Effective size: log-likelihood {of_log_l:,.0f}, kept values at least {of_latents:,.0f} ({name}).")
    least = np.nanmin([of_latents, of_log_l])
    enough, agree = least >= 100 * chains, True
    if chains > 1:
        name, worst = _extreme(rhats, np.nanmax)
        agree = not worst >= 1.01
        lines.append(f"R-hat: at most {worst:.3f}." if worst < 100 else f"R-hat: above 100 ({name}).")
    else:
        lines.append("R-hat: needs at least 2 chains.")
    missing = [str(name) for name, values in latents.data_vars.items() if np.isnan(values).any()]
    if missing:
        lines.append(not_judged(missing))
    if agree and enough:
        lines.append("The chains agree and have drawn enough to use." if chains > 1 else "Drawn enough to use.")
    elif agree:
        lines.append(f"Not enough draws yet: run longer, until every effective size exceeds {100 * chains}.")
    else:
        lines.append("The chains do not agree yet (R-hat should be below 1.01): run longer, with more warm-up.")
    if not (agree and enough) and least < SLOW * chains * draws * attrs["thin"]:
        advice = (
            "Sample around a Gaussian fitted to the posterior, sample(..., reference='auto'); a constant is better a "
            "latent of its own, moved by Local('names')."
        )
        if "reference" in attrs:
            advice = "The reference is of little use here. Updates are cheap: make many more and keep few, with thin."
        lines.append(
            "Each update moves little: the likelihood is much stronger than the prior, or the prior has a large "
            f"constant offset. {advice}"
        )
    if attrs["nan_evaluations"]:
        lines.append(f"{attrs['nan_evaluations']:,} evaluations gave NaN and were rejected.")
    if attrs["stuck_updates"]:
        lines.append(f"{attrs['stuck_updates']:,} updates found no acceptable point and stayed put.")
    return "\n".join(lines)


SLOW = 1 / 300
"""Effective draws per update below which updates are said to move little."""


def _extreme(measures: list[xarray.Dataset], pick: Callable[..., Any]) -> tuple[str, float]:
    """The smallest or largest of some measures, and the name and index of what it was measured on.

    NaN is what is measured of values that never change, or are missing; infinity of chains that each have their own.
    """
    found: list[tuple[float, str]] = []
    for measure in measures:
        for name, values in measure.data_vars.items():
            if not np.isnan(values.values).all():
                extreme = pick(values.values)
                index = np.argwhere(values.values == extreme)[0].tolist()
                found.append((float(extreme), f"{name}{index}" if index else str(name)))
    if not found:
        return "none", np.nan
    best = pick([value for value, _ in found])
    return next(name for value, name in found if value == best), float(best)


# --- effective size as the paper measures it ------------------------------------------------------------------------


def effective_size(trace: Any) -> Any:
    """How many independent draws a trace is worth, exactly as R's package coda computes it (`effectiveSize`).

    The paper's measure, for comparing with its numbers and with others that quote coda. To judge a run prefer
    `verdict`: ArviZ's measures notice chains that disagree, and this one does not. A chain that is stuck for all but
    one jump can score as high as its length.

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
    >>> float(effective_size(rng.standard_normal(1000)))
    1000.0
    >>> slow = np.convolve(rng.standard_normal(1100), 0.9 ** np.arange(100))[100:1100]
    >>> 20 < float(effective_size(slow)) < 120
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
        raise ValueError("trace holds values that are not finite, of which there is no effective size.")
    if values.ndim == 1:
        return _effective_size(values)
    if values.shape[1] < 2:
        raise ValueError(f"trace has shape {values.shape}; at least 2 draws are needed, along the second axis.")
    chains = values.reshape(*values.shape[:2], -1)
    sizes = [sum(_effective_size(chain[:, i]) for chain in chains) for i in range(chains.shape[2])]
    return np.array(sizes).reshape(values.shape[2:])[()]


def _effective_size(x: np.ndarray) -> float:
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

    effective_size: float
    """Of the trace, by `effective_size`: the paper's measure."""
    bulk: float
    """ArviZ's effective size for the middle of the distribution (Vehtari et al. 2021)."""
    tail: float
    """The same for its tails."""
    evaluations: float
    """Evaluations of the likelihood for each effective draw, by the paper's measure; warm-up included."""
    seconds: float
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
    >>> 10 < found.evaluations < 50
    True
    """
    from arviz_stats import ess  # pyright: ignore[reportPrivateImportUsage]

    values = parts_of(tree)[1]["total_log_likelihood"] if trace is None else trace
    if getattr(values, "dims", None) != ("chain", "draw"):
        given = getattr(values, "dims", type(values).__name__)
        raise ValueError(f"trace must have the dimensions (chain, draw), but it has {given}. Index it to one number.")
    values = values.astype(np.float64)
    size = float(effective_size(values))
    with np.errstate(all="ignore"):  # of a trace that never changes
        bulk, tail = (float(ess(values, method=method)) for method in ("bulk", "tail"))
    cost = [tree.attrs[name] / size if size else math.inf for name in ("evaluations", "sampling_time")]
    return Efficiency(size, bulk, tail, *cost)
