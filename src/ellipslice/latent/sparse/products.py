"""Compiled products and solves with L, the selected inverse, and quadratic forms of the matrix."""

from __future__ import annotations

import numpy as np

from ellipslice.latent.sparse.compiled import compiled, compiled_with_reordered_sums
from ellipslice.latent.sparse.kernels import FOUR, ONE, THREE, TWO, ZERO


@compiled
def quadratic(values, rows, cols, x):
    """Return x' H x."""
    diagonal = below = 0.0
    for e in range(values.size):
        term = values[e] * x[rows[e]] * x[cols[e]]
        if rows[e] == cols[e]:
            diagonal += term
        else:
            below += term
    return diagonal + 2.0 * below


@compiled
def solve(lower, structure, b, forward, backward):
    """Return P' inv(L') inv(L) P b for each row of b; without `forward` P' inv(L') b, without `backward` inv(L) P b."""
    first, row_starts, entry_starts = structure.first, structure.row_starts, structure.entry_starts
    order, rows = structure.order, structure.rows
    number = np.uint64(first.size - 1)
    x = np.empty_like(b)
    work = np.empty(order.size)
    for vector in range(b.shape[0]):
        y = b[vector].copy()
        if forward:
            for j in range(order.size):
                y[j] = b[vector, order[j]]
            for s in range(number):
                height = row_starts[s + ONE] - row_starts[s]
                width = first[s + ONE] - first[s]
                _forward(lower, entry_starts[s], width, height, rows, row_starts[s], y, work)
        if backward:
            for t in range(number):
                s = number - ONE - t
                height = row_starts[s + ONE] - row_starts[s]
                width = first[s + ONE] - first[s]
                _backward(lower, entry_starts[s], width, height, rows, row_starts[s], y, work)
            for j in range(order.size):
                x[vector, order[j]] = y[j]
        else:
            x[vector] = y
    return x


@compiled
def _forward(lower, base, width, height, rows, begin, y, work):
    """Solve with the columns of L of one supernode."""
    for i in range(height):
        work[i] = y[rows[begin + i]]
    k = ZERO
    while k + ONE < width:
        left = base + k * height
        right = left + height
        x0 = work[k] / lower[left + k]
        x1 = (work[k + ONE] - x0 * lower[left + k + ONE]) / lower[right + k + ONE]
        work[k] = x0
        work[k + ONE] = x1
        for i in range(k + TWO, height):
            work[i] -= x0 * lower[left + i] + x1 * lower[right + i]
        k += TWO
    if k < width:
        left = base + k * height
        x0 = work[k] / lower[left + k]
        work[k] = x0
        for i in range(k + ONE, height):
            work[i] -= x0 * lower[left + i]
    for i in range(height):
        y[rows[begin + i]] = work[i]


@compiled
def _backward(lower, base, width, height, rows, begin, y, work):
    """Solve with the rows of L' of one supernode."""
    for i in range(height):
        work[i] = y[rows[begin + i]]
    for c in range(width):
        k = width - ONE - c
        at = base + k * height
        near = min(k + FOUR, height)
        total = _dot(lower, at, work, near, height)
        for i in range(k + ONE, near):  # just written, so a vector load of them would wait
            total += lower[at + i] * work[i]
        work[k] = (work[k] - total) / lower[at + k]
    for i in range(width):
        y[rows[begin + i]] = work[i]


@compiled_with_reordered_sums
def _dot(lower, at, work, begin, end):
    """Return the sum of lower[at + i] * work[i] from `begin` to `end`."""
    total = 0.0
    for i in range(begin, end):
        total += lower[at + i] * work[i]
    return total


@compiled
def whiten(lower, structure, x):
    """Return L' P x for each row of x."""
    first, row_starts, entry_starts = structure.first, structure.row_starts, structure.entry_starts
    order, rows = structure.order, structure.rows
    number = np.uint64(first.size - 1)
    z = np.empty_like(x)
    work = np.empty(order.size)
    y = np.empty(order.size)
    for vector in range(x.shape[0]):
        for j in range(order.size):
            y[j] = x[vector, order[j]]
        for s in range(number):
            height = row_starts[s + ONE] - row_starts[s]
            for i in range(height):
                work[i] = y[rows[row_starts[s] + i]]
            for k in range(first[s + ONE] - first[s]):
                z[vector, first[s] + k] = _dot(lower, entry_starts[s] + k * height, work, k, height)
    return z


@compiled
def selected_inverse(lower, structure):
    """Return the entries of the inverse where L has entries, by Takahashi's recursion, stored as L is.

    The inverse for the rows of a supernode is a dense symmetric array. The part below its own columns is gathered from
    later supernodes. Then its columns follow from the last to the first.
    """
    first, row_starts, entry_starts = structure.first, structure.row_starts, structure.entry_starts
    updates, positions = structure.updates, structure.positions
    inverse = np.zeros(lower.size)
    number = np.uint64(first.size - 1)
    space = ZERO
    for s in range(number):
        space = max(space, row_starts[s + ONE] - row_starts[s])
    dense = np.empty(space * space)
    work = np.empty(space)
    for t in range(number):
        s = number - ONE - t
        width, height = first[s + ONE] - first[s], row_starts[s + ONE] - row_starts[s]
        for u in range(structure.update_starts[s], structure.update_starts[s + ONE]):
            source = updates[u, ZERO]
            source_height = row_starts[source + ONE] - row_starts[source]
            q = updates[u, THREE]
            for j in range(updates[u, ONE], updates[u, TWO]):
                at = entry_starts[source] + positions[q] * source_height
                for i in range(height - j):
                    entry = inverse[at + positions[q + i]]
                    dense[j * height + j + i] = entry
                    dense[(j + i) * height + j] = entry
                q += ONE
        _invert_supernode(lower, entry_starts[s], width, height, dense, work)
        for k in range(width):
            for i in range(k, height):
                inverse[entry_starts[s] + k * height + i] = dense[k * height + i]
    return inverse


@compiled
def _invert_supernode(lower, base, width, height, dense, work):
    """Write the columns of the inverse that belong to a supernode, given the rest of the symmetric array."""
    for c in range(width):
        k = width - ONE - c
        at, out = base + k * height, k * height
        scale = 1.0 / lower[at + k]
        for i in range(k + ONE, height):
            work[i] = scale * lower[at + i]
            dense[out + i] = 0.0
        j = k + ONE
        while j + FOUR <= height:
            d0 = j * height
            d1 = d0 + height
            d2 = d1 + height
            d3 = d2 + height
            x0, x1, x2, x3 = work[j], work[j + ONE], work[j + TWO], work[j + THREE]
            for i in range(k + ONE, height):
                dense[out + i] -= (dense[d0 + i] * x0 + dense[d1 + i] * x1) + (dense[d2 + i] * x2 + dense[d3 + i] * x3)
            j += FOUR
        while j < height:
            d0, x0 = j * height, work[j]
            for i in range(k + ONE, height):
                dense[out + i] -= dense[d0 + i] * x0
            j += ONE
        total = 0.0
        for i in range(k + ONE, height):
            total += work[i] * dense[out + i]
            dense[i * height + k] = dense[out + i]
        dense[out + k] = scale * scale - total
