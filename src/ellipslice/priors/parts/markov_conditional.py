"""A stretch of a time series given its past and its future, in linear time."""

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
    """The conditional of any block that spans few enough values."""
    first, last = int(block[0]), int(block[-1]) + 1
    if last - first > MAX_DENSE_BLOCK:
        raise ValueError(
            f"block spans the values {first} to {last - 1} of the series, and its conditional would be a dense matrix "
            f"of that size. Use blocks that span at most {MAX_DENSE_BLOCK} values."
        )
    stretch = _Interval(first, last, whole)
    return stretch if len(block) == last - first else _Within(block, stretch)


@pytree
class _Interval(BlockConditional):
    """Consecutive values: what the past predicts, corrected by what the future says of the state at the end.

    With z the innovations of the stretch, its values are past's prediction + L z, where z is standard normal a priori.
    The future's own innovations are y + T G z: y those for z = 0, G the map from z to the state at the end, and T that
    from the state to them. So z has the precision 1 + G' (T' T) G, which is never close to singular.
    """

    block: Any
    whole: Markov
    inside: Any
    """Which values are in the block: 1, else 0."""
    weights: Any
    """(state, block): from T' y to the correction."""
    prior: Prior

    def __init__(self, first: int, last: int, whole: Markov):
        inside = np.zeros(whole.size)
        inside[first:last] = 1.0
        set_fields(self, block=np.arange(first, last), whole=whole, inside=inside)
        with jax_settings():
            heard = np.asarray(_squares(whole, last - 1))
            values, states = (np.asarray(part) for part in _responses(whole, np.arange(first, last)))
        precision = np.eye(last - first) + states @ heard @ states.T
        lower = np.linalg.cholesky((precision + precision.T) / 2)
        spread = np.linalg.solve(lower, values)
        set_fields(self, prior=Dense(factor=spread.T))
        set_fields(self, weights=-np.linalg.solve(lower, states).T @ spread)

    def mean(self, f: Any) -> Any:
        columns = jnp.asarray(f).reshape(-1, self.whole.size).T
        predicted, innovations = _predict(self.whole, self.inside, columns)
        after = jnp.arange(self.whole.size) > self.block[-1]
        told = _backward_message(self.whole, innovations * after[:, None], self.block[-1])
        mean = predicted[self.block].T + told.T @ self.weights
        return mean.reshape(*f.shape[:-1], mean.shape[-1])


@pytree
class _Within(BlockConditional):
    """Some values of a stretch, given those between them too."""

    block: Any
    stretch: _Interval
    inner: BlockConditional
    prior: Prior

    def __init__(self, block: np.ndarray, stretch: _Interval):
        inner = stretch.prior.condition(block - int(stretch.block[0]))
        set_fields(self, block=block, stretch=stretch, inner=inner, prior=inner.prior)

    def mean(self, f: Any) -> Any:
        expected = self.stretch.mean(f)
        return expected[..., self.inner.block] + self.inner.mean(f[..., self.stretch.block] - expected)


def _closed_loop(whole: Markov) -> tuple[Any, Any]:
    """Rows and transitions of inv(L), up to sign: what an innovation sees of the state, and what it leaves of it."""
    scaled = jnp.asarray(whole.left) / jnp.asarray(whole.diagonal)[:, None]
    return -scaled, whole.transition - jnp.einsum("ni,nj->nij", whole.right, scaled)


@jax.jit
def _squares(whole: Markov, last: Any) -> Any:
    """T' T: how well the innovations after the stretch know the state at its end, shape (state, state)."""

    def backward(later: Any, now: tuple[Any, Any, Any]) -> tuple[Any, None]:
        left, loop, after = now
        return jnp.where(after, loop.T @ later @ loop + jnp.outer(left, left), later), None

    left, loop = _closed_loop(whole)
    after = jnp.arange(whole.size) > last
    return jax.lax.scan(backward, jnp.zeros(loop.shape[1:], loop.dtype), (left, loop, after), reverse=True)[0]


@jax.jit
def _responses(whole: Markov, block: Any) -> tuple[Any, Any]:
    """What a unit innovation does to the values of the stretch (innovation, value), and to the state after it."""

    def forward(state: Any, now: tuple[Any, Any, Any, Any, Any]) -> tuple[Any, Any]:
        unit, diagonal, left, right, transition = now
        return transition @ state + jnp.outer(right, unit), left @ state + diagonal * unit

    parts = [jnp.asarray(part)[block] for part in (whole.diagonal, whole.left, whole.right, whole.transition)]
    start = jnp.zeros((whole.left.shape[1], len(block)), whole.left.dtype)
    inputs: Any = (jnp.eye(len(block), dtype=whole.left.dtype), *parts)
    state, values = jax.lax.scan(forward, start, inputs)
    return values.T, state.T


def _predict(whole: Markov, inside: Any, columns: Any) -> tuple[Any, Any]:
    """Predictions of every value from those before, and innovations; inside the block, none."""

    def forward(state: Any, now: tuple[Any, ...]) -> tuple[Any, Any]:
        value, within, diagonal, left, right, transition = now
        predicted = left @ state
        innovation = jnp.where(within > 0, 0.0, (value - predicted) / diagonal)
        return transition @ state + jnp.outer(right, innovation), (predicted, innovation)

    start = jnp.zeros((whole.left.shape[1], columns.shape[1]), columns.dtype)
    parts = (columns, inside, whole.diagonal, whole.left, whole.right, whole.transition)
    return jax.lax.scan(forward, start, parts)[1]


def _backward_message(whole: Markov, innovations: Any, last: Any) -> Any:
    """T' y: what the innovations after the stretch say of the state at its end, shape (state, count)."""

    def backward(told: Any, now: tuple[Any, ...]) -> tuple[Any, None]:
        innovation, left, loop, later = now
        return jnp.where(later, loop.T @ told + jnp.outer(left, innovation), told), None

    left, loop = _closed_loop(whole)
    start = jnp.zeros((whole.left.shape[1], innovations.shape[1]), innovations.dtype)
    later = jnp.arange(whole.size) > last
    return jax.lax.scan(backward, start, (innovations, left, loop, later), reverse=True)[0]
