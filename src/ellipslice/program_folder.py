"""The folder in which compiled programs are kept between processes.

Default: `ellipslice` in the user's cache folder: `$XDG_CACHE_HOME`, else `~/Library/Caches` on macOS, `%LOCALAPPDATA%`
on Windows and `~/.cache` elsewhere. A folder that other users could write is not used, because it contains machine
code. Nothing here raises: without a folder, programs are compiled in each process, and the run records it as degraded.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import platform
import stat
import sys
import threading
from functools import cache
from pathlib import Path

from ellipslice.undocumented.compilation_cache import ITEM
from ellipslice.undocumented.registry import first_line, note

MAX_BYTES = 256 << 20
"""Largest size of the folder. Beyond it, the programs that were not used for the longest time are deleted."""

BYTES_BETWEEN_CHECKS = 32 << 20
"""Bytes that a process writes between two checks of the size."""

FRACTION_KEPT = 0.75
"""Fraction of the largest size that is left after programs are deleted."""

_DIGEST_BYTES = 32
_CPU_FIELDS = ("vendor_id", "cpu family", "model", "stepping", "flags", "Features", "CPU implementer", "CPU part")
"""Fields of `/proc/cpuinfo` on which XLA's machine code may depend."""


def program_folder() -> ProgramFolder | None:
    """Return the folder of compiled programs, or None and record why there is none."""
    found = _open(cache_home())
    if isinstance(found, str):
        note(ITEM, found)
        return None
    return found


def cache_home() -> Path | None:
    """Return the user's cache folder; None if it is unknown."""
    given = os.environ.get("XDG_CACHE_HOME", "")
    if not Path(given).is_absolute() and sys.platform == "win32":
        given = os.environ.get("LOCALAPPDATA", "")
    if Path(given).is_absolute():
        return Path(given)
    try:
        home = Path.home()
    except RuntimeError:  # the process has no user
        return None
    return home / ("Library/Caches" if sys.platform == "darwin" else ".cache")


@cache
def _open(home: Path | None) -> ProgramFolder | str:
    """Return the folder in a user's cache folder, made if necessary. If it is not used, return the reason as text."""
    if home is None:
        return "there is no home folder"
    root = home / "ellipslice"
    folder = root / "programs" / machine_key()
    try:
        home.mkdir(parents=True, exist_ok=True)
        with contextlib.suppress(FileExistsError):
            root.mkdir(mode=0o700)
        why = _not_private(root)
        if why is not None:
            return why
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    except (OSError, ValueError) as error:
        return f"the folder {root} cannot be created ({first_line(error)})"
    return ProgramFolder(folder, root)


def _not_private(root: Path) -> str | None:
    """Return why a folder is not private to the user; None if it is."""
    found = root.lstat()
    if not stat.S_ISDIR(found.st_mode):
        return f"{root} is not a folder"
    if sys.platform == "win32":  # it has no such owners and modes, and %LOCALAPPDATA% is private
        return None
    if found.st_uid != os.geteuid():
        return f"the folder {root} belongs to another user"
    if stat.S_IMODE(found.st_mode) & 0o077:
        return f"the folder {root} is open to other users (chmod 700 makes it private)"
    return None


@cache
def machine_key() -> str:
    """Return the name of the subfolder for this machine: its processor and the number of cores of the process.

    JAX's key contains the versions of JAX and XLA and the flags. XLA may also divide loops between the cores that it
    finds, which changes the rounding, and home folders may be shared by machines with different processors.
    """
    affinity = getattr(os, "sched_getaffinity", None)
    cores = len(affinity(0)) if affinity else os.cpu_count()
    found = (platform.system(), platform.machine(), platform.python_implementation(), _processor(), cores)
    return hashlib.sha256(repr((*found, os.environ.get("NPROC"))).encode()).hexdigest()[:16]


def _processor() -> str:
    try:
        with Path("/proc/cpuinfo").open("rb") as file:
            first = file.read(16384).decode(errors="replace").split("\n\n")[0]
    except OSError:
        return platform.processor()
    return "\n".join(line for line in first.splitlines() if line.split("\t")[0].strip() in _CPU_FIELDS)


class ProgramFolder:
    """A folder with a file per program: a digest, then the program as JAX stores it.

    A file appears under its name when it is complete, so that processes may write in parallel. A file that does not
    match its digest is deleted.
    """

    def __init__(self, path: Path, root: Path):
        self.path, self.root = path, root
        self._unchecked_bytes = BYTES_BETWEEN_CHECKS  # so that the first program is followed by a check
        self._failed: str | None = None
        self._lock = threading.Lock()

    def get(self, key: str) -> bytes | None:
        """Return a stored program, or None. Its time of use is recorded as the time of the file."""
        path = self._file(key)
        try:
            content = path.read_bytes()
        except OSError:
            return None
        digest, value = content[:_DIGEST_BYTES], content[_DIGEST_BYTES:]
        if hashlib.sha256(value).digest() != digest:
            note(ITEM, f"a damaged file in {self.path} was deleted")
            _delete(path)
            return None
        with contextlib.suppress(OSError):
            os.utime(path)
        return value

    def put(self, key: str, value: bytes) -> None:
        """Store a program. After an error, for example on a full disk, this process stores no more."""
        if self._failed is None:
            path = self._file(key)
            part = path.with_suffix(f".{os.getpid()}-{threading.get_ident()}")
            try:
                part.write_bytes(hashlib.sha256(value).digest() + value)
                part.replace(path)
                self._bound_size(len(value))
            except OSError as error:
                self._failed = f"a program could not be written to {self.path} ({first_line(error)})"
                _delete(part)
        if self._failed is not None:
            note(ITEM, self._failed)

    def _file(self, key: str) -> Path:
        # The name of a function is part of the key, and may be longer than a file system allows.
        return self.path / hashlib.sha256(key.encode()).hexdigest()

    def _bound_size(self, written: int) -> None:
        """Delete old programs if necessary. The size is checked after the first program, and now and then."""
        with self._lock:
            self._unchecked_bytes += written
            due = self._unchecked_bytes > BYTES_BETWEEN_CHECKS
            self._unchecked_bytes *= not due
        if due:
            delete_oldest(self.root, MAX_BYTES)


def delete_oldest(root: Path, max_bytes: int) -> None:
    """Delete the files of a folder that were not used for the longest time if they are larger than `max_bytes`."""
    files = []
    for path in root.rglob("*"):
        with contextlib.suppress(OSError):  # another process may have deleted it
            found = path.stat()
            if stat.S_ISREG(found.st_mode):
                files.append((found.st_mtime, found.st_size, path))
    total = sum(size for _, size, _ in files)
    if total <= max_bytes:
        return
    for _, size, path in sorted(files):
        if total <= FRACTION_KEPT * max_bytes:
            break
        _delete(path)
        total -= size


def _delete(path: Path) -> None:
    with contextlib.suppress(OSError):
        path.unlink(missing_ok=True)
