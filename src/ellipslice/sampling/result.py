"""Build the result: an xarray DataTree with the groups of ArviZ."""

from __future__ import annotations

import sys
import threading
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from ellipslice.sampling.keep import Kept

if TYPE_CHECKING:
    import xarray


def import_in_background() -> None:
    """Import in a thread what a result needs, which takes a second in a new process. XLA compiles in the meantime."""
    if "xarray" not in sys.modules:
        threading.Thread(target=_first_array, daemon=True).start()


def _first_array() -> None:
    import xarray

    xarray.DataArray([0.0])  # imports other array libraries, if they are installed


def check_names(kept: Kept, dims: Mapping[str, Sequence[str]] | None, coords: Mapping[str, Any] | None) -> None:
    """Raise if dims or coords do not match the variables of a draw."""
    dims, coords = dims or {}, coords or {}
    for name, given in (("dims", dims), ("coords", coords)):
        if not isinstance(given, Mapping):
            raise TypeError(f"{name} must be a mapping, such as dims={{'f': ['year']}}, but it is {given!r}.")
    lengths: dict[str, tuple[str, int]] = {}
    for name, labels in dims.items():
        if name not in kept:
            stored = (
                f"the stored variables are {', '.join(kept)}. Use their names"
                if kept
                else "keep=False stores none. Leave dims out"
            )
            raise ValueError(f"dims names {name!r}, but {stored}.")
        shape = kept[name].shape[1:]
        if isinstance(labels, str) or not isinstance(labels, Sequence | np.ndarray) or len(labels) != len(shape):
            raise ValueError(
                f"dims[{name!r}] is {labels!r}, but {name} has shape {shape}. Give a list of {len(shape)} names."
            )
        for label, length in zip(labels, shape, strict=True):
            _check_dimension(name, label, kept)
            owner, known = lengths.setdefault(label, (name, length))
            if length != known:
                raise ValueError(
                    f"dims uses {label!r} for {owner}, where its length is {known}, and for {name}, where it is "
                    f"{length}. Choose another name for one of them."
                )
    for label, values in coords.items():
        _check_coordinate(label, values, lengths)


def _check_dimension(name: str, label: Any, kept: Kept) -> None:
    """Raise if a label of dims cannot be the name of a dimension."""
    if not isinstance(label, str):
        raise TypeError(f"dims[{name!r}] contains {label!r}, but the name of a dimension must be a string.")
    if label in ("chain", "draw"):
        raise ValueError(f"dims[{name!r}] uses {label!r}, which is a dimension of every variable. Choose another name.")
    if label in kept:
        raise ValueError(f"dims[{name!r}] uses {label!r}, which is the name of a variable. Choose another name.")


def _check_coordinate(label: str, values: Any, lengths: dict[str, tuple[str, int]]) -> None:
    """Raise if the labels of a coordinate do not match its dimension."""
    if label == "chain":
        raise ValueError("coords names 'chain', but chains are labelled by their indices. Set these with chains=[...].")
    if label not in lengths:
        raise ValueError(f"coords names {label!r}, which is not in dims. Give dims such as {{'f': [{label!r}]}}.")
    name, length = lengths[label]
    shape = np.shape(values)
    if len(shape) != 1:
        raise ValueError(f"coords[{label!r}] has shape {shape}; expected a list of {length} labels.")
    if shape[0] != length:
        raise ValueError(
            f"coords[{label!r}] has {shape[0]} values, but this dimension of {name} has length {length}. Give {length}."
        )


def build_tree(
    latents: Kept,
    statistics: Kept,
    draws: int,
    chains: Sequence[int],
    dims: Mapping[str, Sequence[str]] | None,
    coords: Mapping[str, Any] | None,
    attrs: Mapping[str, Any],
) -> xarray.DataTree:
    """Return the result: groups `posterior` and `sample_stats` with the first `draws` draws, and attributes.

    `latents` and `statistics` are arrays of shape (chains, draws, ...).
    """
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
    """Return a result with one draw of zeros, which defines the arrays of a store. `statistics` are names and types."""
    shape = (len(chains), 1)
    latents = {name: np.zeros((*shape, *value.shape[1:]), value.dtype) for name, value in kept.items()}
    zeros = {name: np.zeros(shape, dtype) for name, dtype in statistics.items()}
    return build_tree(latents, zeros, 1, chains, dims, coords, attrs)
