"""The batched and the fused engine: all chains in parallel on a device, which also draws their random numbers."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import Any, ClassVar

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import NamedSharding

from ellipslice.engines.base import Checkpoint, Engine, RunSpec
from ellipslice.engines.compiled import CompiledEngine
from ellipslice.engines.compiled.search import evaluate_together
from ellipslice.engines.device.noise import chain_keys, update_keys
from ellipslice.engines.device.prior_draws import Source, can_draw, source_of
from ellipslice.engines.device.reference_draws import ReferenceSources, check_single_precision
from ellipslice.engines.device.reference_updates import constant_kicks, runs_in_lock_step
from ellipslice.engines.device.run import BatchedRun, Plan, run_block
from ellipslice.engines.device.sharding import REPLICATED, chains_over_devices
from ellipslice.jax_settings import jax_settings, on_one_device, tracing_settings
from ellipslice.moves import Move, State
from ellipslice.moves.search import WIDTH
from ellipslice.posterior import Posterior
from ellipslice.programs.site_program import KERNEL
from ellipslice.programs.site_sums import MAX_KERNEL_ELEMENTS, NotFactorised, elementwise, padded_size
from ellipslice.programs.traced import compilable
from ellipslice.undocumented.runtime import compute_capability, memory_limit

MAX_BLOCK_NUMBERS = {"gpu": 5 * 10**8, "cpu": 2 * 10**6}
"""Largest number of random numbers in a block, by platform. Long blocks keep the device busy, because chains that have
finished a block wait for the others at its end."""

MAX_BLOCK_UPDATES = 8192
"""Largest number of updates in a block."""


class BatchedEngine(Engine):
    """Engine that runs all chains in one loop on the device, in single or double precision.

    Parameters
    ----------
    posterior : Posterior
    double : bool
        Double precision. Default: True.
    """

    name = "batched"
    traced = True
    fused: ClassVar[bool] = False
    """True if chains run inside one GPU kernel (`kernel.py`), False if they run in an XLA loop (`loop.py`)."""

    def __init__(self, posterior: Posterior, *, double: bool = True):
        super().__init__(posterior)
        self.double, self.dtype = double, np.dtype(np.float64 if double else np.float32)
        self._single_point = CompiledEngine(posterior)

    @cached_property
    def likelihood(self) -> Any:
        """The log-likelihood as JAX traced it, in the precision of the chains."""
        with tracing_settings(self.double):
            return compilable(self.posterior.log_likelihood, self.posterior.prior.size, self.dtype)

    @property
    def padded(self) -> int:
        """Number of elements of a state in memory, including padding."""
        size = self.posterior.prior.size
        return padded_size(size) if self.fused else size + -size % 8

    @cached_property
    def source(self) -> Source:
        """The source of draws from the prior, on the device."""
        with jax_settings(self.double):
            return source_of(self.posterior.prior, self.padded, self.dtype)

    def block_length(self, chains: int, move: Move | None = None) -> int:
        """Return the number of updates in a block for `chains` chains, whose draws and angles must fit into memory.

        It is a multiple of the interval of plain updates if the move has one, so that all blocks have the same number.
        """
        length = block_length(chains * (self.padded + 3 * WIDTH))
        every = min(getattr(move, "plain_every", 1), length)
        return length - length % every

    def evaluate(self, f: np.ndarray) -> float:
        """Return the log-likelihood of one centred flat vector, always in double precision."""
        return self._single_point.evaluate(f.astype(np.float64))

    def evaluate_all(self, points: Sequence[np.ndarray]) -> list[float]:
        return self.evaluate_together(np.stack(points)).tolist()

    def evaluate_together(self, points: np.ndarray) -> np.ndarray:
        """Return the log-likelihoods of centred flat vectors, shape (count, size), always in double precision."""
        return self._single_point.evaluate_together(points.astype(np.float64))

    def first_points(self, seed: int, chains: Sequence[int]) -> list[np.ndarray]:
        """Return a prior draw for each chain, drawn on the device with update number 2^32 - 1, which no run reaches."""
        with jax_settings(self.double):
            points = _first_points(self.source, chain_keys(seed, chains))[:, : self.posterior.prior.size]
            return list(np.asarray(points, np.float64))

    def check(self, spec: RunSpec, by_workers: bool = False) -> None:
        super().check(spec, by_workers)
        if not self.double and runs_in_lock_step(spec.move):
            check_single_precision(self.prepared(spec.move))

    def _sources(self, move: Move) -> Source | ReferenceSources:
        """Return the source of draws from the prior, with that of the reference if the move has one."""
        if not runs_in_lock_step(move):
            return self.source
        with jax_settings(self.double):
            return ReferenceSources(self.source, self.prepared(move), self.padded, self.dtype)

    def run(self, spec: RunSpec, starts: Sequence[Checkpoint], updates: int) -> BatchedRun:
        count = len(spec.chains)
        length = self.block_length(count, spec.move)
        mesh = chains_over_devices(count) if on_one_device(self.likelihood) else None
        fixed = self.likelihood, self._sources(spec.move)
        if mesh is not None:
            fixed = jax.device_put(fixed, NamedSharding(mesh, REPLICATED))
        ahead, slots = _look_ahead(spec.look_ahead, count, self.fused), -(-length // spec.thin)
        plan = Plan(self.fused, spec.move, ahead, length, slots, self.dtype, constant_kicks(spec.move), mesh)
        fixed = *fixed, chain_keys(spec.seed, spec.chains)
        return BatchedRun(plan, fixed, spec, starts, self._first(spec, starts), updates, self.of_block)

    def _first(self, spec: RunSpec, starts: Sequence[Checkpoint]) -> State:
        """Return the initial states of all chains on the device, with log-likelihoods in their precision."""
        with jax_settings(self.double):
            f = jnp.asarray(np.stack([start.state.f for start in starts], dtype=self.dtype, casting="same_kind"))
            if starts[0].updates:  # a resumed chain has log-likelihoods that the device has computed before
                return State(f, jnp.asarray([start.state.log_likelihood for start in starts], self.dtype))
            state = State(f, evaluate_together(self.likelihood, f))
        values = np.asarray(state.log_likelihood)
        (bad,) = np.nonzero(~np.isfinite(values))
        if len(bad):
            raise ValueError(
                f"the log-likelihood at the initial state of chain {spec.chains[bad[0]]} is {values[bad[0]]} in single "
                'precision, and finite in double precision. Use precision="double".'
            )
        return state


class FusedEngine(BatchedEngine):
    """Engine that runs all chains in one GPU kernel, for log-likelihoods that factorise over the elements of f."""

    name = "fused"
    fused: ClassVar[bool] = True


def why_not_batched(posterior: Posterior, move: Move) -> str | None:
    """Return why the batched engine cannot run chains with this move, or None if it can."""
    if move.path is None and not runs_in_lock_step(move):
        return f"an update of {move!r} is not a single search, so it runs chain by chain"
    if not can_draw(posterior.prior):
        return f"{posterior.prior!r} draws on the host"
    return None


def why_not_fused(engine: BatchedEngine, move: Move) -> str | None:
    """Return why the fused kernel cannot run chains with this move, or None if it can."""
    if move.path is None:
        return f"an update of {type(move).__name__} is not a single search, which the fused kernel requires"
    size = engine.posterior.prior.size
    if size > MAX_KERNEL_ELEMENTS:
        return f"a state of {size:,} elements does not fit into a GPU's registers (at most {MAX_KERNEL_ELEMENTS:,} do)"
    device = jax.local_devices()[0]
    if device.platform != "gpu" or compute_capability(device) < 9.0:
        return "the fused kernel needs an NVIDIA GPU of the Hopper generation or newer"
    try:
        with jax_settings(engine.double):
            elementwise(engine.likelihood, size, engine.dtype, KERNEL)
            _try_to_lower(engine, move)
    except NotFactorised as reason:
        return f"the fused kernel cannot compute the log-likelihood as a sum over the elements of f: {reason}"
    except Exception as error:  # noqa: BLE001  the GPU's compiler may raise anything
        return f"JAX could not compile the fused kernel ({type(error).__name__}: {str(error)[:120]})"
    return None


def _try_to_lower(engine: BatchedEngine, move: Move) -> None:
    """Lower the fused block for one chain and one update, without running it. Raise if that is impossible."""
    size, number = engine.posterior.prior.size, jax.ShapeDtypeStruct((), np.int32)
    state = State(jax.ShapeDtypeStruct((1, size), engine.dtype), jax.ShapeDtypeStruct((1,), engine.dtype))
    plan, keys = Plan(True, move, 1, 1, 1, engine.dtype), jax.ShapeDtypeStruct((2, 1), np.uint32)
    run_block.lower(plan, engine.likelihood, engine.source, keys, np.uint32(0), state, number, number, number)


def block_length(numbers: int) -> int:
    """Return the number of updates in a block if each update takes `numbers` random numbers: a power of two."""
    budget = MAX_BLOCK_NUMBERS["gpu" if jax.default_backend() == "gpu" else "cpu"]
    limit = memory_limit(jax.local_devices()[0])
    if limit is not None:
        budget = min(budget, limit // 100)  # about 8 bytes per number, and a dozen arrays of this size at a time
    length = 1
    while length < MAX_BLOCK_UPDATES and 2 * length * numbers <= budget:
        length *= 2
    return length


def _look_ahead(requested: int | None, chains: int, fused: bool) -> int:
    """Return the number of angles of a chain that are evaluated in parallel: a power of two, at most WIDTH.

    The default is larger for few chains, because they alone do not keep the device busy.
    """
    if requested is None:
        few, some = chains <= 256, chains <= 2048
        requested = (4 if few else 2 if some else 1) if fused else (32 if few else 16 if some else 8)
    return min(WIDTH, 1 << (requested.bit_length() - 1))


@jax.jit
def _first_points(source: Source, keys: Any) -> Any:
    """Return a prior draw for each chain key, with the random numbers of update 2^32 - 1."""
    return source.draw(update_keys(keys, np.uint32(2**32 - 1), 1)[:, 0])
