"""Several devices: chains shared among them, or data that are."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh, PartitionSpec

from ellipslice.undocumented.runtime import device_is_chosen

SHARED = PartitionSpec("chains")
"""How an array is laid out whose first axis is chains."""

SHARED_DRAWS = PartitionSpec(None, "chains")
"""The same with another axis before it."""

EVERYWHERE = PartitionSpec()
"""The same on every device."""


def chains_over_devices(chains: int) -> Mesh | None:
    """The devices of this process that share so many chains, as many of them as have equal parts; None if one does."""
    if device_is_chosen():
        return None
    devices = jax.local_devices()
    count = max(number for number in range(1, len(devices) + 1) if chains % number == 0)
    return Mesh(np.array(devices[:count]), ("chains",)) if count > 1 else None


def on_one_device(tree: Any) -> bool:
    """Whether no array of a pytree is spread over several devices."""
    return all(len(leaf.devices()) == 1 for leaf in jax.tree.leaves(tree) if isinstance(leaf, jax.Array))


def share_of_process(chains: int) -> range:
    """The numbers of the chains that this process runs: all, unless `jax.distributed` says that there are others."""
    if not jax.distributed.is_initialized() or jax.process_count() == 1:
        return range(chains)
    processes, own = jax.process_count(), jax.process_index()
    if chains < processes:
        raise ValueError(
            f"chains={chains}, but jax.distributed runs {processes} processes, which share them. Ask for one for each "
            "at least."
        )
    return range(own * chains // processes, (own + 1) * chains // processes)


def on_a_cpu() -> bool:
    """Whether that is where JAX computes now."""
    with jax.ensure_compile_time_eval():  # also while it traces
        return next(iter(jnp.zeros(()).devices())).platform == "cpu"
