"""What JAX and executors know of themselves, and do not offer to say."""

from __future__ import annotations

from typing import Any

import jax

from ellipslice.undocumented.registry import first_line, note

STARTED = "whether JAX has started"
DEVICE = "the device that the user has chosen"


def has_started() -> bool | None:
    """Whether JAX has made use of a device; None if that cannot be told. It never raises."""
    try:
        from jax._src import xla_bridge

        return bool(xla_bridge.backends_are_initialized())
    except Exception as error:  # noqa: BLE001  whatever a release to come does
        note(STARTED, f"jax._src.xla_bridge is not as it was ({first_line(error)})")
        return None


def probe_started() -> str | None:
    """Return why it cannot be told whether JAX has started; None if it can."""
    return "it cannot be told" if has_started() is None else None


def device_is_chosen() -> bool:
    """Whether the user has chosen one device for JAX, as far as can be told."""
    try:
        return jax.config.jax_default_device is not None  # pyright: ignore[reportAttributeAccessIssue]
    except AttributeError as error:
        note(DEVICE, first_line(error))
        return False


def probe_device() -> str | None:
    """Return why it cannot be told whether a device was chosen; None if it can."""
    known = hasattr(jax.config, "jax_default_device")
    return None if known else "jax.config.jax_default_device is gone"


def memory_limit(device: Any) -> int | None:
    """Bytes of memory of a device, if it says."""
    try:
        return (device.memory_stats() or {}).get("bytes_limit")
    except Exception:  # noqa: BLE001  devices without statistics say so in several ways
        return None


def compute_capability(device: Any) -> float:
    """The compute capability of an NVIDIA GPU; 0 if it is none, or does not say."""
    try:
        return float(getattr(device, "compute_capability", 0))
    except (TypeError, ValueError):
        return 0.0


def worker_count(executor: Any) -> int | None:
    """The number of workers of an executor, if it can be told."""
    for name in ("_max_workers", "num_workers"):
        found = getattr(executor, name, None)
        if isinstance(found, int):
            return found
    threads = getattr(getattr(executor, "_client", None), "nthreads", None)  # Dask's
    return None if threads is None else sum(threads().values())


def processes(executor: Any) -> list[Any]:
    """The processes of a pool, if they can be told."""
    return list((getattr(executor, "_processes", None) or {}).values())


def is_dask(executor: Any) -> bool:
    """Whether an executor is Dask's."""
    return hasattr(executor, "_client")
