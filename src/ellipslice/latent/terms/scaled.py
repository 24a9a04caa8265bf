"""Terms with one standard deviation, whose precision is a fixed matrix divided by its square."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import ClassVar

import numpy as np

from ellipslice.latent.hyperpriors import SD, Hyperparameter
from ellipslice.latent.terms.base import Term
from ellipslice.latent.terms.structure import Structure, constrained_log_determinant


@dataclass(frozen=True, eq=False, repr=False)
class ScaledTerm(Term):
    """A term with the precision B / sd^2. A class derived from it defines `structure`, with one basis B.

    B must be singular in the improper directions, and not in others on {C x = 0}.

    Examples
    --------
    Seasonal effects, of which any `period` consecutive ones have a sum near 0:

    >>> from dataclasses import dataclass
    >>> from scipy import linalg, sparse
    >>> @dataclass(frozen=True, eq=False, repr=False)
    ... class Seasonal(ScaledTerm):
    ...     '''Seasonal effects: the sum of any `period` consecutive ones is near 0.'''
    ...
    ...     period: int = 4
    ...
    ...     def structure(self, levels):
    ...         n, ones = len(levels), np.ones(len(levels))
    ...         sums = sparse.diags_array([ones] * self.period, offsets=range(self.period), shape=(n, n)).tocsr()
    ...         sums = sums[: n - self.period + 1]
    ...         patterns = linalg.null_space(sums.toarray()).T
    ...         return Structure((sums.T @ sums,), improper={f"pattern {i}": row for i, row in enumerate(patterns)})
    >>> term = Seasonal("quarter", period=4).bind({"quarter": np.arange(12)})
    >>> term.size, term.improper.shape, list(term.hyperparameters)
    (12, (3, 12), ['sd'])
    >>> term.coefficients(sd=0.5)
    array([4.])
    """

    hyperparameters: ClassVar[Mapping[str, Hyperparameter]] = MappingProxyType({"sd": SD})

    def constant(self, structure: Structure) -> float:
        try:
            return constrained_log_determinant(
                structure.bases[0], structure.rows("constraints"), structure.rows("improper")
            )
        except np.linalg.LinAlgError:
            raise ValueError(
                f"the basis of {type(self).__name__} is not positive definite without its constraints and improper "
                "directions. Add the other directions of its null space to `improper`."
            ) from None

    def coefficients(self, *, sd: float) -> np.ndarray:
        return np.array([sd**-2])

    def log_determinant(self, *, sd: float) -> float:
        state = self._bound or self.state
        return state.constant - 2.0 * state.rank * math.log(sd)
