"""The arrays of a store that grow with the draws: uncompressed Zarr chunks, written row by row where they belong.

A chunk's file has its full length from the start, a hole where nothing is written yet. So a row can be added at any
time without touching the rows before it, and the files of a finished run do not depend on when they were written.
"""

from __future__ import annotations

import math
import os
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from ellipslice.store.journal import sync_folder

BYTES = 2**22
"""In a chunk, about, if one draw is not larger."""

LONGEST = 8192
"""Draws in a chunk, at most."""


def chunk_shape(chains: int, row: np.ndarray) -> tuple[int, ...]:
    """Chains, draws, and the whole of what one draw is: a function of these alone."""
    most = max(1, BYTES // max(1, row.nbytes))
    together = min(chains, most)
    draws = 1
    while draws < LONGEST and 2 * draws * together <= most:
        draws *= 2
    return (together, draws, *row.shape)


class Column:
    """One array of the store, shape (chains, draws, ...).

    Parameters
    ----------
    folder : Path
        Of the array.
    metadata : dict
        What its zarr.json says.
    """

    def __init__(self, folder: Path, metadata: dict[str, Any]):
        chunk = metadata["chunk_grid"]["configuration"]["chunk_shape"]
        self.folder, self._chains, (self._together, self._length, *self._rest) = folder, metadata["shape"][0], chunk
        self._dtype = np.dtype(metadata["data_type"]).newbyteorder("<")
        self._row = self._dtype.itemsize * math.prod(self._rest)
        self.checksums = [0] * self._chains
        """Of everything written so far, for each chain."""
        self.touched: set[Path] = set()
        """Files written to since `sync`."""
        self._new: set[Path] = set()

    @property
    def form(self) -> tuple[np.dtype, tuple[int, ...]]:
        """Type and shape of one draw."""
        return self._dtype.newbyteorder("="), tuple(self._rest)

    def write(self, chains: slice, first: int, values: np.ndarray) -> None:
        """Draws of consecutive chains from number `first` on, shape (chains, draws, ...)."""
        if not np.can_cast(values.dtype, self._dtype):
            raise ValueError(
                f"keep returned {values.dtype} for {self.folder.name}, and {self._dtype.name} for the first draw, as "
                "which it is stored. Let it return one type, such as numpy.asarray(..., float)."
            )
        values = values.astype(self._dtype, copy=False)
        for path, members, a, b in self._files(chains, first, first + values.shape[1]):
            self._make(path)
            with path.open("r+b") as file:
                for chain in members:
                    rows = values[chain - chains.start, a - first : b - first].tobytes()
                    file.seek(self._offset(chain, a))
                    file.write(rows)
                    self.checksums[chain] = zlib.crc32(rows, self.checksums[chain])
            self.touched.add(path)

    def read(self, chain: int, first: int, stop: int) -> np.ndarray:
        """Draws of one chain, shape (draws, ...)."""
        parts = []
        for path, _, a, b in self._files(slice(chain, chain + 1), first, stop):
            with path.open("rb") as file:
                file.seek(self._offset(chain, a))
                parts.append(np.frombuffer(file.read((b - a) * self._row), self._dtype))
        return np.concatenate(parts).reshape(stop - first, *self._rest).astype(self._dtype.newbyteorder("="))

    def sync(self) -> None:
        """Make what was written survive a power cut."""
        for path in self.touched:
            with path.open("r+b") as file:
                os.fsync(file.fileno())
        for folder in self._new:
            sync_folder(folder)
        self.touched.clear()
        self._new.clear()

    def check(self, complete: list[int], checksums: list[int]) -> None:
        """Refuse files that do not hold what they should."""
        self.checksums = [0] * self._chains
        for chain, draws in enumerate(complete):
            for path, _, a, b in self._files(slice(chain, chain + 1), 0, draws):
                size = path.stat().st_size if path.is_file() else None
                if size != self._size:
                    has = "is missing" if size is None else f"has {size:,} bytes, and should have {self._size:,}"
                    raise ValueError(f"{path} {has}: the store is damaged, and cannot be gone on with.")
                with path.open("rb") as file:
                    file.seek(self._offset(chain, a))
                    self.checksums[chain] = zlib.crc32(file.read((b - a) * self._row), self.checksums[chain])
            if self.checksums[chain] != checksums[chain]:
                raise ValueError(
                    f"{self.folder} is damaged: the draws of chain {chain} (counted from 0) are not those that were "
                    "written there, by their checksum. The store cannot be gone on with."
                )

    def trim(self, complete: list[int]) -> None:
        """Take away what was written after the last commit, by a process that was killed."""
        for path in sorted(self.folder.glob("c/*/*" + "/0" * len(self._rest))):
            group, number = (int(part) for part in path.relative_to(self.folder / "c").parts[:2])
            members = range(group * self._together, min((group + 1) * self._together, self._chains))
            if all(complete[chain] <= number * self._length for chain in members):
                path.unlink()
                _remove_empty(path.parent, self.folder)
                continue
            with path.open("r+b") as file:
                file.truncate(self._size)
                for chain in members:
                    a = max(complete[chain], number * self._length)
                    rest = ((number + 1) * self._length - a) * self._row
                    if rest <= 0:
                        continue
                    file.seek(self._offset(chain, a))
                    if any(file.read(rest)):
                        file.seek(self._offset(chain, a))
                        file.write(bytes(rest))
            self.touched.add(path)

    @property
    def _size(self) -> int:
        """Bytes in the file of a chunk."""
        return self._together * self._length * self._row

    def _offset(self, chain: int, draw: int) -> int:
        return (chain % self._together * self._length + draw % self._length) * self._row

    def _files(self, chains: slice, first: int, stop: int) -> Iterator[tuple[Path, range, int, int]]:
        """The files that hold draws `first` to `stop` of these chains: path, chains and draws in each, in order."""
        for number in range(first // self._length, -(-stop // self._length)):
            a, b = max(first, number * self._length), min(stop, (number + 1) * self._length)
            for group in range(chains.start // self._together, -(-chains.stop // self._together)):
                own = range(max(chains.start, group * self._together), min(chains.stop, (group + 1) * self._together))
                path = self.folder.joinpath("c", str(group), str(number), *("0" for _ in self._rest))
                yield path, own, a, b

    def _make(self, path: Path) -> None:
        if path.exists():
            return
        missing = [folder for folder in [path.parent, *path.parents] if not folder.exists()]
        path.parent.mkdir(parents=True, exist_ok=True)
        self._new.update(folder.parent for folder in missing)
        self._new.add(path.parent)
        with path.open("xb") as file:
            file.truncate(self._size)


def _remove_empty(folder: Path, above: Path) -> None:
    while folder != above and not any(folder.iterdir()):
        folder.rmdir()
        folder = folder.parent


class Numbers:
    """The coordinate `draw`, 0, 1, 2, ...: chunks are written whole, for it is known what will be in them."""

    def __init__(self, folder: Path, metadata: dict[str, Any]):
        (self._length,) = metadata["chunk_grid"]["configuration"]["chunk_shape"]
        self.folder, self._made = folder, 0

    def reach(self, draws: int) -> None:
        """Make sure that so many are there, and survive a power cut."""
        while self._made * self._length < draws:
            path = self.folder / "c" / str(self._made)
            path.parent.mkdir(exist_ok=True)
            with path.open("wb") as file:
                file.write(self._expected(self._made))
                file.flush()
                os.fsync(file.fileno())
            sync_folder(path.parent)
            self._made += 1

    def check(self, draws: int) -> None:
        """Refuse files that do not hold what they should; take away those that are not needed yet."""
        for number in range(-(-draws // self._length)):
            path = self.folder / "c" / str(number)
            if not path.is_file() or path.read_bytes() != self._expected(number):
                raise ValueError(f"{path} is missing or damaged. The store cannot be gone on with.")
        self._made = -(-draws // self._length)
        for path in self.folder.glob("c/*"):
            if path.name.isdigit() and int(path.name) >= self._made:
                path.unlink()

    def _expected(self, number: int) -> bytes:
        return np.arange(number * self._length, (number + 1) * self._length, dtype="<i8").tobytes()
