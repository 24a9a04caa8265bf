"""Predictions as a CSV file: means and quantiles at the rows of the data or of another table."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from ellipslice.apps.fits.folder import RunFolder
from ellipslice.apps.fits.table import Table
from ellipslice.store.journal import replace

QUANTILES = {"q05": 0.05, "median": 0.5, "q95": 0.95}


def write_predictions(folder: RunFolder, fit: Any, at: Table | None = None) -> Path:
    """Write predictions.csv, with one row per row of the data or of `at`, and return its path.

    The columns are the mean and the 5, 50 and 95 % quantiles of the latent function (`latent`) or of the linear
    predictor, of `expected` (the mean of an observation, for example a rate or a probability) and of `predictive` (a
    new observation).
    """
    labels, predicted = folder.kind.predictions(folder, fit, at)
    table = dict(labels)
    for name, values in predicted.data_vars.items():
        flat = values.values.reshape(-1, len(next(iter(labels.values()))))
        table[f"{name}_mean"] = flat.mean(axis=0)
        table |= {f"{name}_{label}": np.quantile(flat, level, axis=0) for label, level in QUANTILES.items()}
    path = folder.path / "predictions.csv"
    replace(path, pd.DataFrame(table).to_csv(index=False, float_format="%.8g").encode())
    return path
