"""The conditional distributions of the blocks of `Local`, and their means."""

from __future__ import annotations

from typing import Any

import jax
import numpy as np

from ellipslice.jax_settings import jax_settings
from ellipslice.moves.local_blocks import describe_index
from ellipslice.priors import Prior
from ellipslice.priors.parts.conditional import BlockConditional


def condition_block(prior: Prior, block: np.ndarray) -> BlockConditional:
    """Return the conditional of a block given the rest. Raise if the prior cannot condition, or its variance is 0."""
    try:
        conditional = prior.condition(block)
    except TypeError as error:
        raise TypeError(f"Local needs the prior of a block given the rest. {error}") from None
    if rank_of(conditional.prior) == 0:
        first = describe_index(int(conditional.block[0]), prior.layout)
        raise ValueError(
            f"a block of {len(block)} elements, the first of them {first}, is determined by the rest: its conditional "
            "variance is 0, so it could not move. Use larger blocks, or EllipticalSlice, which updates all elements "
            "jointly."
        )
    return conditional


def rank_of(prior: Prior) -> int | None:
    """Return the rank of the prior; None if it is not known."""
    try:
        return prior.rank
    except TypeError:
        return None


_compiled_mean = jax.jit(lambda conditional, f: conditional.mean(f))


def block_mean(conditional: BlockConditional, f: Any) -> Any:
    """Return the conditional mean of a block given f, by NumPy, or by compiled code where that is faster."""
    if not isinstance(f, np.ndarray) or conditional.by_numpy:
        return conditional.mean(f)
    with jax_settings():
        return np.asarray(_compiled_mean(conditional, f))
