"""Is the run good enough? In numbers and in plain words."""

from __future__ import annotations

from typing import TYPE_CHECKING

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
    Effective sizes (bulk) and R-hat (rank-normalised) are ArviZ's. The thresholds, R-hat 1.01 and 100 effective draws
    per chain, are those of Vehtari et al. (2021).

    Examples
    --------
    >>> import numpy as np, jax.numpy as jnp
    >>> import ellipslice as es
    >>> tree = es.sample(lambda f: -jnp.sum((f - 1.0) ** 2), es.Diagonal(np.ones(3)), draws=2000, seed=1)
    >>> print(es.diagnostics.verdict(tree))
    4 chains of 2,000 draws, ... evaluations per update.
    Effective size: log-likelihood ...
    R-hat: at most 1.0...
    The chains agree and have drawn enough to use.
    """
    import xarray
    from arviz_stats import ess, rhat  # pyright: ignore[reportPrivateImportUsage]

    statistics = xarray.Dataset({"log_likelihood": tree["sample_stats"]["log_likelihood"]})
    latents = tree["posterior"].to_dataset()
    chains, draws = latents.sizes["chain"], latents.sizes["draw"]
    evaluations = tree.attrs["evaluations"] / tree.attrs["updates"]
    lines = [
        f"{chains} {'chain' if chains == 1 else 'chains'} of {draws:,} draws, {evaluations:.1f} evaluations per update."
    ]
    if draws < 4:
        return "\n".join([*lines, "Too few draws to judge: at least 4 per chain are needed."])

    size_of_log_l = _values(ess(statistics))[0]
    sizes = _values(ess(latents))
    lines.append(
        f"Effective size: log-likelihood {size_of_log_l:,.0f}, "
        f"latent values {sizes.min():,.0f} (worst) to {sizes.max():,.0f}."
    )
    enough = min(size_of_log_l, sizes.min()) >= 100 * chains
    agree = True
    if chains > 1:
        worst = max(_values(rhat(latents)).max(), _values(rhat(statistics))[0])
        agree = worst < 1.01
        lines.append(f"R-hat: at most {worst:.3f}.")
    else:
        lines.append("R-hat: needs at least 2 chains.")
    if agree and enough:
        lines.append("The chains agree and have drawn enough to use." if chains > 1 else "Drawn enough to use.")
    elif agree:
        lines.append(f"Not enough draws yet: run longer, until every effective size exceeds {100 * chains}.")
    else:
        lines.append(
            "The chains do not agree yet (R-hat should be below 1.01): discard more as warm-up, and run longer."
        )
    if tree.attrs["nan_evaluations"]:
        lines.append(f"{tree.attrs['nan_evaluations']:,} evaluations gave NaN and were rejected.")
    if tree.attrs["stuck_updates"]:
        lines.append(f"{tree.attrs['stuck_updates']:,} updates found no acceptable point and stayed put.")
    return "\n".join(lines)


def _values(dataset: xarray.Dataset) -> np.ndarray:
    """All numbers of a dataset; those of constant values, which have no effective size, left out."""
    values = np.concatenate([np.ravel(variable.values) for variable in dataset.data_vars.values()])
    return values[np.isfinite(values)] if np.isfinite(values).any() else np.array([np.nan])
