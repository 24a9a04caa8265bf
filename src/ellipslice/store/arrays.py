"""Arrays of a store that grow with the draws: uncompressed Zarr chunks, written one row at a time.

The file of a chunk has its full length from the start, with a hole where nothing is written yet. A row can therefore be
added without rewriting earlier rows, and the files of a finished run do not depend on when they were written.
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
from ellipslice.store.read import RESTORE

MAX_CHUNK_BYTES = 2**22
"""Largest size of a chunk that holds more than one draw."""

MAX_CHUNK_DRAWS = 8192
"""Largest number of draws in a chunk."""


def chunk_shape(chains: int, row: np.ndarray) -> tuple[int, ...]:
    """Return the shape of a chunk: chains, draws, and the shape of one draw. It depends only on the arguments."""
    max_rows = max(1, MAX_CHUNK_BYTES // max(1, row.nbytes))
    chunk_chains = min(chains, max_rows)
    draws = 1
    while draws < MAX_CHUNK_DRAWS and 2 * draws * chunk_chains <= max_rows:
        draws *= 2
    return (chunk_chains, draws, *row.shape)


class GrowingArray:
    """One array of the store that grows with the draws, shape (chains, draws, ...).

    Parameters
    ----------
    folder : Path
        Folder of the array.
    metadata : dict
        Content of its zarr.json.
    """

    def __init__(self, folder: Path, metadata: dict[str, Any]):
        chunk = metadata["chunk_grid"]["configuration"]["chunk_shape"]
        self.folder, self._chains = folder, metadata["shape"][0]
        self._chunk_chains, self._chunk_draws, *self._draw_shape = chunk
        self._dtype = np.dtype(metadata["data_type"]).newbyteorder("<")
        self._row_bytes = self._dtype.itemsize * math.prod(self._draw_shape)
        self.checksums = [0] * self._chains
        """Checksum of everything written so far, for each chain."""
        self.touched: set[Path] = set()
        """Files written to since the last `sync`."""
        self._new_folders: set[Path] = set()

    @property
    def form(self) -> tuple[np.dtype, tuple[int, ...]]:
        """Type and shape of one draw."""
        return self._dtype.newbyteorder("="), tuple(self._draw_shape)

    def write(self, chains: slice, first: int, values: np.ndarray) -> None:
        """Write draws of consecutive chains, from number `first` on. Shape (chains, draws, ...)."""
        if not np.can_cast(values.dtype, self._dtype):
            raise ValueError(
                f"keep returned {values.dtype} for {self.folder.name}, but {self._dtype.name} for the first draw, and "
                "this is the type of the store. Return one type for every draw, for example numpy.asarray(..., float)."
            )
        values = values.astype(self._dtype, copy=False)
        for path, members, a, b in self._files(chains, first, first + values.shape[1]):
            self._create_file(path)
            with path.open("r+b") as file:
                for chain in members:
                    rows = values[chain - chains.start, a - first : b - first].tobytes()
                    file.seek(self._offset(chain, a))
                    file.write(rows)
                    self.checksums[chain] = zlib.crc32(rows, self.checksums[chain])
            self.touched.add(path)

    def read(self, chain: int, first: int, stop: int) -> np.ndarray:
        """Return the draws `first` to `stop` of one chain, shape (draws, ...)."""
        parts = []
        for path, _, a, b in self._files(slice(chain, chain + 1), first, stop):
            with path.open("rb") as file:
                file.seek(self._offset(chain, a))
                parts.append(np.frombuffer(file.read((b - a) * self._row_bytes), self._dtype))
        return np.concatenate(parts).reshape(stop - first, *self._draw_shape).astype(self._dtype.newbyteorder("="))

    def sync(self) -> None:
        """Write everything to the disk, so that it survives a power cut."""
        for path in self.touched:
            with path.open("r+b") as file:
                os.fsync(file.fileno())
        for folder in self._new_folders:
            sync_folder(folder)
        self.touched.clear()
        self._new_folders.clear()

    def check(self, complete: list[int], checksums: list[int]) -> None:
        """Raise if a file does not contain the draws that were written, by its size and checksum."""
        self.checksums = [0] * self._chains
        for chain, draws in enumerate(complete):
            for path, _, a, b in self._files(slice(chain, chain + 1), 0, draws):
                size = path.stat().st_size if path.is_file() else None
                if size != self._file_bytes:
                    has = "is missing" if size is None else f"has {size:,} bytes, and should have {self._file_bytes:,}"
                    raise ValueError(f"{path} {has}. The store is damaged and cannot be resumed. {RESTORE}")
                with path.open("rb") as file:
                    file.seek(self._offset(chain, a))
                    self.checksums[chain] = zlib.crc32(file.read((b - a) * self._row_bytes), self.checksums[chain])
            if self.checksums[chain] != checksums[chain]:
                raise ValueError(
                    f"{self.folder} is damaged: the checksum of the draws of chain {chain} (counted from 0) is not "
                    f"that of the draws that were written. The store cannot be resumed. {RESTORE}"
                )

    def truncate(self, complete: list[int]) -> None:
        """Remove what a killed process wrote after its last commit."""
        for path in sorted(self.folder.glob("c/*/*" + "/0" * len(self._draw_shape))):
            group, number = (int(part) for part in path.relative_to(self.folder / "c").parts[:2])
            members = range(group * self._chunk_chains, min((group + 1) * self._chunk_chains, self._chains))
            if all(complete[chain] <= number * self._chunk_draws for chain in members):
                path.unlink()
                _remove_empty(path.parent, self.folder)
                continue
            with path.open("r+b") as file:
                file.truncate(self._file_bytes)
                for chain in members:
                    a = max(complete[chain], number * self._chunk_draws)
                    rest = ((number + 1) * self._chunk_draws - a) * self._row_bytes
                    if rest <= 0:
                        continue
                    file.seek(self._offset(chain, a))
                    if any(file.read(rest)):
                        file.seek(self._offset(chain, a))
                        file.write(bytes(rest))
            self.touched.add(path)

    @property
    def _file_bytes(self) -> int:
        """Size of the file of a chunk, in bytes."""
        return self._chunk_chains * self._chunk_draws * self._row_bytes

    def _offset(self, chain: int, draw: int) -> int:
        return (chain % self._chunk_chains * self._chunk_draws + draw % self._chunk_draws) * self._row_bytes

    def _files(self, chains: slice, first: int, stop: int) -> Iterator[tuple[Path, range, int, int]]:
        """Yield (path, chains, start, stop) of each file that holds draws `first` to `stop` of these chains."""
        for number in range(first // self._chunk_draws, -(-stop // self._chunk_draws)):
            a, b = max(first, number * self._chunk_draws), min(stop, (number + 1) * self._chunk_draws)
            for group in range(chains.start // self._chunk_chains, -(-chains.stop // self._chunk_chains)):
                start, end = group * self._chunk_chains, (group + 1) * self._chunk_chains
                own = range(max(chains.start, start), min(chains.stop, end))
                path = self.folder.joinpath("c", str(group), str(number), *("0" for _ in self._draw_shape))
                yield path, own, a, b

    def _create_file(self, path: Path) -> None:
        if path.exists():
            return
        missing = [folder for folder in [path.parent, *path.parents] if not folder.exists()]
        path.parent.mkdir(parents=True, exist_ok=True)
        self._new_folders.update(folder.parent for folder in missing)
        self._new_folders.add(path.parent)
        with path.open("xb") as file:
            file.truncate(self._file_bytes)


def _remove_empty(folder: Path, above: Path) -> None:
    while folder != above and not any(folder.iterdir()):
        folder.rmdir()
        folder = folder.parent


class DrawCoordinate:
    """The coordinate `draw`: 0, 1, 2, .... Its content is known beforehand, so complete chunks are written."""

    def __init__(self, folder: Path, metadata: dict[str, Any]):
        (self._chunk_draws,) = metadata["chunk_grid"]["configuration"]["chunk_shape"]
        self.folder = folder
        self.chunks_written = 0
        """Number of complete chunks on disk."""

    def reach(self, draws: int) -> None:
        """Write at least `draws` numbers to the disk, so that they survive a power cut."""
        while self.chunks_written * self._chunk_draws < draws:
            path = self.folder / "c" / str(self.chunks_written)
            path.parent.mkdir(exist_ok=True)
            with path.open("wb") as file:
                file.write(self._expected(self.chunks_written))
                file.flush()
                os.fsync(file.fileno())
            sync_folder(path.parent)
            self.chunks_written += 1

    def check(self, draws: int) -> None:
        """Raise if a file does not contain the right numbers. Remove files that are not needed yet."""
        for number in range(-(-draws // self._chunk_draws)):
            path = self.folder / "c" / str(number)
            if not path.is_file() or path.read_bytes() != self._expected(number):
                raise ValueError(f"{path} is missing or damaged. The store cannot be resumed. {RESTORE}")
        self.chunks_written = -(-draws // self._chunk_draws)
        for path in self.folder.glob("c/*"):
            if path.name.isdigit() and int(path.name) >= self.chunks_written:
                path.unlink()

    def _expected(self, number: int) -> bytes:
        return np.arange(number * self._chunk_draws, (number + 1) * self._chunk_draws, dtype="<i8").tobytes()
