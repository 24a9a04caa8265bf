"""Settings of JAX and NumPy while this library runs, and the device that JAX uses."""

from __future__ import annotations

import contextlib
import warnings
from collections.abc import Iterator
from functools import cache
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from ellipslice.program_folder import program_folder
from ellipslice.undocumented.compilation_cache import stored_in


@contextlib.contextmanager
def jax_settings(double: bool = True) -> Iterator[None]:
    """Set double precision and JAX's default promotion of shapes and types, and restore the user's settings at exit.

    NumPy does not raise on underflow either: covariances of distant points and weights of poor proposals may become 0.
    Single precision is set if `double` is False. Compiled programs are kept on disk, unless the user has set JAX's
    cache.
    """
    with (
        jax.enable_x64(double),
        jax.numpy_rank_promotion("allow"),
        jax.numpy_dtype_promotion("standard"),
        np.errstate(under="ignore"),
        stored_in(program_folder),
    ):
        yield


@contextlib.contextmanager
def tracing_settings(double: bool) -> Iterator[None]:
    """Apply `jax_settings` while a user's function is traced, without JAX's warning about requests for float64."""
    with jax_settings(double), warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Explicitly requested dtype", UserWarning)
        yield


@contextlib.contextmanager
def on_cpu() -> Iterator[None]:
    """Apply `jax_settings`, and compute on the CPU if JAX has one, because small operations are faster there."""
    with jax_settings(), jax.default_device(_cpu()):
        yield


def to_device(values: Any, dtype: Any = None) -> jax.Array:
    """Return a copy of a number or array as a JAX array on the default device. Not for use inside a trace.

    `jnp.asarray` would compile a program for each shape. The type is that to which JAX is set. Default: of `values`.
    """
    if isinstance(values, jax.Array):
        return jnp.asarray(values, dtype)
    return jax.device_put(np.array(values, dtype))  # a copy, because JAX may use the memory of the array


def computes_on_cpu() -> bool:
    """Return whether JAX currently computes on a CPU, by default or inside `on_cpu`."""
    with jax.ensure_compile_time_eval():  # so that it also works during tracing
        return next(iter(jnp.zeros(()).devices())).platform == "cpu"


def on_one_device(tree: Any) -> bool:
    """Return whether each array of a pytree is on one device only."""
    return all(len(leaf.devices()) == 1 for leaf in jax.tree.leaves(tree) if isinstance(leaf, jax.Array))


@cache
def _cpu() -> Any:
    """Return JAX's first CPU device, or None."""
    try:
        return jax.local_devices(backend="cpu")[0]
    except RuntimeError:  # the user has disabled JAX's CPU backend
        return None
