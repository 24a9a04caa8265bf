"""The response of a model: known columns of its family, its scale, and the likelihood of the observed rows."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from ellipslice.checks import as_numbers
from ellipslice.latent.family import Family
from ellipslice.latent.posterior import LatentPosterior
from ellipslice.latent.terms.columns import column_names, read_column
from ellipslice.likelihoods import Likelihood

SMALLEST_UNIT, LARGEST_UNIT = 1e-12, 1e12
"""Standard deviations of real-valued responses: hyperparameters must be far from `posterior.LARGEST_U`."""


@dataclass(frozen=True, eq=False)
class MakeLikelihood:
    """Function from the parameters of the family to the likelihood of the observed responses."""

    family: Family
    y: np.ndarray

    def __call__(self, **parameters: float) -> Likelihood:
        return self.family.make_likelihood(self.y, **parameters)


def known_values(columns: Mapping[str, Any], data: Any) -> dict[str, Any]:
    """Return the known values of a family by name: read from the columns that were named, or as given."""
    return {name: _read(name, value, data) for name, value in columns.items()}


def new_values(family: Family, columns: Mapping[str, Any], data: Any) -> dict[str, Any]:
    """Return the known values of a family for new data. Raise if a column is not there.

    One number for all rows stays as it is, and columns of the observed responses are not read.
    """
    found = {}
    for name, value in columns.items():
        if name in family.observed_only:
            continue
        column = value if isinstance(value, str) else name
        if isinstance(value, str) or (np.ndim(value) and name in column_names(data)):
            found[name] = _read(name, column, data)
        elif np.ndim(value):
            raise ValueError(
                f"the model was given {name} as an array. Predictions at new rows need the column {name!r} in data."
            )
    return found


def _read(name: str, value: Any, data: Any) -> Any:
    """Return a known column of the family: from the data, or as given."""
    return as_numbers(read_column(value, data, name), name) if isinstance(value, str) else value


def scale(family: Family, y: np.ndarray) -> tuple[float, float]:
    """Return the unit and the typical value of the linear predictor, for default priors."""
    observed = y[~np.isnan(y)]
    if family.link == "identity":
        unit = float(np.std(observed))
        if unit and not SMALLEST_UNIT < unit < LARGEST_UNIT:
            raise ValueError(
                f"the response has the standard deviation {unit:.3g}. Expected between {SMALLEST_UNIT:g} and "
                f"{LARGEST_UNIT:g}. Use another unit of the response."
            )
        return unit or 1.0, float(np.mean(observed))
    return 1.0, 0.0


def try_likelihood(posterior: LatentPosterior) -> None:
    """Evaluate the likelihood once, so that mistakes in known values and in a user's function raise early."""
    at = posterior.at(posterior.hyperparameters.start())
    if at is not None:
        offset = posterior.assembly.offset
        eta = offset + np.random.default_rng(0).uniform(0.1, 0.5, offset.shape)  # at 0, terms of two rows may vanish
        with np.errstate(all="ignore"):
            at.likelihood.pointwise(eta)
            at.likelihood.slope(eta)
