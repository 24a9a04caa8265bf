"""Reading the draws of a store: lazily, also while it is being written, and without trusting it."""

from __future__ import annotations

import json
import warnings
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import xarray

CODECS = {"bytes", "zstd", "vlen-utf8"}
"""How chunks that ellipslice writes can be encoded. Zarr knows others, and one of them unpickles what it reads."""


def open_tree(path: Path) -> xarray.DataTree:
    """The draws, as `sample` returns them, to be read when they are asked for.

    Whatever is in the folder, no code of it is run: metadata come from one file, and of those only what ellipslice
    writes is accepted, before Zarr sees them.
    """
    import xarray

    check_plain(path)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of what is refused below
            tree = xarray.open_datatree(str(path), engine="zarr", consolidated=True, zarr_format=3)
        for group in ("posterior", "sample_stats"):
            _ = tree[group].sizes["chain"], tree[group].sizes["draw"]
    except (ValueError, TypeError, LookupError, AttributeError, RuntimeError, ArithmeticError, MemoryError) as error:
        raise ValueError(f"{path} is damaged, and its draws cannot be read: {error}") from None
    tree.name = "ellipslice"
    return tree


def check_plain(path: Path) -> None:
    """Refuse a store whose metadata say anything that ellipslice does not write."""
    if not path.exists():
        raise FileNotFoundError(f"there is no store at {path}.")
    root = read_json(path / "zarr.json")
    together = root.get("consolidated_metadata")
    nodes = together.get("metadata") if isinstance(together, dict) else None
    if root.get("zarr_format") != 3 or not isinstance(root.get("attributes"), dict) or not isinstance(nodes, dict):
        raise ValueError(f"{path / 'zarr.json'} is not the metadata of a store that ellipslice wrote.")
    for name, node in nodes.items():
        if not is_inside(name) or not isinstance(node, dict) or node.get("zarr_format") != 3:
            raise ValueError(f"{path / 'zarr.json'} names {name!r}, which is nothing that ellipslice writes.")
        if node.get("node_type") == "group" and "/" not in name:
            continue
        if node.get("node_type") != "array" or not (_named(node.get("codecs")) <= CODECS):
            raise ValueError(
                f"{path / 'zarr.json'} says that {name} is encoded by {sorted(map(str, _named(node.get('codecs'))))}, "
                "as ellipslice never writes it. It is not read."
            )
        if node.get("storage_transformers"):
            raise ValueError(f"{path / 'zarr.json'} says that {name} is stored elsewhere. It is not read.")


def _named(codecs: Any) -> set[Any]:
    entries = codecs if isinstance(codecs, list) else [codecs]
    return {entry.get("name") if isinstance(entry, dict) else repr(entry) for entry in entries}


def is_inside(name: str) -> bool:
    """Whether it names a group of the store, or an array of one; an untrusted store might name what is elsewhere."""
    group, _, own = name.partition("/")
    return group in ("posterior", "sample_stats") and not own.startswith(".") and not {"/", "\\"} & set(own)


def read_json(path: Path) -> dict[str, Any]:
    """A file that holds a JSON object."""
    try:
        found = json.loads(path.read_bytes())
    except FileNotFoundError:
        raise ValueError(f"{path} is missing: the store is damaged.") from None
    except (ValueError, RecursionError):
        raise ValueError(f"{path} is damaged: it is not JSON.") from None
    if not isinstance(found, dict):
        raise ValueError(f"{path} is damaged: it is not a JSON object.")
    return found
