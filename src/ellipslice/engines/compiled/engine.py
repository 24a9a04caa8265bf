"""The compiled engine: log-likelihoods that JAX can trace, in one compiled loop per chain."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from functools import cached_property
from typing import Any

import jax
import numpy as np

from ellipslice.engines.base import Checkpoint, Engine, RunSpec
from ellipslice.engines.compiled.block import BlockRunner
from ellipslice.engines.compiled.chain import BlocksAhead, CompiledChain, CompiledRun
from ellipslice.engines.compiled.lock_step import GROUP, GroupRunner, form_groups
from ellipslice.engines.compiled.scouts import LookAhead, NoScout, Scout, TangentPlanes
from ellipslice.engines.compiled.search import evaluate, evaluate_together
from ellipslice.jax_settings import computes_on_cpu, on_cpu, on_one_device, to_device
from ellipslice.likelihoods import Likelihood
from ellipslice.moves import Move, State
from ellipslice.noise import NoiseSpec, block_length
from ellipslice.programs.traced import ProgramProperties, compilable, identity, program_properties, safe_in_batches
from ellipslice.programs.vector_sums import ITEM as VECTOR_SUMS
from ellipslice.programs.vector_sums import vectorise_sum
from ellipslice.undocumented.registry import first_line, note
from ellipslice.undocumented.xla_loop import PLAIN, WIDE, single_call_supported

MAX_BLOCK_STATE = 2**17
"""Largest state (in elements) that is run in blocks of updates. Longer states are run one update per call: a block
would need too much memory, and the call overhead is negligible."""


class CompiledEngine(Engine):
    """Engine that runs each chain in its own compiled loop. No chain waits for another or depends on another."""

    name = "compiled"
    traced = True

    @cached_property
    def _likelihood(self) -> Any:
        """The log-likelihood as JAX traced it: a function of a centred flat vector."""
        with on_cpu():
            return compilable(self.posterior.log_likelihood, self.posterior.prior.size)

    @cached_property
    def _vectorised_likelihood(self) -> Any:
        """The log-likelihood with its sum vectorised for the CPU, or unchanged if its data are on several devices."""
        likelihood, size = self._likelihood, self.posterior.prior.size
        with on_cpu():
            return vectorise_sum(likelihood, size) if on_one_device(likelihood) else likelihood

    @cached_property
    def properties(self) -> ProgramProperties:
        """Properties of the traced log-likelihood: its operations, and the number of threads that can run it."""
        with on_cpu():
            return program_properties(self._likelihood, self.posterior.prior.size)

    def value_and_gradient(self, f: np.ndarray) -> tuple[float, np.ndarray]:
        with on_cpu():
            value, gradient = self._value_and_gradient(f)
            return float(value), np.asarray(gradient)

    @cached_property
    def _value_and_gradient(self) -> Any:
        return jax.jit(jax.value_and_grad(self._likelihood))

    def why_no_gradient(self) -> str | None:
        likelihood, point = self._likelihood, jax.ShapeDtypeStruct((self.posterior.prior.size,), np.float64)
        try:
            with on_cpu():
                jax.eval_shape(jax.grad(likelihood), point)
        except Exception as error:  # noqa: BLE001  JAX raises many types
            return f"the log-likelihood cannot be differentiated ({first_line(error)})"
        return None

    @property
    def likelihood_key(self) -> Hashable:
        return identity(self._likelihood)

    def evaluate(self, f: np.ndarray) -> float:
        with on_cpu():
            return self._evaluate(f)

    def evaluate_all(self, points: Sequence[np.ndarray]) -> list[float]:
        with on_cpu():  # once, because it takes longer than a short evaluation
            return [self._evaluate(f) for f in points]

    def _evaluate(self, f: np.ndarray) -> float:
        """Return the log-likelihood of one centred flat vector. Call it inside `on_cpu`."""
        try:
            return float(evaluate(self._vectorised_likelihood, f))
        except Exception as error:
            if self._vectorised_likelihood is self._likelihood:
                raise
            value = float(evaluate(self._likelihood, f))  # raises if the error is the function's own
            note(VECTOR_SUMS, f"a vectorised log-likelihood could not be compiled ({first_line(error)})")
            self._vectorised_likelihood = self._likelihood
            return value

    def evaluate_together(self, points: np.ndarray) -> np.ndarray:
        with on_cpu():
            return np.asarray(evaluate_together(self._vectorised_likelihood, points))

    def check(self, spec: RunSpec, by_workers: bool = False) -> None:
        with on_cpu():
            super().check(spec, by_workers)

    def run(self, spec: RunSpec, starts: Sequence[Checkpoint], updates: int) -> CompiledRun:
        move = spec.move
        with on_cpu():
            noise_spec = move.noise_spec(self.posterior.prior, self.prepared(move))
            length = block_length(noise_spec.numbers)
            noise = [BlocksAhead(noise_spec, spec.seed, number, length) for number in spec.chains]
            if move.lock_step and self._safe_in_groups:
                runner = self._group_runner(move, noise_spec, length)
                groups = form_groups(spec.chains, starts)
                chains = [runner.group(group, spec, starts, updates, noise) for group in groups]
            else:
                runner = self._runner(move, self._scout(move, spec.look_ahead or 1, starts[0].state), length)
                chains = [
                    CompiledChain.single(position, spec, start, updates, own, runner)
                    for position, (start, own) in enumerate(zip(starts, noise, strict=True))
                ]
            # Programs that use several devices must be sent to all of them in the same order, so by one thread.
            return CompiledRun(chains, threads=self.properties.threads if on_one_device(self._likelihood) else 1)

    @cached_property
    def _safe_in_groups(self) -> bool:
        """True if gradients of the log-likelihood at several points can be computed in one batch."""
        likelihood, size = self._likelihood, self.posterior.prior.size
        return on_one_device(likelihood) and safe_in_batches(
            jax.grad(likelihood), jax.ShapeDtypeStruct((size,), np.float64)
        )

    def _group_runner(self, move: Move, noise_spec: NoiseSpec, length: int) -> GroupRunner:
        """Return the runner of blocks of `length` updates, shared by all groups of chains in lock step."""
        max_updates = 1 if GROUP * self.posterior.prior.size > MAX_BLOCK_STATE else length
        on_device = jax.tree.map(to_device, self.prepared(move))
        # Without the vectorised sum, which is made for a single vector.
        return GroupRunner(move, noise_spec, self._likelihood, on_device, max_updates)

    def _runner(self, move: Move, scout: Scout, length: int) -> BlockRunner:
        """Return the runner of blocks of `length` updates, shared by all chains of a run."""
        prepared = self.prepared(move)
        # A single search uses nothing that was prepared. Other moves may use it in matrix products.
        elementwise = move.path is not None or not jax.tree.leaves(prepared) or move.elementwise
        fits = (
            computes_on_cpu()
            and on_one_device(self._likelihood)
            and self.properties.fits_one_function
            and elementwise
            and not isinstance(scout, LookAhead)
        )
        max_updates = 1 if self.posterior.prior.size > MAX_BLOCK_STATE else length
        on_device = jax.tree.map(to_device, prepared)
        compile_mode = WIDE if fits and single_call_supported() else PLAIN
        return BlockRunner(move, scout, self._vectorised_likelihood, on_device, max_updates, compile_mode)

    def _scout(self, move: Move, look_ahead: int, start: State) -> Scout:
        """Return the scout of a run: look-ahead if requested, else tangent planes if possible, else none."""
        if look_ahead > 1:
            return LookAhead(look_ahead)
        if move.path is None or not self.posterior.log_concave:
            return NoScout()
        function = self.posterior.log_likelihood.callable
        scout = TangentPlanes(function.curvature_rate_bound if isinstance(function, Likelihood) else None)
        try:
            scout.first_state(self._vectorised_likelihood, State(to_device(start.f), start.log_likelihood))
        except Exception as error:  # noqa: BLE001  the log-likelihood was compiled, only its derivatives were not
            note("tangent planes", f"the log-likelihood could not be differentiated ({first_line(error)})")
            return NoScout()  # a scout changes the speed only, not the draws
        return scout
