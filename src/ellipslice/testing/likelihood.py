"""The laws of likelihoods."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from ellipslice.engines.compiled import CompiledEngine
from ellipslice.engines.host.call import Call
from ellipslice.jax_settings import jax_settings
from ellipslice.likelihoods import Likelihood
from ellipslice.posterior import Posterior
from ellipslice.priors import Diagonal
from ellipslice.testing.assertions import require, require_close


def check_likelihood(log_likelihood: Callable[..., Any], f: Any, *, seed: int = 0) -> None:
    """Check a log-likelihood near a latent array `f` where it is finite.

    The laws: it returns one real number; the same f gives the same number; it does not change its argument; if JAX can
    trace it, compiled and plain values agree. For a `Likelihood` also: `pointwise` sum to the value, batches equal
    their rows, and `simulate` gives data of the right shape.

    Parameters
    ----------
    log_likelihood : callable
    f : array
        A point to test around.
    seed : int
    """
    f = np.asarray(f, dtype=np.float64)
    rng = np.random.default_rng(seed)
    posterior = Posterior(Diagonal(np.ones(f.shape)), log_likelihood)
    look = Call(posterior).first
    with jax_settings():
        for scale in (0.0, 1e-3, 1.0):
            point = (f + scale * rng.standard_normal(f.shape)).ravel()
            value = look(point)
            require(value != np.inf, "the log-likelihood is +inf")
            require(scale > 0 or math.isfinite(value), f"the log-likelihood is {value} at the point given")
            again = look(point)
            require(value == again or value != value, f"the same f gave {value} and then {again}")
            try:
                compiled = CompiledEngine(posterior).evaluate(point)
            except Exception:  # noqa: BLE001  not traceable, which is no fault
                continue
            require_close(compiled, value, "compiled and plain values differ")
        if isinstance(log_likelihood, Likelihood):
            _check_parts(log_likelihood, f, rng)


def _check_parts(likelihood: Likelihood, f: np.ndarray, rng: np.random.Generator) -> None:
    batch = f + rng.standard_normal((5, *f.shape)) * np.array([0.1, 1, 3, 10, 30]).reshape(5, *[1] * f.ndim)
    terms = np.asarray(likelihood.pointwise(batch))
    require(terms.shape == batch.shape, f"terms of shape {batch.shape} have shape {terms.shape}")
    require_close(likelihood(batch), terms.reshape(5, -1).sum(axis=1), "terms do not sum to the value")
    require_close([likelihood(row) for row in batch], likelihood(batch), "a batch differs from its rows")
    data = np.asarray(likelihood.simulate(f, rng))
    require(data.shape == f.shape, f"simulate gives shape {data.shape}; expected {f.shape}")
