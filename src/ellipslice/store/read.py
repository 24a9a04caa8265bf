"""Read the draws of a store lazily, without trusting its content. Another process may be writing to it."""

from __future__ import annotations

import json
import warnings
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import xarray

RESTORE = "Restore the store from a backup, or start a new run."
"""Advice about a damaged store, for messages."""

CODECS = {"bytes", "zstd", "vlen-utf8"}
"""Encodings of chunks that ellipslice writes. Zarr supports others, one of which unpickles what it reads."""


def open_tree(path: Path) -> xarray.DataTree:
    """Return the draws as a DataTree, like `sample`. Values are read from the disk when they are used.

    No code in the folder is ever run. The metadata come from one file and are checked before Zarr reads them: only what
    ellipslice writes is accepted.
    """
    import xarray

    check_codecs(path)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # what xarray warns of is rejected below
            tree = xarray.open_datatree(str(path), engine="zarr", consolidated=True, zarr_format=3)
        for group in ("posterior", "sample_stats"):
            _ = tree[group].sizes["chain"], tree[group].sizes["draw"]
    except (ValueError, TypeError, LookupError, AttributeError, RuntimeError, ArithmeticError, MemoryError) as error:
        raise ValueError(f"{path} is damaged and its draws cannot be read. {RESTORE} The error was: {error}") from None
    tree.name = "ellipslice"
    return tree


def check_codecs(path: Path) -> None:
    """Raise if the metadata of a store contain anything that ellipslice does not write."""
    if not path.exists():
        raise FileNotFoundError(f"there is no store at {path}. Check the path.")
    root = read_json(path / "zarr.json")
    consolidated = root.get("consolidated_metadata")
    nodes = consolidated.get("metadata") if isinstance(consolidated, dict) else None
    if root.get("zarr_format") != 3 or not isinstance(root.get("attributes"), dict) or not isinstance(nodes, dict):
        raise ValueError(f"{path / 'zarr.json'} is not the metadata of a store that ellipslice wrote. {RESTORE}")
    for name, node in nodes.items():
        if not is_inside(name) or not isinstance(node, dict) or node.get("zarr_format") != 3:
            raise ValueError(f"{path / 'zarr.json'} names {name!r}, which ellipslice does not write. {RESTORE}")
        if node.get("node_type") == "group" and "/" not in name:
            continue
        if node.get("node_type") != "array" or not (_codec_names(node.get("codecs")) <= CODECS):
            raise ValueError(
                f"{path / 'zarr.json'}: {name} is encoded by {sorted(map(str, _codec_names(node.get('codecs'))))}, "
                "which ellipslice does not write. For safety it is not read. Open it only if you trust its origin, "
                "with xarray.open_datatree."
            )
        if node.get("storage_transformers"):
            raise ValueError(
                f"{path / 'zarr.json'}: {name} has storage transformers, which ellipslice does not write. For safety "
                "it is not read. Open it only if you trust its origin, with xarray.open_datatree."
            )


def _codec_names(codecs: Any) -> set[Any]:
    entries = codecs if isinstance(codecs, list) else [codecs]
    return {entry.get("name") if isinstance(entry, dict) else repr(entry) for entry in entries}


def is_inside(name: str) -> bool:
    """Return whether a name is that of a group of the store or of an array in one.

    A store that is not trusted might name files elsewhere.
    """
    group, _, own = name.partition("/")
    return group in ("posterior", "sample_stats") and not own.startswith(".") and not {"/", "\\"} & set(own)


def read_json(path: Path) -> dict[str, Any]:
    """Return the JSON object in a file."""
    try:
        found = json.loads(path.read_bytes())
    except FileNotFoundError:
        raise ValueError(f"{path} is missing: the store is damaged. {RESTORE}") from None
    except (ValueError, RecursionError):
        raise ValueError(f"{path} is damaged: it is not JSON. {RESTORE}") from None
    if not isinstance(found, dict):
        raise ValueError(f"{path} is damaged: it is not a JSON object. {RESTORE}")
    return found
