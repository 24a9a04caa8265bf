"""JAX's cache of compiled programs, in a folder of this library, without a change of the user's settings.

JAX has one cache per process, which it opens once. Three of its functions are replaced by ones that use the folder of
this library in threads that are inside `stored_in`, and call the original everywhere else. Without them each process
compiles its programs again.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any, NamedTuple, Protocol

from ellipslice.undocumented.registry import first_line, note

ITEM = "compiled programs on disk"

MIN_COMPILE_SECONDS = 0.0
"""Programs that took longer to compile are stored. JAX's own default of 1.0 would leave out almost all programs."""


class Folder(Protocol):
    """A folder of compiled programs. Its methods never raise."""

    def get(self, key: str) -> bytes | None:
        """Return a stored program, or None."""
        ...

    def put(self, key: str, value: bytes) -> None:
        """Store a program."""
        ...


class _Settings(NamedTuple):
    """Settings of JAX with local values for each thread."""

    folder: Any
    enabled: Any
    min_compile_seconds: Any

    def by_user(self) -> bool:
        """Return whether the user has chosen a folder, or no cache."""
        return self.folder.value is not None or not self.enabled.value


class _Thread(threading.local):
    find_folder: Callable[[], Folder | None] | None = None


_thread = _Thread()
_lock = threading.Lock()
_installed: list[_Settings | str] = []


class stored_in:  # noqa: N801  used as a function
    """Context in which this thread stores compiled programs in a folder, unless the user has set JAX's cache.

    `find_folder` returns the folder, or None if there is none. It is called when a program is compiled. A class and not
    a generator, because it surrounds each call of compiled code.
    """

    __slots__ = ("_find_folder", "_min_seconds")

    def __init__(self, find_folder: Callable[[], Folder | None]):
        self._find_folder = find_folder
        self._min_seconds: Any = None

    def __enter__(self) -> None:
        if _thread.find_folder is not None:
            return
        settings = _installed[0] if _installed else _install()
        if isinstance(settings, str):
            note(ITEM, settings)
        elif not settings.by_user():
            self._min_seconds = settings.min_compile_seconds(MIN_COMPILE_SECONDS)
            self._min_seconds.__enter__()
            _thread.find_folder = self._find_folder

    def __exit__(self, *error: object) -> None:
        if self._min_seconds is not None:
            _thread.find_folder = None
            self._min_seconds.__exit__(*error)


def probe() -> str | None:
    """Return why compiled programs cannot be stored; None if they can."""
    settings = _installed[0] if _installed else _install()
    return settings if isinstance(settings, str) else None


def _install() -> _Settings | str:
    """Replace JAX's functions, once per process. Return JAX's settings, or the reason why there is no cache."""
    with _lock:
        if not _installed:
            try:
                _installed.append(_replace())
            except Exception as error:  # noqa: BLE001  a future release may raise anything
                _installed.append(f"jax._src.compilation_cache has changed ({first_line(error)})")
        return _installed[0]


def _replace() -> _Settings:
    from jax._src import compilation_cache, config

    settings = _Settings(
        config.compilation_cache_dir, config.enable_compilation_cache, config.persistent_cache_min_compile_time_secs
    )
    settings.by_user()
    with settings.min_compile_seconds(MIN_COMPILE_SECONDS):
        pass
    opened = _in_folder(compilation_cache._get_cache)
    read = _without_errors(compilation_cache.get_executable_and_time, (None, None))
    write = _without_errors(compilation_cache.put_executable_and_time, None)
    compilation_cache._get_cache = opened
    compilation_cache.get_executable_and_time = read
    compilation_cache.put_executable_and_time = write
    return settings


def _in_folder(original: Callable[..., Any]) -> Callable[..., Any]:
    """Return a function that returns this library's folder inside `stored_in`, and JAX's cache elsewhere."""

    def opened(*arguments: Any, **named: Any) -> Any:
        return original(*arguments, **named) if _thread.find_folder is None else _thread.find_folder()

    return opened


def _without_errors(original: Callable[..., Any], instead: Any) -> Callable[..., Any]:
    """Return a function that returns `instead` of an error inside `stored_in`. JAX would emit a warning."""

    def guarded(*arguments: Any, **named: Any) -> Any:
        if _thread.find_folder is None:
            return original(*arguments, **named)
        try:
            return original(*arguments, **named)
        except Exception as error:  # noqa: BLE001  XLA may reject a program for any reason
            note(ITEM, f"a program could not be stored or loaded ({first_line(error)})")
            return instead

    return guarded
