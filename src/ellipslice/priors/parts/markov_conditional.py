"""The conditional of an interval of a time series given its past and future, in linear time."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import jax
import jax.numpy as jnp
import numpy as np

from ellipslice.jax_settings import jax_settings
from ellipslice.priors.base import MAX_DENSE_BLOCK, Prior
from ellipslice.priors.dense import Dense
from ellipslice.priors.parts.conditional import BlockConditional
from ellipslice.pytree import pytree, set_fields

if TYPE_CHECKING:
    from ellipslice.priors.markov import Markov


def condition(whole: Markov, block: np.ndarray) -> BlockConditional:
    """Return the conditional of a block given the rest. Raise ValueError if the block spans too many elements."""
    first, last = int(block[0]), int(block[-1]) + 1
    if last - first > MAX_DENSE_BLOCK:
        raise ValueError(
            f"block spans the elements {first} to {last - 1} of the series, and its conditional would be a dense "
            f"matrix of that size. Use blocks that span at most {MAX_DENSE_BLOCK} elements."
        )
    interval = _Interval(first, last, whole)
    return interval if len(block) == last - first else _PartOfInterval(block, interval)


@pytree
class _Interval(BlockConditional):
    """The conditional of consecutive elements: a prediction from the past, corrected by the innovations of the future.

    Let z be the innovations of the interval, standard normal a priori. The elements are (prediction from the past) +
    L z. The innovations of the future are y + T G z. Here y are those for z = 0, G maps z to the state at the end of
    the interval, and T maps that state to the innovations. So z has the precision 1 + G' (T' T) G, which is never close
    to singular.
    """

    block: Any
    whole: Markov
    inside: Any
    """1 for elements of the block, else 0; shape (size,)."""
    weights: Any
    """Map from T' y to the correction of the mean, shape (state, block)."""
    prior: Prior

    def __init__(self, first: int, last: int, whole: Markov):
        inside = np.zeros(whole.size)
        inside[first:last] = 1.0
        set_fields(self, block=np.arange(first, last), whole=whole, inside=inside)
        with jax_settings():
            information = np.asarray(_future_information(whole, last - 1))
            values, states = (np.asarray(part) for part in _innovation_responses(whole, np.arange(first, last)))
        precision = np.eye(last - first) + states @ information @ states.T
        lower = np.linalg.cholesky((precision + precision.T) / 2)
        rows = np.linalg.solve(lower, values)
        set_fields(self, prior=Dense(factor=rows.T))
        set_fields(self, weights=-np.linalg.solve(lower, states).T @ rows)

    def mean(self, f: Any) -> Any:
        columns = jnp.asarray(f).reshape(-1, self.whole.size).T
        predicted, innovations = _predict(self.whole, self.inside, columns)
        after = jnp.arange(self.whole.size) > self.block[-1]
        message = _backward_message(self.whole, innovations * after[:, None], self.block[-1])
        mean = predicted[self.block].T + message.T @ self.weights
        return mean.reshape(*f.shape[:-1], mean.shape[-1])


@pytree
class _PartOfInterval(BlockConditional):
    """The conditional of some elements of an interval given the rest, including the others of the interval."""

    block: Any
    interval: _Interval
    inner: BlockConditional
    prior: Prior

    def __init__(self, block: np.ndarray, interval: _Interval):
        inner = interval.prior.condition(block - int(interval.block[0]))
        set_fields(self, block=block, interval=interval, inner=inner, prior=inner.prior)

    def mean(self, f: Any) -> Any:
        expected = self.interval.mean(f)
        return expected[..., self.inner.block] + self.inner.mean(f[..., self.interval.block] - expected)


def _closed_loop(whole: Markov) -> tuple[Any, Any]:
    """Return the observation vectors (N, S) and the transitions (N, S, S) of inv(L), which maps f to innovations."""
    scaled = jnp.asarray(whole.left) / jnp.asarray(whole.diagonal)[:, None]
    return -scaled, whole.transition - jnp.einsum("ni,nj->nij", whole.right, scaled)


@jax.jit
def _future_information(whole: Markov, last: Any) -> Any:
    """Return T' T, the information about the interval's last state in later innovations, shape (state, state)."""

    def backward(later: Any, now: tuple[Any, Any, Any]) -> tuple[Any, None]:
        left, loop, after = now
        return jnp.where(after, loop.T @ later @ loop + jnp.outer(left, left), later), None

    left, loop = _closed_loop(whole)
    after = jnp.arange(whole.size) > last
    return jax.lax.scan(backward, jnp.zeros(loop.shape[1:], loop.dtype), (left, loop, after), reverse=True)[0]


@jax.jit
def _innovation_responses(whole: Markov, block: Any) -> tuple[Any, Any]:
    """Return responses to unit innovations: elements of the interval (innovation, element), and the state after it."""

    def forward(state: Any, now: tuple[Any, Any, Any, Any, Any]) -> tuple[Any, Any]:
        unit, diagonal, left, right, transition = now
        return transition @ state + jnp.outer(right, unit), left @ state + diagonal * unit

    parts = [jnp.asarray(part)[block] for part in (whole.diagonal, whole.left, whole.right, whole.transition)]
    start = jnp.zeros((whole.left.shape[1], len(block)), whole.left.dtype)
    inputs: Any = (jnp.eye(len(block), dtype=whole.left.dtype), *parts)
    state, values = jax.lax.scan(forward, start, inputs)
    return values.T, state.T


def _predict(whole: Markov, inside: Any, columns: Any) -> tuple[Any, Any]:
    """Return the prediction of every element from earlier ones, and the innovations, which are 0 inside the block."""

    def forward(state: Any, now: tuple[Any, ...]) -> tuple[Any, Any]:
        value, within, diagonal, left, right, transition = now
        predicted = left @ state
        innovation = jnp.where(within > 0, 0.0, (value - predicted) / diagonal)
        return transition @ state + jnp.outer(right, innovation), (predicted, innovation)

    start = jnp.zeros((whole.left.shape[1], columns.shape[1]), columns.dtype)
    parts = (columns, inside, whole.diagonal, whole.left, whole.right, whole.transition)
    return jax.lax.scan(forward, start, parts)[1]


def _backward_message(whole: Markov, innovations: Any, last: Any) -> Any:
    """Return T' y, the message of the innovations after the interval about its last state, shape (state, count)."""

    def backward(message: Any, now: tuple[Any, ...]) -> tuple[Any, None]:
        innovation, left, loop, later = now
        return jnp.where(later, loop.T @ message + jnp.outer(left, innovation), message), None

    left, loop = _closed_loop(whole)
    start = jnp.zeros((whole.left.shape[1], innovations.shape[1]), innovations.dtype)
    later = jnp.arange(whole.size) > last
    return jax.lax.scan(backward, start, (innovations, left, loop, later), reverse=True)[0]
