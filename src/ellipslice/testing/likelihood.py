"""Property tests of likelihoods."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from ellipslice.engines.compiled import CompiledEngine
from ellipslice.engines.host.call import Call
from ellipslice.jax_settings import jax_settings
from ellipslice.likelihoods import Likelihood
from ellipslice.posterior import Posterior
from ellipslice.priors import Diagonal
from ellipslice.testing.assertions import require, require_close


def check_likelihood(log_likelihood: Callable[..., Any], f: Any, *, seed: int = 0) -> None:
    """Check a log-likelihood. Raise an error that names the property if one does not hold.

    - It returns one real number, which is finite at `f`.
    - The same f gives the same number.
    - It does not change its argument.
    - If JAX can trace it, the compiled value equals the value of the function up to rounding error.

    For a `Likelihood` these are checked, too:

    - `pointwise` has the shape of f, and sums to the log-likelihood.
    - A batch gives the same values as its rows.
    - `slope` and `curvature` are the derivatives of `pointwise`.
    - `simulate` returns data of the shape of f.

    Parameters
    ----------
    log_likelihood : callable
        Function of a latent array.
    f : array
        Latent array at which the log-likelihood is finite. It is tested there and near it.
    seed : int
        Seed of the test points. Default: 0.

    Raises
    ------
    AssertionError
        If a property does not hold.
    ValueError, TypeError
        If the function cannot be called, does not return a number, or changes its argument.

    Examples
    --------
    >>> import numpy as np
    >>> import ellipslice as es
    >>> es.testing.check_likelihood(es.likelihoods.Poisson([2, 0, 1]), np.zeros(3))
    >>> rng = np.random.default_rng(1)
    >>> es.testing.check_likelihood(lambda f: -float(f @ f) + rng.normal(), np.zeros(3))
    Traceback (most recent call last):
        ...
    AssertionError: two calls with the same f gave ...
    """
    f = np.asarray(f, dtype=np.float64)
    rng = np.random.default_rng(seed)
    posterior = Posterior(Diagonal(np.ones(f.shape)), log_likelihood)
    call = Call(posterior).first
    with jax_settings():
        for scale in (0.0, 1e-3, 1.0):
            point = (f + scale * rng.standard_normal(f.shape)).ravel()
            value = call(point)
            require(value != np.inf, "the log-likelihood is +inf")
            require(scale > 0 or math.isfinite(value), f"the log-likelihood is {value} at the given f")
            again = call(point)
            require(value == again or value != value, f"two calls with the same f gave {value} and {again}")
            try:
                compiled = CompiledEngine(posterior).evaluate(point)
            except Exception:  # noqa: BLE001  JAX does not need to be able to trace it
                continue
            require_close(compiled, value, "the compiled value differs from that of the function")
        if isinstance(log_likelihood, Likelihood):
            _check_parts(log_likelihood, f, rng)


def _check_parts(likelihood: Likelihood, f: np.ndarray, rng: np.random.Generator) -> None:
    """Check `pointwise`, batches and `simulate` of a `Likelihood`."""
    batch = f + rng.standard_normal((5, *f.shape)) * np.array([0.1, 1, 3, 10, 30]).reshape(5, *[1] * f.ndim)
    terms = np.asarray(likelihood.pointwise(batch))
    require(terms.shape == batch.shape, f"pointwise of shape {batch.shape} has shape {terms.shape}; expected the same")
    require_close(
        likelihood(batch), terms.reshape(5, -1).sum(axis=1), "pointwise does not sum to the value of the log-likelihood"
    )
    require_close([likelihood(row) for row in batch], likelihood(batch), "a batch gives other values than its rows")
    _check_derivatives(likelihood, f + 0.1 * rng.standard_normal(f.shape))
    data = np.asarray(likelihood.simulate(f, rng))
    require(data.shape == f.shape, f"simulate returns shape {data.shape}; expected {f.shape}")


def _check_derivatives(likelihood: Likelihood, f: np.ndarray) -> None:
    """Check that `slope` and `curvature` are the derivatives of `pointwise`, if JAX can differentiate it."""

    def by_jax(f: Any) -> Any:
        return jax.grad(lambda f: likelihood.pointwise(f).sum())(f)

    try:
        slope, curvature = jax.jvp(by_jax, (jnp.asarray(f),), (jnp.ones(f.shape),))
    except Exception:  # noqa: BLE001  JAX does not need to be able to differentiate it
        return
    require_close(likelihood.slope(f), slope, "slope is not the derivative of pointwise")
    require_close(likelihood.curvature(f), curvature, "curvature is not the second derivative of pointwise")
