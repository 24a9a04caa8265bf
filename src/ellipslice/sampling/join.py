"""`join`: one result of runs that shared the chains."""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from ellipslice.checks import as_path
from ellipslice.store.fingerprint import differing
from ellipslice.store.read import open_tree

if TYPE_CHECKING:
    import xarray

SAME = ("seed", "prior", "likelihood", "move", "warmup", "thin", "precision", "ellipslice_version")
"""What runs must agree on."""

SUMS = ("updates", "evaluations", "proposals", "nan_evaluations", "failed_searches", "chains")

LABELS = {"U": "text", "T": "text", "O": "text", "M": "dates", "m": "durations"}
"""Kinds of labels that a store may return in another type than memory."""

OF_THE_WHOLE = ("effective_sample_size", "rhat", "first_proposal_acceptance_rate")
"""What cannot be said of the whole from the parts."""


def join(parts: Sequence[xarray.DataTree | str | os.PathLike[str]]) -> xarray.DataTree:
    """Put together results of runs that differ in their chains only.

    For runs on several machines: processes under `jax.distributed`, each with its share of the chains, or the tasks of
    a Slurm array, each with chains of its own, `chains=[task]`. The result is the one that a single run gives.

    Parameters
    ----------
    parts : sequence of DataTree or path
        What `sample` returned, or the stores it wrote to. They must have the same seed, prior, likelihood (one of your
        own is compared by its name only), move, warm-up, thinning, `keep`, `dims` and `coords`, and no chain in common.

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
    trees = [part if isinstance(part, xarray.DataTree) else open_tree(as_path(part)) for part in parts]
    if not trees:
        raise ValueError("join was given no results.")
    _check(trees)
    _check_variables(trees)
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
        if "fingerprint" in tree.attrs and "fingerprint" in trees[0].attrs:  # results of older versions have none
            name = differing(trees[0].attrs["fingerprint"], tree.attrs["fingerprint"])
            if name is not None:
                said = f" Both say {tree.attrs[name]}, but the numbers in it differ." if name in tree.attrs else ""
                raise ValueError(
                    f"part {number} (counted from 0) was made with another {name} than the first.{said} Only the "
                    "chains of one run can be joined."
                )
    chains = [int(chain) for tree in trees for chain in np.asarray(tree["posterior"].dataset["chain"])]
    twice = sorted({chain for chain in chains if chains.count(chain) > 1})
    if twice:
        raise ValueError(
            f"chain {twice[0]} is in more than one part. Give each run chains of its own: chains=[0, 1], chains=[2, 3]."
        )


def _check_variables(trees: list[xarray.DataTree]) -> None:
    """Refuse parts whose groups hold different variables, types, dimensions or labels."""
    for number, tree in enumerate(trees):
        ours, theirs = _forms(tree), _forms(trees[0])
        for name in sorted(ours.keys() | theirs.keys()):
            if ours.get(name) != theirs.get(name):
                raise ValueError(
                    f"part {number} (counted from 0) has {_in_words(name, ours)}, and the first has "
                    f"{_in_words(name, theirs)}. Make all parts with the same keep, dims and coords."
                )
        for group in tree.children:
            for name, labels in tree[group].coords.items():
                first = trees[0][group].coords[name]
                if name not in ("chain", "draw") and not np.array_equal(labels, first):
                    raise ValueError(
                        f"part {number} (counted from 0) has the labels {_some(labels)} for {name}, and the first has "
                        f"{_some(first)}. Make all parts with the same coords."
                    )


def _forms(tree: xarray.DataTree) -> dict[str, tuple[str, dict[str, int]]]:
    """Return type and sizes of every variable, the lengths of chains and draws left out, by group and name."""
    return {
        f"{group}/{name}": (
            LABELS.get(values.dtype.kind, str(values.dtype)),
            {str(dim): -1 if dim in ("chain", "draw") else length for dim, length in values.sizes.items()},
        )
        for group, node in tree.children.items()
        for name, values in node.variables.items()
    }


def _in_words(name: str, forms: dict[str, tuple[str, dict[str, int]]]) -> str:
    if name not in forms:
        return f"no {name}"
    dtype, sizes = forms[name]
    return f"{name} as {dtype} with dimensions ({', '.join(d if n < 0 else f'{d}: {n}' for d, n in sizes.items())})"


def _some(labels: Any) -> str:
    return f"{', '.join(map(str, labels.values[:3].tolist()))}{', ...' if labels.size > 3 else ''}"


def _without_address(value: Any) -> str:
    """What a result says of a function, less where it was in memory."""
    return re.sub(r" at 0x[0-9a-f]+", "", str(value))
