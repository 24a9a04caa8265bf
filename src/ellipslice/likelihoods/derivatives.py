"""First and second derivatives of pointwise log-likelihoods by JAX, for classes that have no formulas."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from ellipslice.jax_settings import on_cpu

_KNOWN_ELEMENTWISE: set[Any] = set()
"""Structures of likelihoods whose pointwise values have been found to depend on one element of f each."""


def jax_slope(likelihood: Any, f: np.ndarray) -> np.ndarray:
    """Return the derivative of each pointwise value of `likelihood` with respect to its element of f."""
    _require_elementwise(likelihood, f)
    return _evaluate(_slope, likelihood, f)


def jax_curvature(likelihood: Any, f: np.ndarray) -> np.ndarray:
    """Return the second derivative of each pointwise value of `likelihood` with respect to its element of f."""
    _require_elementwise(likelihood, f)
    return _evaluate(_curvature, likelihood, f)


def _slope(likelihood: Any, f: Any) -> Any:
    return jax.grad(lambda f: likelihood.pointwise(f).sum())(f)


def _curvature(likelihood: Any, f: Any) -> Any:
    return jax.jvp(lambda f: _slope(likelihood, f), (f,), (jnp.ones_like(f),))[1]


def _change(likelihood: Any, f: Any, along: Any) -> Any:
    """Return the derivative of the pointwise values along a direction."""
    return jax.jvp(likelihood.pointwise, (f,), (along,))[1]


_COMPILED = {function: jax.jit(function) for function in (_slope, _curvature, _change)}


def _evaluate(function: Any, likelihood: Any, *arrays: np.ndarray) -> np.ndarray:
    """Return the result of a function of a likelihood and arrays as a NumPy array.

    It is compiled once for all likelihoods of a class with data of the same shape. That requires a pytree.
    """
    run = function if jax.tree_util.all_leaves([likelihood]) else _COMPILED[function]
    with on_cpu():
        return np.asarray(run(likelihood, *map(jnp.asarray, arrays)))


def _require_elementwise(likelihood: Any, f: np.ndarray) -> None:
    """Raise if a pointwise value depends on other elements of f. Each class and shape of data is tested once."""
    structure = type(likelihood), jax.tree.structure(likelihood), f.shape
    if jax.tree_util.all_leaves([likelihood]):
        structure = type(likelihood), f.shape
    if structure in _KNOWN_ELEMENTWISE:
        return
    along = np.random.default_rng(0).uniform(0.5, 1.5, f.shape)
    slope, change = _evaluate(_slope, likelihood, f), _evaluate(_change, likelihood, f, along)
    finite = np.isfinite(slope) & np.isfinite(change)
    if not np.allclose(change[finite], (slope * along)[finite], rtol=1e-6, atol=1e-9):
        raise TypeError(
            f"{type(likelihood).__name__}: a pointwise value depends on more than its own element of f, so it has no "
            "slope and curvature. Expected a log-likelihood that factorises over the elements of f."
        )
    _KNOWN_ELEMENTWISE.add(structure)
