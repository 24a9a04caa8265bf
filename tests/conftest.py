"""What several tests share."""

from __future__ import annotations

import jax
import pytest


@pytest.fixture
def log_compiles():
    """JAX logs what it compiles, in the threads of the chains too."""
    jax.config.update("jax_log_compiles", True)
    yield
    jax.config.update("jax_log_compiles", False)
