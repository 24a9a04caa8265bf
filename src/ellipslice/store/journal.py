"""What a commit records, files that are whole or not there, and a lock that a dead process cannot keep."""

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


class Snapshot(NamedTuple):
    """Where a run is: what a commit records besides the draws."""

    draws_done: list[int]
    """Number of draws of each chain that were written."""
    resume_points: Sequence[Checkpoint]
    """Where each chain can continue."""
    attributes: dict[str, Any]
    """Attributes of the result that change during a run."""
    plans: dict[str, Any]
    """What `resume` must know besides: the number of draws, and the stopping rule."""

    @property
    def draws(self) -> int:
        """Number of draws that every chain has."""
        return min(self.draws_done)

    @property
    def states(self) -> np.ndarray:
        """The chains' states at the resume points, shape (chains, size)."""
        return np.stack([point.state.f for point in self.resume_points])

    @property
    def entries(self) -> dict[str, Any]:
        """All but the states, as the journal holds it."""
        points = self.resume_points
        return {
            "complete": list(self.draws_done),
            "updates": [point.updates for point in points],
            "counts": [list(point.counts) for point in points],
            "log_likelihood": [float(point.state.log_likelihood).hex() for point in points],
            "attributes": self.attributes,
            "plans": self.plans,
        }


def replace(path: Path, content: bytes) -> None:
    """Write a file so that at any moment, also after a power cut, the old one or the new one is there."""
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
    """Make what was created or renamed in a folder survive a power cut, where the system can."""
    with contextlib.suppress(OSError):
        descriptor = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


def sealed(entries: dict[str, Any], numbers: bytes = b"") -> bytes:
    """A line of JSON with a checksum of everything else, and after it some bytes."""
    body = json.dumps(entries, sort_keys=True)
    seal = zlib.crc32(numbers, zlib.crc32(body.encode()))
    return f'{{"checksum": {seal}, "entries": {body}}}\n'.encode() + numbers


def unseal(path: Path) -> tuple[dict[str, Any], bytes]:
    """What `sealed` made, read from a file; refused if anything in it was changed."""
    try:
        content = path.read_bytes()
    except FileNotFoundError:
        raise ValueError(f"{path} is missing: the store is damaged.") from None
    line, _, numbers = content.partition(b"\n")
    try:
        read = json.loads(line)
        seal, entries = read["checksum"], read["entries"]
        body = json.dumps(entries, sort_keys=True)
    except (ValueError, TypeError, KeyError, RecursionError):
        raise ValueError(f"{path} is damaged: it does not begin with a line of JSON as ellipslice writes it.") from None
    if not isinstance(entries, dict) or zlib.crc32(numbers, zlib.crc32(body.encode())) != seal:
        raise ValueError(f"{path} is damaged, or was edited: its checksum is not that of what it holds.")
    return entries, numbers


class Lock:
    """Held by one process at a time, and let go by the system when that process ends, however it does."""

    def __init__(self, path: Path):
        self._file: IO[str] = path.open("a+")
        try:
            _lock(self._file)
        except OSError:
            self._file.seek(0)
            holder = self._file.read().strip() or "another process"
            self._file.close()
            raise BlockingIOError(
                f"{path.parent.parent} is being written by {holder}. Two processes cannot write one store; wait for "
                "it, or stop it. (To read the draws meanwhile, open the store with "
                'xarray.open_datatree(store, engine="zarr").)'
            ) from None
        self._file.seek(0)
        self._file.truncate()
        self._file.write(f"process {os.getpid()} on {socket.gethostname()}")
        self._file.flush()

    def release(self) -> None:
        """Let others write."""
        if self._file.closed:
            return
        with contextlib.suppress(OSError):  # a full disk, for instance
            self._file.truncate(0)
        self._file.close()


def _lock(file: IO[str]) -> None:
    try:
        import fcntl
    except ImportError:  # Windows
        import msvcrt

        file.seek(2**30)  # beyond what is in it, or nobody could read who holds it
        msvcrt.locking(file.fileno(), msvcrt.LK_NBLCK, 1)  # type: ignore[attr-defined]
    else:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
