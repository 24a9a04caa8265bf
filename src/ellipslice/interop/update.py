"""One update of elliptical slice sampling for JAX code that another library compiles, loops over and batches."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from ellipslice.engines.compiled.scouts import NoScout
from ellipslice.engines.compiled.search import search
from ellipslice.moves import EllipticalSlice, Info, State
from ellipslice.noise import Noise, uniform
from ellipslice.programs.traced import Program, TracedLikelihood, program_properties
from ellipslice.undocumented import jaxprs, matrices, xla_loop

_MOVE = EllipticalSlice()


def update(key: Any, f: Any, value: Any, nu: Any, log_likelihood: Callable[[Any], Any]) -> tuple[State, Info]:
    """Return the state after one update (Figure 2 of the paper), in the precision of f, and its statistics.

    Parameters
    ----------
    key : JAX random key
        Key of this update only. nu must have been drawn with another one.
    f, nu : arrays, shape (size,)
        The current state and a draw from the prior, both minus the prior mean.
    value : scalar
        The log-likelihood at f.
    log_likelihood : callable
        Function of a centred flat vector. It may close over traced values.
    """
    traced = jax.make_jaxpr(lambda f: jnp.asarray(log_likelihood(f), f.dtype))(f)
    if traced.out_avals[0].shape != ():
        raise ValueError(
            f"log_likelihood must return one number, but it returned an array of shape {traced.out_avals[0].shape}. "
            "Did you forget to sum over the observations?"
        )
    words = key if jnp.issubdtype(key.dtype, np.unsignedinteger) else jax.random.key_data(key)
    arguments = words[:2], State(f, jnp.asarray(value, f.dtype)), nu
    if not jaxprs.can_read():
        return _search(lambda f: jnp.asarray(log_likelihood(f), f.dtype), *arguments)
    if jax.default_backend() == "cpu":
        traced = matrices.by_single_matrices(traced)
    likelihood = TracedLikelihood([jnp.asarray(part) for part in traced.consts], Program(traced.jaxpr, object()))
    if _fits_one_function(likelihood, f):
        return _search_as_one_function(likelihood, *arguments)
    return (_search_sequentially if likelihood.program.one_by_one else _search)(likelihood, *arguments)


def _search(likelihood: Any, words: Any, state: State, nu: Any) -> tuple[State, Info]:
    dtype = nu.dtype
    # 1 - uniform is in (0, 1], so the logarithm is finite. Counter 0 is for the slice level, 1 and up for the angles.
    level = -jnp.log(1 - uniform(words, jnp.uint32(0), dtype))

    def nth(number: Any) -> Any:
        return uniform(words, jnp.asarray(number + 1, np.uint32), dtype)

    found = search(_MOVE, Noise(nu, level, nth), state, likelihood, NoScout())
    return found.state, found.info


_one_function = jax.jit(xla_loop.as_single_call, static_argnums=(0, 1))


@jax.custom_batching.custom_vmap
def _search_as_one_function(likelihood: Any, words: Any, state: State, nu: Any) -> tuple[State, Info]:
    """Run the search compiled as one function, which is faster for one chain; see `undocumented.xla_loop`."""
    return _one_function(_search, (), likelihood, words, state, nu)[0]


@_search_as_one_function.def_vmap
def _search_batch(size: int, batched: Any, *arguments: Any) -> tuple[Any, Any]:
    """Run a batch of chains in an ordinary loop. Its operations are long, so it is as fast, and can use all cores."""
    axes = jax.tree.map(lambda is_batched: 0 if is_batched else None, batched)
    result = jax.vmap(_search, in_axes=tuple(axes), axis_size=size)(*arguments)
    return result, jax.tree.map(lambda _: True, result)


@jax.custom_batching.custom_vmap
def _search_sequentially(likelihood: Any, words: Any, state: State, nu: Any) -> tuple[State, Info]:
    """Run the search for a log-likelihood with operations that may not be batched."""
    return _search(likelihood, words, state, nu)


@_search_sequentially.def_vmap
def _search_batch_sequentially(size: int, batched: Any, *arguments: Any) -> tuple[Any, Any]:
    """Run the chains of a batch one after the other. Batched matrix operations could wait forever for XLA's threads."""
    leaves, structure = jax.tree.flatten(arguments)
    flags = jax.tree.leaves(batched)

    def one(own: list[Any]) -> Any:
        rest = iter(own)
        full = [next(rest) if is_batched else leaf for leaf, is_batched in zip(leaves, flags, strict=True)]
        return _search(*jax.tree.unflatten(structure, full))

    result = jax.lax.map(one, [leaf for leaf, is_batched in zip(leaves, flags, strict=True) if is_batched])
    return result, jax.tree.map(lambda _: True, result)


def _fits_one_function(likelihood: TracedLikelihood, f: Any) -> bool:
    return (
        jax.default_backend() == "cpu"
        and program_properties(likelihood, f.size, f.dtype).fits_one_function
        and xla_loop.single_call_supported()
    )
