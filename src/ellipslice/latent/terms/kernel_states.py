"""States of quasi-separable kernels in time, whose precision is sparse: linear cost for any hyperparameters."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import jax
import numpy as np
from scipy.sparse import csr_array

from ellipslice.jax_settings import on_cpu
from ellipslice.latent.terms.entry_bases import EntryBases
from ellipslice.latent.terms.extension import draw_banded, united
from ellipslice.latent.terms.state_precision import state_bases, state_precision
from ellipslice.latent.terms.term_kernel import TermKernel, not_positive_definite
from ellipslice.priors.parts.kernels import inputs_for

PARTS = 256
"""Number of parts of a transition that is not finite as a whole."""

compiled_precision = jax.jit(state_precision, static_argnames="parts")
"""`state_precision` of a kernel that has been made."""


class KernelStates(TermKernel):
    """Precisions of the states of a quasi-separable kernel at sorted times. The first element of a state is the effect.

    Attributes
    ----------
    states : int
        Number of elements of the state at each time. Set by `probe`.
    """

    about = "Markov in time"

    def probe(self, values: Mapping[str, float]) -> None:
        kernel, count = self._function(values), len(self.inputs)
        times = inputs_for(kernel, self.inputs)  # raises if there are several axes
        found = self._first(values)
        with on_cpu():
            self.states = len(kernel.observation_model(times[0]))
        self.bases = state_bases(count, self.states)
        latents, elements = count * self.states, np.arange(count)
        self.effect = csr_array((np.ones(count), (elements, elements * self.states)), (count, latents))
        if not np.isfinite(found).all():
            raise not_positive_definite(values)

    def coefficients(self, values: Mapping[str, float]) -> np.ndarray:
        return self._at_inputs(values)[:-1]

    def log_determinant(self, values: Mapping[str, float]) -> float:
        return float(self._at_inputs(values)[-1])

    def draw(self, values: Mapping[str, float], rng: np.random.Generator) -> np.ndarray:
        pattern = _Pattern(self.bases, np.zeros(0, np.int64))
        return pattern.draw(self.coefficients(values), np.zeros(0), rng.standard_normal(self.bases.size))

    def conditional(
        self, draws: list[dict[str, float]], new: np.ndarray, effects: np.ndarray, rng: np.random.Generator
    ) -> np.ndarray:
        times, known, rows = united(self.inputs, new)
        pattern = _Pattern(state_bases(len(times), self.states), known * self.states)
        found = np.empty((len(effects), len(new)))
        for i, (x, own) in enumerate(zip(effects, draws, strict=True)):
            entries = self._evaluate(own, times)[:-1]
            found[i] = pattern.draw(entries, x, rng.standard_normal(pattern.count))[rows * self.states]
        return found

    def _at_inputs(self, values: Mapping[str, float]) -> np.ndarray:
        return self._kept(values, lambda own: self._evaluate(own, self.inputs))

    def _evaluate(self, values: Mapping[str, float], inputs: np.ndarray) -> np.ndarray:
        found = super()._evaluate(values, inputs)
        return found if np.isfinite(found).all() else self._of_kernel(self._function(values), inputs, PARTS)

    def _of_kernel(self, kernel: Any, inputs: Any, parts: int = 1) -> np.ndarray:
        with on_cpu():
            return np.asarray(compiled_precision(kernel, inputs, parts))

    def _traced(self, values: Any, inputs: Any) -> Any:
        return state_precision(self._kernel(values), inputs)


class _Pattern:
    """The elements of states that are drawn, given others: their bands in the precision.

    Parameters
    ----------
    bases : EntryBases
    known : array of int
        Elements that are known.
    """

    def __init__(self, bases: EntryBases, known: np.ndarray):
        self._known, self._size = known, bases.size
        free = np.ones(bases.size, dtype=bool)
        free[known] = False
        self._free, self.count = np.flatnonzero(free), int(free.sum())
        place = np.cumsum(free) - 1
        rows, columns = bases.rows, bases.columns
        self._both, self._one = free[rows] & free[columns], free[rows] != free[columns]
        self._places = (place[rows] - place[columns])[self._both], place[columns[self._both]]
        self._width = int(self._places[0].max(initial=0))
        row_is_free = free[rows[self._one]]
        self._towards = place[np.where(row_is_free, rows[self._one], columns[self._one])]
        self._from = np.where(row_is_free, columns[self._one], rows[self._one])

    def draw(self, entries: np.ndarray, values: np.ndarray, noise: np.ndarray) -> np.ndarray:
        """Return all elements, with draws of those that are not known, for the entries of the precision."""
        elements = np.zeros(self._size)
        elements[self._known] = values
        if self.count:
            bands = np.zeros((self._width + 1, self.count))
            bands[self._places] = entries[self._both]
            pull = np.bincount(self._towards, entries[self._one] * elements[self._from], self.count)
            elements[self._free] = draw_banded(bands, pull, noise)
        return elements
