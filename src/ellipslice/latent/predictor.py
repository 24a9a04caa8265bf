"""The linear predictor of a model: its terms, bound to data, and their rows for the data and for new data.

A model is written as a formula with a data frame, or as a list of terms whose columns are names or arrays.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse

from ellipslice.checks import as_numbers
from ellipslice.latent import terms as term_module
from ellipslice.latent.formula import Design
from ellipslice.latent.formula.requests import TermRequest
from ellipslice.latent.terms import Fixed, Term
from ellipslice.latent.terms.columns import listed, read_column

FUNCTIONS: dict[str, Callable[..., Any]] = {
    name: getattr(term_module, name) for name in ("pc_prior", "pc_mixing", "pc_range", "gamma_precision")
}
"""Functions that arguments of terms in a formula may call."""


class TermRows(NamedTuple):
    """The rows of a term for some data."""

    term: Term
    rows: Any
    """Matrix from effects of levels to rows, sparse, shape (rows, levels)."""
    data: Any
    """Columns from which they were made; None for the data of the fit."""
    unseen: np.ndarray
    """Mask of the rows whose level the term does not have, shape (rows,)."""


class Rows(NamedTuple):
    """The rows of all terms for some data."""

    terms: list[TermRows]
    offset: np.ndarray
    index: Any
    """Row labels of a data frame; None if there are none."""


@dataclass(frozen=True, eq=False)
class Predictor:
    """Terms bound to data.

    Attributes
    ----------
    terms : tuple of Term
    response : array, shape (rows,), or None
        Response of the formula. None for a list of terms.
    offset : array, shape (rows,)
    index : object
        Row labels of the data frame; None if there are none.
    design : Design, optional
        The formula applied to the data.
    offset_column : str or array, optional
        Column with the offset, for a list of terms.
    """

    terms: tuple[Term, ...]
    response: Any
    offset: np.ndarray
    index: Any = None
    design: Design | None = None
    offset_column: Any = None

    @classmethod
    def of_design(cls, design: Design, sd: Any, unit: float, location: float) -> Predictor:
        """Return the predictor of a formula that was applied to data. `sd` are prior standard deviations of `Fixed`."""
        terms: list[Term] = []
        if design.matrix.shape[1]:
            terms.append(Fixed(design.matrix, names=list(design.names), sd=sd).bind(None, unit, location))
        kinds = {kind.__name__.lower(): kind for kind in term_module.REGISTERED}
        for request in design.terms:
            options = dict(request.options)
            if request.weights is not None:
                options["weights"] = request.weights
            kind = kinds[request.kind]
            term = kind(_columns(kind, request), name=request.name, **options)
            terms.append(term.bind(design.columns, unit, location))
        return cls(_named(terms), design.response, design.offset, design.index, design)

    @classmethod
    def of_terms(
        cls, terms: Sequence[Term], data: Any, offset: Any, rows: int, unit: float, location: float
    ) -> Predictor:
        """Return the predictor of a list of terms."""
        bound = []
        for term in terms:
            if not isinstance(term, Term):
                raise TypeError(f"terms must be a list of terms, such as es.terms.RW2('age'), but one is {term!r}.")
            bound.append(term.bind(data, unit, location))
            if bound[-1].rows().shape[0] != rows:
                raise ValueError(
                    f"the term {bound[-1].name} has {bound[-1].rows().shape[0]} rows, but there are {rows} responses. "
                    "Give one value per response."
                )
        index = getattr(data, "index", None)
        return cls(_named(bound), None, _offset(offset, data, rows), index, None, offset)

    def at(self, data: Any = None) -> Rows:
        """Return the rows of all terms for data. Default: the data of the fit. Rows with an unseen level are 0."""
        if data is None:
            seen = np.zeros(len(self.offset), bool)
            own = [TermRows(term, term.level_rows(), None, seen) for term in self.terms]
            return Rows(own, self.offset, self.index)
        design = None if self.design is None else self.design.at(data)
        own = []
        for term in self.terms:
            source = data if design is None else design.matrix if isinstance(term, Fixed) else design.columns
            unseen = None if isinstance(term, Fixed) else term.unseen(source)
            rows: Any = term.level_rows(source) if unseen is None else _rows_of_seen(term, source, unseen)
            mask = np.zeros(rows.shape[0], bool) if unseen is None else unseen
            own.append(TermRows(term, rows, source, mask))
        count = own[0].rows.shape[0]
        offset = _offset(self.offset_column, data, count) if design is None else design.offset
        return Rows(own, offset, getattr(data, "index", None))


def _columns(kind: type[Term], request: TermRequest) -> Any:
    """Return the column or the columns of a term. Raise if it has one column, and several were requested."""
    if kind.many_columns:
        return request.columns
    if len(request.columns) > 1:
        written = f"{request.kind}({', '.join(request.columns)})"
        raise ValueError(
            f"{written} has {len(request.columns)} columns, but {kind.__name__} has one. Other arguments have "
            f"keywords: {request.kind}({next(iter(request.columns))}, prior=p). Write a:b for combinations of levels."
        )
    return next(iter(request.columns))


def _rows_of_seen(term: Term, data: Any, unseen: np.ndarray) -> Any:
    """Return the rows of a term for new data, with 0 where the level is unseen."""
    if not unseen.any():
        return term.level_rows(data)
    seen = np.flatnonzero(~unseen)
    spread: Any = scipy.sparse.csr_array(
        (np.ones(len(seen)), (seen, np.arange(len(seen)))), shape=(len(unseen), len(seen))
    )
    if not len(seen):
        return scipy.sparse.csr_array((len(unseen), len(term.state.levels)))
    return spread @ term.level_rows(take_rows(data, seen))


def take_rows(data: Any, rows: np.ndarray) -> Any:
    """Return some rows of a data frame or a mapping of columns."""
    if hasattr(data, "iloc"):
        return data.iloc[rows]
    return {
        name: column.iloc[rows] if hasattr(column, "iloc") else np.asarray(column)[rows]
        for name, column in data.items()
    }


def _offset(offset: Any, data: Any, rows: int) -> np.ndarray:
    """Return the known part of the linear predictor for each row."""
    if offset is None:
        return np.zeros(rows)
    values = as_numbers(read_column(offset, data, "offset") if isinstance(offset, str) else offset, "offset")
    if values.shape not in ((), (rows,)):
        raise ValueError(f"offset has shape {values.shape}. Expected one number, or one per row, shape ({rows},).")
    return np.broadcast_to(values, (rows,)).copy()


def _named(terms: Sequence[Term]) -> tuple[Term, ...]:
    """Return the terms. Raise if there is none, or two have the same name."""
    if not terms:
        raise ValueError("the model has no term. Give at least one, for example es.terms.Fixed(['1']).")
    names = [term.name for term in terms]
    for term in terms:
        if names.count(term.name) > 1:
            raise ValueError(
                f"two terms have the name {term.name!r}. The names are: {listed(names)}. Give one of them name=."
            )
    return tuple(terms)
