"""Layout of the arrays of a store: Zarr metadata, the arrays that grow with the draws, and checksums of the others."""

from __future__ import annotations

import json
import shutil
import warnings
import zlib
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ellipslice.store.arrays import MAX_CHUNK_DRAWS, chunk_shape
from ellipslice.store.journal import replace
from ellipslice.store.read import read_json

if TYPE_CHECKING:
    import xarray

PRIVATE = ".ellipslice"
"""Name of the folder with the data that `resume` needs."""


def create_arrays(path: Path, skeleton: xarray.DataTree) -> dict[str, Any]:
    """Create groups, coordinates and metadata with xarray and zarr. Return the metadata of every node, by its name."""
    import zarr

    encoding: dict[str, dict[str, Any]] = {}
    for group, node in skeleton.children.items():
        own = encoding[f"/{group}"] = {}
        for name, variable in node.variables.items():
            if "draw" not in variable.dims:
                continue
            chains = variable.sizes.get("chain", 1)
            chunks = (MAX_CHUNK_DRAWS,) if name == "draw" else chunk_shape(chains, variable.values[0, 0])
            own[str(name)] = {"chunks": chunks, "compressors": None, "filters": None}
    with warnings.catch_warnings():
        # zarr warns that consolidated metadata and strings, which it supports, are not in Zarr's specification yet.
        warnings.simplefilter("ignore")
        skeleton.to_zarr(path, zarr_format=3, consolidated=False, mode="a", encoding=encoding)
        zarr.consolidate_metadata(str(path))
    metadata = read_json(path / "zarr.json")["consolidated_metadata"]["metadata"]
    for name, entry in metadata.items():
        if has_draw_axis(entry):
            shutil.rmtree(path / name / "c", ignore_errors=True)
        (path / name / "zarr.json").write_bytes(_as_json(resized(entry, 0)))
    return metadata


def has_draw_axis(metadata: dict[str, Any]) -> bool:
    """Return whether a node is an array with a row for each draw."""
    return metadata["node_type"] == "array" and "draw" in (metadata.get("dimension_names") or ())


def resized(metadata: dict[str, Any], draws: int) -> dict[str, Any]:
    """Return the metadata of a node for a given number of draws."""
    if not has_draw_axis(metadata):
        return metadata
    named = zip(metadata["dimension_names"], metadata["shape"], strict=True)
    return {**metadata, "shape": [draws if name == "draw" else length for name, length in named]}


def equal_except_length(found: dict[str, Any], expected: dict[str, Any]) -> bool:
    """Return whether two metadata of a node are equal except for the number of draws."""
    try:
        return resized(found, 0) == resized(expected, 0)
    except (KeyError, TypeError, ValueError):
        return False


def write_json(path: Path, content: dict[str, Any]) -> None:
    """Replace a metadata file."""
    replace(path, _as_json(content))


def _as_json(content: dict[str, Any]) -> bytes:
    return json.dumps(content, indent=1, sort_keys=True).encode()


def checksums(folder: Path) -> dict[str, int]:
    """Return the checksums of the chunks of an array, by their paths in its folder."""
    chunks = sorted(path for path in folder.glob("c/**/*") if path.is_file())
    return {str(path.relative_to(folder).as_posix()): zlib.crc32(path.read_bytes()) for path in chunks}
