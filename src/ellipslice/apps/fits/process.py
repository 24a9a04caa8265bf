"""`ProcessKind`: fits of a Gaussian process to a table of numbers and dates."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from ellipslice.apps.fits.kind import Kept, Kind
from ellipslice.apps.fits.model import Problem
from ellipslice.apps.fits.priors import PRIOR_LOG_SD, Data
from ellipslice.apps.fits.settings import FitSettings, read_settings
from ellipslice.apps.fits.summary import short
from ellipslice.apps.fits.table import DATES, INPUTS, LABELS, NUMBERS, Column, Table

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from ellipslice.apps.fits.folder import RunFolder
    from ellipslice.gp import Fit

MAX_PLOT_INPUTS = 2
"""Largest number of inputs that a plot can show."""


class ProcessKind(Kind):
    """Fits of a Gaussian process."""

    parameter_name = "hyperparameter"
    latent_name = "latent function"

    def read_settings(self, asked: Any, path: Path) -> FitSettings:
        """Return the settings from JSON."""
        return read_settings(asked, path)

    def keep(self, table: Table, settings: FitSettings, at: Table | None) -> Kept:
        """Return the columns that are used, as numbers."""
        kinds = dict.fromkeys(settings.inputs, INPUTS) | ({} if settings.target is None else {settings.target: LABELS})
        columns = table.columns(_names(settings), kinds)
        data = _from_columns(settings, columns)
        problem, origins = Problem(settings, data), [columns[name].origin for name in settings.inputs]
        if at is not None:
            problem.check_predicts_at(read_prediction_inputs(at, settings.inputs, origins))
        return Kept(_as_csv(columns), len(data.inputs), origins)

    def read_data(self, folder: RunFolder) -> Data:
        """Return the content of data.csv."""
        columns = Table(folder.path / "data.csv", delimiter=",").columns(_names(folder.settings), {})
        return _from_columns(folder.settings, columns)

    def problem(self, folder: RunFolder) -> Problem:
        """Return the model of the data."""
        return Problem(folder.settings, folder.data)

    def check_prediction_table(self, folder: RunFolder, table: Table) -> None:
        """Raise if predictions at the inputs of a table are impossible."""
        folder.problem.check_predicts_at(read_prediction_inputs(table, folder.settings.inputs, folder.origins))

    def describe(self, folder: RunFolder) -> str:
        """Return the model in one line."""
        settings = folder.settings
        where = " and ".join(settings.inputs)
        if settings.events:
            return f"rate of events over {where}: poisson counts in cells, {settings.kernel} kernel"
        return f"{settings.target} given {where}: {settings.likelihood} likelihood, {settings.kernel} kernel"

    def known(self, folder: RunFolder) -> dict[str, Any]:
        """Return the fixed hyperparameters and the mean."""
        return folder.problem.known | {"mean": folder.problem.mean}

    def parameters(self, folder: RunFolder, fit: Fit) -> dict[str, np.ndarray]:
        """Return the draws of the hyperparameters. Elements of a vector are labelled by the inputs."""
        found, posterior = {}, fit.tree["posterior"].to_dataset()
        for name in fit.model.parameters.priors:
            values = posterior[name].values
            if values.ndim == 2:
                found[name] = values
            else:
                found |= {f"{name}[{axis}]": values[:, :, i] for i, axis in enumerate(folder.settings.inputs)}
        return found

    def latents(self, fit: Fit) -> list[np.ndarray]:
        """Return the draws of the latent function."""
        return [fit.tree["posterior"].to_dataset()[fit.model.latents[0]].values]

    def no_plot(self, folder: RunFolder) -> str:
        """Return that there are too many inputs, if so."""
        inputs = len(folder.settings.inputs)
        return "" if inputs <= MAX_PLOT_INPUTS else f"there are {inputs} inputs, but a plot shows one or two"

    def draw(self, folder: RunFolder, fit: Fit, variable: str | None) -> Figure:
        """Return a curve with intervals for one input, two maps for two."""
        from ellipslice.apps.fits.plots import draw_process

        return draw_process(folder, fit, variable)

    def predictions(self, folder: RunFolder, fit: Fit, at: Table | None) -> tuple[dict[str, Any], Any]:
        """Return the inputs as they were in the table, and predictions there."""
        points: Any = fit.X
        if at is not None:
            inputs = read_prediction_inputs(at, folder.settings.inputs, folder.origins)
            points = inputs[:, 0] if inputs.shape[1] == 1 else inputs
        return _labels(folder, points), fit.predict(points, seed=folder.settings.seed, joint=False)

    def model_text(self, folder: RunFolder) -> list[str]:
        """Return one paragraph about kernel, mean and priors."""
        problem = folder.problem
        lines = [f"The latent function has a {folder.settings.kernel} kernel and mean {short(problem.mean)}."]
        if problem.medians:
            given = ", ".join(f"{name} {_numbers(median)}" for name, median in problem.medians.items())
            lines.append(
                "Unknown hyperparameters have log-normal priors (standard deviation of the logarithm "
                f"{PRIOR_LOG_SD:g}) with these medians: {given}."
            )
        if problem.known:
            known = ", ".join(f"{name} {_numbers(value)}" for name, value in problem.known.items())
            lines.append(f"Fixed: {known}.")
        for name, origin in zip(folder.settings.inputs, folder.origins, strict=True):
            if origin is not None:
                lines.append(f"{name} is counted in days from {origin.removesuffix('T00:00:00')}.")
        return [" ".join(lines)]

    def checks(self, folder: RunFolder, fit: Fit) -> list[tuple[str, str, Figure]]:
        """Return nothing: the plot of the fit shows the data."""
        return []


def read_prediction_inputs(table: Table, names: Sequence[str], origins: Sequence[str | None]) -> np.ndarray:
    """Return the inputs of another table, shape (rows, inputs), with days counted from the dates in `origins`."""
    kinds = {name: NUMBERS if origin is None else DATES for name, origin in zip(names, origins, strict=True)}
    columns = table.columns(list(names), kinds)
    values = []
    for name, origin in zip(names, origins, strict=True):
        column = columns[name]
        if origin is not None and column.origin is None:
            raise ValueError(
                f"{table.path}: the column {name!r} must hold dates, because it holds dates in the data of the fit."
            )
        values.append(column.values + (0.0 if origin is None else _days(str(column.origin), origin)))
    return np.stack(values, axis=1)


def _days(later: str, earlier: str) -> float:
    return float((np.datetime64(later, "us") - np.datetime64(earlier, "us")) / np.timedelta64(1, "D"))


def _names(settings: FitSettings) -> list[str]:
    return [*settings.inputs, *filter(None, (settings.target, settings.exposure, settings.trials))]


def _from_columns(settings: FitSettings, columns: dict[str, Column]) -> Data:
    def values(name: str | None) -> np.ndarray | None:
        return None if name is None else columns[name].values

    inputs = np.stack([columns[name].values for name in settings.inputs], axis=1)
    return Data(inputs, values(settings.target), values(settings.exposure), values(settings.trials))


def _as_csv(columns: dict[str, Column]) -> bytes:
    import pandas as pd

    frame = pd.DataFrame({f"{name}": column.values for name, column in columns.items()})
    return frame.to_csv(index=False).encode()


def _labels(folder: RunFolder, points: np.ndarray) -> dict[str, np.ndarray]:
    """Return the inputs as they were in the table, by name: days as dates."""
    columns = points.reshape(len(points), -1).T
    named = zip(folder.settings.inputs, columns, folder.origins, strict=True)
    return {name: values if origin is None else _as_dates(values, origin) for name, values, origin in named}


def _as_dates(days: np.ndarray, origin: str) -> np.ndarray:
    milliseconds = np.round(days * 86_400_000).astype("m8[ms]")
    return np.datetime_as_string(np.datetime64(origin, "ms") + milliseconds, unit="s")


def _numbers(value: Any) -> str:
    return short(value) if isinstance(value, float) else ", ".join(map(short, value))
