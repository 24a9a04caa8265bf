"""State of JAX and of executors that has no public interface."""

from __future__ import annotations

from typing import Any

import jax

from ellipslice.undocumented.registry import first_line, note

STARTED = "whether JAX has started"
DEVICE = "the default device"


def has_started() -> bool | None:
    """Return whether JAX has initialised a device; None if unknown. It never raises."""
    try:
        from jax._src import xla_bridge

        return bool(xla_bridge.backends_are_initialized())
    except Exception as error:  # noqa: BLE001  a future release may raise anything
        note(STARTED, f"jax._src.xla_bridge has changed ({first_line(error)})")
        return None


def probe_started() -> str | None:
    """Return why it is unknown whether JAX has started; None if it is known."""
    return "it is unknown" if has_started() is None else None


def device_is_chosen() -> bool:
    """Return whether the user has set a default device for JAX; False if unknown."""
    try:
        return jax.config.jax_default_device is not None  # pyright: ignore[reportAttributeAccessIssue]
    except AttributeError as error:
        note(DEVICE, first_line(error))
        return False


def probe_device() -> str | None:
    """Return why it is unknown whether a default device is set; None if it is known."""
    known = hasattr(jax.config, "jax_default_device")
    return None if known else "jax.config.jax_default_device does not exist"


def memory_limit(device: Any) -> int | None:
    """Return the memory of a device in bytes; None if unknown."""
    try:
        return (device.memory_stats() or {}).get("bytes_limit")
    except Exception:  # noqa: BLE001  devices without statistics raise various errors
        return None


def compute_capability(device: Any) -> float:
    """Return the compute capability of an NVIDIA GPU; 0 for other devices, or if unknown."""
    try:
        return float(getattr(device, "compute_capability", 0))
    except (TypeError, ValueError):
        return 0.0


def worker_count(executor: Any) -> int | None:
    """Return the number of workers of an executor; None if unknown."""
    for name in ("_max_workers", "num_workers"):
        found = getattr(executor, name, None)
        if isinstance(found, int):
            return found
    threads = getattr(getattr(executor, "_client", None), "nthreads", None)  # an executor of Dask
    return None if threads is None else sum(threads().values())


def processes(executor: Any) -> list[Any]:
    """Return the processes of a pool; an empty list if unknown."""
    return list((getattr(executor, "_processes", None) or {}).values())


def is_dask(executor: Any) -> bool:
    """Return whether an executor belongs to Dask."""
    return hasattr(executor, "_client")
