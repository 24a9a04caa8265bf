"""The model of a fit: kernel, likelihood and predictions, from the settings and the data."""

from __future__ import annotations

import inspect
import math
import os
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from ellipslice.apps.fits.priors import PRIOR_LOG_SD, Data, check_magnitude, latent_mean, medians, window
from ellipslice.apps.fits.settings import LIKELIHOODS, FitSettings
from ellipslice.gp import CoxProcess, Fit, LatentGP
from ellipslice.gp.structure import MAX_DENSE, MAX_DENSE_BY_CHOICE, is_grid
from ellipslice.likelihoods import Likelihood
from ellipslice.sampling.until import Until

CELLS = {1: 100, 2: 20, 3: 8}
"""Default number of cells along each coordinate of events, by the number of coordinates."""

MARKOV_KERNELS = ("matern12", "matern32", "matern52")
"""Kernels that are Markov in time. With one input and fixed hyperparameters they allow any number of rows."""


class Problem:
    """A model and its data, ready to be fitted.

    Attributes
    ----------
    mean : float
        Mean of the latent function.
    medians : dict of str to float or list
        Prior medians of the unknown hyperparameters.
    known : dict of str to float or list
        Values of the fixed hyperparameters.
    """

    def __init__(self, settings: FitSettings, data: Data):
        settings.check()
        self.settings, self._data = settings, data
        self._check()
        observations, found = _ObservationModel(settings, data), medians(settings, data)
        given = {
            "amplitude": settings.amplitude,
            "length_scale": settings.per_input("length_scale"),
            **settings.own_parameters,
        }
        self.known = {name: _plain(value) for name, value in given.items() if value is not None}
        self.medians = {name: _plain(found[name]) for name, value in given.items() if value is None}
        self.mean = latent_mean(settings, data) if settings.mean is None else settings.mean
        observations.of_data({**self.medians, **self.known})  # raises if the data are not counts, labels, ...
        self._observations, self._values = observations, len(data.inputs)
        if settings.events:
            self.window, self.cells = window(settings, data), settings.per_input("cells")
            if self.cells is None:
                axes = len(settings.inputs)
                if axes not in CELLS:
                    raise ValueError(f"events have {axes} coordinates, for which there is no default. Give --cells.")
                self.cells = (CELLS[axes],) * axes
            self._values = math.prod(self.cells)
        self._check_size(self._values)
        self._kernel = _kernel(settings, self.known, self._values > MAX_DENSE)
        if settings.events:
            self._process().counts(data.points)  # raises if an event is outside the window

    def _check(self) -> None:
        settings, data = self.settings, self._data
        if len(data.inputs) < 2 and not (settings.events and settings.window):
            known = ", or --window LOW,HIGH, in which one event is enough" if settings.events else ""
            raise ValueError(f"there is one row of data, but at least 2 are needed{known}.")
        for name, column in zip(settings.inputs, data.inputs.T, strict=True):
            if column.min() == column.max() and not (settings.events and settings.window):
                raise ValueError(f"the input {name!r} has the same value in every row. Leave it out, or add rows.")
            if column.min() < column.max():
                check_magnitude(name, column, np.ptp)
        if data.exposure is not None and not (data.exposure > 0).all():
            raise ValueError(
                f"the column {settings.exposure!r} must be positive in every row, because it multiplies a rate."
            )
        if settings.command.kind == "number" and data.y is not None:
            if data.y.min() == data.y.max():
                raise ValueError(
                    f"the column {settings.target!r} has the same value in every row: there is nothing to fit."
                )
            check_magnitude(str(settings.target), data.y, np.std)

    def check_predicts_at(self, inputs: np.ndarray) -> None:
        """Raise if there are too many rows of data for predictions at new inputs, shape (m, inputs)."""
        if self._values <= MAX_DENSE:
            return
        known = self._process().centres.reshape(self._values, -1) if self.settings.events else self._data.inputs
        if {row.tobytes() for row in inputs + 0.0} <= {
            row.tobytes() for row in known + 0.0
        }:  # adding 0.0 turns -0.0 into 0.0
            return
        raise ValueError(
            f"--predict-at has inputs that are not in the data. That requires at most {MAX_DENSE:,} rows or cells of "
            f"data, but there are {self._values:,}. Fit fewer, or predict at inputs of the data."
        )

    def _check_size(self, count: int) -> None:
        """Raise if the model requires a dense covariance matrix that is too large."""
        if count <= MAX_DENSE:
            return
        events, one = self.settings.events, len(self.settings.inputs) == 1
        structured = (one and self.settings.kernel in MARKOV_KERNELS) or events or is_grid(self._data.inputs)
        if structured and not self.medians:
            return
        more = (
            f"For more, fix all hyperparameters: give {' and '.join(map(_option, self.medians))} as well."
            if structured
            else f"More require fixed hyperparameters, and either one input and the kernel "
            f"{', '.join(MARKOV_KERNELS[:-1])} or {MARKOV_KERNELS[-1]}, or a complete regular grid."
        )
        less = "Or give fewer --cells." if events else "Or sum or average neighbouring rows."
        raise ValueError(
            f"there are {count:,} {'cells' if events else 'rows'}, but at most {MAX_DENSE:,} are possible. {more} "
            f"{less}"
        )

    def fit(self, store: os.PathLike[str], *, progress: bool) -> Fit:
        """Sample from the posterior and write the draws to a store."""
        settings = self.settings
        options: dict[str, Any] = {**settings.length, "store": store, "progress": progress}
        # With fixed hyperparameters the data may be very informative, and a reference Gaussian then mixes faster.
        options["reference"] = "auto" if not self.medians and self._values <= MAX_DENSE_BY_CHOICE else None
        if settings.events:
            return self._process().fit(self._data.points, **options)
        return self._wrapped(self._model().fit(self._data.points, self._data.y, **options))

    def resume(self, store: os.PathLike[str], *, draws: int | None, until: Until | None, progress: bool) -> Fit:
        """Resume the run in a store."""
        data = self._data
        if self.settings.events:
            return self._process().resume(store, data.points, draws=draws, until=until, progress=progress)
        fit = self._model().resume(store, data.points, data.y, draws=draws, until=until, progress=progress)
        return self._wrapped(fit)

    def open(self, store: os.PathLike[str]) -> Fit:
        """Return the fit with the draws in a store, without running."""
        if self.settings.events:
            return self._process().open(store, self._data.points)
        return self._wrapped(self._model().open(store, self._data.points, self._data.y))

    @property
    def _priors(self) -> dict[str, Any]:
        if not self.medians:
            return {}
        try:
            from numpyro.distributions import LogNormal
        except ImportError:
            raise ImportError(
                "unknown hyperparameters require numpyro. Install it with: pip install 'ellipslice[fit]'."
            ) from None
        return {name: LogNormal(np.log(median), PRIOR_LOG_SD) for name, median in self.medians.items()}

    def _model(self) -> LatentGP:
        return LatentGP(
            self._kernel, self._observations.likelihood(self.known), mean=self.mean, parameters=self._priors
        )

    def _process(self) -> CoxProcess:
        cells: Any = self.cells
        return CoxProcess(
            self._kernel, self.window, cells, mean=None if self.settings.mean is None else self.mean,
            parameters=self._priors,
        )  # fmt: skip

    def _wrapped(self, fit: Fit) -> Fit:
        return UnitFit(fit, self._observations, self.known)


class _ObservationModel:
    """The likelihood, as a function of its hyperparameters: of the data, and of observations at new inputs."""

    def __init__(self, settings: FitSettings, data: Data):
        self._settings, self._data = settings, data

    def likelihood(self, known: Mapping[str, Any]) -> Callable[..., Likelihood]:
        """Return a function from y and the unknown hyperparameters of the likelihood, by name, to a likelihood."""

        def likelihood(y: Any, **unknown: Any) -> Likelihood:
            return self._build(y, {**known, **unknown}, self._data.exposure, self._data.trials)

        arguments = ["y", *(name for name in self._settings.own_parameters if name not in known)]
        kind = inspect.Parameter.POSITIONAL_OR_KEYWORD
        likelihood.__signature__ = inspect.Signature([inspect.Parameter(name, kind) for name in arguments])  # type: ignore[attr-defined]
        return likelihood

    def of_data(self, values: Mapping[str, Any]) -> Likelihood | None:
        """Return the likelihood of the data for hyperparameter `values`; None for events."""
        data = self._data
        return None if data.y is None else self._build(data.y, values, data.exposure, data.trials)

    def unit(self, values: Mapping[str, Any], count: int) -> Likelihood:
        """Return the likelihood of `count` new observations with exposure 1 and one trial each."""
        y = np.zeros(count) - (self._settings.command.kind == "label")
        return self._build(y, values, np.ones(count), np.ones(count))

    def _build(self, y: Any, values: Mapping[str, Any], exposure: Any, trials: Any) -> Likelihood:
        command = self._settings.command
        given = {**values, "exposure": 0.0 if exposure is None else np.log(exposure), "trials": trials}
        arguments = {argument: given[option] for option, argument in command.options.items()}
        cls: Any = LIKELIHOODS[self._settings.likelihood]
        return cls(_signs(y) if command.kind == "label" else y, **arguments)

    def for_display(self) -> np.ndarray:
        """Return the observations in the units of `expected`: per trial, or per unit of exposure."""
        y = np.asarray(self._data.y, float)
        if self._settings.command.kind == "label":
            return (y > 0) * 1.0
        if self._data.trials is not None:
            return y / np.maximum(self._data.trials, 1)
        return y if self._data.exposure is None else y / self._data.exposure


def _signs(y: Any) -> Any:
    """Return labels 0 and 1 as -1 and +1. Other values are returned unchanged: the likelihood rejects them."""
    y = np.asarray(y)
    return 2.0 * y - 1.0 if set(np.unique(y).tolist()) <= {0.0, 1.0} else y


class UnitFit(Fit):
    """A fit whose predictions are for exposure 1 and one trial."""

    def __init__(self, fit: Fit, observations: _ObservationModel, known: Mapping[str, Any]):
        super().__init__(fit.model, fit.X, fit.y, fit.tree)
        self._observations, self._known = observations, dict(known)

    @property
    def shown(self) -> np.ndarray:
        """Observations as plots show them: per trial, or per unit of exposure."""
        return self._observations.for_display()

    def _posterior_predictive(
        self, drawn: np.ndarray, values: Mapping[str, np.ndarray], likelihood: Any, rng: np.random.Generator
    ) -> dict[str, np.ndarray]:
        likelihoods = [
            self._observations.unit(
                {**self._known, **{name: value[i] for name, value in values.items()}}, drawn.shape[-1]
            )
            for i in range(len(drawn))
        ]
        pairs = list(zip(likelihoods, drawn[:, 0], strict=True))
        expected = np.stack([one.expected(f) for one, f in pairs])
        return {"expected": expected, "predictive": np.stack([one.simulate(f, rng) for one, f in pairs])}


def _kernel(settings: FitSettings, known: Mapping[str, Any], large: bool) -> Any:
    """Return the kernel, or a function from unknown hyperparameters to it.

    If `large`, a Matérn kernel of one input with fixed hyperparameters is returned in its Markov form.
    """
    try:
        from tinygp import kernels
        from tinygp.kernels.distance import L2Distance
        from tinygp.transforms import Linear
    except ImportError:
        raise ImportError("kernels require tinygp. Install it with: pip install 'ellipslice[fit]'.") from None
    shape = {
        "matern12": kernels.Exp, "matern32": kernels.Matern32, "matern52": kernels.Matern52,
        "squared-exponential": kernels.ExpSquared,
    }[settings.kernel]  # fmt: skip
    one = len(settings.inputs) == 1
    if one and large and settings.kernel in MARKOV_KERNELS and {"amplitude", "length_scale"} <= set(known):
        name = {"matern12": "Exp", "matern32": "Matern32", "matern52": "Matern52"}[settings.kernel]
        return getattr(kernels.quasisep, name)(scale=known["length_scale"], sigma=known["amplitude"])

    def kernel(values: Mapping[str, Any]) -> Any:
        amplitude, scale = (known[name] if name in known else values[name] for name in ("amplitude", "length_scale"))
        if one:
            return amplitude**2 * shape(scale[0] if np.ndim(scale) else scale)
        inverse: Any = 1.0 / (np.asarray(scale) if isinstance(scale, list) else scale)
        return amplitude**2 * Linear(inverse, shape(1.0, distance=L2Distance()))

    return kernel({}) if {"amplitude", "length_scale"} <= set(known) else kernel


def _option(name: str) -> str:
    """Return the option of the command line for a hyperparameter."""
    return "--" + name.replace("_", "-")


def _plain(value: Any) -> Any:
    """Return numbers as plain Python: a float for one value, a list of floats for several."""
    if np.ndim(value) == 0:
        return float(value)
    values = [float(part) for part in value]
    return values[0] if len(values) == 1 else values
