"""`join`: combine the results of runs that divided the chains among them."""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from ellipslice.checks import as_path
from ellipslice.store.fingerprint import first_difference
from ellipslice.store.read import open_tree

if TYPE_CHECKING:
    import xarray

EQUAL_ATTRIBUTES = ("seed", "prior", "likelihood", "move", "warmup", "thin", "precision", "ellipslice_version")
"""Attributes that must be equal in all parts. Moves with a fitted reference may differ, because of rounding error."""

SUMMED_ATTRIBUTES = ("updates", "evaluations", "proposals", "nan_evaluations", "failed_searches", "chains")
"""Attributes of the result that are sums over the parts."""

LABEL_KINDS = {"U": "text", "T": "text", "O": "text", "M": "dates", "m": "durations"}
"""Types of labels, by NumPy kind. A store may return another type than memory, so only the kind is compared."""

DROPPED_ATTRIBUTES = ("effective_sample_size", "rhat", "first_proposal_acceptance_rate")
"""Attributes of the parts that cannot be computed for the joined result."""


def join(parts: Sequence[xarray.DataTree | str | os.PathLike[str]]) -> xarray.DataTree:
    """Combine the results of runs that differ only in their chains, such as runs on several machines.

    Examples are processes under `jax.distributed`, and the tasks of a Slurm array with `chains=[task]`. The draws are
    those of a single run with all chains.

    Parameters
    ----------
    parts : sequence of DataTree or path
        Results of `sample` or `resume`, or paths of their stores. All parts must have the same seed, prior, likelihood,
        move, warm-up, thinning, precision, `keep`, `dims` and `coords`, and no chain in common. A log-likelihood that
        is not a class of ellipslice is compared by its name only.

    Returns
    -------
    xarray.DataTree
        All chains in the order of their indices, with the number of draws of the shortest part. Counts in the
        attributes are sums over the parts, and `sampling_time` (seconds) is the largest.

    Raises
    ------
    TypeError
        If `parts` is a single result or path.
    ValueError
        If `parts` is empty, if parts differ in more than their chains, if a chain is in two parts, or if a store is
        damaged.
    FileNotFoundError
        If there is no store at a path.

    Examples
    --------
    >>> import numpy as np
    >>> import ellipslice as es
    >>> def log_likelihood(f):
    ...     return -((f - 1.0) ** 2).sum()
    >>> prior, options = es.Diagonal(np.ones(3)), {"draws": 100, "seed": 1}
    >>> parts = [es.sample(log_likelihood, prior, chains=[i, i + 1], **options) for i in (0, 2)]
    >>> joined = es.join(parts)
    >>> (
    ...     joined.posterior.f.shape,
    ...     bool((joined.posterior.f == es.sample(log_likelihood, prior, **options).posterior.f).all()),
    ... )
    ((4, 100, 3), True)
    """
    import xarray

    if isinstance(parts, str | os.PathLike | xarray.DataTree):
        raise TypeError(
            f"join requires a list of results or of paths of stores, but it was given a {type(parts).__name__}."
        )
    trees = [part if isinstance(part, xarray.DataTree) else open_tree(as_path(part)) for part in parts]
    if not trees:
        raise ValueError("join was given an empty list. Give at least one result or path.")
    _check(trees)
    trees = _with_common_statistics(trees)
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
    joined = xarray.DataTree.from_dict(groups, name="ellipslice")
    first = {name: value for name, value in trees[0].attrs.items() if name not in DROPPED_ATTRIBUTES}
    ends = sorted({tree.attrs["stopped_by"] for tree in trees})
    joined.attrs.update(
        first
        | {name: sum(tree.attrs[name] for tree in trees) for name in SUMMED_ATTRIBUTES}
        | {name: max(tree.attrs[name] for tree in trees) for name in ("sampling_time", "interrupted")}
        | {"draws": draws, "stopped_by": " and ".join(ends)}
        | _mean_acceptance(trees)
    )
    return joined


def _mean_acceptance(trees: list[xarray.DataTree]) -> dict[str, float]:
    """Return the fraction of first proposals that were accepted, if all parts have it."""
    name = "first_proposal_acceptance_rate"
    if not all(name in tree.attrs for tree in trees):
        return {}
    rates, updates = ([tree.attrs[key] for tree in trees] for key in (name, "updates"))
    return {name: float(np.average(rates, weights=updates))}


def _check(trees: list[xarray.DataTree]) -> None:
    """Raise if the results are not parts of one run."""
    for number, tree in enumerate(trees):
        missing = [name for name in (*EQUAL_ATTRIBUTES, *SUMMED_ATTRIBUTES) if name not in tree.attrs]
        if missing:
            raise ValueError(
                f"part {number} (counted from 0) is not a result of `sample`: it has no attribute {missing[0]}. Give "
                "results of `sample`, or paths of their stores."
            )
        fitted = "reference" in tree.attrs and "reference" in trees[0].attrs
        for name in EQUAL_ATTRIBUTES:
            if name == "move" and fitted:
                continue
            if _without_address(tree.attrs[name]) != _without_address(trees[0].attrs[name]):
                raise ValueError(
                    f"part {number} (counted from 0) was made with {name} = {tree.attrs[name]!r}, but the first with "
                    f"{trees[0].attrs[name]!r}. Join only parts of one run."
                )
        if "fingerprint" in tree.attrs and "fingerprint" in trees[0].attrs:  # results of older versions have none
            name = first_difference(trees[0].attrs["fingerprint"], tree.attrs["fingerprint"])
            if name is not None:
                shown = f" Both are {tree.attrs[name]}, but with different numbers." if name in tree.attrs else ""
                raise ValueError(
                    f"part {number} (counted from 0) was made with another {name} than the first.{shown} Join only "
                    "parts of one run."
                )
    chains = [int(chain) for tree in trees for chain in np.asarray(tree["posterior"].dataset["chain"])]
    twice = sorted({chain for chain in chains if chains.count(chain) > 1})
    if twice:
        raise ValueError(
            f"chain {twice[0]} is in more than one part. Give each run its own chains, such as chains=[0, 1] and "
            "chains=[2, 3]."
        )


def _with_common_statistics(trees: list[xarray.DataTree]) -> list[xarray.DataTree]:
    """Return results with fitted moves without the statistics that not all of their moves have."""
    names = [set(tree["sample_stats"].data_vars) for tree in trees]
    if not all("reference" in tree.attrs for tree in trees) or all(own == names[0] for own in names):
        return trees
    common = [name for name in trees[0]["sample_stats"].data_vars if name in set.intersection(*names)]
    copies = [tree.copy(deep=False) for tree in trees]
    for tree in copies:
        tree["sample_stats"].dataset = tree["sample_stats"].to_dataset()[common]
    return copies


def _check_variables(trees: list[xarray.DataTree]) -> None:
    """Raise if the groups of the parts contain different variables, types, dimensions or labels."""
    for number, tree in enumerate(trees):
        ours, theirs = _forms(tree), _forms(trees[0])
        for name in sorted(ours.keys() | theirs.keys()):
            if ours.get(name) != theirs.get(name):
                raise ValueError(
                    f"part {number} (counted from 0) has {_describe(name, ours)}, but the first has "
                    f"{_describe(name, theirs)}. Make all parts with the same keep, dims and coords."
                )
        for group in tree.children:
            for name, labels in tree[group].coords.items():
                first = trees[0][group].coords[name]
                if name not in ("chain", "draw") and not np.array_equal(labels, first):
                    raise ValueError(
                        f"part {number} (counted from 0) has the labels {_first_labels(labels)} for {name}, but the "
                        f"first has {_first_labels(first)}. Make all parts with the same coords."
                    )


def _forms(tree: xarray.DataTree) -> dict[str, tuple[str, dict[str, int]]]:
    """Return type and dimensions of every variable, by group and name. Chains and draws have length -1."""
    return {
        f"{group}/{name}": (
            LABEL_KINDS.get(values.dtype.kind, str(values.dtype)),
            {str(dim): -1 if dim in ("chain", "draw") else length for dim, length in values.sizes.items()},
        )
        for group, node in tree.children.items()
        for name, values in node.variables.items()
    }


def _describe(name: str, forms: dict[str, tuple[str, dict[str, int]]]) -> str:
    """Return type and dimensions of a variable as text."""
    if name not in forms:
        return f"no {name}"
    dtype, sizes = forms[name]
    return f"{name} as {dtype} with dimensions ({', '.join(d if n < 0 else f'{d}: {n}' for d, n in sizes.items())})"


def _first_labels(labels: Any) -> str:
    """Return the first three labels as text."""
    return f"{', '.join(map(str, labels.values[:3].tolist()))}{', ...' if labels.size > 3 else ''}"


def _without_address(value: Any) -> str:
    """Return an attribute as text, without the memory addresses in the repr of functions."""
    return re.sub(r" at 0x[0-9a-f]+", "", str(value))
