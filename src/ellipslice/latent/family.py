"""A family of responses: its likelihood, hyperparameters, checks of the response, and predictions."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np

from ellipslice.checks import as_numbers, reject
from ellipslice.latent.family_parameters import FamilyParameter
from ellipslice.latent.hyperpriors import numpyro_distributions
from ellipslice.likelihoods import Likelihood


class Response(NamedTuple):
    """Values that a response may have."""

    valid: Callable[[np.ndarray], np.ndarray]
    """Function that returns True for each value that is allowed. It is not called with NaN."""
    problem: str
    """Rest of the message about a value that is not allowed."""
    example: float
    """A value that is allowed for all values of the parameters."""
    labels: bool = False
    """True if responses are 0 and 1, but the likelihood has labels -1 and +1."""


def _is_count(y: np.ndarray) -> np.ndarray:
    return (y >= 0) & (y == np.floor(y))


def _is_zero_or_one(y: np.ndarray) -> np.ndarray:
    return (y == 0) | (y == 1)


def _is_positive(y: np.ndarray) -> np.ndarray:
    return (y > 0) & np.isfinite(y)


def _is_inside(y: np.ndarray) -> np.ndarray:
    return (y > 0) & (y < 1)


def _is_category(y: np.ndarray) -> np.ndarray:
    return (y >= 1) & (y == np.floor(y)) & np.isfinite(y)


REAL = Response(np.isfinite, "is not finite. Expected real numbers, or NaN for a row to predict.", 0.0)
COUNT = Response(_is_count, "is not a count. Expected whole numbers, 0 or more.", 0.0)
ZERO_ONE = Response(_is_zero_or_one, "is not 0 or 1. Expected 0 and 1, or False and True.", 1.0, True)
POSITIVE = Response(_is_positive, "is not a positive number. Expected finite numbers above 0.", 1.0)
PROPORTION = Response(_is_inside, "is not between 0 and 1. Expected proportions above 0 and below 1.", 0.5)
CATEGORY = Response(_is_category, "is not a category. Expected whole numbers from 1 to the number of categories.", 1.0)


class Link(NamedTuple):
    """Another link of a family."""

    likelihood: Callable[..., Likelihood]
    labels: bool
    """True if the likelihood has labels -1 and +1."""


@dataclass(frozen=True)
class Family:
    """A family of responses y, each with a linear predictor eta.

    Attributes
    ----------
    name : str
        Name in `FAMILIES`.
    likelihood : class
        Observation model of `ellipslice.likelihoods`; f is the linear predictor.
    link : str
        Function that maps the mean of the response, or another parameter of its distribution, to eta.
    response : Response
        Values that a response may have. NaN is a missing response.
    parameters : mapping of str to FamilyParameter
        Unknown parameters of the likelihood by argument name.
    columns : mapping of str to str
        Known values per row, such as the exposure, and the argument of the likelihood for each. An exposure is passed
        as its logarithm.
    required : tuple of str
        Columns that must be given.
    aliases : tuple of str
        Names in other packages. They are not accepted, but the error message suggests `name`.
    fixed : mapping of str to array
        Arguments of the likelihood that are known: columns, and parameters that are not estimated.
    links : mapping of str to Link
        Other links by name.
    observed_only : tuple of str
        Columns that belong to the observed response, such as whether it is censored. Predictions do not use them.
    adapt : callable, optional
        Function of the family and the observed responses that returns the family with parameters that depend on the
        responses, such as one per category.
    predicts : bool
        Whether the likelihood has expected responses and can simulate.
    """

    name: str
    likelihood: Callable[..., Likelihood]
    link: str
    response: Response
    parameters: Mapping[str, FamilyParameter] = field(default_factory=dict)
    columns: Mapping[str, str] = field(default_factory=dict)
    required: tuple[str, ...] = ()
    aliases: tuple[str, ...] = ()
    fixed: Mapping[str, Any] = field(default_factory=dict)
    links: Mapping[str, Link] = field(default_factory=dict)
    observed_only: tuple[str, ...] = ()
    adapt: Callable[[Family, np.ndarray], Family] | None = None
    predicts: bool = True

    def __repr__(self) -> str:
        unknown = f", parameters: {', '.join(self.parameters)}" if self.parameters else ""
        return f"Family({self.name}, {self.link} link{unknown})"

    def given(self, **known: Any) -> Family:
        """Return the family with known columns, or with parameters that are not estimated.

        Parameters
        ----------
        **known : float or array
            Values by name of the column or parameter: one number, or one per row. An exposure must be positive.
        """
        allowed = {**self.columns, **{name: name for name in self.parameters}}
        fixed = dict(self.fixed)
        for name, value in known.items():
            if name not in allowed:
                known_names = ", ".join(allowed) or "none"
                raise TypeError(f"{self.name} has no argument {name!r}. Its arguments are: {known_names}.")
            fixed[allowed[name]] = self._as_argument(name, value)
        parameters = {name: each for name, each in self.parameters.items() if name not in known}
        return dataclasses.replace(self, parameters=parameters, fixed=fixed)

    def with_link(self, link: str) -> Family:
        """Return the family with another link. Raise if it has no such link."""
        if link == self.link:
            return self
        if link not in self.links:
            names = ", ".join(f'"{name}"' for name in (self.link, *self.links))
            raise ValueError(f"{self.name} has no link {link!r}. Its links are: {names}.")
        likelihood, labels = self.links[link]
        return dataclasses.replace(
            self, link=link, likelihood=likelihood, response=self.response._replace(labels=labels)
        )

    def for_response(self, y: np.ndarray) -> Family:
        """Return the family for checked responses. Raise if a known value has neither one number nor one per row."""
        for name, value in self.fixed.items():
            if np.shape(value) not in ((), y.shape):
                raise ValueError(
                    f"{self.name}: {name} has shape {np.shape(value)}, but there are {len(y)} rows. Expected one "
                    f"number, or one per row: shape {y.shape}."
                )
        return self if self.adapt is None else self.adapt(self, y[~np.isnan(y)])

    def at_rows(self, rows: Any) -> Family:
        """Return the family for some rows of the data, with the columns of these rows. `rows` is an index or a mask."""
        fixed = {name: value if np.ndim(value) == 0 else value[rows] for name, value in self.fixed.items()}
        return dataclasses.replace(self, fixed=fixed)

    def check_response(self, y: Any) -> np.ndarray:
        """Return the responses as a float64 array, shape (rows,), in which NaN is a missing response.

        Raise if a value is not possible for this family, or if no response is observed. `None` and masked values are
        missing responses, too.
        """
        name = f"{self.name}: y"
        values = as_numbers(_missing_as_nan(y), name, finite=False)
        if values.ndim != 1:
            raise ValueError(f"{name} has shape {values.shape}. Expected one response per row, shape (rows,).")
        observed = ~np.isnan(values)
        if not observed.any():
            raise ValueError(f"{name} has no observed value. Expected at least one response that is not NaN.")
        bad = observed.copy()
        bad[observed] = ~self.response.valid(values[observed])
        reject(name, values, bad, self.response.problem)
        return values

    def make_likelihood(self, y: np.ndarray, **parameters: Any) -> Likelihood:
        """Return the likelihood of observed responses with values of all unknown parameters.

        Parameters
        ----------
        y : array, shape (rows,)
            Responses without missing values. `at_rows` returns the family of the observed rows.
        **parameters : float
            Value of each unknown parameter.
        """
        absent = [name for name in self.required if self.columns[name] not in self.fixed]
        if absent:
            raise TypeError(f"{self.name} requires {absent[0]}: one number, or one per row.")
        labels = 2.0 * y - 1.0 if self.response.labels else y
        return self.likelihood(labels, **{**self.fixed, **parameters})

    def mean(self, eta: Any, **arguments: Any) -> np.ndarray:
        """Return the expected response given the linear predictor: for binary responses the probability of 1.

        Parameters
        ----------
        eta : array, shape (..., rows)
            Linear predictor.
        **arguments : float or array
            Value of each unknown parameter, and columns if they differ from those given before. They broadcast to the
            shape of eta: a parameter with one value per draw has shape (draws, 1).

        Returns
        -------
        array, same shape as eta
            Expected numbers, with exposure and numbers of trials.
        """
        likelihood, eta = self._at(eta, arguments)
        return likelihood.expected(eta)

    def simulate(self, eta: Any, rng: np.random.Generator, **arguments: Any) -> np.ndarray:
        """Draw responses given the linear predictor, shape (..., rows). Arguments are those of `mean`."""
        likelihood, eta = self._at(eta, arguments)
        drawn = np.asarray(likelihood.simulate(eta, rng), dtype=np.float64)
        return (drawn + 1.0) / 2.0 if self.response.labels else drawn

    def without_observed(self) -> Family:
        """Return the family without the columns that belong to the observed responses."""
        gone = {self.columns[name] for name in self.observed_only}
        return dataclasses.replace(self, fixed={name: each for name, each in self.fixed.items() if name not in gone})

    def _at(self, eta: Any, arguments: Mapping[str, Any]) -> tuple[Likelihood, np.ndarray]:
        """Return a likelihood of example responses in the shape of the linear predictor, and the predictor."""
        eta = np.atleast_1d(np.asarray(eta, dtype=np.float64))
        absent = [name for name in self.parameters if name not in arguments]
        if absent:
            raise TypeError(f"{self.name} requires a value of its parameter {absent[0]}.")
        family = self.given(**arguments).without_observed()
        return family.make_likelihood(np.full(eta.shape, self.response.example)), eta

    def _as_argument(self, name: str, value: Any) -> Any:
        """Return a column or parameter as an argument of the likelihood: an exposure as its logarithm."""
        values = as_numbers(value, f"{self.name}: {name}")
        if name == "exposure":
            problem = "is not positive. Expected exposures above 0; drop rows without exposure."
            reject(f"{self.name}: exposure", values, values <= 0, problem)
            return np.log(values)
        return values


def default_priors(family: Family, y: np.ndarray) -> dict[str, Any]:
    """Return the default priors of a family's unknown parameters as NumPyro distributions.

    Parameters
    ----------
    family : Family
    y : array
        Responses; NaN is a missing one. The default prior of a noise scale depends on them.

    Raises
    ------
    ImportError
        If NumPyro is not installed.
    TypeError
        If a parameter has no default prior.
    """
    without = [name for name, parameter in family.parameters.items() if parameter.make_prior is None]
    if without:
        raise TypeError(f"{family.name}: {without[0]} has no default prior. Give one, a NumPyro distribution.")
    if not family.parameters:
        return {}
    distributions = numpyro_distributions()
    observed = y[~np.isnan(y)]
    made = {name: parameter.make_prior for name, parameter in family.parameters.items()}
    return {name: make(distributions, observed) for name, make in made.items() if make is not None}


def _missing_as_nan(y: Any) -> Any:
    """Return responses with NaN for None, for masked values and for other missing values of pandas."""
    if np.ma.isMaskedArray(y):
        return np.ma.filled(np.ma.asarray(y).astype(np.float64), np.nan)
    values = np.asarray(y) if not hasattr(y, "to_numpy") else y.to_numpy()
    if values.dtype.kind != "O":
        return values
    missing = np.array([each is None or each != each or type(each).__name__ == "NAType" for each in values.flat])
    filled = [np.nan if gone else each for each, gone in zip(values.flat, missing, strict=True)]
    return np.asarray(filled).reshape(values.shape)
