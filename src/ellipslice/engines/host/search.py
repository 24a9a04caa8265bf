"""Slice searches on the host: the chain, the points that an update tries, and the judge of their values.

`Judge` is the search of one update. It makes the points in the order in which they are tried, and accepts the first
whose value is above the slice level. Three drivers differ in who evaluates the points:

- `search_one_by_one`: this thread, one point at a time, none that is not needed.
- `BatchedSearch`: one call of the log-likelihood for the points of all chains (`engine._BatchedChains`).
- `workers.engine`: the workers of an executor, a task for each point.

All random numbers are drawn before the first evaluation, so the draws of the three are bit-identical.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

import numpy as np

from ellipslice.engines.host.angles import WIDTH, AngleTable
from ellipslice.engines.host.call import Call
from ellipslice.engines.rows import ChainRows, Rows
from ellipslice.engines.threads import blas_beside
from ellipslice.moves import Info, Path, State
from ellipslice.moves.search import MAX_EVALUATIONS
from ellipslice.noise import NoiseSpec, UpdateNoise, block_length, draw_block, take

MAX_GROUP = 16
"""Largest number of points that one matrix product makes."""

MAX_GROUP_ELEMENTS = 2**13
"""Largest number of elements in a group of more than one point."""

ROUNDING = 1e-8
"""Relative difference that a log-likelihood may have between a batch and a call of its own."""


def group_size(size: int) -> int:
    """Return how many points of `size` elements are made together: 16 short ones, or one long one.

    It depends on `size` alone, because the rounding of a matrix product depends on its shape: the draws depend on it.
    """
    group = MAX_GROUP
    while group > 1 and group * size > MAX_GROUP_ELEMENTS:
        group //= 2
    if WIDTH % group:  # a group would take angles of two sheets
        raise ValueError(f"a sheet of {WIDTH} angles cannot be divided into groups of {group} points.")
    return group


class ChainNoise:
    """Random numbers of one chain, drawn in blocks of updates.

    If the move is a search along a path, the angles and weights of the whole block are computed from them at once.

    Parameters
    ----------
    path : Path or None
        The move's path.
    spec : NoiseSpec
        What is drawn for an update.
    size : int
        Number of elements of a state.
    seed, chain : int
        They and the number of an update determine its random numbers.
    """

    def __init__(self, path: Path | None, spec: NoiseSpec, size: int, seed: int, chain: int):
        self._path: Any = path
        self.group, self._vectors = group_size(size), np.empty((2, size))
        self._spec, self._seed, self._chain = spec, seed, chain
        self._length, self._block = block_length(spec.numbers), -1

    def _enter(self, update: int) -> int:
        """Draw the block of an update, unless it is the current one. Return the update's position in it."""
        block, row = divmod(update, self._length)
        if block != self._block:
            with blas_beside(1):
                noise = self._noise = draw_block(self._spec, self._seed, self._chain, block, self._length)
            self._level = noise.level.tolist()
            if self._path is not None:
                self._nu = noise.nu[:, 0]
                self._angles = AngleTable(self._path, noise.uniforms[:, 0])
                self._weights = np.stack(self._path.weights(self._angles.theta), axis=-1)
                self._here = self._angles.here.tolist()
            self._block = block
        return row

    def begin(self, update: int, f: np.ndarray) -> float:
        """Start the search of an update from `f`. Return how far the slice level is below its log-likelihood."""
        row = self._row = self._enter(update)
        self._vectors[0], self._vectors[1] = self._path.curve(f, self._nu[row], self._here[row])
        return self._level[row][0]

    def points(self, number: int) -> np.ndarray:
        """Return group number `number` of the points that the search tries, shape (points, size).

        A matrix product makes sixteen short points as fast as one.
        """
        sheet, start = divmod(number * self.group, WIDTH)
        weights = self._weights[self._row]
        if sheet:
            weights = np.stack(self._path.weights(self._angles.sheet(self._row, sheet)), axis=-1)
        if self.group > 1:
            return np.dot(weights[start : start + self.group], self._vectors)
        return self._vectors[:1] * weights[start, 0] + self._vectors[1:] * weights[start, 1]

    def angle(self, tried: int) -> float:
        """Return how far the point that was tried last is from the current state, after `tried` points."""
        return self._angles.angle(self._row, tried - 1)

    def of_update(self, update: int) -> UpdateNoise:
        """Return the random numbers of one update."""
        row = self._enter(update)
        return UpdateNoise(take(self._noise.drawn, row), self._level[row], self._noise.uniforms[row])


class HostChain:
    """One chain: its state, its random numbers, and the updates that were not yet handed over.

    Parameters
    ----------
    noise : ChainNoise
    rows : ChainRows
        What makes rows of the updates, before the first of them.
    state : State
    updates : int
        Number of updates to make, including those that led to `state`.
    """

    def __init__(self, noise: ChainNoise, rows: ChainRows, state: State, updates: int):
        self.noise, self.state, self.done, self.updates = noise, state, rows.updates, updates
        self._rows = rows
        self._f: list[np.ndarray] = []
        self._log_likelihood: list[float] = []
        self._info: list[Any] = []

    @property
    def remaining(self) -> int:
        """Number of updates that are still to be made."""
        return self.updates - self.done

    def record(self, state: State, info: Info) -> None:
        """Add an update to the chain."""
        # One list for each field: Python's garbage collector would visit a list of tuples again and again.
        self._f.append(state.f)
        self._log_likelihood.append(state.log_likelihood)
        self._info.extend(info)
        self.state = state
        self.done += 1

    def take(self) -> Rows | None:
        """Hand over the updates that are complete, or return None if there are none."""
        count = self.done - self._rows.updates  # an interrupt may have come in the middle of `record`
        if not count:
            return None
        fields = len(Info._fields)
        *common, more = (self._info[i : count * fields : fields] for i in range(fields))
        info = Info(*map(np.array, common), more=tuple(map(np.array, zip(*more, strict=True))))
        f, log_likelihood = np.array(self._f[:count]), np.array(self._log_likelihood[:count])
        self._f, self._log_likelihood, self._info = [], [], []
        return self._rows.add(f, log_likelihood, info)


class Judge:
    """The search of one update: it makes the points to try, and is told their values in the same order.

    Attributes
    ----------
    log_y : float
        The slice level.
    tried : int
        Number of points that were rejected.
    """

    tried = _nans = 0

    def __init__(self, chain: HostChain):
        self._state, self._noise = chain.state, chain.noise
        self.log_y = chain.state.log_likelihood - chain.noise.begin(chain.done, chain.state.f)

    def points(self) -> Iterator[np.ndarray]:
        """Return an iterator over all points of the search, in the order in which they are tried."""
        groups = map(self._noise.points, itertools.count())
        return itertools.islice(itertools.chain.from_iterable(groups), MAX_EVALUATIONS)

    def tell(self, points: Sequence[np.ndarray] | np.ndarray, values: Iterable[float]) -> tuple[State, Info] | None:
        """Take the values of the next points. Return the new state if the update ends at one of them, else None.

        No value after that of the accepted point is read, so an iterator need not compute it.
        """
        log_y, nans = self.log_y, self._nans
        for i, value in enumerate(values):
            if value > log_y:  # written this way round, NaN is never accepted
                tried = self.tried + i + 1
                return State(points[i].copy(), value), Info(tried, nans, False, self._noise.angle(tried))
            nans += value != value
        self.tried, self._nans = self.tried + len(points), nans
        return (self._state, Info(self.tried, nans, True, 0.0)) if self.tried >= MAX_EVALUATIONS else None


class CarefulJudge(Judge):
    """A judge for values of a batch, where they are rounded otherwise than those of points evaluated alone.

    A point that is on the slice, or could be, is evaluated alone. The draws are then the same for batches of any size.
    """

    def __init__(self, chain: HostChain, alone: Callable[[np.ndarray], float]):
        super().__init__(chain)
        self._alone = alone

    def tell(self, points: Sequence[np.ndarray] | np.ndarray, values: Iterable[float]) -> tuple[State, Info] | None:
        lowest = self.log_y - ROUNDING * (1 + abs(self.log_y))
        confirmed = (self._alone(points[i]) if value > lowest else value for i, value in enumerate(values))
        return super().tell(points, confirmed)


def search_one_by_one(chain: HostChain, call: Call) -> tuple[State, Info]:
    """Run the next update of a chain as `moves.search.search` does, with the points made in groups."""
    judge, noise, function = Judge(chain), chain.noise, call.function
    log_y, nans, tried, group = judge.log_y, 0, 0, 0
    while tried < MAX_EVALUATIONS:
        points = noise.points(group)[: MAX_EVALUATIONS - tried]
        if call.read_only:
            points.flags.writeable = False
        for f in points:
            try:
                value = float(function(f))
            except Exception as error:
                call.add_latents_to_error(error, f)
                raise
            # The body of `Judge.tell`: its calls for each point made a very cheap log-likelihood 15 % slower.
            tried += 1
            if value > log_y:
                return State(f.copy(), value), Info(tried, nans, False, noise.angle(tried))
            nans += value != value
        group += 1
    return chain.state, Info(tried, nans, True, 0.0)


class BatchedSearch:
    """The searches of one chain whose points are evaluated in batches.

    Parameters
    ----------
    chain : HostChain
    count : int
        Largest number of points in a batch.
    make_judge : callable
        `Judge`, or a `CarefulJudge` with its way to evaluate a point alone.
    """

    def __init__(self, chain: HostChain, count: int, make_judge: Callable[[HostChain], Judge]):
        self.chain, self._count, self._make_judge = chain, count, make_judge
        self._groups = -(-count // chain.noise.group)
        self._judge: Judge | None = None
        self._ready: Any = ()  # points that were made and have no value yet

    def points(self) -> np.ndarray:
        """Return the next points to evaluate, shape (points, size): the same ones until their values are told."""
        judge = self._judge
        if judge is None:
            self._ready, self._group = (), 0
            judge = self._judge = self._make_judge(self.chain)
        if not len(self._ready):
            groups = [self.chain.noise.points(self._group + i) for i in range(self._groups)]
            self._ready = groups[0] if len(groups) == 1 else np.concatenate(groups)
            self._group += self._groups
        return self._ready[: min(self._count, MAX_EVALUATIONS - judge.tried)]

    def tell(self, points: np.ndarray, values: list[float]) -> None:
        """Take the values of these points, and record the update if it has come to its end."""
        assert self._judge is not None  # noqa: S101  it made these points
        end = self._judge.tell(points, values)
        if end is None:
            self._ready = self._ready[len(points) :]
        else:
            self._judge = None
            self.chain.record(*end)
