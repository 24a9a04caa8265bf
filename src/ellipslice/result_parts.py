"""Read the parts of a result that diagnostics and predictions need: check that they are there, convert, and thin."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    import xarray

REQUIRED_ATTRIBUTES = ("engine", "evaluations", "updates", "thin", "interrupted", "nan_evaluations", "failed_searches")
"""Attributes that `check_convergence` reads."""


def not_judged(names: Iterable[str]) -> str:
    """Return a sentence for reports that names the variables with missing or infinite values."""
    return f"Not judged, because values are missing or infinite: {', '.join(names)}."


def thinned(posterior: xarray.Dataset, draws: int) -> xarray.Dataset:
    """Return evenly spaced draws, equally many of each chain: about `draws` in all."""
    each = min(posterior.sizes["draw"], max(1, -(-draws // posterior.sizes["chain"])))
    return posterior.isel(draw=np.linspace(0, posterior.sizes["draw"] - 1, each).astype(int))


def parts_of(tree: Any) -> tuple[xarray.Dataset, xarray.Dataset]:
    """Return the draws and the total log-likelihood of a result as two datasets. Raise if `tree` is not a result."""
    import xarray

    needs = "Give the DataTree that `sample` returned, with the groups posterior and sample_stats and all attributes"
    if not isinstance(tree, xarray.DataTree):
        raise TypeError(f"expected the result of a run, but this is a {type(tree).__name__}. {needs}.")
    missing = [group for group in ("posterior", "sample_stats") if group not in tree.children]
    if missing:
        raise ValueError(
            f"this tree has no group {missing[0]}; its groups are {', '.join(tree.children) or 'none'}. {needs}."
        )
    missing = [name for name in REQUIRED_ATTRIBUTES if name not in tree.attrs]
    if missing:
        raise ValueError(f"this tree has no attribute {missing[0]}. {needs}.")
    draws, statistics = tree["posterior"].to_dataset(), tree["sample_stats"].to_dataset()
    if "total_log_likelihood" not in statistics:
        older = (
            " It has log_likelihood, the name in older versions: rename it." if "log_likelihood" in statistics else ""
        )
        raise ValueError(f"the group sample_stats has no total_log_likelihood.{older} {needs}.")
    for group, found in (("posterior", draws), ("sample_stats", statistics)):
        lost = [dim for dim in ("chain", "draw") if dim not in found.dims]
        if lost:
            raise ValueError(
                f"the group {group} has no dimension {lost[0]}. Select with a list, which keeps the dimension: "
                f"tree.isel({lost[0]}=[0])."
            )
    return draws, statistics[["total_log_likelihood"]]


def with_log_likelihood(kept: dict[str, np.ndarray], log_likelihood: np.ndarray) -> dict[str, np.ndarray]:
    """Return kept variables with the log-likelihood. Its name is that of no variable, because names may be equal."""
    name = "total_log_likelihood"
    while name in kept:
        name += "_"
    return {**kept, name: log_likelihood}


def as_numbers(group: xarray.Dataset) -> xarray.Dataset:
    """Return a group as floats: booleans become 0 and 1, and values that are not finite become NaN."""

    def convert(values: Any) -> Any:
        floats = values if values.dtype.kind == "f" else values.astype(np.float64)
        finite = np.isfinite(floats)
        return floats if finite.all() else floats.where(finite)

    return group.map(convert)


def varying(values: xarray.Dataset) -> xarray.Dataset:
    """Return, for each element of each variable, whether it has at least two values over all chains and draws."""
    across = ("chain", "draw")
    return values.max(across) > values.min(across)


def unusable(latents: xarray.Dataset, statistics: xarray.Dataset) -> tuple[list[str], list[str]]:
    """Return the names of variables with NaN (which stands for infinity, too), and of constant kept variables."""
    found = [(str(name), values) for group in (latents, statistics) for name, values in group.data_vars.items()]
    missing = [name for name, values in found if bool(np.isnan(values).any())]
    varies = {str(name): bool(values.any()) for name, values in varying(latents).data_vars.items()}
    return missing, [name for name, some in varies.items() if not some and name not in missing]
