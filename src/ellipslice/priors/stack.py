"""Several named latents, independent a priori."""

from __future__ import annotations

import copy
import keyword
from collections.abc import Mapping
from typing import Any

import jax.numpy as jnp
import numpy as np

from ellipslice.priors.base import Layout, Prior
from ellipslice.priors.parts.conditional import BlockConditional, Regression, as_block
from ellipslice.pytree import pytree, set_fields, static


@pytree
class Stack(Prior):
    """Several latents, each with a prior of its own, updated together.

    The likelihood receives them by name, as keyword arguments, and the result has one variable for each.

    Parameters
    ----------
    priors : mapping of str to Prior

    Examples
    --------
    >>> import numpy as np
    >>> from ellipslice import Diagonal
    >>> prior = Stack({"f": Diagonal(np.ones(10)), "b": Diagonal(4.0)})
    >>> prior
    Stack(f: Diagonal(shape (10,)), b: Diagonal(shape ()))

    and then `def log_likelihood(f, b): ...`
    """

    stored_as = "Stack"

    priors: tuple[Prior, ...]
    mean: Any
    names: tuple[str, ...] = static()

    def __init__(self, priors: Mapping[str, Prior]):
        if not isinstance(priors, Mapping) or not priors:
            raise TypeError(
                'Stack needs a mapping from names to priors, such as {"f": Dense(...), "b": Diagonal(4.0)}.'
            )
        for name, prior in priors.items():
            if not isinstance(name, str) or not name.isidentifier() or keyword.iskeyword(name):
                raise ValueError(f"{name!r} cannot name an argument of the likelihood. Use a Python identifier.")
            if name in ("chain", "draw"):
                raise ValueError(f"{name!r} is a dimension of the result. Use another name.")
            if isinstance(prior, Stack):
                raise TypeError(f"{name!r} is itself a Stack. Put its latents into one Stack.")
            if not isinstance(prior, Prior):
                raise TypeError(f"{name!r} is a {type(prior).__name__}, not a prior. Wrap a covariance in Dense.")
        members = tuple(priors.values())
        mean = None
        if any(prior.mean is not None for prior in members):
            mean = np.concatenate([np.zeros(p.size) if p.mean is None else p.mean for p in members])
        set_fields(self, priors=members, mean=mean, names=tuple(priors))

    @property
    def shape(self) -> tuple[int, ...]:  # type: ignore[override]
        return (sum(prior.size for prior in self.priors),)

    @property
    def layout(self) -> Layout:
        return tuple((name, prior.shape) for name, prior in zip(self.names, self.priors, strict=True))

    @property
    def noise_size(self) -> int:
        return sum(prior.noise_size for prior in self.priors)

    @property
    def rank(self) -> int:
        return sum(prior.rank for prior in self.priors)

    @property
    def linear(self) -> bool:
        return all(prior.linear for prior in self.priors)

    @property
    def traceable(self) -> bool:
        return all(prior.traceable for prior in self.priors)

    def unwhiten(self, z: Any) -> Any:
        ends = np.cumsum([prior.noise_size for prior in self.priors])[:-1]
        return jnp.concatenate(
            [p.unwhiten(part) for p, part in zip(self.priors, jnp.split(z, ends, -1), strict=True)], -1
        )

    def draw_zero_mean(self, rng: np.random.Generator, count: int) -> np.ndarray:
        """Draws from N(0, Sigma), the mean left out, shape (count, size)."""
        return np.concatenate([np.asarray(prior.draw_zero_mean(rng, count)) for prior in self.priors], axis=1)

    @property
    def capabilities(self) -> frozenset[str]:
        """What all of them can do."""
        return frozenset.intersection(*(prior.capabilities for prior in self.priors))

    def whiten(self, f: Any) -> Any:
        return jnp.concatenate([prior.whiten(part) for prior, part in self._parts(f)], -1)

    def log_density(self, f: Any) -> Any:
        return sum(prior.log_density(part) for prior, part in self._parts(f))

    def condition(self, block: Any) -> BlockConditional:
        block = as_block(block, self.size)
        names, parts, starts, start = [], [], [], 0
        for name, prior in zip(self.names, self.priors, strict=True):
            mine = block[(block >= start) & (block < start + prior.size)]
            if len(mine):
                names.append(name)
                parts.append(_alone(prior) if len(mine) == prior.size else prior.condition(mine - start))
                starts.append((start, start + prior.size))
            start += prior.size
        members = Stack({name: part.prior for name, part in zip(names, parts, strict=True)})
        return _IndependentConditional(block, tuple(parts), members, tuple(starts))

    def _parts(self, f: Any) -> list[tuple[Prior, Any]]:
        ends = np.cumsum([prior.size for prior in self.priors])[:-1]
        return list(zip(self.priors, jnp.split(f, ends, -1), strict=True))

    def __repr__(self) -> str:
        return f"Stack({', '.join(f'{n}: {p!r}' for n, p in zip(self.names, self.priors, strict=True))})"


@pytree
class _IndependentConditional(BlockConditional):
    """Independent latents: each given the rest of itself."""

    block: Any
    parts: tuple[BlockConditional, ...]
    prior: Prior
    spans: tuple[tuple[int, int], ...] = static()

    @property
    def by_numpy(self) -> bool:  # type: ignore[override]
        return all(part.by_numpy for part in self.parts)

    def __init__(
        self, block: np.ndarray, parts: tuple[BlockConditional, ...], prior: Prior, spans: tuple[tuple[int, int], ...]
    ):
        set_fields(self, block=block, parts=parts, prior=prior, spans=spans)

    def mean(self, f: Any) -> Any:
        each = zip(self.parts, self.spans, strict=True)
        means = [part.mean(f[..., start:stop]) for part, (start, stop) in each]
        return (np if self.by_numpy and isinstance(f, np.ndarray) else jnp).concatenate(means, -1)


def _alone(prior: Prior) -> BlockConditional:
    """A latent of which nothing else is told: its own prior, whatever that can or cannot do."""
    return Regression(np.arange(prior.size), np.zeros(0, dtype=np.int64), np.zeros((0, prior.size)), _centred(prior))


def _centred(prior: Prior) -> Prior:
    if prior.mean is None:
        return prior
    other = copy.copy(prior)
    set_fields(other, mean=None)
    return other
