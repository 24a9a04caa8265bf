"""The parts of a formula: fixed effects, offsets and structured terms."""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from ellipslice.latent.formula.expressions import Expression


@dataclass(frozen=True)
class Intercept:
    """The 1 (present) or the 0 (absent) of a formula."""

    present: bool

    def __str__(self) -> str:
        return "1" if self.present else "0"


@dataclass(frozen=True)
class FixedEffect:
    """A column, an expression or an interaction of several, in any order."""

    factors: tuple[Expression, ...] = field(compare=False)
    key: frozenset[str] = field(init=False, repr=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "key", frozenset(factor.text for factor in self.factors))

    def __str__(self) -> str:
        return ":".join(factor.text for factor in self.factors)


@dataclass(frozen=True)
class Offset:
    """A known part of the linear predictor."""

    expression: Expression

    def __str__(self) -> str:
        return f"offset({self.expression.text})"


@dataclass(frozen=True)
class TermCall:
    """A structured term as it is written: `rw2(age, cyclic=True)`, or an effect of `(x || g)`.

    Attributes
    ----------
    kind : str
        Name of the term: "rw2".
    columns : tuple of tuple of Expression
        Arguments without a keyword. One with several expressions, `g:h`, has a level for each combination.
    weights : Expression, optional
        Column that multiplies the effect: a slope.
    options : tuple of (str, Expression)
        Other arguments, by keyword.
    """

    kind: str
    columns: tuple[tuple[Expression, ...], ...]
    weights: Expression | None = None
    options: tuple[tuple[str, Expression], ...] = ()

    @property
    def column_names(self) -> tuple[str, ...]:
        """Name of each column: "age", "log(age)" or "g:h"."""
        return tuple(":".join(each.text for each in crossed) for crossed in self.columns)

    @property
    def default_name(self) -> str:
        """Name of the term if the formula does not give one: its columns, with an underscore for other characters."""
        weights = (self.weights.text,) if self.weights else ()
        return re.sub(r"\W+", "_", "_".join((*self.column_names, *weights))).strip("_")

    def __str__(self) -> str:
        weights = [f"weights={self.weights.text}"] if self.weights else []
        options = [f"{keyword}={value.text}" for keyword, value in self.options]
        return f"{self.kind}({', '.join([*self.column_names, *weights, *options])})"


Item = Intercept | FixedEffect | Offset | TermCall
