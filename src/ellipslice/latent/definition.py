"""The definition of a latent Gaussian model: response, family, terms and priors, checked, and its posterior."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np

from ellipslice.latent.assembly import Assembly, Block
from ellipslice.latent.families import make_family
from ellipslice.latent.family import Family, default_priors
from ellipslice.latent.formula import Design, parse
from ellipslice.latent.hyperparameters import Hyperparameters
from ellipslice.latent.posterior import LatentPosterior
from ellipslice.latent.predictor import FUNCTIONS, Predictor
from ellipslice.latent.propriety import flat_predictors, separating, unidentified
from ellipslice.latent.response import MakeLikelihood, known_values, new_values, scale, try_likelihood
from ellipslice.latent.sparse.analysis import analyse
from ellipslice.latent.terms import Term
from ellipslice.latent.terms.columns import listed, read_column
from ellipslice.latent.terms.entry_bases import EntryBases

RESERVED = ("chain", "draw", "row", "linear_predictor", "expected", "predictive")
"""Names of dimensions and variables of results, which terms must not have."""


@dataclass(frozen=True, eq=False)
class Analyse:
    """Function from a pattern to its symbolic factorisation by one solver."""

    solver: str

    def __call__(self, rows: np.ndarray, cols: np.ndarray, size: int) -> Any:
        return analyse(rows, cols, size, self.solver)


class Arguments(NamedTuple):
    """The arguments of `LatentGaussianModel`."""

    formula: Any
    terms: Sequence[Any] | None
    data: Any
    family: Any
    link: str | None
    columns: Mapping[str, Any]
    """Known values of the family that were given: `exposure`, `trials`, `event` and others."""
    offset: Any
    fixed_sd: Any
    priors: Mapping[str, Any] | None
    solver: str


@dataclass(frozen=True, eq=False)
class Definition:
    """Checked parts of a model.

    Attributes
    ----------
    response_name : str
    y : array, shape (rows,)
        Responses; NaN is a missing one.
    family : Family
        With the known columns of all rows.
    predictor : Predictor
    posterior : LatentPosterior
        Of the observed rows.
    columns : mapping of str to str or array
        Known columns of the family, such as the exposure, as the user gave them.
    solver : str
    """

    response_name: str
    y: np.ndarray
    family: Family
    predictor: Predictor
    posterior: LatentPosterior
    columns: Mapping[str, Any]
    solver: str

    @classmethod
    def make(cls, given: Arguments, variables: Mapping[str, Any]) -> Definition:
        """Return the definition of a model.

        Parameters
        ----------
        given : Arguments
        variables : mapping of str to object
            Variables that a formula may name, such as a graph.
        """
        formula, terms, data, family, link, columns, offset, fixed_sd, priors, solver = given
        _check_kind(formula, terms, data, offset, fixed_sd)
        family = make_family(family, link, **known_values(columns, data))
        design = parse(formula).design(data, names=variables, functions=FUNCTIONS) if terms is None else None
        name, y = _response(formula, data, design)
        y = family.check_response(y)
        family = family.for_response(y)
        unit, location = scale(family, y)
        if design is not None:
            predictor = Predictor.of_design(design, fixed_sd, unit, location)
        else:
            predictor = Predictor.of_terms(list(terms or ()), data, offset, len(y), unit, location)
        _check_names(predictor.terms)
        posterior = _posterior(predictor, family, y, priors, Analyse(solver), unit)
        return cls(name, y, family, predictor, posterior, columns, solver)

    @property
    def dims(self) -> dict[str, list[str]]:
        """Dimensions of the effects in results."""
        return {name: list(dims) for name, (dims, _) in self._example.items()}

    @property
    def coords(self) -> dict[str, Any]:
        """Labels of the dimensions of the effects."""
        return {dim: labels for term in self.predictor.terms for dim, labels in term.coords.items()}

    @property
    def _example(self) -> dict[str, Any]:
        spans = zip(self.predictor.terms, self.posterior.assembly.spans, strict=True)
        return {
            name: effect
            for term, span in spans
            for name, effect in term.effects(np.zeros((1, span.stop - span.start))).items()
        }

    def effects(self, x: np.ndarray) -> dict[str, np.ndarray]:
        """Return the effects of all terms by name, for latents x of shape (draws, size)."""
        spans = zip(self.predictor.terms, self.posterior.assembly.spans, strict=True)
        return {name: values for term, span in spans for name, (_, values) in term.effects(x[:, span]).items()}

    def family_at(self, data: Any) -> Family:
        """Return the family with its known columns for new data. Raise if a column is not there."""
        return self.family.given(**new_values(self.family, self.columns, data))

    @property
    def observed(self) -> np.ndarray:
        """Mask of the rows with a response."""
        return ~np.isnan(self.y)

    @property
    def row_labels(self) -> np.ndarray:
        """Labels of the rows of the data frame, or their numbers."""
        index = self.predictor.index
        return np.arange(len(self.y)) if index is None else np.asarray(index)

    @property
    def flat_predictors(self) -> np.ndarray:
        """Change of the linear predictor along each flat direction of the priors, shape (observed rows, directions)."""
        return flat_predictors(self.posterior.assembly, _flat_directions(self.predictor, self.posterior)[0])

    def without(self, rows: np.ndarray) -> Definition:
        """Return the model in which the responses of some rows are missing. All priors stay as they are.

        Raise if its posterior is improper.
        """
        y = self.y.copy()
        y[rows] = np.nan
        hyperparameters, solver = self.posterior.hyperparameters, Analyse(self.solver)
        return replace(self, y=y, posterior=_posterior_of(self.predictor, self.family, y, hyperparameters, solver))


def caller_variables(depth: int) -> Mapping[str, Any]:
    """Return the variables of a function `depth` frames above, in which names of a formula are looked up."""
    frame = sys._getframe(depth)
    return {**frame.f_globals, **frame.f_locals}


def _check_kind(formula: Any, terms: Any, data: Any, offset: Any, fixed_sd: Any) -> None:
    """Raise unless there is either a formula with data, or responses with a list of terms."""
    if terms is None:
        if not isinstance(formula, str):
            raise TypeError(
                "the first argument is an array, but there are no terms. Give a formula such as 'y ~ x + (1 | g)' with "
                "data=, or responses with a list of terms."
            )
        if data is None:
            raise TypeError(f"data is required for the formula {formula!r}. Give a data frame or a mapping of columns.")
        if offset is not None:
            raise TypeError("offset= is for a list of terms. Write it into the formula: ... + offset(log(E)).")
        return
    if isinstance(formula, str) and "~" in formula:
        raise TypeError("both a formula and a list of terms were given. Give one of them.")
    if fixed_sd is not None:
        raise TypeError("fixed_sd= is for a formula. Give the term its own: Fixed(..., sd=...).")


def _response(response: Any, data: Any, design: Design | None) -> tuple[str, Any]:
    """Return the name and the values of the response."""
    if design is not None:
        return design.response_name, design.response
    if isinstance(response, str):
        return response, read_column(response, data, "the response")
    return getattr(response, "name", None) or "y", response


def _check_names(terms: Sequence[Term]) -> None:
    """Raise if a term has the name of a dimension or of a variable of predictions."""
    for term in terms:
        if term.name in RESERVED:
            raise ValueError(f"a term has the name {term.name!r}, which is used in results. Give it another: name=...")


def _posterior(
    predictor: Predictor,
    family: Family,
    y: np.ndarray,
    priors: Mapping[str, Any] | None,
    solver: Analyse,
    unit: float,
) -> LatentPosterior:
    """Return the posterior of the observed rows, with priors of the family. Raise if it is improper."""
    terms = predictor.terms
    given = dict(priors or {})
    own = {name: given.pop(name) for name in list(given) if name in family.parameters}
    if given:
        names = ", ".join(family.parameters) or "none"
        raise ValueError(
            f"priors has the name {next(iter(given))!r}, but the unknown parameters of {family.name} are: {names}. "
            "Priors of terms are arguments of the terms: rw2(age, prior=pc_prior(1, 0.01))."
        )
    rest = {name: each for name, each in family.parameters.items() if name not in own}
    of_family = {**own, **default_priors(replace(family, parameters=rest), y)}
    hyperparameters = Hyperparameters(
        {term.name: term.priors for term in terms}, {name: of_family[name] for name in family.parameters}, unit
    )
    return _posterior_of(predictor, family, y, hyperparameters, solver)


def _posterior_of(
    predictor: Predictor, family: Family, y: np.ndarray, hyperparameters: Hyperparameters, solver: Analyse
) -> LatentPosterior:
    """Return the posterior of the observed rows. Raise if it is improper."""
    observed = ~np.isnan(y)
    blocks = [
        Block(term.rows()[np.flatnonzero(observed)], term.bases, term.constraints, isinstance(term.bases, EntryBases))
        for term in predictor.terms
    ]
    assembly = Assembly(blocks, predictor.offset[observed])
    make_likelihood = MakeLikelihood(family.at_rows(observed), y[observed])
    posterior = LatentPosterior(assembly, predictor.terms, hyperparameters, make_likelihood, solver)
    try_likelihood(posterior)
    _check_proper(predictor, posterior)
    return posterior


def _check_proper(predictor: Predictor, posterior: LatentPosterior) -> None:
    """Raise if the posterior is improper because a prior is flat in a direction that the responses do not determine."""
    directions, names = _flat_directions(predictor, posterior)
    if not names:
        return
    predictors = flat_predictors(posterior.assembly, directions)
    found = unidentified(predictors)
    if found is not None:
        raise ValueError(
            f"the posterior is improper: the responses do not determine a combination of {_involved(found, names)}, "
            "whose priors are flat. Remove one of them, or give fixed effects a proper prior: fixed_sd=..."
        )
    at = posterior.at(posterior.hyperparameters.start())
    direction = None if at is None else separating(predictors, at.likelihood)
    if direction is not None:
        raise ValueError(
            f"the posterior is improper: a combination of {_involved(direction, names)} fits the responses better the "
            "larger it is (separation, or groups with only zeros), and its prior is flat. Give fixed effects a proper "
            "prior: fixed_sd=2.5, or leave fixed_sd out for the default."
        )


def _flat_directions(predictor: Predictor, posterior: LatentPosterior) -> tuple[np.ndarray, list[str]]:
    """Return the directions of the latents in which the priors are flat, shape (directions, size), and their names."""
    rows, names = [np.zeros((0, posterior.assembly.size))], []
    for term, span in zip(predictor.terms, posterior.assembly.spans, strict=True):
        for direction, label in zip(term.improper, _labels(term), strict=True):
            row = np.zeros((1, posterior.assembly.size))
            row[0, span] = direction
            rows.append(row)
            names.append(f"{term.name} ({label})")
    return np.concatenate(rows), names


def _labels(term: Term) -> list[str]:
    return list(term.state.structure.improper)


def _involved(weights: np.ndarray, names: Sequence[str]) -> str:
    large = np.abs(weights) > 1e-6 * np.abs(weights).max()
    return listed([name for name, one in zip(names, large, strict=True) if one])
