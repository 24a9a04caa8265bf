"""How the compiled engine runs the updates of a block, for each kind of move: what goes into a loop, and comes out."""

from __future__ import annotations

from typing import Any

import jax.numpy as jnp
import numpy as np

from ellipslice.engines.compiled import search as loops
from ellipslice.engines.compiled.search import Trace
from ellipslice.engines.compiled.tangent_planes import Known, bounded_block, expand
from ellipslice.moves import Info, Move, Search, State
from ellipslice.noise import Noise
from ellipslice.undocumented.xla_loop import run_loop


class Updater:
    """How the updates of a block are run, and what they leave behind is read."""

    def __init__(self, way: int, longest: int, likelihood: Any):
        self.longest, self._likelihood, self._way = longest, likelihood, way
        self.stretch = 1
        """Updates of any chain in one call; more in the next, as long as these took little time."""

    def begin(self, state: State) -> Any:
        """What `run` takes of a chain that begins there."""
        # A Python float would be another type to JAX than what a loop returns, and the loop would be compiled twice.
        return State(state.f, jnp.asarray(state.log_likelihood, jnp.asarray(state.f).dtype))

    def check(self, chain: Any) -> None:
        """Raise if something was found to be wrong on the way there."""

    def run(self, chain: Any, noise: Noise, first: int, stop: int) -> tuple[Any, Any]:
        """Updates `first` to `stop` of a block, at most `longest`: their trace, and the chain after them."""
        arguments = *self._arguments(chain, noise), np.array([first, stop], np.int32)
        # Chains share this object, and another may have found out in the meantime.
        result, way = run_loop(self._way, self._loop, self._static, *arguments)
        self._way = min(self._way, way)
        return result

    def read(self, trace: Trace, count: int) -> tuple[np.ndarray, np.ndarray, Info, np.ndarray]:
        """States, log-likelihoods, info and proposals of the updates, so many, with which a trace begins.

        If they are few they are copied, or they would hold the room for all of them.
        """
        few = 2 * count <= len(trace.f)
        filled = (np.asarray(part)[:count] for part in trace)
        f, real, whole = (part.copy() if few else part for part in filled)
        evaluations, nans, stuck, proposals = whole.T
        return f, real[:, 0], Info(evaluations, nans, stuck > 0, real[:, 1]), proposals

    _loop: Any
    _static: tuple[Any, ...]

    def _arguments(self, chain: Any, noise: Noise) -> tuple[Any, ...]:
        return self._likelihood, chain, noise


class Steps(Updater):
    """Any move; if it is a search it may look ahead."""

    def __init__(self, way: int, longest: int, move: Move, look_ahead: int, likelihood: Any, prepared: Any):
        super().__init__(way, longest, likelihood)
        self._loop, self._static, self._prepared = loops.step_block, (longest, move, look_ahead), prepared

    def _arguments(self, chain: Any, noise: Noise) -> tuple[Any, ...]:
        return self._likelihood, self._prepared, chain, noise


class BoundedSearches(Updater):
    """A search on a concave log-likelihood, most of whose angles need no evaluation."""

    def __init__(self, way: int, longest: int, move: Search, likelihood: Any, bend_rate: float | None):
        super().__init__(way, longest, likelihood)
        self._loop, self._static, self._bend_rate = bounded_block, (longest, move, bend_rate), bend_rate

    def begin(self, state: State) -> Known:
        _, slopes = expand(self._bend_rate, self._likelihood, state.f)
        return Known(super().begin(state), slopes, jnp.int32(0))

    def check(self, chain: Known) -> None:
        if int(chain.above):
            raise ValueError(
                "the log-likelihood is not concave: a value was above a tangent plane. Leave out concave=True."
                if self._bend_rate is None
                else f"a value of the log-likelihood was above a bound that follows from its class's bend_rate, "
                f"{self._bend_rate:g}. That is too small, or there is no such number: None."
            )
