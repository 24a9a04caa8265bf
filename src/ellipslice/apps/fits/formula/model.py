"""The model of a formula: from settings and data to draws; and the columns that a formula uses."""

from __future__ import annotations

import io
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pandas as pd

import ellipslice as es
from ellipslice.apps.fits.formula.graphs import Graph
from ellipslice.apps.fits.formula.settings import FormulaSettings
from ellipslice.apps.fits.table import Table
from ellipslice.sampling.until import Until

if TYPE_CHECKING:
    from ellipslice.latent.fit import LatentFit

STRING, QUOTED = r"'[^']*'|\"[^\"]*\"", r"`([^`]+)`"
"""A text in a formula, and the name of a column in backticks."""

NAME = r"(?<![\w.])([^\W\d]\w*)\b(?!\s*(?:\(|=(?!=)))"
"""A name in a formula that is neither a function nor the name of an argument."""


class FormulaProblem:
    """A model and its data, ready to be fitted."""

    def __init__(self, settings: FormulaSettings, data: Any, graphs: Mapping[str, Graph]):
        self.data = data
        self.model = es.LatentGaussianModel(
            settings.formula, data=data, family=settings.family, link=settings.link, exposure=settings.exposure,
            trials=settings.trials, variables=graphs,
        )  # fmt: skip
        self._settings = settings

    def check_rows(self, rows: Any) -> None:
        """Raise if predictions for new rows are impossible, for example because of an unknown level."""
        definition = self.model.definition
        definition.predictor.at(rows)
        definition.family_at(rows)

    def fit(self, store: Path, *, progress: bool) -> LatentFit:
        """Sample from the posterior and write the draws to a store."""
        return self.model.fit(**self._settings.length, store=store, progress=progress)

    def resume(self, store: Path, *, draws: int | None, until: Until | None, progress: bool) -> LatentFit:
        """Resume the run in a store."""
        return self.model.resume(store, draws=draws, until=until, progress=progress)

    def open(self, store: Path) -> LatentFit:
        """Return the fit with the draws in a store, without running."""
        return self.model.open(store)


def names_in(formula: str) -> list[str]:
    """Return the names in a formula, or in one side of it, that may be columns.

    Examples
    --------
    >>> names_in("y ~ log(x) + rw2(`birth year`, kind='age') + (1 | clinic)")
    ['birth year', 'y', 'x', 'clinic']
    """
    rest = re.sub(STRING, " ", formula)
    return [*re.findall(QUOTED, rest), *re.findall(NAME, re.sub(QUOTED, " ", rest))]


def read_rows(table: Table, settings: FormulaSettings, *, response: bool) -> tuple[Any, list[str]]:
    """Return the rows of a table with all columns, and the names of the columns that the model uses.

    Values are as data.csv gives them back. A row must have a value in every column that is used, except the response.

    Parameters
    ----------
    table : Table
    settings : FormulaSettings
    response : bool
        Whether the columns of the response are used, too.
    """
    left, _, right = settings.formula.partition("~")
    graphs = [name for name, _ in settings.graphs]
    predictors = [*(name for name in _present(names_in(right), table) if name not in graphs), *settings.known.values()]
    rows = table.frame(predictors)
    used = list(dict.fromkeys([*_present(names_in(left), table), *predictors] if response else predictors))
    table.check_names(used)
    return rows.reset_index(drop=True).assign(**read_csv(as_csv(rows[used]))), used


def as_csv(rows: Any) -> bytes:
    """Return a data frame as the content of a CSV file."""
    return rows.to_csv(index=False).encode()


def read_csv(content: bytes) -> Any:
    """Return the data frame of a CSV file that `as_csv` made."""
    return pd.read_csv(io.BytesIO(content), skip_blank_lines=False)


def _present(names: Sequence[str], table: Table) -> list[str]:
    return [name for name in names if name in table.names]
