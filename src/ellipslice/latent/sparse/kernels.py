"""Compiled loops of the numeric factorisation: L, products and solves with it, and the selected inverse.

L is stored by supernodes, which are ranges of columns with the same rows below them. The entries of a supernode are a
dense array of its rows (its own columns first) and columns, column by column. The part above the diagonal is unused.

Indices are unsigned, because numba accepts negative indices for signed ones, and LLVM then does not vectorise the
loops: on a lattice of 142 x 142 the factorisation took twice as long.
"""

from __future__ import annotations

import numpy as np

from ellipslice.latent.sparse.compiled import compiled

ZERO, ONE, TWO, THREE, FOUR = map(np.uint64, range(5))


@compiled
def factorise(values, structure, tolerance):
    """Return the entries of L and the log determinant, which is NaN if the matrix is not positive definite.

    A supernode is factorised when all earlier ones have updated it, and then updates later ones.

    Parameters
    ----------
    values : array of float64
        Entries of the matrix in the order of the pattern.
    structure : symbolic.Structure
    tolerance : float
        Pivots must be larger than this number times the diagonal entry.
    """
    first, row_starts, entry_starts = structure.first, structure.row_starts, structure.entry_starts
    updates, positions = structure.updates, structure.positions
    lower = np.zeros(entry_starts[-1])
    for e in range(values.size):
        lower[structure.places[e]] = values[e]
    least = np.empty(structure.diagonal.size)
    for j in range(least.size):
        least[j] = tolerance * lower[structure.diagonal[j]]
    number = np.uint64(first.size - 1)
    space = ZERO
    for s in range(number):
        space = max(space, row_starts[s + ONE] - row_starts[s])
    work = np.empty(TWO * space)
    log_determinant = 0.0
    for s in range(number):
        width, height = first[s + ONE] - first[s], row_starts[s + ONE] - row_starts[s]
        base = entry_starts[s]
        if not _factorise_supernode(lower, base, width, height, least[first[s] : first[s + ONE]], work, space):
            return lower, np.nan
        for j in range(width):
            log_determinant += np.log(lower[base + j * height + j])
        for u in range(structure.update_starts[s], structure.update_starts[s + ONE]):
            begin, end = updates[u, ONE], updates[u, TWO]
            target = updates[u, ZERO]
            target_height = row_starts[target + ONE] - row_starts[target]
            at = (entry_starts[target], target_height, updates[u, THREE])
            _update(lower, base, (width, height, begin, end), at, positions, work, space)
    return lower, 2.0 * log_determinant


@compiled
def _factorise_supernode(lower, base, width, height, least, work, space):
    """Replace the entries of a supernode by those of L. Return whether all pivots are large enough."""
    c = ZERO
    while c < width:
        left, length = base + c * height + c, height - c
        pair = c + ONE < width
        right = left + height
        if c > ZERO:
            if pair:
                _two_products(lower, base + c, height, c, work, space, length)
                for i in range(ONE, length):
                    lower[right + i] -= work[space + i]
            else:
                _one_product(lower, base + c, height, c, work, length)
            for i in range(length):
                lower[left + i] -= work[i]
        if not _scale_column(lower, left, length, least[c]):
            return False
        if pair:
            x = lower[left + ONE]
            for i in range(ONE, length):
                lower[right + i] -= x * lower[left + i]
            if not _scale_column(lower, right + ONE, length - ONE, least[c + ONE]):
                return False
        c += TWO
    return True


@compiled
def _scale_column(lower, at, length, least):
    """Divide a column by the square root of its first entry. Return whether that entry is large enough."""
    if not lower[at] > least:
        return False
    root = np.sqrt(lower[at])
    lower[at] = root
    scale = 1.0 / root
    for i in range(ONE, length):
        lower[at + i] *= scale
    return True


@compiled
def _update(lower, base, source, target, positions, work, space):
    """Subtract the products of rows of a supernode from the entries of a later one."""
    width, height, j, end = source
    target_base, target_height, q = target
    while j < end:
        length = height - j
        left = target_base + positions[q] * target_height
        if j + ONE < end:
            _two_products(lower, base + j, height, width, work, space, length)
            right = target_base + positions[q + ONE] * target_height
            for i in range(ONE, length):
                lower[right + positions[q + i]] -= work[space + i]
        else:
            _one_product(lower, base + j, height, width, work, length)
        for i in range(length):
            lower[left + positions[q + i]] -= work[i]
        j += TWO
        q += TWO


@compiled
def _one_product(lower, at, height, columns, work, length):
    """Write, to `work`, the products of a row of a supernode, which begins at `at`, with itself and the rows below."""
    for i in range(length):
        work[i] = 0.0
    for _ in range(columns):
        x = lower[at]
        for i in range(length):
            work[i] += x * lower[at + i]
        at += height


@compiled
def _two_products(lower, at, height, columns, work, space, length):
    """Write the products of two adjacent rows with themselves and the rows below, the second ones from `space` on."""
    for i in range(length):
        work[i] = 0.0
        work[space + i] = 0.0
    k = ZERO
    while k + FOUR <= columns:
        b = at + height
        c = b + height
        d = c + height
        x0, x1, x2, x3 = lower[at], lower[b], lower[c], lower[d]
        y0, y1, y2, y3 = lower[at + ONE], lower[b + ONE], lower[c + ONE], lower[d + ONE]
        for i in range(length):
            z0, z1, z2, z3 = lower[at + i], lower[b + i], lower[c + i], lower[d + i]
            work[i] += (z0 * x0 + z1 * x1) + (z2 * x2 + z3 * x3)
            work[space + i] += (z0 * y0 + z1 * y1) + (z2 * y2 + z3 * y3)
        k += FOUR
        at = d + height
    while k < columns:
        x, y = lower[at], lower[at + ONE]
        for i in range(length):
            z = lower[at + i]
            work[i] += z * x
            work[space + i] += z * y
        k += ONE
        at += height
