"""Whether the blocks of a sweep together move every direction in which the prior varies.

An update of block B given the rest moves f along V_B: the vectors in the range of Sigma that are zero outside B. A
sweep is irreducible only if the sum of these subspaces is the whole range. With a singular Sigma it may not be: if the
values of a field sum to zero, the sum of each block is determined by the other blocks, and no update changes it.

Such a sweep is refused and not completed by an update of all values. That would change what the user asked for, its
cost and its draws; the message says how to ask for it.

With C the directions without variance (C f = 0 for every draw), dim V_B = |B| - rank(C_B). For blocks that do not
overlap, these dimensions add up. For blocks that do, a functional w is constant under all updates if w_B is in the row
space of C_B for every B; the sweep is irreducible if no other w than the rows of C themselves is.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from ellipslice.priors import Prior, Stack
from ellipslice.priors.parts.null_space import DENSE_LIMIT

RANK_TOLERANCE = 1e-7
"""Singular values of C_B below this are rounding; C has orthonormal rows."""

CONSTANT_TOLERANCE = 1e-10
"""Eigenvalues of the sum of squared distances from the row spaces below this are zero."""


class Moved(NamedTuple):
    """A block that one update of a move changes given the rest."""

    indices: np.ndarray
    """Sorted indices into the flat vector."""
    rank: int | None
    """The rank of the conditional covariance as it was factorised; None if not known."""


Reach = list[Moved] | None
"""The blocks that an update of a move changes, each given the rest; None stands for all values together."""


def check_reach(move: Any, prior: Prior, reach: Reach) -> None:
    """Raise ValueError if some direction of the prior never moves."""
    if reach is None:
        return
    blocks = [moved.indices for moved in reach]
    covered = np.bincount(np.concatenate(blocks), minlength=prior.size)
    if not covered.all():
        raise ValueError(
            f"{move!r} leaves out {int((covered == 0).sum())} of {prior.size} values of the prior, the first of them "
            f"with index {int(np.argmin(covered))} of the flat vector: they would never move. Add them to a block, or "
            "add EllipticalSlice() to the Cycle."
        )
    fixed = 0
    if (covered == 1).all():
        fixed = _lost_by_ranks(prior, reach)
    fixed = max(fixed, _fixed_directions(prior, blocks))
    if fixed:
        raise ValueError(_refusal(move, prior, fixed))


def _refusal(move: Any, prior: Prior, fixed: int) -> str:
    count = f"{fixed} combination{'s' if fixed > 1 else ''} of the values"
    return (
        f"{move!r} would never change {count}: the covariance of {prior!r} is singular (values sum to zero, repeat or "
        "determine each other), and given the other blocks a block cannot change what these determine. The draws "
        "would depend on where the chains start. Use Cycle("
        f"{move!r}, EllipticalSlice()), Local.random(size), or a Cycle of Locals whose blocks overlap."
    )


def _lost_by_ranks(prior: Prior, reach: list[Moved]) -> int:
    """How much the ranks of blocks that do not overlap fall short of the prior's rank; 0 if one is not known."""
    try:
        rank = prior.rank
    except TypeError:
        return 0  # a sum or a routine, which Local takes only whole
    return 0 if any(moved.rank is None for moved in reach) else max(0, rank - sum(moved.rank or 0 for moved in reach))


def _fixed_directions(prior: Prior, blocks: list[np.ndarray]) -> int:
    """How many linear combinations that vary under the prior no update of a block changes."""
    if isinstance(prior, Stack):
        fixed, start = 0, 0
        for part in prior.priors:
            own = [block[(block >= start) & (block < start + part.size)] - start for block in blocks]
            fixed += _fixed_directions(part, [block for block in own if len(block)])
            start += part.size
        return fixed
    if any(len(block) == prior.size for block in blocks):
        return 0
    known = prior.null_space()
    if known is None:
        return _fixed_in_few_dimensions(prior, blocks)
    return sum(_fixed_under(rows, values, blocks) for rows, values in _independent(known))


def _independent(rows: np.ndarray) -> list[tuple[np.ndarray, np.ndarray]]:
    """Constraints split by the values that they concern, such as one sum for each component of a graph."""
    if len(rows) < 2:
        return [(rows, np.arange(rows.shape[1]))] if len(rows) else []
    from scipy.sparse import csgraph, csr_array

    touches = csr_array(np.abs(rows) > RANK_TOLERANCE)
    count, label = csgraph.connected_components(touches @ touches.T, directed=False)
    parts = []
    for number in range(count):
        own = rows[label == number]
        values = np.flatnonzero((np.abs(own) > RANK_TOLERANCE).any(axis=0))
        parts.append((own[:, values], values))
    return parts


def _fixed_under(rows: np.ndarray, values: np.ndarray, blocks: list[np.ndarray]) -> int:
    """The number of constant combinations beyond the constraints themselves. `rows` (M, values) are orthonormal."""
    place = np.full(int(max(values.max(), max(block.max() for block in blocks))) + 1, -1)
    place[values] = np.arange(len(values))
    own = [inside[inside >= 0] for inside in (place[block] for block in blocks)]
    own = [block for block in own if len(block)]
    bases = [_row_space(rows[:, block]) for block in own]
    if sum(map(len, own)) == len(values):  # no two overlap
        return max(0, sum(len(basis) for basis in bases) - len(rows))
    if len(rows) == 1 and (np.abs(rows) > RANK_TOLERANCE).all():
        return _components(own, len(values)) - 1
    return _constant_functionals(rows, own, bases)


def _row_space(rows: np.ndarray) -> np.ndarray:
    """An orthonormal basis (rank, values) of the row space."""
    _, singular, basis = np.linalg.svd(rows, full_matrices=False)
    return basis[singular > RANK_TOLERANCE]


def _components(blocks: Sequence[np.ndarray], size: int) -> int:
    """How many groups of values there are that no block connects."""
    from scipy.sparse import csgraph, csr_array

    lengths = [len(block) for block in blocks]
    which, values = np.repeat(np.arange(len(blocks)), lengths), np.concatenate(blocks)
    incidence = csr_array((np.ones(len(values)), (which, values)), shape=(len(blocks), size))
    return int(csgraph.connected_components(incidence.T @ incidence, directed=False)[0])


def _constant_functionals(rows: np.ndarray, blocks: list[np.ndarray], bases: list[np.ndarray]) -> int:
    """The dimension of {w : w_B is in the row space of C_B for each B}, less that of the row space of C."""
    size = rows.shape[1]
    if size <= DENSE_LIMIT:
        distance = rows.T @ rows  # the rows of C themselves are not counted
        for block, basis in zip(blocks, bases, strict=True):
            distance[np.ix_(block, block)] += np.eye(len(block)) - basis.T @ basis
        return int(np.sum(np.linalg.eigvalsh(distance) < CONSTANT_TOLERANCE))
    from scipy.sparse.linalg import ArpackError, LinearOperator, eigsh

    def apply(w: np.ndarray) -> np.ndarray:
        total = rows.T @ (rows @ w)
        for block, basis in zip(blocks, bases, strict=True):
            total[block] += w[block] - basis.T @ (basis @ w[block])
        return total

    start = np.random.default_rng(0).standard_normal(size)
    operator: Any = LinearOperator((size, size), matvec=lambda w: apply(np.ravel(w)), dtype=np.float64)  # pyright: ignore[reportCallIssue]
    try:
        options: dict[str, Any] = {"k": 1, "which": "SA", "v0": start, "tol": 1e-6, "maxiter": 300}
        smallest = eigsh(operator, return_eigenvectors=False, **options)
    except ArpackError:
        return 0  # close to zero, but not shown to be zero
    return int(smallest[0] < CONSTANT_TOLERANCE)


def _fixed_in_few_dimensions(prior: Prior, blocks: list[np.ndarray]) -> int:
    """The same for many values that few standard normals determine: in the space of these normals."""
    if prior.noise_size > DENSE_LIMIT:
        return 0
    rows = np.asarray(prior.unwhiten(np.eye(prior.noise_size)))
    basis, upper = np.linalg.qr(rows.T)
    left, singular, _ = np.linalg.svd(upper)
    basis = basis @ left[:, singular > RANK_TOLERANCE * singular[0]]
    moved = np.zeros((basis.shape[1], basis.shape[1]))
    for block in blocks:
        # 1 - basis[block]' basis[block] is the square of what a unit vector of the range has outside the block.
        outside, vectors = np.linalg.eigh(np.eye(len(moved)) - basis[block].T @ basis[block])
        inside = vectors[:, outside < CONSTANT_TOLERANCE]
        moved += inside @ inside.T
    return int(np.sum(np.linalg.eigvalsh(moved) < CONSTANT_TOLERANCE))
