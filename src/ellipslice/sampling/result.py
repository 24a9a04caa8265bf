"""The result: an xarray DataTree as ArviZ lays it out, with no class of ours to learn."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from ellipslice.sampling.keep import Kept

if TYPE_CHECKING:
    import xarray


def check_names(kept: Kept, dims: Mapping[str, Sequence[str]] | None, coords: Mapping[str, Any] | None) -> None:
    """Refuse dims and coords that do not fit what is kept of a draw, before the run rather than after it."""
    dims, coords = dims or {}, coords or {}
    for name, given in (("dims", dims), ("coords", coords)):
        if not isinstance(given, Mapping):
            raise TypeError(f"{name} must be a mapping, such as dims={{'f': ['year']}}, but it is {given!r}.")
    lengths: dict[str, tuple[str, int]] = {}
    for name, labels in dims.items():
        if name not in kept:
            what = f"what is kept is {', '.join(kept)}" if kept else "keep=False keeps no variable. Leave dims out"
            raise ValueError(f"dims names {name!r}, but {what}.")
        shape = kept[name].shape[1:]
        if isinstance(labels, str) or not isinstance(labels, Sequence | np.ndarray) or len(labels) != len(shape):
            raise ValueError(
                f"dims[{name!r}] is {labels!r}; {name} has shape {shape}, so give a list of {len(shape)} names."
            )
        for label, length in zip(labels, shape, strict=True):
            _check_dimension(name, label, kept)
            owner, known = lengths.setdefault(label, (name, length))
            if length != known:
                raise ValueError(
                    f"dims gives {label!r} to {owner}, which has {known} values along it, and to {name}, which has "
                    f"{length}. A dimension has one length: choose another name for one of them."
                )
    for label, values in coords.items():
        _check_coordinate(label, values, lengths)


def _check_dimension(name: str, label: Any, kept: Kept) -> None:
    if not isinstance(label, str):
        raise TypeError(f"dims[{name!r}] holds {label!r}, but a dimension's name is a string.")
    if label in ("chain", "draw"):
        raise ValueError(f"dims[{name!r}] uses {label!r}, which every variable has already. Choose another name.")
    if label in kept:
        raise ValueError(f"dims[{name!r}] uses {label!r}, which is the name of a variable. Choose another name.")


def _check_coordinate(label: str, values: Any, lengths: dict[str, tuple[str, int]]) -> None:
    if label == "chain":
        raise ValueError("coords names 'chain'; chains are labelled by their numbers. Choose those with chains=[...].")
    if label not in lengths:
        raise ValueError(f"coords names {label!r}, which is not in dims. Give dims such as {{'f': [{label!r}]}}.")
    name, length = lengths[label]
    shape = np.shape(values)
    if len(shape) != 1:
        raise ValueError(f"coords[{label!r}] has shape {shape}; expected a list with a value for each of {length}.")
    if shape[0] != length:
        raise ValueError(f"coords[{label!r}] has {shape[0]} values; {name} has {length} along it.")


def build_tree(
    latents: Kept,
    statistics: Kept,
    draws: int,
    chains: Sequence[int],
    dims: Mapping[str, Sequence[str]] | None,
    coords: Mapping[str, Any] | None,
    attrs: Mapping[str, Any],
) -> xarray.DataTree:
    """Groups `posterior` and `sample_stats`, with the first `draws` of arrays (chains, draws, ...); `attrs` on top."""
    import xarray

    labels = {"chain": np.asarray(chains), "draw": np.arange(draws)}

    def dataset(variables: Mapping[str, np.ndarray]) -> xarray.Dataset:
        shaped, used = {}, dict(labels)
        for name, values in variables.items():
            own = list((dims or {}).get(name, [f"{name}_dim_{i}" for i in range(values.ndim - 2)]))
            shaped[name] = (("chain", "draw", *own), values[:, :draws])
            for label, length in zip(own, values.shape[2:], strict=True):
                used[label] = np.asarray((coords or {}).get(label, np.arange(length)))
        library = {"inference_library": "ellipslice", "inference_library_version": attrs["ellipslice_version"]}
        return xarray.Dataset(shaped, used, {"created_at": attrs["created_at"], **library})

    tree = xarray.DataTree.from_dict(
        {"posterior": dataset(latents), "sample_stats": dataset(statistics)}, name="ellipslice"
    )
    tree.attrs.update(attrs)
    return tree


def empty_tree(
    kept: Kept,
    statistics: Mapping[str, Any],
    chains: Sequence[int],
    dims: Mapping[str, Sequence[str]] | None,
    coords: Mapping[str, Any] | None,
    attrs: Mapping[str, Any],
) -> xarray.DataTree:
    """Return a result with one draw of zeros, from which a store is laid out; `statistics` are names and types."""
    shape = (len(chains), 1)
    latents = {name: np.zeros((*shape, *value.shape[1:]), value.dtype) for name, value in kept.items()}
    zeros = {name: np.zeros(shape, dtype) for name, dtype in statistics.items()}
    return build_tree(latents, zeros, 1, chains, dims, coords, attrs)
