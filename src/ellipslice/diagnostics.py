"""Is the run good enough? In numbers and in plain words."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

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
    Effective size: log-likelihood ..., latent values at least ... (f[...]).
    R-hat: at most 1.0...
    The chains agree and have drawn enough to use.
    """
    import xarray
    from arviz_stats import ess, rhat  # pyright: ignore[reportPrivateImportUsage]

    statistics = xarray.Dataset({"log_likelihood": tree["sample_stats"]["log_likelihood"]})
    latents = tree["posterior"].to_dataset()
    chains, draws = latents.sizes["chain"], latents.sizes["draw"]
    attrs = tree.attrs
    cost = attrs["evaluations"] / attrs["updates"]
    many = "chain" if chains == 1 else "chains"
    lines = [f"{chains} {many} of {draws:,} draws on the {attrs['engine']} engine, {cost:.1f} evaluations per update."]
    if attrs["interrupted"]:
        lines.append("The run was interrupted: these are the draws it had made.")
    if draws < 4:
        return "\n".join([*lines, "Too few draws to judge: at least 4 per chain are needed."])

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)  # of dividing by the variance of what never changes
        sizes = [ess(values, method=method) for values in (latents, statistics) for method in ("bulk", "tail")]
        rhats = [rhat(values) for values in (latents, statistics)]
    (name, of_latents), (_, of_log_l) = _extreme(sizes[:2], np.nanmin), _extreme(sizes[2:], np.nanmin)
    lines.append(f"Effective size: log-likelihood {of_log_l:,.0f}, latent values at least {of_latents:,.0f} ({name}).")
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
        lines.append(f"Not judged, because values are missing: {', '.join(missing)}.")
    if agree and enough:
        lines.append("The chains agree and have drawn enough to use." if chains > 1 else "Drawn enough to use.")
    elif agree:
        lines.append(f"Not enough draws yet: run longer, until every effective size exceeds {100 * chains}.")
    else:
        lines.append("The chains do not agree yet (R-hat should be below 1.01): run longer, with more warm-up.")
    if not (agree and enough) and least < SLOW * chains * draws * attrs["thin"]:
        lines.append(
            "Each update moves little: the likelihood is much stronger than the prior, or the prior has a large "
            "constant offset. Updates are cheap, so make many more and keep few, with thin."
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
