"""Create the store of a run."""

from __future__ import annotations

import json
import os
import shutil
import uuid
import zlib
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from ellipslice.store.journal import Snapshot, replace, sync_folder, with_checksum
from ellipslice.store.layout import PRIVATE, checksums, create_arrays, has_draw_axis
from ellipslice.store.rewrite import REPLACED
from ellipslice.store.store import CHANGING, FORMAT, Store

if TYPE_CHECKING:
    import xarray


def create(
    path: Path,
    setup: dict[str, Any],
    arrays: Sequence[np.ndarray],
    skeleton: xarray.DataTree,
    snapshot: Snapshot,
) -> Store:
    """Create a store with everything that `resume` needs. If that fails, leave nothing behind.

    `skeleton` is a result with one draw; its groups, names and types determine the arrays. `setup` and `arrays` are the
    specification of the run, `snapshot` its state before the first update.
    """
    check_free(path)
    partial = path.with_name(f"{path.name}.{uuid.uuid4().hex[:8]}.partial")
    (partial / PRIVATE).mkdir(parents=True)
    try:
        metadata = create_arrays(partial, skeleton)
        saved = [_save(partial / PRIVATE / f"{i}.npy", array) for i, array in enumerate(arrays)]
        static = {name: value for name, value in skeleton.attrs.items() if name not in CHANGING}
        labels = {
            name: checksums(partial / name)
            for name, node in metadata.items()
            if node["node_type"] == "array" and not has_draw_axis(node)
        }
        full_setup = {**setup, "format": FORMAT, "arrays": saved, "metadata": metadata, "attributes": static}
        full_setup["labels"] = labels
        replace(partial / PRIVATE / "setup", with_checksum(full_setup))
        store = Store(partial, json.loads(json.dumps(full_setup)))
        store.commit(snapshot)
        for file in partial.rglob("*"):
            if file.is_file():
                with file.open("r+b") as opened:
                    os.fsync(opened.fileno())
            else:
                sync_folder(file)
        try:
            partial.rename(path)
        except OSError:
            check_free(path)
            raise
        sync_folder(path.parent)
    except BaseException:
        shutil.rmtree(partial, ignore_errors=True)
        raise
    moved = Store(path, store.setup)
    moved.lock()
    moved.restore(store.journal, store.states)
    return moved


def check_free(path: Path) -> None:
    """Raise if the path exists, or if Zarr is not installed."""
    try:
        import zarr  # noqa: F401
    except ImportError:
        raise ImportError("store= requires zarr. Install it with: pip install 'ellipslice[store]'.") from None
    if not path.exists() and not path.with_name(path.name + REPLACED).exists():
        return
    if not path.exists() or (path / PRIVATE / "setup").exists():
        raise FileExistsError(
            f"{path} holds a run already. Continue it with ellipslice.resume({str(path)!r}, log_likelihood), delete "
            "it, or choose another path."
        )
    raise FileExistsError(f"{path} exists and is not a store of ellipslice. Choose another path.")


def _save(path: Path, array: np.ndarray) -> int:
    """Write an array to a file. Return the checksum of the file."""
    with path.open("wb") as file:
        np.save(file, array, allow_pickle=False)
    return zlib.crc32(path.read_bytes())
