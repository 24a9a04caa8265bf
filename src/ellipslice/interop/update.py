"""One update inside JAX code that somebody else compiles, loops over and batches."""

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
from ellipslice.programs.traced import Program, TracedLikelihood, look
from ellipslice.undocumented import jaxprs, matrices, xla_loop

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
    words = key if jnp.issubdtype(key.dtype, np.unsignedinteger) else jax.random.key_data(key)
    arguments = words[:2], State(f, jnp.asarray(value, f.dtype)), nu
    if not jaxprs.can_read():
        return _search(lambda f: jnp.asarray(log_likelihood(f), f.dtype), *arguments)
    if jax.default_backend() == "cpu":
        traced = matrices.by_single_matrices(traced)
    likelihood = TracedLikelihood([jnp.asarray(part) for part in traced.consts], Program(traced.jaxpr, object()))
    if _fits_one_function(likelihood, f):
        return _alone(likelihood, *arguments)
    return (_one_by_one if likelihood.program.one_by_one else _search)(likelihood, *arguments)


def _search(likelihood: Any, words: Any, state: State, nu: Any) -> tuple[State, Info]:
    dtype = nu.dtype
    # On (0, 1], so that the logarithm is finite; the angles have the numbers from 1 on.
    level = -jnp.log(1 - uniform(words, jnp.uint32(0), dtype))

    def nth(number: Any) -> Any:
        return uniform(words, jnp.asarray(number + 1, np.uint32), dtype)

    found = search(_MOVE, Noise(nu, level, nth), state, likelihood, NoScout())
    return found.state, found.info


_one_function = jax.jit(xla_loop.as_single_call, static_argnums=(0, 1))


@jax.custom_batching.custom_vmap
def _alone(likelihood: Any, words: Any, state: State, nu: Any) -> tuple[State, Info]:
    """The search as one function, which is faster for one chain; see `undocumented.xla_loop`."""
    return _one_function(_search, (), likelihood, words, state, nu)[0]


@_alone.def_vmap
def _together(size: int, batched: Any, *arguments: Any) -> tuple[Any, Any]:
    """For many chains a loop of long operations is as good, and can use all cores."""
    axes = jax.tree.map(lambda yes: 0 if yes else None, batched)
    result = jax.vmap(_search, in_axes=tuple(axes), axis_size=size)(*arguments)
    return result, jax.tree.map(lambda _: True, result)


@jax.custom_batching.custom_vmap
def _one_by_one(likelihood: Any, words: Any, state: State, nu: Any) -> tuple[State, Info]:
    """The search for a log-likelihood whose operations are not all known to bear batches."""
    return _search(likelihood, words, state, nu)


@_one_by_one.def_vmap
def _in_turn(size: int, batched: Any, *arguments: Any) -> tuple[Any, Any]:
    """Chains that are batched are run one after the other: several matrices at once might be waited for for ever."""
    leaves, structure = jax.tree.flatten(arguments)
    which = jax.tree.leaves(batched)

    def one(own: list[Any]) -> Any:
        rest = iter(own)
        mine = [next(rest) if yes else leaf for leaf, yes in zip(leaves, which, strict=True)]
        return _search(*jax.tree.unflatten(structure, mine))

    result = jax.lax.map(one, [leaf for leaf, yes in zip(leaves, which, strict=True) if yes])
    return result, jax.tree.map(lambda _: True, result)


def _fits_one_function(likelihood: TracedLikelihood, f: Any) -> bool:
    return (
        jax.default_backend() == "cpu" and look(likelihood, f.size, f.dtype).fits_one_function and xla_loop.possible()
    )
