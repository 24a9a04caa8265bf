"""The batched and the fused engine: all chains together on a device, where their random numbers are drawn too."""

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
from ellipslice.engines.device.run import BatchedRun, Plan, run_block
from ellipslice.engines.device.sharding import EVERYWHERE, chains_over_devices, on_one_device
from ellipslice.engines.host.angles import WIDTH
from ellipslice.jax_settings import jax_settings, tracing_settings
from ellipslice.moves import Move, Path, State
from ellipslice.posterior import Posterior
from ellipslice.programs.site_program import KERNEL
from ellipslice.programs.site_sums import LARGEST, NotElementwise, elementwise, padded_size
from ellipslice.programs.traced import compilable
from ellipslice.undocumented.runtime import compute_capability, memory_limit

NUMBERS = {"gpu": 5 * 10**8, "cpu": 2 * 10**6}
"""Numbers in the noise of a block: enough to keep the device busy, and the tail of idle chains short."""

LONGEST = 8192
"""Updates in the longest block."""


class BatchedEngine(Engine):
    """All chains in one loop on the device, in single or double precision.

    Parameters
    ----------
    posterior : Posterior
    double : bool
        Whether to work in double precision.
    """

    name = "batched"
    traced = True
    fused: ClassVar[bool] = False
    """Whether chains run inside one GPU kernel (`kernel.py`), or in a loop of XLA's (`loop.py`)."""

    def __init__(self, posterior: Posterior, *, double: bool = True):
        super().__init__(posterior)
        self.double, self.dtype = double, np.dtype(np.float64 if double else np.float32)
        self._single_point = CompiledEngine(posterior)

    @cached_property
    def likelihood(self) -> Any:
        with tracing_settings(self.double):
            return compilable(self.posterior.log_likelihood, self.posterior.prior.size, self.dtype)

    @property
    def padded(self) -> int:
        """The length of a state's row in memory."""
        size = self.posterior.prior.size
        return padded_size(size) if self.fused else size + -size % 8

    @cached_property
    def source(self) -> Source:
        with jax_settings(self.double):
            return source_of(self.posterior.prior, self.padded, self.dtype)

    def block_length(self, chains: int) -> int:
        """Updates in a block: nu and the angles of so many chains fit into it."""
        return block_length(chains * (self.padded + 3 * WIDTH))

    def evaluate(self, f: np.ndarray) -> float:
        """In double precision, whatever the chains run in."""
        return self._single_point.evaluate(f.astype(np.float64))

    def evaluate_all(self, points: Sequence[np.ndarray]) -> list[float]:
        return self.evaluate_together(np.stack(points)).tolist()

    def evaluate_together(self, points: np.ndarray) -> np.ndarray:
        """In double precision, whatever the chains run in."""
        return self._single_point.evaluate_together(points.astype(np.float64))

    def first_points(self, seed: int, chains: Sequence[int]) -> list[np.ndarray]:
        """Prior draws made on the device, with the number that comes after the last update's."""
        with jax_settings(self.double):
            points = _first_points(self.source, chain_keys(seed, chains))[:, : self.posterior.prior.size]
            return list(np.asarray(points, np.float64))

    def run(self, spec: RunSpec, starts: Sequence[Checkpoint], updates: int) -> BatchedRun:
        path, count = spec.move.path, len(spec.chains)
        assert path is not None  # noqa: S101  `why_not_batched` is asked first
        length = self.block_length(count)
        mesh = chains_over_devices(count) if on_one_device(self.likelihood) else None
        fixed = self.likelihood, self.source
        if mesh is not None:
            fixed = jax.device_put(fixed, NamedSharding(mesh, EVERYWHERE))
        ahead, slots = _look_ahead(spec.look_ahead, count, self.fused), -(-length // spec.thin)
        plan = Plan(self.fused, path, ahead, length, slots, self.dtype, mesh)
        return BatchedRun(
            plan, (*fixed, chain_keys(spec.seed, spec.chains)), spec, starts, self._first(spec, starts), updates
        )

    def _first(self, spec: RunSpec, starts: Sequence[Checkpoint]) -> State:
        """Return the chains' states on the device, with log-likelihoods in the precision of the chains."""
        with jax_settings(self.double):
            f = jnp.asarray(np.stack([start.state.f for start in starts], dtype=self.dtype, casting="same_kind"))
            if starts[0].updates:  # the values of a chain that continues are those that the device had computed
                return State(f, jnp.asarray([start.state.log_likelihood for start in starts], self.dtype))
            state = State(f, evaluate_together(self.likelihood, f))
        values = np.asarray(state.log_likelihood)
        (bad,) = np.nonzero(~np.isfinite(values))
        if len(bad):
            raise ValueError(
                f"the log-likelihood is {values[bad[0]]} where chain {spec.chains[bad[0]]} starts, in single "
                'precision, and finite in double. Use precision="double".'
            )
        return state


class FusedEngine(BatchedEngine):
    """The same in one GPU kernel, for log-likelihoods that are sums over the values of f."""

    name = "fused"
    fused: ClassVar[bool] = True


def why_not_batched(posterior: Posterior, move: Move) -> str | None:
    """Why the batched engine cannot run these chains; None if it can."""
    if move.path is None:
        return f"{move!r} is not a single search, and runs chain by chain"
    if not can_draw(posterior.prior):
        return f"{posterior.prior!r} draws on the host"
    return None


def why_not_fused(engine: BatchedEngine, path: Path) -> str | None:
    """Why the fused kernel cannot run these chains; None if it can."""
    size = engine.posterior.prior.size
    if size > LARGEST:
        return f"a state of {size:,} values does not fit into a GPU's registers ({LARGEST:,} do)"
    device = jax.local_devices()[0]
    if device.platform != "gpu" or compute_capability(device) < 9.0:
        return "the fused kernel needs an NVIDIA GPU of the Hopper generation or newer"
    try:
        with jax_settings(engine.double):
            elementwise(engine.likelihood, size, engine.dtype, KERNEL)
            _try_to_lower(engine, path)
    except NotElementwise as reason:
        return f"the log-likelihood is not a sum over the values of f that the fused kernel can make: {reason}"
    except Exception as error:  # noqa: BLE001  whatever the GPU's compiler says
        return f"JAX could not make the fused kernel ({type(error).__name__}: {str(error)[:120]})"
    return None


def _try_to_lower(engine: BatchedEngine, path: Path) -> None:
    """Compile as far as needs no GPU time, for one chain and one update."""
    size, number = engine.posterior.prior.size, jax.ShapeDtypeStruct((), np.int32)
    state = State(jax.ShapeDtypeStruct((1, size), engine.dtype), jax.ShapeDtypeStruct((1,), engine.dtype))
    plan, keys = Plan(True, path, 1, 1, 1, engine.dtype), jax.ShapeDtypeStruct((2, 1), np.uint32)
    run_block.lower(plan, engine.likelihood, engine.source, keys, np.uint32(0), state, number, number, number)


def block_length(numbers: int) -> int:
    """Updates in a block, of which each takes so many numbers: a power of two."""
    budget = NUMBERS["gpu" if jax.default_backend() == "gpu" else "cpu"]
    limit = memory_limit(jax.local_devices()[0])
    if limit is not None:
        budget = min(budget, limit // 100)  # about 8 bytes, a dozen arrays of it at a time
    length = 1
    while length < LONGEST and 2 * length * numbers <= budget:
        length *= 2
    return length


def _look_ahead(asked: int | None, chains: int, fused: bool) -> int:
    """Angles evaluated at once: more if there are few chains to keep the device busy. A power of two."""
    if asked is None:
        few, some = chains <= 256, chains <= 2048
        asked = (4 if few else 2 if some else 1) if fused else (32 if few else 16 if some else 8)
    return min(WIDTH, 1 << (asked.bit_length() - 1))


@jax.jit
def _first_points(source: Source, keys: Any) -> Any:
    return source.draw(update_keys(keys, np.uint32(2**32 - 1), 1)[:, 0])
