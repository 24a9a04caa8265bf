"""Compiled loops of the symbolic factorisation: elimination tree, column counts, supernodes and their rows.

Variables are in the order of elimination. The strict lower triangle is given by rows: `starts` and `columns`.
"""

from __future__ import annotations

import numpy as np

from ellipslice.latent.sparse.compiled import compiled

ALWAYS_MERGED_COLUMNS = 4
ZEROS_AT_16_COLUMNS = 0.8
ZEROS_AT_48_COLUMNS = 0.1
ZEROS_OF_MORE_COLUMNS = 0.05


@compiled
def elimination_tree(starts, columns):
    """Return the parent of each variable in the elimination tree, or -1 for roots."""
    size = starts.size - 1
    parent = np.full(size, -1)
    ancestor = np.full(size, -1)
    for i in range(size):
        for e in range(starts[i], starts[i + 1]):
            k = columns[e]
            while k != -1 and k < i:
                following = ancestor[k]
                ancestor[k] = i
                if following == -1:
                    parent[k] = i
                k = following
    return parent


@compiled
def column_counts(starts, columns, parent):
    """Return the number of entries in each column of L, the diagonal included."""
    size = parent.size
    count = np.ones(size, dtype=np.int64)
    mark = np.full(size, -1)
    for i in range(size):
        mark[i] = i
        for e in range(starts[i], starts[i + 1]):
            k = columns[e]
            while mark[k] != i:
                count[k] += 1
                mark[k] = i
                k = parent[k]
    return count


@compiled
def postorder(parent, count):
    """Return the variables in a postorder of the tree in which the child with the longest column is the last one."""
    size = parent.size
    first = np.full(size + 1, -1)  # lists of children; those of a virtual root are the last
    following = np.full(size, -1)
    for k in range(size - 1, -1, -1):
        above = parent[k] if parent[k] >= 0 else size
        following[k] = first[above]
        first[above] = k
    for above in range(size + 1):
        previous, longest, before = -1, -1, -1
        k = first[above]
        while k != -1:
            if longest == -1 or count[k] >= count[longest]:
                longest, before = k, previous
            previous = k
            k = following[k]
        if longest != -1 and following[longest] != -1:
            if before == -1:
                first[above] = following[longest]
            else:
                following[before] = following[longest]
            following[longest] = -1
            following[previous] = longest
    order = np.empty(size, dtype=np.int64)
    stack = np.empty(size + 1, dtype=np.int64)
    stack[0] = size
    depth, filled = 1, 0
    while depth:
        node = stack[depth - 1]
        child = first[node]
        if child == -1:
            depth -= 1
            if node < size:
                order[filled] = node
                filled += 1
        else:
            first[node] = following[child]
            stack[depth] = child
            depth += 1
    return order


@compiled
def supernode_starts(parent, count):
    """Return the first columns of the supernodes, and the number of columns at the end.

    A supernode is a range of columns that have the same rows below it. Small supernodes are merged with their parents
    if this adds few zeros, because long loops are faster.
    """
    size = parent.size
    start = np.zeros(size + 1, dtype=np.int64)
    number = 0
    for j in range(size):
        if j == 0 or parent[j - 1] != j or count[j - 1] != count[j] + 1:
            start[number] = j
            number += 1
    start[number] = size
    kept = np.empty(number + 1, dtype=np.int64)
    kept[number] = size
    top = number  # kept[top:] are the first columns of the supernodes so far, from the last one
    end, zeros = size, 0
    for s in range(number - 1, -1, -1):
        last = start[s + 1] - 1
        if s < number - 1 and start[s + 1] <= parent[last] < end:
            own, below = start[s + 1] - start[s], count[end - 1] - 1
            columns = end - start[s]
            added = own * (end - start[s + 1] + below - (count[last] - 1))
            share = (zeros + added) / (columns * (columns + 1) / 2 + columns * below)
            if _merge(columns, share):
                zeros += added
                kept[top] = start[s]
                continue
        top -= 1
        kept[top] = start[s]
        end, zeros = start[s + 1], 0
    return kept[top:].copy()


@compiled
def _merge(columns, share):
    """Return whether a supernode with this share of zeros is allowed."""
    if columns <= ALWAYS_MERGED_COLUMNS:
        return True
    if columns <= 16:
        return share < ZEROS_AT_16_COLUMNS
    if columns <= 48:
        return share < ZEROS_AT_48_COLUMNS
    return share < ZEROS_OF_MORE_COLUMNS


@compiled
def supernode_rows(starts, columns, parent, count, first):
    """Return where the rows of each supernode begin, and the rows: its own columns, then the rows below, ascending."""
    number = first.size - 1
    group = np.empty(parent.size, dtype=np.int64)
    row_starts = np.zeros(number + 1, dtype=np.int64)
    for s in range(number):
        group[first[s] : first[s + 1]] = s
        row_starts[s + 1] = row_starts[s] + first[s + 1] - first[s] + count[first[s + 1] - 1] - 1
    rows = np.empty(row_starts[number], dtype=np.int64)
    filled = row_starts[:number].copy()
    above = np.empty(number, dtype=np.int64)
    mark = np.full(number, -1)
    for s in range(number):
        last = parent[first[s + 1] - 1]
        above[s] = group[last] if last >= 0 else -1
        for j in range(first[s], first[s + 1]):
            rows[filled[s]] = j
            filled[s] += 1
    for i in range(parent.size):
        mark[group[i]] = i
        for e in range(starts[i], starts[i + 1]):
            s = group[columns[e]]
            while mark[s] != i:
                rows[filled[s]] = i
                filled[s] += 1
                mark[s] = i
                s = above[s]
    return row_starts, rows, group


@compiled
def update_targets(first, row_starts, rows, group):
    """Return the supernodes that each supernode updates, and where its rows are in their rows.

    Returns
    -------
    pair_starts : array of int64
        Position of the first update by each supernode.
    pairs : array of int64, shape (updates, 4)
        Supernode that is updated, first and last + 1 of the rows that are columns of it, and begin of their positions.
    positions : array of int32
        Positions, in the rows of the updated supernode, of those rows and all later ones.
    """
    number = first.size - 1
    pair_starts = np.zeros(number + 1, dtype=np.int64)
    length = 0
    for s in range(number):
        end = row_starts[s + 1]
        pair_starts[s + 1] = pair_starts[s]
        for i in range(row_starts[s] + first[s + 1] - first[s], end):
            if i == row_starts[s] + first[s + 1] - first[s] or group[rows[i]] != group[rows[i - 1]]:
                pair_starts[s + 1] += 1
                length += end - i
    pairs = np.empty((pair_starts[number], 4), dtype=np.int64)
    positions = np.empty(length, dtype=np.int32)
    pair, filled = -1, 0
    for s in range(number):
        begin, end = row_starts[s], row_starts[s + 1]
        below = begin + first[s + 1] - first[s]
        for i in range(below, end):
            target = group[rows[i]]
            if i == below or target != pairs[pair, 0]:
                pair += 1
                pairs[pair, 0], pairs[pair, 1], pairs[pair, 3] = target, i - begin, filled
                at = row_starts[target]
                for later in range(i, end):
                    while rows[at] != rows[later]:
                        at += 1
                    positions[filled] = at - row_starts[target]
                    filled += 1
            pairs[pair, 2] = i + 1 - begin
    return pair_starts, pairs, positions
