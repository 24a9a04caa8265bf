"""The base class of terms of a linear predictor."""

from __future__ import annotations

import abc
import copy
import functools
from collections.abc import Mapping, Sequence
from dataclasses import KW_ONLY, dataclass
from types import MappingProxyType
from typing import Any, ClassVar

import numpy as np
from scipy.sparse import csc_array, csr_array

from ellipslice.checks import positive_number
from ellipslice.latent.hyperpriors import Hyperparameter, check_prior, given_priors
from ellipslice.latent.terms.columns import as_index, codes_of, column_name, levels_of, listed, read_column
from ellipslice.latent.terms.description import describe_term, require_proper
from ellipslice.latent.terms.structure import Bound, Structure, draw_constrained, times
from ellipslice.pytree import set_fields

Effects = dict[str, tuple[tuple[str, ...], np.ndarray]]
NOTHING: Mapping[str, Any] = MappingProxyType({})


@dataclass(frozen=True, eq=False, repr=False)
class Term(abc.ABC):
    """A Gaussian term A x of a linear predictor.

    Given its hyperparameters, x is Gaussian on {C x = 0}: its density is proportional to exp(-x'Qx / 2) times the
    square root of the generalised determinant of Q. The precision Q is a sum of fixed sparse matrices (bases) with
    coefficients that depend on the hyperparameters.

    A term is a specification: names of columns, and priors. `bind` returns a copy that knows the levels and matrices.
    A class derived from it defines `structure`, `coefficients`, `log_determinant` and `hyperparameters`. A term with
    the precision B / sd^2 derives from `ScaledTerm` and defines only `structure`.

    Parameters
    ----------
    column : str or array, shape (rows,)
        Column with the level of each row: its name in the data, or its values.
    prior : distribution of NumPyro, or mapping of str to distribution, optional
        Prior of each hyperparameter by name. One distribution is the prior of all standard deviations.
    name : str, optional
        Name of the term, unique in a model. Default: the name of the column.
    """

    column: Any
    _: KW_ONLY
    prior: Any = None
    name: str = ""

    hyperparameters: ClassVar[Mapping[str, Hyperparameter]] = NOTHING
    """Hyperparameters by local name, on the scale that users know."""
    connected: ClassVar[bool] = False
    """True if plots connect the effects of consecutive levels, which then are numbers or dates. Default: False."""
    many_columns: ClassVar[bool] = False
    """True if `column` can be several columns, as positions in a plane."""
    _bound: ClassVar[Bound | None] = None
    _rows: ClassVar[Any] = None

    # --- to define ----------------------------------------------------------------------------------------------------

    @abc.abstractmethod
    def structure(self, levels: np.ndarray) -> Structure:
        """Return the matrices of the term for sorted distinct levels."""

    @abc.abstractmethod
    def coefficients(self, **hyperparameters: float) -> np.ndarray:
        """Return the coefficient of each basis."""

    @abc.abstractmethod
    def log_determinant(self, **hyperparameters: float) -> float:
        """Return the log generalised determinant of the precision on {C x = 0}, with all constants."""

    def constant(self, structure: Structure) -> float:
        """Return the part of the log determinant that does not depend on hyperparameters. Computed once. Default: 0."""
        return 0.0

    @property
    def about(self) -> str:
        """Description of the structure. Default: the first line of the class's docstring."""
        return (type(self).__doc__ or type(self).__name__).strip().split("\n")[0].rstrip(".")

    # --- the data -----------------------------------------------------------------------------------------------------

    def bind(self, data: Any = None, unit: float = 1.0, location: float = 0.0) -> Any:
        """Return a copy of the term that knows its levels. The term itself does not change.

        Parameters
        ----------
        data : DataFrame or mapping of columns, optional
            Required if a column was given by its name.
        unit : float
            Unit of the linear predictor, for default priors. Default: 1. For an identity link use the standard
            deviation of the response.
        location : float
            Typical value of the linear predictor, for default priors of intercepts. Default: 0.

        Raises
        ------
        ValueError
            If a column does not exist, has missing values or too few levels.
        """
        levels = self._find_levels(data)
        return self._with_structure(levels, self.structure(levels), data, unit)

    def _with_structure(self, levels: np.ndarray, structure: Structure, data: Any, unit: float) -> Any:
        """Return the bound copy."""
        given_priors(self.prior, self.hyperparameters, type(self).__name__)
        constraints, improper = structure.rows("constraints"), structure.rows("improper")
        bound = copy.copy(self)
        state = Bound(
            name=self._name(),
            levels=levels,
            structure=structure,
            constraints=constraints,
            improper=improper,
            constant=self.constant(structure),
            rank=structure.size - len(constraints) - len(improper),
            unit=positive_number("unit", unit),
        )
        set_fields(bound, _bound=state, name=state.name)
        vars(bound).pop("priors", None)
        set_fields(bound, _rows=bound._design(self.column, data))
        return bound

    def _name(self) -> str:
        return column_name(self.column, self.name, type(self).__name__)

    def _find_levels(self, data: Any) -> np.ndarray:
        argument = self._argument()
        return levels_of(read_column(self.column, data, argument), argument)

    def _argument(self) -> str:
        return f"{type(self).__name__}: column"

    def _codes(self, column: Any, data: Any) -> tuple[np.ndarray, np.ndarray]:
        """Return the index values of the rows, and the position of each in the levels, -1 if it is not a level."""
        values = as_index(read_column(column, data, self._argument()), self._argument())
        return values, codes_of(values, self.state.levels)

    @property
    def _new_column(self) -> str:
        """The name of the column in new data: for an array its own name, or that of the term."""
        return self.column if isinstance(self.column, str) else getattr(self.column, "name", None) or self.state.name

    def rows(self, data: Any = None) -> csr_array:
        """Return the matrix A of the rows of data, shape (rows, size).

        Parameters
        ----------
        data : DataFrame or mapping of columns, optional
            Also new data, for predictions. Default: the data of `bind`.

        Raises
        ------
        ValueError
            If a row has a level that the term does not have.
        """
        return csr_array(self.level_rows(data) @ self.state.structure.effect)

    def level_rows(self, data: Any = None) -> csr_array:
        """Return the matrix from effects of levels to rows of data, shape (rows, levels).

        `data` and errors are those of `rows`. The linear predictor is this matrix times the effects in results.
        """
        if data is not None:
            return self._design(self._new_column, data)
        return self.state and self._rows

    def _design(self, column: Any, data: Any) -> csr_array:
        """Return `level_rows` for a column, which is an array or the name of a column of the data."""
        values, codes = self._codes(column, data)
        if (codes < 0).any():
            unseen = list(dict.fromkeys(values[codes < 0].tolist()))
            raise ValueError(
                f"{self.name} has no level {listed(unseen)}. Its levels are: {listed(self.state.levels)}. "
                f"{self._advice_unseen}"
            )
        return csr_array((np.ones(len(codes)), codes, np.arange(len(codes) + 1)), (len(codes), len(self.state.levels)))

    _advice_unseen: ClassVar[str] = "Remove these rows."

    def unseen(self, data: Any) -> np.ndarray:
        """Return for each row of data whether its level is unknown to the term. Boolean, shape (rows,)."""
        return self._codes(self._new_column, data)[1] < 0

    def conditional_effects(
        self, data: Any, effects: np.ndarray, hyperparameters: Mapping[str, np.ndarray], rng: np.random.Generator
    ) -> np.ndarray:
        """Draw the effects of rows of data with new levels, given the effects of the levels, shape (draws, rows).

        Parameters
        ----------
        data : DataFrame or mapping of columns
        effects : array, shape (draws, levels)
        hyperparameters : mapping of str to array, shape (draws,)
            Draws by the term's own names.
        rng : Generator

        Raises
        ------
        ValueError
            If there are no effects at other levels: the default.
        """
        self.level_rows(data)  # raises an error that names the levels
        raise ValueError(
            f"{self.name} has no effects at new levels. Predict only rows with levels of the data, or add rows with a "
            "missing response before the fit."
        )

    # --- the prior ----------------------------------------------------------------------------------------------------

    @property
    def state(self) -> Bound:
        """The part that depends on the data. Raise TypeError before `bind`."""
        if self._bound is None:
            raise TypeError(f"{self!r} has no data yet. Call bind(data) first, which returns a copy with levels.")
        return self._bound

    @property
    def size(self) -> int:
        """Number of latent elements."""
        return self.state.structure.size

    @property
    def bases(self) -> Sequence[Any]:
        """Symmetric sparse matrices, shape (size, size), whose weighted sum is the precision."""
        return self.state.structure.bases

    @property
    def constraints(self) -> np.ndarray:
        """Rows of C in the constraint C x = 0, shape (constraints, size)."""
        return self.state.constraints

    @property
    def improper(self) -> np.ndarray:
        """Directions in which the prior is flat, given the constraints, shape (directions, size)."""
        return self.state.improper

    @functools.cached_property
    def priors(self) -> dict[str, Any]:
        """Priors of the hyperparameters by local name, distributions of NumPyro."""
        given = given_priors(self.prior, self.hyperparameters, type(self).__name__)
        unit, each = self.state.unit, self.hyperparameters
        made = {name: given[name] if name in given else each[name].make_prior(unit) for name in each}
        return {name: check_prior(self._resolve(made[name]), each[name], f"{self.name}_{name}") for name in each}

    def _resolve(self, prior: Any) -> Any:
        """Return a prior that depends on the structure of the term as a distribution."""
        return prior

    def precision(self, **hyperparameters: float) -> Any:
        """Return the precision Q, a sparse array of shape (size, size)."""
        weights = self.coefficients(**hyperparameters)
        return csc_array(sum(weight * base for weight, base in zip(weights, self.bases, strict=True)))

    def simulate(self, rng: np.random.Generator, **hyperparameters: float) -> np.ndarray:
        """Draw the latent elements from their prior under the constraints, shape (size,).

        Raises
        ------
        ValueError
            If the prior is improper.
        """
        require_proper(self)
        return self._simulate(rng, **hyperparameters)

    def _simulate(self, rng: np.random.Generator, **hyperparameters: float) -> np.ndarray:
        return draw_constrained(self.precision(**hyperparameters), self.constraints, rng)

    # --- results ------------------------------------------------------------------------------------------------------

    @property
    def dim(self) -> str:
        """Name of the dimension of the term's effects."""
        return f"{self.name}_level"

    @property
    def coords(self) -> dict[str, np.ndarray]:
        """Labels of the dimensions of `effects`."""
        return {self.dim: self.state.levels}

    def effects(self, x: np.ndarray) -> Effects:
        """Return named results of latent elements x, shape (..., size).

        Each has its dimensions after those of the draws, and an array of shape (..., levels).
        """
        parts = self.state.structure.named(self.name)
        return {name: ((self.dim,), times(matrix, x)) for name, matrix in parts.items()}

    def describe(self) -> str:
        """Return the structure, constraints and priors as text."""
        return describe_term(self)

    def __repr__(self) -> str:
        column = self.column if isinstance(self.column, str) else f"array of {len(self.column)} rows"
        return f"{type(self).__name__}({column}{'' if self._bound is None else f', {self.size} elements'})"
