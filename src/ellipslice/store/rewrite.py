"""Remove draws of a store: write a new folder, and put it in the place of the old one.

    run.zarr             the store
    run.zarr.rewritten   the new folder, until it is complete
    run.zarr.replaced    the old folder, between the two renames

A process can be killed at any point: `finish_rewrite` restores the old folder if the new one is not in its place, and
removes what is left over. The run then continues from the old folder, with the same draws.
"""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from ellipslice.store.journal import Snapshot, replace, sync_folder, with_checksum
from ellipslice.store.layout import PRIVATE

if TYPE_CHECKING:
    from ellipslice.store.store import Store

REWRITTEN, REPLACED = ".rewritten", ".replaced"


def rewrite(store: Store, rows: slice, changed: Mapping[str, int], snapshot: Snapshot) -> None:
    """Keep only some draws of each chain of a locked store.

    Parameters
    ----------
    store : Store
    rows : slice
        Draws that remain, in the old numbering.
    changed : mapping of str to int
        New values of the warm-up and the thinning.
    snapshot : Snapshot
        State of the run with the remaining draws.
    """
    path = store.path
    new_path, old_path = (path.with_name(path.name + ending) for ending in (REWRITTEN, REPLACED))
    shutil.rmtree(new_path, ignore_errors=True)
    shutil.copytree(path, new_path, ignore=_without_draws(store))
    setup = json.loads(json.dumps(store.setup)) | changed
    setup["attributes"] |= changed
    replace(new_path / PRIVATE / "setup", with_checksum(setup))
    new = type(store)(new_path, setup)
    draws = range(min(store.written))[rows]
    for chain in range(len(setup["chains"])):
        latents, statistics = (
            {name: array.read(chain, 0, draws.stop)[None, rows] for name, array in arrays.items()}
            for arrays in (store.arrays["posterior"], store.arrays["sample_stats"])
        )
        new.write(slice(chain, chain + 1), 0, latents, statistics)
    new.commit(snapshot)
    for file in new_path.rglob("*"):
        if file.is_dir():
            sync_folder(file)
    if os.name == "nt":  # Windows does not rename a folder with an open file
        store.close(tidy=False)
    path.rename(old_path)
    new_path.rename(path)
    sync_folder(path.parent)
    store.replace_by(setup, new)
    shutil.rmtree(old_path, ignore_errors=True)


def finish_rewrite(path: Path) -> None:
    """Restore a store whose rewrite was killed between the renames, and remove what is left over."""
    new_path, old_path = (path.with_name(path.name + ending) for ending in (REWRITTEN, REPLACED))
    if old_path.exists() and not path.exists():
        old_path.rename(path)
        sync_folder(path.parent)
    for left_over in (new_path, old_path):
        shutil.rmtree(left_over, ignore_errors=True)


def _without_draws(store: Store):
    """Return a function for `copytree` that leaves out draws, the journal and the lock."""
    growing = {array.folder for array in (*store.growing_arrays, *store.draw_coordinates)}

    def ignored(folder: str, names: list[str]) -> list[str]:
        if Path(folder) in growing:
            return [name for name in names if name == "c"]
        private = Path(folder) == store.path / PRIVATE
        return [name for name in names if private and name in ("journal", "lock")]

    return ignored
