"""Check that the blocks of a sweep can change every direction in which the prior varies.

An update of block B given the rest changes f along V_B: the vectors in the range of Sigma that are zero outside B. A
sweep is irreducible only if the sum of these subspaces is the whole range. With a singular Sigma it may not be. For
example, if the elements of a field sum to zero, the other blocks determine the sum of each block, and no update changes
it.

Such a sweep raises an error. The message proposes an update of all elements. It is not added automatically, because it
would change the cost and the draws of the user's move.

Let the rows of C be the directions without variance (C f = 0 for every draw). Then dim V_B = |B| - rank(C_B). For
blocks that do not overlap, these dimensions add up. For overlapping blocks, a functional w is constant under all
updates if w_B is in the row space of C_B for every B. The sweep is irreducible if only the row space of C has such w.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from ellipslice.priors import Prior, Stack
from ellipslice.priors.parts.null_space import DENSE_LIMIT

RANK_TOLERANCE = 1e-7
"""Largest singular value of C_B that is taken to be rounding error. C has orthonormal rows."""

CONSTANT_TOLERANCE = 1e-10
"""Largest eigenvalue, of a sum of projections, that is taken to be zero."""


class Moved(NamedTuple):
    """A block that an update of a move changes given the rest."""

    indices: np.ndarray
    """Sorted indices into the flat vector."""
    rank: int | None
    """Numerical rank of the conditional covariance; None if it is not known."""


Reach = list[Moved] | None
"""The blocks that an update of a move changes, each given the rest; None if it changes all elements jointly."""


def check_reach(move: Any, prior: Prior, reach: Reach) -> None:
    """Raise ValueError if some direction in which the prior varies would never change."""
    if reach is None:
        return
    blocks = [moved.indices for moved in reach]
    covered = np.bincount(np.concatenate(blocks), minlength=prior.size)
    if not covered.all():
        raise ValueError(
            f"{move!r} leaves out {int((covered == 0).sum())} of {prior.size} elements of the prior, the first of them "
            f"with index {int(np.argmin(covered))} of the flat vector. They would never move. Add them to a block, or "
            "add EllipticalSlice() to the Cycle."
        )
    fixed = 0
    if (covered == 1).all():
        fixed = _rank_deficit(prior, reach)
    fixed = max(fixed, _fixed_directions(prior, blocks))
    if fixed:
        raise ValueError(_never_changed_message(move, prior, fixed))


def _never_changed_message(move: Any, prior: Prior, fixed: int) -> str:
    """Return the message for `fixed` linear combinations that the move would never change."""
    count = f"{fixed} combination{'s' if fixed > 1 else ''} of the elements"
    return (
        f"{move!r} would never change {count}. The covariance of {prior!r} is singular (elements sum to zero, repeat "
        "or determine each other), so the other blocks fix these combinations while a block is updated. The draws "
        f"would depend on the initial states. Use Cycle({move!r}, EllipticalSlice()), Local.random(size), or a Cycle "
        "of Locals whose blocks overlap."
    )


def _rank_deficit(prior: Prior, reach: list[Moved]) -> int:
    """Return the rank of the prior less the sum of the ranks of disjoint blocks; 0 if a rank is not known."""
    try:
        rank = prior.rank
    except TypeError:
        return 0  # a Sum, Stationary or FromDraws, which Local can update only as a whole latent
    return 0 if any(moved.rank is None for moved in reach) else max(0, rank - sum(moved.rank or 0 for moved in reach))


def _fixed_directions(prior: Prior, blocks: list[np.ndarray]) -> int:
    """Return the number of independent linear combinations that vary under the prior, and that no block changes."""
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
        return _fixed_in_low_rank(prior, blocks)
    return sum(_fixed_by_constraints(rows, values, blocks) for rows, values in _split_constraints(known))


def _split_constraints(rows: np.ndarray) -> list[tuple[np.ndarray, np.ndarray]]:
    """Return constraints in groups that share no elements, such as one sum for each component of a graph.

    Each group is a pair: rows restricted to its elements, and the indices of these elements.
    """
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


def _fixed_by_constraints(rows: np.ndarray, values: np.ndarray, blocks: list[np.ndarray]) -> int:
    """Return the number of constant combinations other than the constraints. `rows` (M, elements) are orthonormal."""
    position = np.full(int(max(values.max(), max(block.max() for block in blocks))) + 1, -1)
    position[values] = np.arange(len(values))
    own = [inside[inside >= 0] for inside in (position[block] for block in blocks)]
    own = [block for block in own if len(block)]
    bases = [_row_space(rows[:, block]) for block in own]
    if sum(map(len, own)) == len(values):  # the blocks do not overlap
        return max(0, sum(len(basis) for basis in bases) - len(rows))
    if len(rows) == 1 and (np.abs(rows) > RANK_TOLERANCE).all():
        return _count_components(own, len(values)) - 1
    return _constant_functionals(rows, own, bases)


def _row_space(rows: np.ndarray) -> np.ndarray:
    """Return an orthonormal basis (rank, elements) of the row space."""
    _, singular, basis = np.linalg.svd(rows, full_matrices=False)
    return basis[singular > RANK_TOLERANCE]


def _count_components(blocks: Sequence[np.ndarray], size: int) -> int:
    """Return the number of groups of elements that no block connects."""
    from scipy.sparse import csgraph, csr_array

    lengths = [len(block) for block in blocks]
    which, values = np.repeat(np.arange(len(blocks)), lengths), np.concatenate(blocks)
    incidence = csr_array((np.ones(len(values)), (which, values)), shape=(len(blocks), size))
    return int(csgraph.connected_components(incidence.T @ incidence, directed=False)[0])


def _constant_functionals(rows: np.ndarray, blocks: list[np.ndarray], bases: list[np.ndarray]) -> int:
    """Return the dimension of {w : w_B is in the row space of C_B for each B} less that of the row space of C."""
    size = rows.shape[1]
    if size <= DENSE_LIMIT:
        distance = rows.T @ rows  # so that the rows of C are not counted
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
        return 0  # the eigenvalue is small but was not shown to be zero, so it raises no error
    return int(smallest[0] < CONSTANT_TOLERANCE)


def _fixed_in_low_rank(prior: Prior, blocks: list[np.ndarray]) -> int:
    """Return `_fixed_directions` for a prior of many elements but few standard normals, in the space of the normals."""
    if prior.noise_size > DENSE_LIMIT:
        return 0
    rows = np.asarray(prior.unwhiten(np.eye(prior.noise_size)))
    basis, upper = np.linalg.qr(rows.T)
    left, singular, _ = np.linalg.svd(upper)
    basis = basis @ left[:, singular > RANK_TOLERANCE * singular[0]]
    moved = np.zeros((basis.shape[1], basis.shape[1]))
    for block in blocks:
        # 1 - basis[block]' basis[block] is the squared norm outside the block, of unit vectors of the range.
        outside, vectors = np.linalg.eigh(np.eye(len(moved)) - basis[block].T @ basis[block])
        inside = vectors[:, outside < CONSTANT_TOLERANCE]
        moved += inside @ inside.T
    return int(np.sum(np.linalg.eigvalsh(moved) < CONSTANT_TOLERANCE))
