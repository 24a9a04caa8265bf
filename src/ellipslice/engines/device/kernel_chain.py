"""One chain inside the GPU kernel: its updates, their searches, and the log-likelihood at each point.

A vector is a tuple of pieces, each with one element per thread. Inside the kernel, conditions can select only between
scalars, not between pieces.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any, NamedTuple

import jax.numpy as jnp
from jax import lax
from jax.experimental import pallas as pl

from ellipslice.engines.device.draws import ChainTotals, DrawBuffer
from ellipslice.engines.device.kernel_launch import load, uniform
from ellipslice.moves import State
from ellipslice.moves.search import MAX_EVALUATIONS, WIDTH, Path, next_angle
from ellipslice.noise import threefry
from ellipslice.programs.site_program import KERNEL, Elementwise
from ellipslice.programs.site_sums import THREADS_PER_CHAIN, padded_size

FACTORS_PER_LOG = 64
"""Number of factors in [1, 2] whose product is computed before its logarithm. The product cannot overflow."""


class KernelSettings(NamedTuple):
    """Settings that are compiled into the kernel."""

    path: Path
    look_ahead: int
    program: Elementwise
    size: int
    chains: int
    dtype: Any
    interpret: bool

    @property
    def pieces(self) -> int:
        """Number of pieces of a vector."""
        return padded_size(self.size) // THREADS_PER_CHAIN


class KernelInputs(NamedTuple):
    """Arrays in the GPU's memory that the kernel reads. Update t of chain c is in row t * chains + c."""

    f: Any
    log_likelihood: Any
    nu: Any
    """Draws from the prior, shape (rows, padded size), or their two terms, shape (rows, 2 padded size)."""
    level: Any
    theta: Any
    """Table of the first angles of each update, shape (WIDTH, rows). Their weights are `w_a` and `w_b`."""
    w_a: Any
    w_b: Any
    brackets: Any
    """Bracket of the last angle of the table, shape (2, rows)."""
    keys: Any
    schedule: Any
    """The `KernelSchedule` as one array."""
    scalars: Any
    """The scalars of the program, followed by its constant."""
    is_real: Any
    """1 for elements of f, 0 for padding."""
    here: Any
    """Position of the current state on the curve of each update, shape (rows,)."""
    unit: Any
    """Factor of the sum of the two terms of nu, for each element. None if nu is not in two terms."""
    data: tuple[Any, ...]
    """The data arrays of the program, padded."""


class KernelOutputs(NamedTuple):
    """Arrays in the GPU's memory that the kernel writes."""

    state: State
    draws: DrawBuffer
    totals: ChainTotals


class KernelSchedule(NamedTuple):
    """The updates of a block that are kept as draws, in the form that the kernel uses; see `DrawSchedule`."""

    updates: Any
    first: Any
    """Number of the first update that is kept as a draw."""
    thin: Any


class _Point(NamedTuple):
    """A point of the curve, given by its weights, and its log-likelihood."""

    w_a: Any
    w_b: Any
    value: Any


class _Curve(NamedTuple):
    """The curve of an update: the two vectors that span it."""

    a: tuple[Any, ...]
    b: tuple[Any, ...]


class _Search(NamedTuple):
    """A slice search in progress."""

    accepted: Any
    """1 if a point has been accepted, else 0."""
    tried: Any
    nan_evaluations: Any
    point: _Point  # the accepted point, or the current state if there is none


class _Progress(NamedTuple):
    """State, totals and draws of a chain after some updates."""

    f: tuple[Any, ...]
    log_likelihood: Any
    totals: ChainTotals
    slot: Any  # number of draws so far
    next_draw: Any  # number of the next update that is kept as a draw


class KernelChain:
    """One chain inside the kernel, run by one group of threads."""

    def __init__(self, settings: KernelSettings, inputs: KernelInputs, outputs: KernelOutputs, chain: Any):
        self.settings, self.inputs, self.outputs, self.chain = settings, inputs, outputs, chain
        self.path, self.dtype = settings.path, settings.dtype
        self.data = [self._load(part) for part in inputs.data]
        *self.scalars, self.constant = (inputs.scalars[i] for i in range(len(settings.program.scalars) + 1))
        self.is_real = self._load_piece(inputs.is_real, settings.pieces - 1)  # padding is in the last piece

    def run(self) -> None:
        """Make the updates of the block, and write the draws, the last state and the totals."""
        schedule = KernelSchedule(*(self.inputs.schedule[i] for i in range(len(KernelSchedule._fields))))
        none = jnp.int32(0)
        f, log_likelihood = self._load(self.inputs.f, self.chain), self.inputs.log_likelihood[self.chain]
        start = _Progress(f, log_likelihood, ChainTotals(none, none, none, log_likelihood), none, schedule.first)
        end = lax.fori_loop(0, schedule.updates, partial(self._update, schedule.thin), start)
        self._store(self.outputs.state.f, end.f, self.chain)
        self.outputs.state.log_likelihood[self.chain] = end.log_likelihood
        for reference, total in zip(self.outputs.totals, end.totals, strict=True):
            reference[self.chain] = total

    def _update(self, thin: Any, t: Any, before: _Progress) -> _Progress:
        """Make update t. Write its state if it is kept as a draw."""
        row = t * self.settings.chains + self.chain
        curve = self._curve(before.f, self._nu(row), row)
        found, late = self._search(curve, before.log_likelihood, row)
        accepted = found.accepted == 1
        f = self._reached(curve, found, before.f)
        log_likelihood = jnp.where(accepted, found.point.value, before.log_likelihood)
        failed = 1 - found.accepted
        leaves_draw = t == before.next_draw

        @pl.when(leaves_draw)
        def _() -> None:
            place = before.slot * self.settings.chains + self.chain
            angle = jnp.where(accepted, self._last_angle(found, late, row), self.dtype(0))
            self._store(self.outputs.draws.f, f, place)
            numbers = log_likelihood, found.tried, found.nan_evaluations, failed, angle
            for reference, number in zip(self.outputs.draws[1:-1], numbers, strict=True):
                reference[place] = number

        totals = ChainTotals(
            before.totals.proposals + found.tried,
            before.totals.nan_evaluations + found.nan_evaluations,
            before.totals.failed_searches + failed,
            jnp.maximum(before.totals.highest, log_likelihood),
        )
        slot = jnp.where(leaves_draw, before.slot + 1, before.slot)
        next_draw = jnp.where(leaves_draw, before.next_draw + thin, before.next_draw)
        return _Progress(f, log_likelihood, totals, slot, next_draw)

    def _last_angle(self, found: _Search, late: Any, row: Any) -> Any:
        """Return the last angle tried, relative to the current state. It is `late` if it was beyond the table."""
        column = jnp.minimum(found.tried, WIDTH) - 1
        theta = jnp.where(found.tried > WIDTH, late, self.inputs.theta[column, row])
        return self.path.angle(self.inputs.here[row], theta)

    def _search(self, curve: _Curve, log_likelihood: Any, row: Any) -> tuple[_Search, Any]:
        """Return the search after its end, and the last angle that was computed beyond the table."""
        log_y = log_likelihood - self.inputs.level[row]
        none, stay = jnp.int32(0), _Point(self.dtype(1), self.dtype(0), log_likelihood)

        def from_table(now: tuple[_Search, list[Any]]) -> tuple[_Search, list[Any]]:
            search, weights = now
            look_ahead = self.settings.look_ahead
            column = jnp.minimum(search.tried + look_ahead, WIDTH - look_ahead)
            following = self._table(column, row)  # loaded here, so that the GPU can load while it evaluates
            return self._try(search, self._points(curve, weights), log_y), following

        def beyond_table(now: tuple[_Search, Any]) -> tuple[_Search, Any]:
            search, angle = now
            key = self.inputs.keys
            words = threefry(key[0, row], key[1, row], (search.tried + 2).astype(jnp.uint32), jnp.uint32(0))
            angle = next_angle(self.path, self.inputs.here[row], angle, uniform(words, self.dtype))
            return self._try(search, self._points(curve, [self.path.weights(angle[0])]), log_y), angle

        def continues(most: int) -> Any:
            return lambda now: (now[0].accepted == 0) & (now[0].tried < most)

        start = _Search(none, none, none, stay), self._table(none, row)
        search, _ = lax.while_loop(continues(WIDTH), from_table, start)
        brackets = self.inputs.brackets
        edge = self.inputs.theta[WIDTH - 1, row], brackets[0, row], brackets[1, row]
        search, (theta, *_) = lax.while_loop(continues(MAX_EVALUATIONS), beyond_table, (search, edge))
        return search, theta

    def _try(self, search: _Search, points: list[_Point], log_y: Any) -> _Search:
        """Return the search after it has tried `points`. The first one above the slice level is accepted."""
        one = jnp.int32(1)
        accepted, used, chosen = jnp.int32(0), jnp.int32(len(points)), search.point
        for number, point in reversed(list(enumerate(points, start=1))):  # reversed, so that the first one remains
            above = point.value > log_y
            accepted, used = jnp.where(above, one, accepted), jnp.where(above, jnp.int32(number), used)
            chosen = _Point(*(jnp.where(above, new, old) for new, old in zip(point, chosen, strict=True)))
        nans = search.nan_evaluations
        for i, point in enumerate(points):
            is_nan = point.value != point.value
            nans = jnp.where(is_nan & (used > i), nans + one, nans)
        return _Search(accepted, search.tried + used, nans, chosen)

    def _reached(self, curve: _Curve, found: _Search, f: tuple[Any, ...]) -> tuple[Any, ...]:
        """Return the accepted point, or f if there is none."""
        w_a, w_b, _ = found.point
        if all(x is old for x, old in zip(curve.a, f, strict=True)):
            # The first vector of the curve is f, so the weights (1, 0), which mean that no point was accepted, give f.
            return tuple(x * w_a + y * w_b for x, y in zip(curve.a, curve.b, strict=True))
        moved = jnp.where(found.accepted == 1, self.dtype(1), self.dtype(0))
        stayed = self.dtype(1) - moved
        pieces = zip(curve.a, curve.b, f, strict=True)
        return tuple((x * w_a + y * w_b) * moved + old * stayed for x, y, old in pieces)

    def _table(self, column: Any, row: Any) -> list[tuple[Any, Any]]:
        """Return the weights of `look_ahead` angles of the table, from number `column` on."""
        w_a, w_b = self.inputs.w_a, self.inputs.w_b
        return [(w_a[column + i, row], w_b[column + i, row]) for i in range(self.settings.look_ahead)]

    def _points(self, curve: _Curve, weights: Sequence[tuple[Any, Any]]) -> list[_Point]:
        """Return the points of the curve with these weights, and their log-likelihoods."""
        # All threads compute their parts of all points before the sums, which need all threads.
        parts = [self._thread_sums(curve, w_a, w_b) for w_a, w_b in weights]
        values = [jnp.sum(part) + self.constant for part in parts]
        return [_Point(w_a, w_b, value) for (w_a, w_b), value in zip(weights, values, strict=True)]

    def _thread_sums(self, curve: _Curve, w_a: Any, w_b: Any) -> Any:
        """Return each thread's part of the log-likelihood at the point of the curve with these weights."""
        settings = self.settings
        total: Any = None
        product: Any = None
        for i, (x, y) in enumerate(zip(curve.a, curve.b, strict=True)):
            data = [part[i] for part in self.data]
            part, factor = settings.program.parts(x * w_a + y * w_b, data, self.scalars, KERNEL)
            if i == settings.pieces - 1 and settings.size % THREADS_PER_CHAIN:
                part = jnp.where(self.is_real > 0, part, self.dtype(0))
                factor = None if factor is None else jnp.where(self.is_real > 0, factor, self.dtype(1))
            total = part if total is None else total + part
            product = factor if product is None else product * factor
            if product is not None and (i + 1) % FACTORS_PER_LOG == 0:
                total, product = total - jnp.log(product), None
        return total if product is None else total - jnp.log(product)

    def _curve(self, f: tuple[Any, ...], nu: tuple[Any, ...], row: Any) -> _Curve:
        """Return the curve of an update."""
        here = self.inputs.here[row]
        pieces = [self.path.curve(x, y, here) for x, y in zip(f, nu, strict=True)]
        return _Curve(tuple(a for a, _ in pieces), tuple(b for _, b in pieces))

    def _nu(self, row: Any) -> tuple[Any, ...]:
        """Return nu of an update. If it is in two terms, add them."""
        first = self._load(self.inputs.nu, row)
        if self.inputs.unit is None:
            return first
        second = self._load(self.inputs.nu, row, start=self.settings.pieces)
        unit = self._load(self.inputs.unit)
        return tuple((x + y) * z for x, y, z in zip(first, second, unit, strict=True))

    def _load(self, reference: Any, *index: Any, start: int = 0) -> tuple[Any, ...]:
        """Read a vector from memory, from piece number `start` on."""
        return tuple(self._load_piece(reference, start + i, *index) for i in range(self.settings.pieces))

    def _load_piece(self, reference: Any, piece: int, *index: Any) -> Any:
        return load(reference, self.settings.interpret, *index, _threads(piece))

    def _store(self, reference: Any, pieces: tuple[Any, ...], *index: Any) -> None:
        """Write a vector to memory."""
        for i, piece in enumerate(pieces):
            reference[(*index, _threads(i))] = piece


def _threads(piece: int) -> Any:
    """Return the slice of the elements of a piece, one per thread."""
    return pl.ds(piece * THREADS_PER_CHAIN, THREADS_PER_CHAIN)
