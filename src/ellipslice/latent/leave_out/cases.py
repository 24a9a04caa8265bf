"""Cases that are left out, one row or one group at a time, and the terms of one draw for each."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from ellipslice.latent.leave_out.draws import RowDraw
from ellipslice.latent.leave_out.groups import group_terms
from ellipslice.latent.leave_out.lines import log_cavity_densities
from ellipslice.latent.terms.columns import as_index, codes_of, levels_of

if TYPE_CHECKING:
    from ellipslice.latent.definition import Definition

SEED = 0
"""Seed of the draws from cavities of groups."""

MOST_ROWS = 5_000
"""Largest number of rows. Each draw needs the dense covariance of their linear predictors."""


class Cases(NamedTuple):
    """Cases that are left out: one row or one group at a time."""

    dim: str
    labels: np.ndarray
    rows: list[np.ndarray]
    """Positions among the observed rows, for each case."""
    single: bool
    """True if each case is one row."""

    @classmethod
    def of(cls, definition: Definition, groups: Any) -> Cases:
        """Return the observed rows, or the groups of a column with one label per row. Raise if there is one group."""
        observed = np.flatnonzero(definition.observed)
        if len(observed) > MOST_ROWS:
            raise ValueError(
                f"there are {len(observed)} rows with a response, but cross-validation is for at most {MOST_ROWS}. "
                "Hold out some rows instead: model.without(rows).fit() and its predict."
            )
        if groups is None:
            return cls("row", definition.row_labels[observed], [np.array([i]) for i in range(len(observed))], True)
        column = as_index(groups, "groups")
        if column.shape != definition.y.shape:
            raise ValueError(
                f"groups has shape {column.shape}, but the data have {len(definition.y)} rows. Expected one label per "
                "row, such as groups=data['hospital']."
            )
        labels = levels_of(column[observed], "groups")
        codes = codes_of(column[observed], labels)
        if len(labels) < 2:
            raise ValueError("all rows with a response are in one group. Expected at least two groups.")
        return cls("group", labels, [np.flatnonzero(codes == code) for code in range(len(labels))], False)

    def only(self, case: int) -> Cases:
        """Return one of the cases."""
        return Cases(self.dim, self.labels[case : case + 1], [self.rows[case]], self.single)


def log_terms(draw: RowDraw, cases: Cases, rng: np.random.Generator, refitted: bool) -> tuple[np.ndarray, np.ndarray]:
    """Return log density and log weight of each case for one draw.

    The weighted mean of the density over the posterior draws is the predictive density of the case. If `refitted`, the
    draw is from the posterior without the case.
    """
    if cases.single:
        density = log_cavity_densities(draw, np.concatenate(cases.rows))
        return density, np.zeros(len(density)) if refitted else -density
    terms = [group_terms(draw, rows, rng) for rows in cases.rows]
    inverse = np.array([each.inverse_outside if refitted else each.inverse for each in terms])
    outside = np.array([each.outside for each in terms])
    return np.array([each.inside for each in terms]) - outside, outside + inverse
