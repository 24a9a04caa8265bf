"""Precisions of the states of quasi-separable kernels, block tridiagonal in time. JAX traces these functions.

The state at each time has m elements, of which the first is the effect f. All have the variance of f, and those of one
time are independent. States of successive times have x[n + 1] = B[n] x[n] + noise.
"""

from __future__ import annotations

from typing import Any

import jax.numpy as jnp
import numpy as np

from ellipslice.latent.terms.entry_bases import EntryBases
from ellipslice.priors.parts.state_space import state_space

FORGETTING = 1e-10
"""Part of the state's variance that is new at each time, in addition to what the kernel says.

The covariance of the effects i and j is that of the kernel times (1 - 1e-10)^(|i - j| / 2). Without it the entries of
the precision exceed double precision where times are close."""


def state_bases(times: int, states: int) -> EntryBases:
    """Return the positions of the entries that `state_precision` returns, in its order."""
    first = np.arange(times) * states
    below = [(first + i, first + j) for i in range(states) for j in range(i + 1)]
    across = [(first[1:] + i, first[:-1] + j) for i in range(states) for j in range(states)]
    rows, columns = (np.concatenate([pair[axis] for pair in below + across]) for axis in (0, 1))
    return EntryBases(times * states, rows, columns)


def state_precision(kernel: Any, times: Any, parts: int = 1) -> Any:
    """Return the entries of the precision of the states at increasing times, and at the end its log determinant.

    `parts` is that of `state_space`.
    """
    scale, transition = _white_states(*state_space(kernel, times, parts))
    states = range(transition.shape[1])
    B = jnp.moveaxis(jnp.sqrt(1.0 - FORGETTING) * transition, 0, -1)
    noise = [[float(i == j) - sum(B[i, k] * B[j, k] for k in states) for j in states] for i in states]
    K, log_noise = _inverse_factor(noise)  # the inverse of the noise's covariance is K' K
    KB = [[sum(K[i][k] * B[k, j] for k in range(i + 1)) for j in states] for i in states]
    none, entries = jnp.zeros(1), []
    for i in states:
        for j in range(i + 1):
            before = sum(K[k][i] * K[k][j] for k in range(i, len(states)))
            after = sum(KB[k][i] * KB[k][j] for k in states)
            start = jnp.full(1, float(i == j))
            entries.append((jnp.concatenate([start, before]) + jnp.concatenate([after, none])) / scale**2)
    for i in states:
        for j in states:
            across = sum(K[k][i] * KB[k][j] for k in range(i, len(states)))
            entries.append(-across / (scale[1:] * scale[:-1]))
    log_determinant = -log_noise.sum() - 2 * len(states) * jnp.log(jnp.abs(scale)).sum()
    return jnp.concatenate([*entries, log_determinant[None]])


def _white_states(start: Any, observed: Any, transition: Any) -> tuple[Any, Any]:
    """Return a state space model in white coordinates, in which f is the first element of the state times `scale`.

    Returns
    -------
    scale : array, shape (n,)
    transition : array, shape (n - 1, m, m)
        From each time to the next one.
    """
    lower = jnp.linalg.cholesky(start)
    loading = observed @ lower
    size = jnp.sqrt((loading**2).sum(axis=1))
    sign = jnp.where(loading[:, 0] >= 0, 1.0, -1.0)
    normal = (loading / size[:, None]).at[:, 0].add(sign)  # the reflection maps the loading to the first axis
    length = (normal**2).sum(axis=1)[:, None, None]
    turn = jnp.eye(len(start)) - 2 * normal[:, :, None] * normal[:, None, :] / length
    white = turn[1:] @ (jnp.linalg.inv(lower) @ transition[1:] @ lower) @ turn[:-1]
    return -sign * size, white


def _inverse_factor(matrix: list[list[Any]]) -> tuple[list[list[Any]], Any]:
    """Return the inverse of the Cholesky factor of small matrices, and their log determinants.

    An element of the list is an array with an entry of all matrices. Loops over entries are unrolled, which is much
    faster than LAPACK for thousands of small matrices.
    """
    size, log_determinant = len(matrix), jnp.zeros(())
    L: list[list[Any]] = [[0.0] * size for _ in range(size)]
    K: list[list[Any]] = [[0.0] * size for _ in range(size)]
    for j in range(size):
        pivot = matrix[j][j] - sum(L[j][k] ** 2 for k in range(j))
        log_determinant = log_determinant + jnp.log(pivot)
        L[j][j] = jnp.sqrt(pivot)
        for i in range(j + 1, size):
            L[i][j] = (matrix[i][j] - sum(L[i][k] * L[j][k] for k in range(j))) / L[j][j]
    for j in range(size):
        K[j][j] = 1.0 / L[j][j]
        for i in range(j + 1, size):
            K[i][j] = -sum(L[i][k] * K[k][j] for k in range(j, i)) / L[i][i]
    return K, log_determinant
