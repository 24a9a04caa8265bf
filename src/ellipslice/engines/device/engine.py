"""The batched engine: all chains together on a device, where their noise is drawn too. The way to use a GPU.

Work goes in blocks. The next block is under way on the device while the last one's draws are read.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property, partial
from typing import Any, ClassVar, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh, NamedSharding

from ellipslice.engines.base import Batch, Engine, Totals
from ellipslice.engines.compiled import CompiledEngine
from ellipslice.engines.compiled.search import evaluate_together
from ellipslice.engines.device.loop import DrawBuffer, DrawSchedule, run_block_on_device
from ellipslice.engines.device.noise import chain_keys, draw_noise, first_angles, update_keys
from ellipslice.engines.device.prior_draws import Source, can_draw, source_of
from ellipslice.engines.device.sharding import REPLICATED, SHARED, SHARED_DRAWS, chains_over_devices
from ellipslice.jax_settings import jax_settings, on_one_device, tracing_settings
from ellipslice.moves import Info, Move, Path, State
from ellipslice.moves.search import WIDTH
from ellipslice.posterior import Posterior
from ellipslice.programs.site_program import KERNEL
from ellipslice.programs.site_sums import LARGEST, NotFactorised, elementwise, padded_size
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
        return self._single_point.evaluate_together(np.stack(points).astype(np.float64)).tolist()

    def first_points(self, seed: int, chains: Sequence[int]) -> list[np.ndarray]:
        """Prior draws made on the device, with the number that comes after the last update's."""
        with jax_settings(self.double):
            points = _first_points(self.source, chain_keys(seed, chains))[:, : self.posterior.prior.size]
            return list(np.asarray(points, np.float64))

    def run(
        self,
        move: Move,
        seed: int,
        chains: Sequence[int],
        starts: Sequence[State],
        updates: int,
        look_ahead: int | None = None,
        warmup: int = 0,
        thin: int = 1,
        done: Sequence[int] | None = None,
    ) -> BatchedRun:
        assert move.path is not None  # noqa: S101  `why_not_batched` is asked first
        count = len(chains)
        length = self.block_length(count)
        with jax_settings(self.double):
            f = jnp.asarray(np.stack([start.f for start in starts], dtype=self.dtype, casting="same_kind"))
            if done is None or not done[0]:
                state = State(f, evaluate_together(self.likelihood, f))
                self._check(np.asarray(state.log_likelihood), chains)
            else:  # as it was, to the bit
                state = State(f, jnp.asarray([start.log_likelihood for start in starts], self.dtype))
        ahead, slots = _look_ahead(look_ahead, count, self.fused), -(-length // thin)
        mesh = chains_over_devices(count) if on_one_device(self.likelihood) else None
        fixed = self.likelihood, self.source
        if mesh is not None:
            fixed = jax.device_put(fixed, NamedSharding(mesh, REPLICATED))
        plan = _Plan(self.fused, move.path, ahead, length, slots, self.dtype, mesh)
        return BatchedRun(
            plan, (*fixed, chain_keys(seed, chains)), state, done[0] if done else 0, updates, warmup, thin
        )

    def _check(self, values: np.ndarray, chains: Sequence[int]) -> None:
        (bad,) = np.nonzero(~np.isfinite(values))
        if len(bad):
            raise ValueError(
                f"the log-likelihood is {values[bad[0]]} where chain {chains[bad[0]]} starts, in single precision, and "
                'finite in double. Use precision="double".'
            )


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
    except NotFactorised as reason:
        return f"the log-likelihood is not a sum over the values of f that the fused kernel can make: {reason}"
    except Exception as error:  # noqa: BLE001  whatever the GPU's compiler says
        return f"JAX could not make the fused kernel ({type(error).__name__}: {str(error)[:120]})"
    return None


def _try_to_lower(engine: BatchedEngine, path: Path) -> None:
    """Compile as far as needs no GPU time, for one chain and one update."""
    size, number = engine.posterior.prior.size, jax.ShapeDtypeStruct((), np.int32)
    state = State(jax.ShapeDtypeStruct((1, size), engine.dtype), jax.ShapeDtypeStruct((1,), engine.dtype))
    plan, keys = _Plan(True, path, 1, 1, 1, engine.dtype), jax.ShapeDtypeStruct((2, 1), np.uint32)
    _run_block.lower(plan, engine.likelihood, engine.source, keys, np.uint32(0), state, number, number, number)


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


class _Plan(NamedTuple):
    """What compiled code depends on."""

    fused: bool
    path: Path
    look_ahead: int
    length: int
    slots: int
    dtype: Any
    mesh: Mesh | None = None
    """The devices that share the chains, if there are several."""


@partial(jax.jit, static_argnums=0)
def _run_block(plan: _Plan, *arguments: Any) -> tuple[State, DrawBuffer, Totals]:
    """A block of updates of all chains. Devices that share them do not wait for each other inside it."""
    if plan.mesh is None:
        return _run_own(plan, *arguments)
    state, draws = State(SHARED, SHARED), DrawBuffer(*[SHARED_DRAWS] * len(DrawBuffer._fields))
    given = REPLICATED, REPLICATED, SHARED_DRAWS, REPLICATED, state, REPLICATED, REPLICATED, REPLICATED
    made = state, draws, Totals(*[SHARED] * len(Totals._fields))
    own = jax.shard_map(partial(_run_own, plan), mesh=plan.mesh, in_specs=given, out_specs=made, check_vma=False)
    return own(*arguments)


def _run_own(
    plan: _Plan, likelihood: Any, source: Source, keys: Any, first: Any, state: State, stop: Any, since: Any, thin: Any
) -> tuple[State, DrawBuffer, Totals]:
    """The block's updates of the chains of one device."""
    if plan.fused:
        from ellipslice.engines.device import kernel, kernel_angles  # Pallas takes a second to import

        angles, loop = kernel_angles.fused_angles, partial(kernel.fused_block, plan.path, plan.look_ahead)
    else:
        angles, loop = first_angles, partial(run_block_on_device, plan.path, plan.look_ahead, plan.look_ahead)
    noise = draw_noise(plan.path, source, keys, first, plan.length, plan.dtype, angles, in_terms=plan.fused)
    state, draws, counts = loop(likelihood, state, noise, DrawSchedule(stop, since, thin), plan.slots)
    proposals, nans, stuck = (jnp.sum(part, dtype=np.int32) for part in counts[:3])
    totals = Totals(stop * counts.nans.size, proposals, nans, stuck, jnp.max(counts.highest))
    return state, draws, Totals(*(jnp.reshape(part, 1) for part in totals))


@jax.jit
def _first_points(source: Source, keys: Any) -> Any:
    return source.draw(update_keys(keys, np.uint32(2**32 - 1), 1)[:, 0])


class BatchedRun:
    """Chains under way on the device."""

    def __init__(
        self,
        plan: _Plan,
        fixed: tuple[Any, ...],
        state: State,
        done: int,
        updates: int,
        warmup: int,
        thin: int,
    ):
        self._plan, self._fixed, self._state = plan, fixed, state
        self._updates, self._warmup, self._thin = updates, warmup, thin
        self._done = done
        self._before = done, state
        """Where the last block began."""
        self._under_way: tuple[Any, ...] | None = None
        self._batches: list[Batch] = []

    @property
    def finished(self) -> bool:
        return self._done >= self._updates and self._under_way is None

    def advance(self) -> None:
        before, self._under_way = self._under_way, None
        if self._done < self._updates:
            first, stop = self._done, min(self._plan.length, self._updates - self._done)
            since, self._before = first - self._warmup, (first, self._state)
            numbers = (np.int32(number) for number in (stop, since, self._thin))
            with jax_settings(self._plan.dtype == np.float64):
                self._state, *drawn = _run_block(self._plan, *self._fixed, np.uint32(first), self._state, *numbers)
            self._done += stop
            draws = max(since, 0) // self._thin, max(since + stop, 0) // self._thin
            self._under_way = *drawn, *draws, *self._before
        if before is not None:
            self._read(*before)

    def extend(self, updates: int) -> None:
        if updates > self._updates and self._done % self._plan.length:
            self._done, self._state = self._before  # a block is drawn whole, or its draws would round otherwise
        self._updates = updates

    def take(self) -> list[Batch]:
        batches, self._batches = self._batches, []
        return batches

    def close(self) -> None:
        """Nothing is held but memory."""

    def _read(self, draws: DrawBuffer, totals: Totals, first: int, end: int, updates: int, before: State) -> None:
        """Bring what is known of the draws `first` to `end` to the host; the states stay until somebody asks."""
        f, *known = draws
        log_likelihood, *info = (np.asarray(part)[: end - first] for part in known)
        read = Totals(*(np.asarray(part) for part in totals))  # one of each device
        totals = Totals(*(part.sum().item() for part in read))._replace(highest=read.highest.max().item())
        self._batches.append(Batch(first, f, log_likelihood, Info(*info), totals, updates, before))
