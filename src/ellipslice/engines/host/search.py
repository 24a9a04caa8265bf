"""Slice searches on the host: the chain, its random numbers, and the search of one update.

`SliceSearch` is the search of one update. It returns the points to try in order, and accepts the first point whose
log-likelihood is above the slice level. Three drivers evaluate the points:

- `search_one_by_one`: in this thread, one point after the other, and only points that are needed.
- `BatchedSearch`: points of all chains in one call of the log-likelihood (`engine._BatchedChains`).
- `workers.engine`: on the workers of an executor, one task per point.

All random numbers are drawn before the first evaluation, so the draws are bit-identical with all three.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

import numpy as np

from ellipslice.engines.host.angles import AngleTable
from ellipslice.engines.host.call import Call
from ellipslice.engines.rows import ChainRows, Rows
from ellipslice.engines.threads import limit_blas_threads
from ellipslice.moves import Info, Path, State
from ellipslice.moves.search import MAX_EVALUATIONS, WIDTH
from ellipslice.noise import NoiseSpec, UpdateNoise, block_length, draw_block, take

MAX_GROUP = 16
"""Largest number of points that are computed by one matrix product."""

MAX_GROUP_ELEMENTS = 2**13
"""Largest number of elements in a group of more than one point."""

ROUNDING = 1e-8
"""Relative rounding difference that is allowed between a value of a batch and a single evaluation."""


def group_size(size: int) -> int:
    """Return the number of points of `size` elements that are computed jointly: 16 for short points, 1 for long ones.

    It must depend on `size` alone: the rounding of a matrix product depends on its shape, so the draws depend on it.
    """
    group = MAX_GROUP
    while group > 1 and group * size > MAX_GROUP_ELEMENTS:
        group //= 2
    if WIDTH % group:  # else a group would need angles of two sheets
        raise ValueError(f"a sheet of {WIDTH} angles cannot be divided into groups of {group} points.")
    return group


class ChainNoise:
    """Random numbers of one chain, drawn in blocks of updates.

    If the move is a search along a path, the angles and weights of a whole block are computed with its random numbers.

    Parameters
    ----------
    path : Path or None
        The move's path.
    spec : NoiseSpec
        Specification of the random numbers of an update.
    size : int
        Number of elements of a state.
    seed, chain : int
        Seed of the run and index of the chain.
    """

    def __init__(self, path: Path | None, spec: NoiseSpec, size: int, seed: int, chain: int):
        self._path: Any = path
        self.group, self._vectors = group_size(size), np.empty((2, size))
        self._spec, self._seed, self._chain = spec, seed, chain
        self._length, self._block = block_length(spec.numbers), -1

    def _enter(self, update: int) -> int:
        """Draw the block that contains an update, unless it is the current one. Return the update's row in it."""
        block, row = divmod(update, self._length)
        if block != self._block:
            with limit_blas_threads(1):
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
        """Start the search of an update from `f`. Return the distance of the slice level below the log-likelihood."""
        row = self._row = self._enter(update)
        self._vectors[0], self._vectors[1] = self._path.curve(f, self._nu[row], self._here[row])
        return self._level[row][0]

    def points(self, number: int) -> np.ndarray:
        """Return group `number` of the points that the search tries, counted from 0: shape (points, size).

        A matrix product computes sixteen short points in the time of one.
        """
        sheet, start = divmod(number * self.group, WIDTH)
        weights = self._weights[self._row]
        if sheet:
            weights = np.stack(self._path.weights(self._angles.sheet(self._row, sheet)), axis=-1)
        if self.group > 1:
            return np.dot(weights[start : start + self.group], self._vectors)
        return self._vectors[:1] * weights[start, 0] + self._vectors[1:] * weights[start, 1]

    def angle(self, tried: int) -> float:
        """Return the angle between the current state and point number `tried` of the search, counted from 1."""
        return self._angles.angle(self._row, tried - 1)

    def of_update(self, update: int) -> UpdateNoise:
        """Return the random numbers of one update."""
        row = self._enter(update)
        return UpdateNoise(take(self._noise.drawn, row), self._level[row], self._noise.uniforms[row])


class HostChain:
    """One chain: its state, its random numbers, and the updates that `take` has not returned yet.

    Parameters
    ----------
    noise : ChainNoise
    rows : ChainRows
        Converter of updates to rows. Its number of updates is where the chain starts.
    state : State
        State at the start.
    updates : int
        Total number of updates to make, including those before the start.
    """

    def __init__(self, noise: ChainNoise, rows: ChainRows, state: State, updates: int):
        self.noise, self.state, self.done, self.updates = noise, state, rows.updates, updates
        self._rows = rows
        self._f: list[np.ndarray] = []
        self._log_likelihood: list[float] = []
        self._info: list[Any] = []

    @property
    def remaining(self) -> int:
        """Number of updates still to be made."""
        return self.updates - self.done

    def record(self, state: State, info: Info) -> None:
        """Record the result of an update."""
        # There is one list per field, because Python's garbage collector would repeatedly scan a list of tuples.
        self._f.append(state.f)
        self._log_likelihood.append(state.log_likelihood)
        self._info.extend(info)
        self.state = state
        self.done += 1

    def take(self) -> Rows | None:
        """Return the rows of the updates recorded since the last call, or None if there are none."""
        count = self.done - self._rows.updates  # the lists may be longer, if an interrupt came inside `record`
        if not count:
            return None
        fields = len(Info._fields)
        *common, more = (self._info[i : count * fields : fields] for i in range(fields))
        info = Info(*map(np.array, common), more=tuple(map(np.array, zip(*more, strict=True))))
        f, log_likelihood = np.array(self._f[:count]), np.array(self._log_likelihood[:count])
        self._f, self._log_likelihood, self._info = [], [], []
        return self._rows.add(f, log_likelihood, info)


class SliceSearch:
    """The slice search of one update: it returns the points to try, and processes their values in the same order.

    Attributes
    ----------
    log_y : float
        The slice level.
    tried : int
        Number of points rejected so far.
    """

    tried = _nans = 0

    def __init__(self, chain: HostChain):
        self._state, self._noise = chain.state, chain.noise
        self.log_y = chain.state.log_likelihood - chain.noise.begin(chain.done, chain.state.f)

    def points(self) -> Iterator[np.ndarray]:
        """Return an iterator over all points of the search, in the order in which they are tried."""
        groups = map(self._noise.points, itertools.count())
        return itertools.islice(itertools.chain.from_iterable(groups), MAX_EVALUATIONS)

    def process(self, points: Sequence[np.ndarray] | np.ndarray, values: Iterable[float]) -> tuple[State, Info] | None:
        """Process the log-likelihoods of the next points. Return the new state if the update has ended, else None.

        Values after that of the accepted point are not read, so an iterator does not need to compute them.
        """
        log_y, nans = self.log_y, self._nans
        for i, value in enumerate(values):
            if value > log_y:  # false for NaN, which is therefore never accepted
                tried = self.tried + i + 1
                return State(points[i].copy(), value), Info(tried, nans, False, self._noise.angle(tried))
            nans += value != value
        self.tried, self._nans = self.tried + len(points), nans
        return (self._state, Info(self.tried, nans, True, 0.0)) if self.tried >= MAX_EVALUATIONS else None


class ConfirmedSearch(SliceSearch):
    """A slice search for batches whose values round differently from single evaluations.

    A point that is on the slice, or could be up to rounding error, is evaluated again by itself. So the draws do not
    depend on the size of the batches.
    """

    def __init__(self, chain: HostChain, alone: Callable[[np.ndarray], float]):
        super().__init__(chain)
        self._alone = alone

    def process(self, points: Sequence[np.ndarray] | np.ndarray, values: Iterable[float]) -> tuple[State, Info] | None:
        lowest = self.log_y - ROUNDING * (1 + abs(self.log_y))
        confirmed = (self._alone(points[i]) if value > lowest else value for i, value in enumerate(values))
        return super().process(points, confirmed)


def search_one_by_one(chain: HostChain, call: Call) -> tuple[State, Info]:
    """Return the result of the chain's next update, evaluating one point after the other.

    It is the search of `moves.search.search`, but the points are computed in groups.
    """
    noise, function = chain.noise, call.function
    log_y, nans, tried, group = SliceSearch(chain).log_y, 0, 0, 0
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
            # The body of `SliceSearch.process`: calling it for each point made runs with a very cheap log-likelihood
            # 15 % slower.
            tried += 1
            if value > log_y:
                return State(f.copy(), value), Info(tried, nans, False, noise.angle(tried))
            nans += value != value
        group += 1
    return chain.state, Info(tried, nans, True, 0.0)


class BatchedSearch:
    """The searches of one chain, whose points are evaluated in batches.

    Parameters
    ----------
    chain : HostChain
    count : int
        Largest number of points of this chain in a batch.
    make_search : callable
        `SliceSearch`, or `ConfirmedSearch` with its function for single evaluations.
    """

    def __init__(self, chain: HostChain, count: int, make_search: Callable[[HostChain], SliceSearch]):
        self.chain, self._count, self._make_search = chain, count, make_search
        self._groups = -(-count // chain.noise.group)
        self._search: SliceSearch | None = None
        self._ready: Any = ()  # points that are computed but not evaluated yet

    def points(self) -> np.ndarray:
        """Return the next points to evaluate, shape (points, size). They stay the same until `process` is called."""
        search = self._search
        if search is None:
            self._ready, self._group = (), 0
            search = self._search = self._make_search(self.chain)
        if not len(self._ready):
            groups = [self.chain.noise.points(self._group + i) for i in range(self._groups)]
            self._ready = groups[0] if len(groups) == 1 else np.concatenate(groups)
            self._group += self._groups
        return self._ready[: min(self._count, MAX_EVALUATIONS - search.tried)]

    def process(self, points: np.ndarray, values: list[float]) -> None:
        """Process the values of the points that `points` returned, and record the update if it has ended."""
        assert self._search is not None  # noqa: S101  `points` has set it
        end = self._search.process(points, values)
        if end is None:
            self._ready = self._ready[len(points) :]
        else:
            self._search = None
            self.chain.record(*end)
