"""Names in results: dimensions and labels that the user gives, and the columns and index of a data frame."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from ellipslice.priors.parts.features import as_inputs
from ellipslice.sampling.result import check_names

if TYPE_CHECKING:
    import xarray

    from ellipslice.gp.definition import ModelDefinition
    from ellipslice.gp.fit import Fit

POINT = "point"
"""Default name of the dimension of the latent functions."""
OF_PREDICTIONS = ("latent", "expected", "predictive")
"""Names of the variables of predictions."""


class Names(NamedTuple):
    """Names in the result of a fit."""

    dims: dict[str, list[str]]
    coords: dict[str, Any]


def names_of(
    model: ModelDefinition,
    X: Any,
    inputs: np.ndarray,
    dims: Mapping[str, Sequence[str]] | None,
    coords: Mapping[str, Any] | None,
) -> Names:
    """Return the names in the result of a fit. Raise if names do not match the model or each other.

    Parameters
    ----------
    model : ModelDefinition
    X : array, data frame or series
        Inputs as the user gave them.
    inputs : array, shape (n,) or (n, axes)
        The same as an array.
    dims, coords : mapping, optional
        Names and labels of the user.
    """
    parameters = model.parameters
    values = parameters.constrained(parameters.gaussian()[0]) if parameters.size else {}
    variables = {name: np.empty((1, len(inputs))) for name in model.kernels}
    variables |= {name: np.empty((1, *np.shape(value))) for name, value in values.items()}
    check_names(variables, dims, {})
    given = {name: list(labels) for name, labels in (dims or {}).items()}
    of_points = {given[name][0] for name in model.kernels if name in given} or {POINT}
    if len(of_points) > 1:
        raise ValueError(
            f"dims gives the names {', '.join(sorted(of_points))} to the dimension of the points, which all latent "
            "functions share. Choose one name."
        )
    (point,) = of_points
    complete = {name: [point] for name in model.kernels} | given
    check_names(variables, complete, coords)
    used = {*variables, *(label for labels in complete.values() for label in labels)}
    _check_columns(column_names(X), used)
    labels = point_labels(X, inputs)
    return Names(complete, ({} if labels is None else {point: labels}) | dict(coords or {}))


def column_names(X: Any) -> list[str]:
    """Return the names of the columns of a data frame, or of a series. Empty if they have no names."""
    if not hasattr(X, "iloc"):
        return []
    names = list(X.columns) if hasattr(X, "columns") else [X.name]
    return names if all(isinstance(name, str) for name in names) else []


def with_names_of(events: Any, inputs: np.ndarray) -> Any:
    """Return inputs as a data frame or series with the column names of `events`, or unchanged if they have none."""
    names = column_names(events)
    if not names:
        return inputs
    import pandas as pd

    return pd.DataFrame(inputs, columns=names) if inputs.ndim == 2 else pd.Series(inputs, name=names[0])


def point_labels(X: Any, inputs: np.ndarray) -> np.ndarray | None:
    """Return the index of a data frame if it is not 0, 1, 2, ..., else the inputs if they have one axis, else None."""
    index = getattr(X, "index", None)
    if index is not None and not callable(index):  # lists have a method of this name
        labels = np.asarray(index)
        if labels.dtype.kind == "O":
            labels = np.array([", ".join(map(str, each)) if isinstance(each, tuple) else str(each) for each in labels])
        if labels.dtype.kind not in "iu" or not np.array_equal(labels, np.arange(len(labels))):
            return labels
    return inputs.reshape(-1) if inputs.size == len(inputs) else None


def with_columns(tree: xarray.DataTree, model: ModelDefinition, X: Any, inputs: np.ndarray) -> xarray.DataTree:
    """Add the columns of a data frame to the draws, as coordinates of the points, and return the result."""
    names, draws, point = column_names(X), tree["posterior"], point_dimension(model, tree)
    _check_columns(names, {*map(str, draws.data_vars), *map(str, draws.sizes)})
    if names:
        draws.coords.update(_coordinates(names, point, inputs))
        tree.attrs["columns"] = json.dumps(names)  # as text, because NetCDF has no lists of strings
    return tree


def fitted_columns(tree: xarray.DataTree) -> list[str]:
    """Return the names of the columns of the inputs of a fit. Empty if they had none."""
    return json.loads(tree.attrs.get("columns", "[]"))


def point_dimension(model: ModelDefinition, tree: xarray.DataTree) -> str:
    """Return the name of the dimension of the latent functions."""
    return str(tree["posterior"][next(iter(model.kernels))].dims[-1])


def new_inputs(fit: Fit, X: Any) -> np.ndarray:
    """Return new inputs with the axes of the data. Columns of a data frame are found by their names.

    Raise if a column does not exist, or the number of axes differs.
    """
    names, given = fitted_columns(fit.tree), column_names(X)
    if names and hasattr(X, "columns") and given:
        if missing := [name for name in names if name not in given]:
            raise ValueError(
                f"X has no column {missing[0]!r}. The model was fitted to the columns {', '.join(names)}, and X has "
                f"{', '.join(given)}."
            )
        X = X[names if fit.X.ndim == 2 else names[0]]
    inputs = as_inputs(X, "X")
    if inputs.ndim != fit.X.ndim or inputs.shape[1:] != fit.X.shape[1:]:
        raise ValueError(
            f"X has shape {inputs.shape}, but the model was fitted to inputs of shape {fit.X.shape}. Give new "
            "inputs with the same number of axes."
        )
    return inputs


def prediction_coords(fit: Fit, X: Any, inputs: np.ndarray) -> dict[str, Any]:
    """Return the coordinates of new points: their labels, and the columns of the data."""
    labels = point_labels(X, inputs)
    point = point_dimension(fit.model, fit.tree)
    return ({} if labels is None else {point: labels}) | _coordinates(fitted_columns(fit.tree), point, inputs)


def _coordinates(names: list[str], point: str, inputs: np.ndarray) -> dict[str, Any]:
    axes = inputs.reshape(len(inputs), -1).T
    return {name: (point, axes[i]) for i, name in enumerate(names)}


def _check_columns(names: list[str], used: set[str]) -> None:
    """Raise if a column has the name of something else in the result."""
    for name in names:
        if name in ("chain", "draw", *OF_PREDICTIONS) or name in used or names.count(name) > 1:
            raise ValueError(
                f"X has the column {name!r}, but the results of this model have something else of this name, or X has "
                "two such columns. Rename the column."
            )
