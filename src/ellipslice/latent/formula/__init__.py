"""Formulas of latent Gaussian models: `parse` reads a formula, and `Formula.design` applies it to data.

- `advice`: messages about syntax and functions of other packages, with the equivalent here
- `coding`: treatment coding of categorical columns, and the columns of interactions
- `columns`: the user's table: numeric and categorical columns, and checks of their values
- `design`: a formula, and the design that it gives with data
- `evaluate`: values of expressions for the rows of a table, with the levels and means of the data of the fit
- `expressions`: expressions of columns and arguments of terms, without evaluating arbitrary code
- `groups`: group-level effects such as `(1 | g)`
- `parser`: `parse`, which splits a formula at ~ and checks its parts
- `rank`: check that the columns of a design matrix are linearly independent
- `reader`: grammar of the right side
- `requests`: requests for structured terms, and the columns that they use
- `syntax`: the parts of a formula
- `tokens`: tokens of a formula
"""

from ellipslice.latent.formula.design import Design, Formula
from ellipslice.latent.formula.parser import parse
from ellipslice.latent.formula.requests import TermRequest

__all__ = ["Design", "Formula", "TermRequest", "parse"]
