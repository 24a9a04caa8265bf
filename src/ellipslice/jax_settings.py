"""Settings of JAX and NumPy while this library runs, and where JAX computes."""

from __future__ import annotations

import contextlib
import warnings
from collections.abc import Iterator
from functools import cache
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np


@contextlib.contextmanager
def jax_settings(double: bool = True) -> Iterator[None]:
    """Double precision and JAX's usual promotion of shapes and types, whatever the user has set; theirs come back.

    Nor does NumPy raise where a number underflows: products of far covariances and weights of poor proposals are 0.
    """
    with (
        jax.enable_x64(double),
        jax.numpy_rank_promotion("allow"),
        jax.numpy_dtype_promotion("standard"),
        np.errstate(under="ignore"),
    ):
        yield


@contextlib.contextmanager
def tracing_settings(double: bool) -> Iterator[None]:
    """The same while a user's function is traced, without JAX's warning that it has no double precision just now."""
    with jax_settings(double), warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Explicitly requested dtype", UserWarning)
        yield


@contextlib.contextmanager
def on_cpu() -> Iterator[None]:
    """The same, and on the CPU if JAX has one: a loop of small steps is faster there than on any other device."""
    with jax_settings(), jax.default_device(_cpu()):
        yield


def computes_on_cpu() -> bool:
    """Return whether JAX computes on a CPU now, by default or inside `on_cpu`."""
    with jax.ensure_compile_time_eval():  # so that it also works while JAX traces
        return next(iter(jnp.zeros(()).devices())).platform == "cpu"


def on_one_device(tree: Any) -> bool:
    """Return whether no array of a pytree is spread over several devices."""
    return all(len(leaf.devices()) == 1 for leaf in jax.tree.leaves(tree) if isinstance(leaf, jax.Array))


@cache
def _cpu() -> Any:
    try:
        return jax.local_devices(backend="cpu")[0]
    except RuntimeError:  # the user has left JAX with other devices only
        return None
