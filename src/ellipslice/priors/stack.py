"""Several named latents that are independent a priori."""

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
    """A prior of several named latents, which are independent and each have their own prior.

    The likelihood receives the latents as keyword arguments, and the result has one variable for each. All latents are
    updated jointly.

    Parameters
    ----------
    priors : mapping of str to Prior
        Names of the latents and their priors. A name must be a Python identifier, and not "chain" or "draw".

    Raises
    ------
    TypeError
        If `priors` is not a mapping, is empty, or contains something that is not a prior, or another `Stack`.
    ValueError
        If a name is not allowed.

    Notes
    -----
    There is no set-up beyond that of the priors. A draw costs one draw of each latent and a copy, and memory is that of
    the priors. `whiten`, `log_density` and `condition` require that all latents have them, and cost the sum of theirs.
    The conditional of a whole latent given the others is its prior, which needs no `condition`.

    Examples
    --------
    >>> import numpy as np
    >>> from ellipslice import Diagonal
    >>> prior = Stack({"f": Diagonal(np.ones(10)), "b": Diagonal(4.0)})
    >>> prior
    Stack(f: Diagonal(shape (10,)), b: Diagonal(shape ()))

    The likelihood has an argument for each latent: `def log_likelihood(f, b): ...`
    """

    stored_as = "Stack"

    priors: tuple[Prior, ...]
    mean: Any
    names: tuple[str, ...] = static()

    def __init__(self, priors: Mapping[str, Prior]):
        if not isinstance(priors, Mapping) or not priors:
            raise TypeError(
                "Stack needs a mapping from names to priors with at least one entry, such as "
                '{"f": Dense(...), "b": Diagonal(4.0)}.'
            )
        for name, prior in priors.items():
            if not isinstance(name, str) or not name.isidentifier() or keyword.iskeyword(name):
                raise ValueError(f"{name!r} cannot name an argument of the likelihood. Use a Python identifier.")
            if name in ("chain", "draw"):
                raise ValueError(f"{name!r} is a dimension of the result and cannot name a latent. Use another name.")
            if isinstance(prior, Stack):
                raise TypeError(f"{name!r} is a Stack inside a Stack. Put all latents into one Stack.")
            if not isinstance(prior, Prior):
                raise TypeError(
                    f"{name!r} is a {type(prior).__name__}; expected a prior. For a covariance matrix use Dense."
                )
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

    def covariance_product(self, g: Any) -> Any:
        """Return Sigma @ g for one flat vector g, by the products of the latents."""
        ends = np.cumsum([prior.size for prior in self.priors])[:-1]
        parts = zip(self.priors, jnp.split(g, ends), strict=True)
        return jnp.concatenate([prior.covariance_product(part) for prior, part in parts])

    def draw_zero_mean(self, rng: np.random.Generator, count: int) -> np.ndarray:
        """Draw from N(0, Sigma), without the mean. Return an array of shape (count, size)."""
        return np.concatenate([np.asarray(prior.draw_zero_mean(rng, count)) for prior in self.priors], axis=1)

    @property
    def capabilities(self) -> frozenset[str]:
        """Operations that the priors of all latents have."""
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
                parts.append(_whole_latent(prior) if len(mine) == prior.size else prior.condition(mine - start))
                starts.append((start, start + prior.size))
            start += prior.size
        members = Stack({name: part.prior for name, part in zip(names, parts, strict=True)})
        return _IndependentConditional(block, tuple(parts), members, tuple(starts))

    def _parts(self, f: Any) -> list[tuple[Prior, Any]]:
        """Return the prior of each latent with its part of f."""
        ends = np.cumsum([prior.size for prior in self.priors])[:-1]
        return list(zip(self.priors, jnp.split(f, ends, -1), strict=True))

    def __repr__(self) -> str:
        return f"Stack({', '.join(f'{n}: {p!r}' for n, p in zip(self.names, self.priors, strict=True))})"


@pytree
class _IndependentConditional(BlockConditional):
    """The conditional of a block of independent latents: each latent given the rest of that latent."""

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


def _whole_latent(prior: Prior) -> BlockConditional:
    """Return the conditional of a whole latent. The latents are independent, so it is the prior of the latent.

    The prior needs no `condition` for that.
    """
    no_others, no_weights = np.zeros(0, dtype=np.int64), np.zeros((0, prior.size))
    return Regression(np.arange(prior.size), no_others, no_weights, _without_mean(prior))


def _without_mean(prior: Prior) -> Prior:
    """Return a copy of the prior with mean zero."""
    if prior.mean is None:
        return prior
    other = copy.copy(prior)
    set_fields(other, mean=None)
    return other
