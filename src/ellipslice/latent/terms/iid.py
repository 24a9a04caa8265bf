"""Independent effects of groups: random intercepts and slopes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from scipy.sparse import csr_array, diags_array, eye_array

from ellipslice.checks import as_numbers
from ellipslice.latent.terms.columns import as_index, column_name, read_column
from ellipslice.latent.terms.scaled import ScaledTerm
from ellipslice.latent.terms.structure import Structure


@dataclass(frozen=True, eq=False, repr=False, kw_only=True)
class IID(ScaledTerm):
    """Independent Gaussian effects of groups: random intercepts, or random slopes.

    Parameters
    ----------
    column : str or array, shape (rows,)
        Group of each row.
    weights : str or array, shape (rows,), optional
        Covariate whose slope depends on the group. Default: 1, which is a random intercept.
    prior : distribution of NumPyro, optional
        Prior of the standard deviation of the effects. Default: P(sd > 1 unit) = 0.01.
    name : str, optional
        Name of the term. Default: the name of the column, and for slopes "column_weights".

    Examples
    --------
    >>> term = IID("g", weights="x").bind({"g": ["b", "a", "b"], "x": [0.5, 1.0, 2.0]})
    >>> term.name, term.rows().toarray().tolist()
    ('g_x', [[0.0, 0.5], [1.0, 0.0], [0.0, 2.0]])
    """

    weights: Any = None

    _advice_unseen: ClassVar[str] = "A new group has a new effect, drawn from the prior."

    def structure(self, levels: np.ndarray) -> Structure:
        return Structure((eye_array(len(levels)),))

    @property
    def about(self) -> str:
        kind = "intercepts" if self.weights is None else f"slopes of {_label(self.weights) or 'the weights'}"
        return f"independent random {kind} of {self.size} groups"

    def _name(self) -> str:
        if self.name or self.weights is None:
            return super()._name()
        return f"{column_name(self.column, None, 'IID')}_{column_name(self.weights, None, 'IID: weights')}"

    @property
    def _new_column(self) -> str:
        return _label(self.column) or self.state.name

    def _design(self, column: Any, data: Any) -> csr_array:
        rows: Any = super()._design(column, data)
        return (
            rows if self.weights is None else csr_array(diags_array(self._slopes(column, data, rows.shape[0])) @ rows)
        )

    def _slopes(self, column: Any, data: Any, rows: int) -> np.ndarray:
        """Return the weights of the rows of a column. Raise if their number differs."""
        new = column is not self.column and not isinstance(self.weights, str)
        weights = column_name(self.weights, None, "IID: weights") if new else self.weights
        values = as_numbers(
            read_column(weights, data, "IID: weights"), "IID: weights", advice="Drop or fill such rows."
        )
        if len(values) != rows:
            raise ValueError(f"IID: weights has {len(values)} rows, but the column has {rows}. Give equal lengths.")
        return values

    def conditional_effects(
        self, data: Any, effects: np.ndarray, hyperparameters: Mapping[str, np.ndarray], rng: np.random.Generator
    ) -> np.ndarray:
        values = as_index(read_column(self._new_column, data, self._argument()), self._argument())
        distinct, groups = np.unique(values, return_inverse=True)
        drawn = hyperparameters["sd"][:, None] * rng.standard_normal((len(effects), len(distinct)))
        weights = 1.0 if self.weights is None else self._slopes(self._new_column, data, len(groups))
        return drawn[:, groups] * weights


def _label(column: Any) -> str | None:
    """Return the name of a column, or None for an array without one."""
    return column if isinstance(column, str) else getattr(column, "name", None)
