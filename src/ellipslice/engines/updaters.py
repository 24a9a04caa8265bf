"""How the compiled engine runs the updates of a block, for each kind of move: what goes into a loop, and comes out."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from ellipslice.engines import loops
from ellipslice.engines.angles import WIDTH, AngleTable
from ellipslice.engines.cutting_planes import BoundedProgress, bounded_block, expand
from ellipslice.engines.loops import Block, Progress, Span
from ellipslice.moves import Info, Move, Search, State
from ellipslice.noise import Noise


class Updater:
    """How the updates of a block are run, and what they leave behind is read."""

    def __init__(self, in_one: bool, longest: int, move: Any, likelihood: Any):
        self.longest, self.move, self._likelihood, self._in_one = longest, move, likelihood, in_one
        self.stretch = 1
        """Updates of any chain in one call; twice as many in the next, as long as a turn has room for them."""

    def begin(self, state: State, t: int) -> Any:
        """The progress of a chain that begins at update `t` of a block."""
        # A Python float would be another type to JAX than what a loop returns, and the loop would be compiled twice.
        state = State(state.f, jnp.asarray(state.log_likelihood, jnp.asarray(state.f).dtype))
        return Progress(jnp.int32(t), jnp.int32(0), jnp.int32(0), state)

    def reached(self, progress: Any) -> tuple[int, int]:
        """The update that is next, and the angles it has tried in vain."""
        return int(progress.t), int(progress.tried)

    def prepare(self, noise: Noise) -> Any:
        """The noise of a block in the form that `run` takes."""
        return noise

    def run(self, progress: Any, noise: Any, span: tuple[int, int, int]) -> tuple[Any, Any]:
        """Updates of a `loops.Span`, at most `longest`, to one that runs out of angles: a trace, and the progress."""
        arguments = *self._arguments(progress, noise), Span(*map(np.int32, span))
        in_one = self._in_one  # chains share this object, and another may find out in the meantime
        try:
            return loops.run_loop(in_one, self._loop, self._static, *arguments)
        except jax.errors.JaxRuntimeError:
            if not in_one:
                raise
            self._in_one = False  # XLA could not, so as it comes
            return loops.run_loop(False, self._loop, self._static, *arguments)

    def read(self, trace: Any, noise: Any, rows: slice) -> tuple[np.ndarray, np.ndarray, Info, np.ndarray]:
        """States, log-likelihoods, info and proposals of the updates `rows` of a block, with which the trace begins."""
        raise NotImplementedError

    _loop: Any
    _static: tuple[Any, ...]

    def _arguments(self, progress: Any, noise: Any) -> tuple[Any, ...]:
        return self._likelihood, progress, noise


class Steps(Updater):
    """Any move that is not a search."""

    def __init__(self, in_one: bool, longest: int, move: Move, likelihood: Any, prepared: Any):
        super().__init__(in_one, longest, move, likelihood)
        self._loop, self._static, self._prepared = loops.step_block, (longest, move), prepared

    def _arguments(self, progress: Any, noise: Any) -> tuple[Any, ...]:
        return self._likelihood, self._prepared, progress, noise

    def read(self, trace: Any, noise: Any, rows: slice) -> tuple[np.ndarray, np.ndarray, Info, np.ndarray]:
        f, log_likelihood, info = _first(trace, rows)
        return f, log_likelihood, info, info.evaluations


class Searches(Updater):
    """A search: its angles are worked out ahead, and looked up."""

    def __init__(self, in_one: bool, longest: int, move: Search, look_ahead: int, likelihood: Any):
        super().__init__(in_one, longest, move, likelihood)
        self._loop, self._static = loops.search_block, (longest, move, look_ahead)

    def prepare(self, noise: Noise) -> tuple[Block, AngleTable]:
        table = AngleTable(self.move, noise.uniforms[:, 0], compiled=True)
        tried = np.zeros(len(noise.level), np.int32)
        block = Block(noise.nu[:, 0], noise.level[:, 0], table.here, table.theta, tried)
        return block, table  # as NumPy's arrays: compiled code takes these without a copy

    def read(self, trace: Any, noise: Any, rows: slice) -> tuple[np.ndarray, np.ndarray, Info, np.ndarray]:
        f, log_likelihood, info = _first(trace, rows)
        return f, log_likelihood, self._with_angles(info, info.evaluations, noise[1], rows), info.evaluations

    def more_angles(self, noise: tuple[Block, AngleTable], t: int, tried: int) -> tuple[Block, AngleTable]:
        """The next sheet for update `t`, which has tried all it had."""
        block, table = noise
        theta, before = np.array(block.theta), np.array(block.tried)
        theta[t], before[t] = table.sheet(t, tried // WIDTH), tried
        return block._replace(theta=theta, tried=before), table

    def _arguments(self, progress: Any, noise: Any) -> tuple[Any, ...]:
        return self._likelihood, progress, noise[0]

    def _with_angles(self, info: Info, proposals: np.ndarray, table: AngleTable, rows: slice) -> Info:
        column = proposals - 1
        angle = table.theta[rows][np.arange(len(column)), column % WIDTH] - table.here[rows]
        for row in np.flatnonzero(column >= WIDTH):
            angle[row] = table.angle(rows.start + int(row), int(column[row]))
        return info._replace(angle=np.where(info.stuck, 0.0, angle))


class BoundedSearches(Searches):
    """A search on a concave log-likelihood, most of whose angles need no evaluation."""

    def __init__(self, in_one: bool, longest: int, move: Search, likelihood: Any, bend_rate: float | None):
        super().__init__(in_one, longest, move, 1, likelihood)
        self._loop, self._static, self._bend_rate = bounded_block, (longest, move, bend_rate), bend_rate

    def begin(self, state: State, t: int) -> BoundedProgress:
        _, slopes = expand(self._bend_rate, self._likelihood, state.f)
        return BoundedProgress(super().begin(state, t), jnp.int32(0), slopes, jnp.int32(0))

    def reached(self, progress: BoundedProgress) -> tuple[int, int]:
        if int(progress.above):
            raise ValueError(
                "the log-likelihood is not concave: a value was above a tangent plane. Leave out concave=True."
                if self._bend_rate is None
                else f"a value of the log-likelihood was above a bound that follows from its class's bend_rate, "
                f"{self._bend_rate:g}. That is too small, or there is no such number: None."
            )
        return super().reached(progress.search)

    def read(self, trace: Any, noise: Any, rows: slice) -> tuple[np.ndarray, np.ndarray, Info, np.ndarray]:
        trace, proposals = trace
        proposals = _first(proposals, rows)
        f, log_likelihood, info = _first(trace, rows)
        return f, log_likelihood, self._with_angles(info, proposals, noise[1], rows), proposals


def _first(trace: Any, rows: slice) -> Any:
    """The rows that were filled. If they are few they are copied, or they would hold the room for all of them."""
    count = rows.stop - rows.start

    def first(part: Any) -> np.ndarray:
        filled = np.asarray(part)[:count]
        return filled.copy() if 2 * count <= len(part) else filled

    return jax.tree.map(first, trace)
