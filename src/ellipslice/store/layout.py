"""How the arrays of a store are laid out: what Zarr is told of them, which grow, and their checksums."""

from __future__ import annotations

import json
import shutil
import warnings
import zlib
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ellipslice.store.columns import LONGEST, chunk_shape
from ellipslice.store.journal import replace
from ellipslice.store.read import read_json

if TYPE_CHECKING:
    import xarray


def lay_out(path: Path, skeleton: xarray.DataTree) -> dict[str, Any]:
    """Let xarray and zarr write groups, coordinates and metadata; what they say of every node, by its name."""
    import zarr

    encoding: dict[str, dict[str, Any]] = {}
    for group, node in skeleton.children.items():
        own = encoding[f"/{group}"] = {}
        for name, variable in node.variables.items():
            if "draw" not in variable.dims:
                continue
            chains = variable.sizes.get("chain", 1)
            chunks = (LONGEST,) if name == "draw" else chunk_shape(chains, variable.values[0, 0])
            own[str(name)] = {"chunks": chunks, "compressors": None, "filters": None}
    with warnings.catch_warnings():
        # Consolidated metadata and strings are not in Zarr's specification yet; zarr writes and reads them.
        warnings.simplefilter("ignore")
        skeleton.to_zarr(path, zarr_format=3, consolidated=False, mode="a", encoding=encoding)
        zarr.consolidate_metadata(str(path))
    metadata = read_json(path / "zarr.json")["consolidated_metadata"]["metadata"]
    for name, entry in metadata.items():
        if grows(entry):
            shutil.rmtree(path / name / "c", ignore_errors=True)
        (path / name / "zarr.json").write_bytes(_as_json(resized(entry, 0)))
    return metadata


def grows(metadata: dict[str, Any]) -> bool:
    """Whether a node is an array with a row for each draw."""
    return metadata["node_type"] == "array" and "draw" in (metadata.get("dimension_names") or ())


def resized(metadata: dict[str, Any], draws: int) -> dict[str, Any]:
    """What is said of a node when there are so many draws."""
    if not grows(metadata):
        return metadata
    named = zip(metadata["dimension_names"], metadata["shape"], strict=True)
    return {**metadata, "shape": [draws if name == "draw" else length for name, length in named]}


def same_but_for_length(found: dict[str, Any], expected: dict[str, Any]) -> bool:
    """Whether a file says of a node what it should, but for the number of draws."""
    try:
        return resized(found, 0) == resized(expected, 0)
    except (KeyError, TypeError, ValueError):
        return False


def write_json(path: Path, content: dict[str, Any]) -> None:
    """Replace a file of metadata."""
    replace(path, _as_json(content))


def _as_json(content: dict[str, Any]) -> bytes:
    return json.dumps(content, indent=1, sort_keys=True).encode()


def checksums(folder: Path) -> dict[str, int]:
    """Of the chunks of an array, by their names."""
    chunks = sorted(path for path in folder.glob("c/**/*") if path.is_file())
    return {str(path.relative_to(folder).as_posix()): zlib.crc32(path.read_bytes()) for path in chunks}
