"""JAX's and NumPy's settings as this library needs them, for as long as it runs and no longer."""

from __future__ import annotations

import contextlib
import warnings
from collections.abc import Iterator
from functools import cache
from typing import Any

import jax
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


@cache
def _cpu() -> Any:
    try:
        return jax.local_devices(backend="cpu")[0]
    except RuntimeError:  # the user has left JAX with other devices only
        return None
