"""A GPU kernel that computes the first angles of many updates. An XLA scan would take longer than the search kernel."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
from jax import lax
from jax.experimental import pallas as pl

from ellipslice.engines.device.kernel_launch import launch, load, program_number, uniform
from ellipslice.moves.search import WIDTH, Path, next_angle
from ellipslice.noise import threefry
from ellipslice.programs.site_sums import THREADS_PER_CHAIN, padded_size


def fused_angles(path: Path, keys: Any, dtype: Any, interpret: bool = False) -> tuple[Any, Any, Any]:
    """Return the positions, the first angles and the last brackets of many updates, as `noise.first_angles` does.

    One kernel computes them, with a thread for each update. With `interpret` it runs without a GPU, for tests.
    """
    shape, count = keys.shape[1:], keys[0].size
    padded = padded_size(count)
    words = jnp.pad(keys.reshape(2, count), ((0, 0), (0, padded - count)))

    def kernel(words: Any, here_out: Any, theta_out: Any, brackets_out: Any) -> None:
        group = program_number("rows", interpret)
        rows = pl.ds(group * THREADS_PER_CHAIN, THREADS_PER_CHAIN)
        key_0, key_1 = (load(words, interpret, i, rows) for i in range(2))

        def u(number: Any) -> Any:
            index = jnp.full((THREADS_PER_CHAIN,), number, jnp.uint32)
            return uniform(threefry(key_0, key_1, index, jnp.zeros((THREADS_PER_CHAIN,), jnp.uint32)), dtype.type)

        def in_threads(value: Any) -> Any:
            return jnp.broadcast_to(jnp.asarray(value, dtype), (THREADS_PER_CHAIN,))

        def following(number: Any, last: Any) -> Any:
            last = next_angle(path, here, last, u((number + 2).astype(jnp.uint32)))
            theta_out[number, rows] = last[0]
            return last

        place = u(jnp.uint32(1))
        here = in_threads(path.here(place))
        first = tuple(in_threads(part) for part in path.begin(here, place, u(jnp.uint32(2))))
        here_out[rows] = here
        theta_out[0, rows] = first[0]
        _, brackets_out[0, rows], brackets_out[1, rows] = lax.fori_loop(1, WIDTH, following, first)

    shapes = [jax.ShapeDtypeStruct(size, dtype) for size in ((padded,), (WIDTH, padded), (2, padded))]
    outputs = launch(kernel, shapes, padded // THREADS_PER_CHAIN, "rows", dtype, interpret)(words)
    here, theta, brackets = (part[..., :count].reshape(*part.shape[:-1], *shape) for part in outputs)
    return here, theta, brackets
