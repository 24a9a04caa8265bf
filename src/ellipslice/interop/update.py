"""One update inside JAX code that somebody else compiles, loops over and batches."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from ellipslice.engines.compiled import ONE_FUNCTION, SMALL
from ellipslice.engines.loops import KNOWN, CompiledTarget, as_one_function
from ellipslice.engines.tracing import Program, TracedLikelihood, largest_array, operations
from ellipslice.moves import EllipticalSlice, Info, State
from ellipslice.noise import Noise, uniform

_MOVE = EllipticalSlice()


def update(key: Any, f: Any, value: Any, nu: Any, log_likelihood: Callable[[Any], Any]) -> tuple[State, Info]:
    """One update of elliptical slice sampling: Figure 2, in the precision of f.

    Parameters
    ----------
    key : JAX random key
        Of this update alone, and not the one nu was drawn with.
    f, nu : arrays, shape (size,)
        The current state and a draw from the prior, both less the prior's mean.
    value : scalar
        The log-likelihood of f.
    log_likelihood : callable
        Of a centred flat vector. It may close over traced values.
    """
    traced = jax.make_jaxpr(lambda f: jnp.asarray(log_likelihood(f), f.dtype))(f)
    if traced.out_avals[0].shape != ():
        raise ValueError(
            f"log_likelihood must return one number, but it returned an array of shape {traced.out_avals[0].shape}. "
            "Did you forget to sum over the observations?"
        )
    likelihood = TracedLikelihood([jnp.asarray(part) for part in traced.consts], Program(traced.jaxpr, object()))
    words = key if jnp.issubdtype(key.dtype, np.unsignedinteger) else jax.random.key_data(key)
    arguments = likelihood, words[:2], State(f, jnp.asarray(value, f.dtype)), nu
    return (_alone if _fits_one_function(likelihood, f) else _search)(*arguments)


def _search(likelihood: Any, words: Any, state: State, nu: Any) -> tuple[State, Info]:
    dtype = nu.dtype
    # On (0, 1], so that the logarithm is finite; the angles have the numbers from 1 on.
    level = -jnp.log(1 - uniform(words, jnp.uint32(0), dtype))

    def nth(number: Any) -> Any:
        return uniform(words, jnp.asarray(number + 1, np.uint32), dtype)

    return CompiledTarget(likelihood).search(_MOVE, Noise(nu, level, nth), state)


_one_function = jax.jit(as_one_function, static_argnums=(0, 1))


@jax.custom_batching.custom_vmap
def _alone(likelihood: Any, words: Any, state: State, nu: Any) -> tuple[State, Info]:
    """The search as one function, which is faster for one chain; see `engines.loops`."""
    return _one_function(_search, (), likelihood, words, state, nu)[0]


@_alone.def_vmap
def _together(size: int, batched: Any, *arguments: Any) -> tuple[Any, Any]:
    """For many chains a loop of long operations is as good, and can use all cores."""
    axes = jax.tree.map(lambda yes: 0 if yes else None, batched)
    result = jax.vmap(_search, in_axes=tuple(axes), axis_size=size)(*arguments)
    return result, jax.tree.map(lambda _: True, result)


def _fits_one_function(likelihood: TracedLikelihood, f: Any) -> bool:
    return (
        KNOWN
        and jax.default_backend() == "cpu"
        and operations(likelihood) <= ONE_FUNCTION
        and max(f.size, largest_array(likelihood)) <= SMALL
    )
