"""One GPU kernel that runs whole chains, without a launch or a barrier between proposals.

One group of 128 threads runs each chain. It holds the state, nu and the data in registers, and makes all updates of a
block one after the other (`kernel_chain.py`). Chains do not wait for each other. The likelihood must factorise over the
elements of f (`programs/site_sums.py`). The kernel is written in Pallas, for NVIDIA GPUs of the Hopper generation or
newer.
"""

from __future__ import annotations

from functools import partial
from typing import Any

import jax
import jax.numpy as jnp

from ellipslice.engines.device.draws import ChainTotals, DrawBuffer, DrawSchedule
from ellipslice.engines.device.kernel_chain import (
    KernelChain,
    KernelInputs,
    KernelOutputs,
    KernelSchedule,
    KernelSettings,
)
from ellipslice.engines.device.kernel_launch import launch, program_number
from ellipslice.engines.device.noise import DeviceNoise
from ellipslice.moves import State
from ellipslice.moves.search import WIDTH, Path
from ellipslice.programs.site_program import KERNEL, Elementwise
from ellipslice.programs.site_sums import elementwise, padded_size


def fused_block(
    path: Path,
    look_ahead: int,
    likelihood: Any,
    state: State,
    noise: DeviceNoise,
    schedule: DrawSchedule,
    slots: int,
    interpret: bool = False,
) -> tuple[State, DrawBuffer, ChainTotals]:
    """Run a block of updates of all chains in one GPU kernel. Return their states, the draws and the totals.

    The parameters are those of `loop.run_block_on_device`. The likelihood must factorise over the elements of f. With
    `interpret` the kernel runs without a GPU, for tests.
    """
    (chains, size), dtype = state.f.shape, state.f.dtype
    program = elementwise(likelihood, size, dtype, KERNEL)
    settings = KernelSettings(path, look_ahead, program, size, chains, dtype.type, interpret)
    inputs, outputs = _inputs(path, program, state, noise, schedule), _output_shapes(state, slots)
    inputs, in_tree = jax.tree.flatten(inputs)
    shapes, out_tree = jax.tree.flatten(outputs)

    def kernel(*references: Any) -> None:
        KernelChain(
            settings,
            jax.tree.unflatten(in_tree, references[: len(inputs)]),
            jax.tree.unflatten(out_tree, references[len(inputs) :]),
            program_number("chain", interpret),
        ).run()

    written = launch(kernel, shapes, chains, "chain", dtype, interpret)(*inputs)
    (f, log_likelihood), draws, totals = jax.tree.unflatten(out_tree, written)
    draws = jax.tree.map(lambda part: part.reshape(slots, chains, *part.shape[1:]), draws)
    draws = draws._replace(f=draws.f[..., :size], search_failed=draws.search_failed > 0)
    return State(f[:, :size], log_likelihood), draws, totals


def _inputs(path: Path, program: Elementwise, state: State, noise: DeviceNoise, schedule: DrawSchedule) -> KernelInputs:
    """Return the arrays that the kernel reads."""
    size, dtype = state.f.shape[1], state.f.dtype
    padding = padded_size(size) - size
    data = tuple(jnp.pad(part.astype(dtype), (0, padding), mode="edge") for part in program.data)
    scalars = [jnp.asarray(part, dtype) for part in (*program.scalars, program.constant)]
    w_a, w_b = path.weights(noise.theta)
    numbers = KernelSchedule(schedule.updates, schedule.first, schedule.thin)
    return KernelInputs(
        f=jnp.pad(state.f, ((0, 0), (0, padding))),
        log_likelihood=state.log_likelihood,
        nu=noise.nu.reshape(noise.level.size, -1),
        level=noise.level.ravel(),
        theta=noise.theta.reshape(WIDTH, -1),
        w_a=w_a.reshape(WIDTH, -1),
        w_b=w_b.reshape(WIDTH, -1),
        brackets=noise.brackets.reshape(2, -1),
        keys=noise.keys.reshape(2, -1),
        schedule=jnp.stack([jnp.asarray(number, jnp.int32) for number in numbers]),
        scalars=jnp.stack(scalars),
        is_real=(jnp.arange(size + padding) < size).astype(dtype),
        here=noise.here.ravel(),
        unit=noise.unit,
        data=data,
    )


def _output_shapes(state: State, slots: int) -> KernelOutputs:
    """Return the shapes and types of the arrays that the kernel writes."""
    (chains, size), dtype = state.f.shape, state.f.dtype

    def shape(*lengths: int, dtype: Any = dtype) -> Any:
        return jax.ShapeDtypeStruct(lengths, dtype)

    integer = partial(shape, dtype=jnp.int32)
    padded, drawn = padded_size(size), slots * chains
    return KernelOutputs(
        State(shape(chains, padded), shape(chains)),
        DrawBuffer(shape(drawn, padded), shape(drawn), integer(drawn), integer(drawn), integer(drawn), shape(drawn)),
        ChainTotals(integer(chains), integer(chains), integer(chains), shape(chains)),
    )
