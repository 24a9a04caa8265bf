"""Divide the chains among several devices, and among the processes of `jax.distributed`."""

from __future__ import annotations

import jax
import numpy as np
from jax.sharding import Mesh, PartitionSpec

from ellipslice.undocumented.runtime import device_is_chosen

SHARED = PartitionSpec("chains")
"""Layout of an array whose first axis is chains, which are divided among the devices."""

SHARED_DRAWS = PartitionSpec(None, "chains")
"""Layout of an array whose second axis is chains, such as draws."""

REPLICATED = PartitionSpec()
"""Layout of an array of which every device has a copy."""


def chains_over_devices(chains: int) -> Mesh | None:
    """Return the devices that run `chains` chains, or None if one device runs all of them.

    It is the largest number of devices that divides the number of chains.
    """
    if device_is_chosen():
        return None
    devices = jax.local_devices()
    count = max(number for number in range(1, len(devices) + 1) if chains % number == 0)
    return Mesh(np.array(devices[:count]), ("chains",)) if count > 1 else None


def chains_of_process(chains: int) -> range:
    """Return the indices of the chains that this process runs: all, or its part under `jax.distributed`."""
    if not jax.distributed.is_initialized() or jax.process_count() == 1:
        return range(chains)
    processes, own = jax.process_count(), jax.process_index()
    if chains < processes:
        raise ValueError(
            f"chains={chains} was given, but jax.distributed runs {processes} processes, among which the chains are "
            f"divided. Set chains to at least {processes}."
        )
    return range(own * chains // processes, (own + 1) * chains // processes)
