"""Divide the chains among several devices, and among the processes of `jax.distributed`."""

from __future__ import annotations

import jax
import numpy as np
from jax.sharding import Mesh, PartitionSpec

from ellipslice.undocumented.runtime import device_is_chosen

SHARED = PartitionSpec("chains")
"""Layout of an array whose first axis is chains: each device has some of them."""

SHARED_DRAWS = PartitionSpec(None, "chains")
"""Layout of an array whose second axis is chains, as draws have it."""

REPLICATED = PartitionSpec()
"""Layout of an array that every device has a copy of."""


def chains_over_devices(chains: int) -> Mesh | None:
    """Return the devices that run `chains` chains, as many as can have equal parts; None if one device runs all."""
    if device_is_chosen():
        return None
    devices = jax.local_devices()
    count = max(number for number in range(1, len(devices) + 1) if chains % number == 0)
    return Mesh(np.array(devices[:count]), ("chains",)) if count > 1 else None


def chains_of_process(chains: int) -> range:
    """Return the numbers of the chains that this process runs: all, or its part under `jax.distributed`."""
    if not jax.distributed.is_initialized() or jax.process_count() == 1:
        return range(chains)
    processes, own = jax.process_count(), jax.process_index()
    if chains < processes:
        raise ValueError(
            f"chains={chains}, but jax.distributed runs {processes} processes, which share them. Ask for one for each "
            "at least."
        )
    return range(own * chains // processes, (own + 1) * chains // processes)
