"""Launching, loading and random numbers of the GPU kernels in `kernel` and `kernel_angles`."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.experimental import pallas as pl
from jax.experimental.pallas import mosaic_gpu as plgpu

from ellipslice.noise import as_uniform
from ellipslice.programs.site_sums import THREADS_PER_CHAIN

_LOAD_TAKES_INDEX = jax.__version_info__ < (0, 11)


def launch(kernel: Any, shapes: list[Any], programs: int, name: str, dtype: Any, interpret: bool) -> Any:
    """Return a function that runs `programs` copies of a kernel on a GPU, or without one if `interpret` is true."""
    if interpret:
        return pl.pallas_call(kernel, out_shape=shapes, grid=(programs,), interpret=True)
    parameters = plgpu.CompilerParams(
        approx_math=dtype == np.float32,
        unsafe_no_auto_barriers=True,  # barriers are not needed, because no memory is both read and written
        lowering_semantics=plgpu.LoweringSemantics.Warpgroup,
    )
    return plgpu.kernel(kernel, out_type=shapes, grid=(programs,), grid_names=(name,), compiler_params=parameters)


def program_number(name: str, interpret: bool) -> Any:
    """Return, inside a kernel, the number of this copy. `name` is the one that was passed to `launch`."""
    return pl.program_id(0) if interpret else jax.lax.axis_index(name)


def load(reference: Any, interpret: bool, *where: Any) -> Any:
    """Read a piece of an array into the registers of a group of threads, one element per thread."""
    if interpret:
        return reference[where]
    layout = plgpu.Layout.WG_STRIDED((THREADS_PER_CHAIN,), vec_size=1)
    if _LOAD_TAKES_INDEX:
        return plgpu.load(reference, where, layout=layout)
    return plgpu.load(reference.at[where], layout=layout)  # pyright: ignore[reportCallIssue]


def uniform(words: tuple[Any, Any], dtype: Any) -> Any:
    """Return the uniform on [0, 1) that is made from two random words."""
    return as_uniform(_Word(words[0]), _Word(words[1]), dtype)


class _Word:
    """A random word whose `astype` goes through signed integers: kernels can convert only these to floating point."""

    def __init__(self, bits: Any):
        self.bits = bits

    def __rshift__(self, count: Any) -> _Word:
        return _Word(self.bits >> count)

    def astype(self, dtype: Any) -> Any:
        return self.bits.astype(jnp.int32).astype(dtype)
