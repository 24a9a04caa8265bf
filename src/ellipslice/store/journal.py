"""The record of a commit, atomic replacement of files with checksums, and the lock of a store."""

from __future__ import annotations

import contextlib
import json
import os
import socket
import zlib
from collections.abc import Sequence
from pathlib import Path
from typing import IO, Any, NamedTuple

import numpy as np

from ellipslice.engines.base import Checkpoint
from ellipslice.store.read import RESTORE


class Snapshot(NamedTuple):
    """State of a run: what a commit records in addition to the draws."""

    draws_done: list[int]
    """Number of draws written, for each chain."""
    resume_points: Sequence[Checkpoint]
    """State from which each chain can continue."""
    attributes: dict[str, Any]
    """Attributes of the result that change during a run."""
    resume_state: dict[str, Any]
    """The rest that `resume` needs: number of draws, stopping rule and its next check."""

    @property
    def draws(self) -> int:
        """Number of draws that every chain has."""
        return min(self.draws_done)

    @property
    def states(self) -> np.ndarray:
        """States of the chains at the resume points, shape (chains, size)."""
        return np.stack([point.state.f for point in self.resume_points])

    @property
    def entries(self) -> dict[str, Any]:
        """Entries of the journal: everything except the states."""
        points = self.resume_points
        return {
            "complete": list(self.draws_done),
            "updates": [point.updates for point in points],
            "counts": [list(point.counts) for point in points],
            "log_likelihood": [float(point.state.log_likelihood).hex() for point in points],
            "attributes": self.attributes,
            "plans": self.resume_state,  # the key of format 2
        }


def replace(path: Path, content: bytes) -> None:
    """Replace a file atomically: even after a power cut, either the old or the new content is there."""
    temporary = path.with_name(path.name + ".new")
    try:
        with temporary.open("wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(path)
    except OSError:
        with contextlib.suppress(OSError):
            temporary.unlink()
        raise
    sync_folder(path.parent)


def sync_folder(folder: Path) -> None:
    """Make new and renamed entries of a folder survive a power cut, on systems that can."""
    with contextlib.suppress(OSError):
        descriptor = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


def with_checksum(entries: dict[str, Any], numbers: bytes = b"") -> bytes:
    """Return one line of JSON with the entries and a checksum of entries and `numbers`, followed by `numbers`."""
    body = json.dumps(entries, sort_keys=True)
    checksum = zlib.crc32(numbers, zlib.crc32(body.encode()))
    return f'{{"checksum": {checksum}, "entries": {body}}}\n'.encode() + numbers


def read_checked(path: Path) -> tuple[dict[str, Any], bytes]:
    """Read a file written by `with_checksum`: its entries and bytes. Raise if the checksum does not match."""
    try:
        content = path.read_bytes()
    except FileNotFoundError:
        raise ValueError(f"{path} is missing: the store is damaged. {RESTORE}") from None
    line, _, numbers = content.partition(b"\n")
    try:
        read = json.loads(line)
        checksum, entries = read["checksum"], read["entries"]
        body = json.dumps(entries, sort_keys=True)
    except (ValueError, TypeError, KeyError, RecursionError):
        raise ValueError(f"{path} is damaged: its first line is not JSON as ellipslice writes it. {RESTORE}") from None
    if not isinstance(entries, dict) or zlib.crc32(numbers, zlib.crc32(body.encode())) != checksum:
        raise ValueError(f"{path} is damaged, or was edited: its checksum does not match its content. {RESTORE}")
    return entries, numbers


class Lock:
    """Lock of a store, held by one process at a time. The system releases it when the process ends or is killed."""

    def __init__(self, path: Path):
        self._file: IO[str] = path.open("a+")
        try:
            _lock(self._file)
        except OSError:
            self._file.seek(0)
            holder = self._file.read().strip() or "another process"
            self._file.close()
            raise BlockingIOError(
                f"{path.parent.parent} is being written by {holder}. Only one process can write to a store: wait until "
                'it ends, or stop it. To read the draws meanwhile, use xarray.open_datatree(store, engine="zarr").'
            ) from None
        self._file.seek(0)
        self._file.truncate()
        self._file.write(f"process {os.getpid()} on {socket.gethostname()}")
        self._file.flush()

    def release(self) -> None:
        """Release the lock."""
        if self._file.closed:
            return
        with contextlib.suppress(OSError):  # the disk may be full
            self._file.truncate(0)
        self._file.close()


def _lock(file: IO[str]) -> None:
    try:
        import fcntl
    except ImportError:  # Windows
        import msvcrt

        file.seek(2**30)  # beyond its content, so that other processes can read who holds the lock
        msvcrt.locking(file.fileno(), msvcrt.LK_NBLCK, 1)  # type: ignore[attr-defined]
    else:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
