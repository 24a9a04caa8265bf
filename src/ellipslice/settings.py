"""JAX's settings as this library needs them, for as long as it runs and no longer."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

import jax


@contextlib.contextmanager
def jax_settings() -> Iterator[None]:
    """Double precision and JAX's usual promotion of shapes and types, whatever the user has set; theirs come back."""
    with jax.enable_x64(True), jax.numpy_rank_promotion("allow"), jax.numpy_dtype_promotion("standard"):
        yield
