"""Predictions as a CSV file: means and quantiles at the inputs of the data or of another table."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd

from ellipslice.apps.fits.folder import RunFolder, read_prediction_inputs
from ellipslice.apps.fits.table import Table
from ellipslice.gp import Fit
from ellipslice.store.journal import replace

QUANTILES = {"q05": 0.05, "median": 0.5, "q95": 0.95}


def write_predictions(folder: RunFolder, fit: Fit, at: Table | None = None) -> Path:
    """Write predictions.csv, with one row per input, and return its path.

    The columns are the mean and the 5, 50 and 95 % quantiles of `latent` (the latent function), `expected` (the mean
    of an observation, for example a rate or a probability) and `predictive` (a new observation).
    """
    points, labels = (fit.X, _labels(folder, fit.X)) if at is None else _read_points(folder, at)
    predicted = fit.predict(points, seed=folder.settings.seed, joint=False)
    table = dict(labels)
    for name, values in predicted.data_vars.items():
        flat = values.values.reshape(-1, len(points))
        table[f"{name}_mean"] = flat.mean(axis=0)
        table |= {f"{name}_{label}": np.quantile(flat, level, axis=0) for label, level in QUANTILES.items()}
    path = folder.path / "predictions.csv"
    replace(path, pd.DataFrame(table).to_csv(index=False, float_format="%.8g").encode())
    return path


def _labels(folder: RunFolder, points: np.ndarray) -> dict[str, np.ndarray]:
    """Return the inputs as they were in the table, by name: days as dates."""
    columns = points.reshape(len(points), -1).T
    named = zip(folder.settings.inputs, columns, folder.origins, strict=True)
    return {name: values if origin is None else _as_dates(values, origin) for name, values, origin in named}


def _as_dates(days: np.ndarray, origin: str) -> np.ndarray:
    milliseconds = np.round(days * 86_400_000).astype("m8[ms]")
    return np.datetime_as_string(np.datetime64(origin, "ms") + milliseconds, unit="s")


def _read_points(folder: RunFolder, table: Table) -> tuple[np.ndarray, dict[str, np.ndarray]]:
    inputs = read_prediction_inputs(table, folder.settings.inputs, folder.origins)
    return (inputs[:, 0] if inputs.shape[1] == 1 else inputs), _labels(folder, inputs)
