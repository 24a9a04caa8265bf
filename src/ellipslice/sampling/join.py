"""`join`: one result of runs that shared the chains."""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from ellipslice.sampling.arguments import as_path

if TYPE_CHECKING:
    import xarray

SAME = ("seed", "prior", "likelihood", "move", "warmup", "thin", "precision", "ellipslice_version")
"""What runs must agree on."""

SUMS = ("updates", "evaluations", "proposals", "nan_evaluations", "stuck_updates", "chains")

OF_THE_WHOLE = ("effective_size", "rhat", "reference_first_accepted")
"""What cannot be said of the whole from the parts."""


def join(parts: Sequence[xarray.DataTree | str | os.PathLike[str]]) -> xarray.DataTree:
    """Put together results of runs that differ in their chains only.

    For runs on several machines: processes under `jax.distributed`, each with its share of the chains, or the tasks of
    a Slurm array, each with chains of its own, `chains=[task]`. The result is the one that a single run gives.

    Parameters
    ----------
    parts : sequence of DataTree or path
        What `sample` returned, or the stores it wrote to. They must have the same seed, prior, likelihood (by its
        name), move, warm-up and thinning, and no chain in common.

    Returns
    -------
    xarray.DataTree
        All chains in the order of their numbers, with as many draws as the part with the fewest. Counts in the
        attributes are sums, `sampling_time` is the longest.

    Examples
    --------
    >>> import numpy as np
    >>> import ellipslice as es
    >>> def log_likelihood(f):
    ...     return -((f - 1.0) ** 2).sum()
    >>> prior, options = es.Diagonal(np.ones(3)), {"draws": 100, "seed": 1}
    >>> parts = [es.sample(log_likelihood, prior, chains=[i, i + 1], **options) for i in (0, 2)]
    >>> whole = es.join(parts)
    >>> (
    ...     whole.posterior.f.shape,
    ...     bool((whole.posterior.f == es.sample(log_likelihood, prior, **options).posterior.f).all()),
    ... )
    ((4, 100, 3), True)
    """
    import xarray

    if isinstance(parts, str | os.PathLike | xarray.DataTree):
        raise TypeError(f"join takes a list of results, or of the paths of stores, but it was given {type(parts)}.")
    trees = [_open(part) for part in parts]
    if not trees:
        raise ValueError("join was given no results.")
    _check(trees)
    draws = min(tree["posterior"].sizes["draw"] for tree in trees)
    groups = {
        name: xarray.concat(
            [tree[name].to_dataset().isel(draw=slice(draws)) for tree in trees],
            dim="chain",
            data_vars="minimal",
            coords="minimal",
            compat="override",
            combine_attrs="override",
        ).sortby("chain")
        for name in trees[0].children
    }
    whole = xarray.DataTree.from_dict(groups, name="ellipslice")
    first = {name: value for name, value in trees[0].attrs.items() if name not in OF_THE_WHOLE}
    ends = sorted({tree.attrs["stopped_by"] for tree in trees})
    whole.attrs.update(
        first
        | {name: sum(tree.attrs[name] for tree in trees) for name in SUMS}
        | {name: max(tree.attrs[name] for tree in trees) for name in ("sampling_time", "interrupted")}
        | {"draws": draws, "stopped_by": " and ".join(ends)}
    )
    return whole


def _open(part: Any) -> xarray.DataTree:
    import xarray

    if isinstance(part, xarray.DataTree):
        return part
    return xarray.open_datatree(as_path(part), engine="zarr")


def _check(trees: list[xarray.DataTree]) -> None:
    """Refuse runs that are not parts of one."""
    for number, tree in enumerate(trees):
        missing = [name for name in (*SAME, *SUMS) if name not in tree.attrs]
        if missing:
            raise ValueError(f"part {number} (counted from 0) is no result of `sample`: it has no {missing[0]}.")
        for name in SAME:
            if _without_address(tree.attrs[name]) != _without_address(trees[0].attrs[name]):
                raise ValueError(
                    f"part {number} (counted from 0) was made with {name} = {tree.attrs[name]!r}, and the first with "
                    f"{trees[0].attrs[name]!r}. Only the chains of one run can be joined."
                )
    chains = [int(chain) for tree in trees for chain in np.asarray(tree["posterior"].dataset["chain"])]
    twice = sorted({chain for chain in chains if chains.count(chain) > 1})
    if twice:
        raise ValueError(
            f"chain {twice[0]} is in more than one part. Give each run chains of its own: chains=[0, 1], chains=[2, 3]."
        )


def _without_address(value: Any) -> str:
    """What a result says of a function, less where it was in memory."""
    return re.sub(r" at 0x[0-9a-f]+", "", str(value))
