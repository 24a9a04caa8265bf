"""Build a model from settings and columns: its kernel, its likelihood, and what is predicted from it."""

from __future__ import annotations

import inspect
import math
import os
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from ellipslice.apps.fits.priors import DEVIATION, Data, check_scale, latent_mean, medians, window
from ellipslice.apps.fits.settings import LIKELIHOODS, Asked
from ellipslice.gp import CoxProcess, Fit, LatentGP
from ellipslice.gp.structure import MAX_DENSE as LIMIT
from ellipslice.gp.structure import MAX_DENSE_BY_CHOICE as DENSE
from ellipslice.gp.structure import is_grid
from ellipslice.likelihoods import Likelihood
from ellipslice.sampling.until import Until

CELLS = {1: 100, 2: 20, 3: 8}
"""Along each axis of events, unless given."""

MARKOV = ("matern12", "matern32", "matern52")
"""Kernels that are Markov in time: any number of rows with one input, if all parameters are known."""


class Problem:
    """A model of some data, ready to be fitted.

    Attributes
    ----------
    mean : float
        Of the latent function.
    medians : dict of str to float or list
        Of the priors of unknown parameters.
    known : dict of str to float or list
        Parameters that were given.
    """

    def __init__(self, asked: Asked, data: Data):
        asked.check()
        self.asked, self._data = asked, data
        self._check()
        seen, found = _Seen(asked, data), medians(asked, data)
        given = {"amplitude": asked.amplitude, "length_scale": asked.of_each("length_scale"), **asked.own_parameters}
        self.known = {name: _plain(value) for name, value in given.items() if value is not None}
        self.medians = {name: _plain(found[name]) for name, value in given.items() if value is None}
        self.mean = latent_mean(asked, data) if asked.mean is None else asked.mean
        seen.built({**self.medians, **self.known})  # refuses data that are no counts, labels, ...
        self._seen, self._values = seen, len(data.inputs)
        if asked.events:
            self.window, self.cells = window(asked, data), asked.of_each("cells")
            if self.cells is None:
                axes = len(asked.inputs)
                if axes not in CELLS:
                    raise ValueError(f"events have {axes} axes; give --cells for each.")
                self.cells = (CELLS[axes],) * axes
            self._values = math.prod(self.cells)
        self._check_size(self._values)
        self._kernel = _kernel(asked, self.known, self._values > LIMIT)
        if asked.events:
            self._process().counts(data.points)  # refuses events outside the window

    def _check(self) -> None:
        asked, data = self.asked, self._data
        if len(data.inputs) < 2 and not (asked.events and asked.window):
            known = ", or --window LOW,HIGH, in which one event is enough" if asked.events else ""
            raise ValueError(f"there is one row of data; at least 2 are needed{known}.")
        for name, column in zip(asked.inputs, data.inputs.T, strict=True):
            if column.min() == column.max() and not (asked.events and asked.window):
                raise ValueError(f"the input {name!r} has the same value in every row. Leave it out, or look for more.")
            if column.min() < column.max():
                check_scale(name, column, np.ptp)
        if data.exposure is not None and not (data.exposure > 0).all():
            raise ValueError(f"the column {asked.exposure!r} must be positive everywhere, for it multiplies a rate.")
        if asked.command.kind == "number" and data.y is not None:
            if data.y.min() == data.y.max():
                raise ValueError(
                    f"the column {asked.target!r} has the same value in every row: there is nothing to fit."
                )
            check_scale(str(asked.target), data.y, np.std)

    def check_predicts_at(self, inputs: np.ndarray) -> None:
        """Raise if there are too many data to predict at inputs (rows, axes) that are not among theirs."""
        if self._values <= LIMIT:
            return
        known = self._process().centres.reshape(self._values, -1) if self.asked.events else self._data.inputs
        if {row.tobytes() for row in inputs + 0.0} <= {row.tobytes() for row in known + 0.0}:  # -0.0 is 0.0
            return
        raise ValueError(
            f"--predict-at has inputs that are not among the data's, and there are {self._values:,} of these; at most "
            f"{LIMIT:,} can be predicted from. Fit to fewer, or predict at the data's own inputs."
        )

    def _check_size(self, count: int) -> None:
        """Refuse what would need a dense matrix that is too large."""
        if count <= LIMIT:
            return
        events, one = self.asked.events, len(self.asked.inputs) == 1
        structured = (one and self.asked.kernel in MARKOV) or events or is_grid(self._data.inputs)
        if structured and not self.medians:
            return
        more = (
            f"For more all parameters must be given: here {' and '.join(map(_option, self.medians))} too."
            if structured
            else f"More can be with one input and the kernel {', '.join(MARKOV[:-1])} or {MARKOV[-1]}, or on a "
            "complete regular grid, and with all parameters given."
        )
        less = "Give fewer --cells." if events else "Or sum or average neighbours."
        raise ValueError(
            f"there are {count:,} {'cells' if events else 'rows'}, and at most {LIMIT:,} can be fitted to. {more} "
            f"{less}"
        )

    def fit(self, store: os.PathLike[str], *, progress: bool) -> Fit:
        """Draw from the posterior, into a store."""
        asked = self.asked
        options: dict[str, Any] = {"warmup": asked.warmup, "chains": asked.chains, "seed": asked.seed}
        options |= {"until": asked.until, "draws": asked.draws if asked.until is None else None}
        options |= {"store": store, "progress": progress}
        # With everything known the data may be strong, and ellipses around a Gaussian near the posterior do better.
        options["reference"] = "auto" if not self.medians and self._values <= DENSE else None
        if asked.events:
            return self._process().fit(self._data.points, **options)
        return self._wrapped(self._model().fit(self._data.points, self._data.y, **options))

    def resume(self, store: os.PathLike[str], *, draws: int | None, until: Until | None, progress: bool) -> Fit:
        """Go on with it."""
        data = self._data
        if self.asked.events:
            return self._process().resume(store, data.points, draws=draws, until=until, progress=progress)
        fit = self._model().resume(store, data.points, data.y, draws=draws, until=until, progress=progress)
        return self._wrapped(fit)

    def open(self, store: os.PathLike[str]) -> Fit:
        """What a store has of it."""
        if self.asked.events:
            return self._process().open(store, self._data.points)
        return self._wrapped(self._model().open(store, self._data.points, self._data.y))

    @property
    def _priors(self) -> dict[str, Any]:
        if not self.medians:
            return {}
        try:
            from numpyro.distributions import LogNormal
        except ImportError:
            raise ImportError('unknown parameters need numpyro: pip install "ellipslice[fit]".') from None
        return {name: LogNormal(np.log(median), DEVIATION) for name, median in self.medians.items()}

    def _model(self) -> LatentGP:
        return LatentGP(self._kernel, self._seen.likelihood(self.known), mean=self.mean, parameters=self._priors)

    def _process(self) -> CoxProcess:
        cells: Any = self.cells
        return CoxProcess(
            self._kernel, self.window, cells, mean=None if self.asked.mean is None else self.mean,
            parameters=self._priors,
        )  # fmt: skip

    def _wrapped(self, fit: Fit) -> Fit:
        return UnitFit(fit, self._seen, self.known)


class _Seen:
    """The likelihood of the data, as a function of its parameters and at new points."""

    def __init__(self, asked: Asked, data: Data):
        self._asked, self._data = asked, data

    def likelihood(self, known: Mapping[str, Any]) -> Callable[..., Likelihood]:
        """Return a function of y, and of the likelihood's unknown parameters by name."""

        def likelihood(y: Any, **unknown: Any) -> Likelihood:
            return self._made(y, {**known, **unknown}, self._data.exposure, self._data.trials)

        arguments = ["y", *(name for name in self._asked.own_parameters if name not in known)]
        kind = inspect.Parameter.POSITIONAL_OR_KEYWORD
        likelihood.__signature__ = inspect.Signature([inspect.Parameter(name, kind) for name in arguments])  # type: ignore[attr-defined]
        return likelihood

    def built(self, values: Mapping[str, Any]) -> Likelihood | None:
        """Return the likelihood of the data; None for events."""
        data = self._data
        return None if data.y is None else self._made(data.y, values, data.exposure, data.trials)

    def unit(self, values: Mapping[str, Any], count: int) -> Likelihood:
        """Return a likelihood at new points, for an exposure of 1 and one trial."""
        y = np.zeros(count) - (self._asked.command.kind == "label")
        return self._made(y, values, np.ones(count), np.ones(count))

    def _made(self, y: Any, values: Mapping[str, Any], exposure: Any, trials: Any) -> Likelihood:
        command = self._asked.command
        given = {**values, "exposure": 0.0 if exposure is None else np.log(exposure), "trials": trials}
        arguments = {argument: given[option] for option, argument in command.options.items()}
        cls: Any = LIKELIHOODS[self._asked.likelihood]
        return cls(_signs(y) if command.kind == "label" else y, **arguments)

    def shown(self) -> np.ndarray:
        """Return the data in the units of `expected`."""
        y = np.asarray(self._data.y, float)
        if self._asked.command.kind == "label":
            return (y > 0) * 1.0
        if self._data.trials is not None:
            return y / np.maximum(self._data.trials, 1)
        return y if self._data.exposure is None else y / self._data.exposure


def _signs(y: Any) -> Any:
    """Labels 0 and 1 as -1 and +1; all others as they are, to be refused."""
    y = np.asarray(y)
    return 2.0 * y - 1.0 if set(np.unique(y).tolist()) <= {0.0, 1.0} else y


class UnitFit(Fit):
    """A fit whose `expected` is for an exposure of 1, and of one trial."""

    def __init__(self, fit: Fit, seen: _Seen, known: Mapping[str, Any]):
        super().__init__(fit.model, fit.X, fit.y, fit.tree)
        self._seen, self._known = seen, dict(known)

    @property
    def shown(self) -> np.ndarray:
        """The data as pictures show them."""
        return self._seen.shown()

    def _posterior_predictive(
        self, drawn: np.ndarray, values: Mapping[str, np.ndarray], likelihood: Any, rng: np.random.Generator
    ) -> dict[str, np.ndarray]:
        built = [
            self._seen.unit({**self._known, **{name: value[i] for name, value in values.items()}}, drawn.shape[-1])
            for i in range(len(drawn))
        ]
        pairs = list(zip(built, drawn[:, 0], strict=True))
        expected = np.stack([one.expected(f) for one, f in pairs])
        return {"expected": expected, "predictive": np.stack([one.simulate(f, rng) for one, f in pairs])}


def _kernel(asked: Asked, known: Mapping[str, Any], large: bool) -> Any:
    """A kernel, or a function from unknown parameters to one; `large` data in time need one that is Markov."""
    try:
        from tinygp import kernels
        from tinygp.kernels.distance import L2Distance
        from tinygp.transforms import Linear
    except ImportError:
        raise ImportError('kernels need tinygp: pip install "ellipslice[fit]".') from None
    shape = {
        "matern12": kernels.Exp, "matern32": kernels.Matern32, "matern52": kernels.Matern52,
        "squared-exponential": kernels.ExpSquared,
    }[asked.kernel]  # fmt: skip
    one = len(asked.inputs) == 1
    if one and large and asked.kernel in MARKOV and {"amplitude", "length_scale"} <= set(known):
        name = {"matern12": "Exp", "matern32": "Matern32", "matern52": "Matern52"}[asked.kernel]
        return getattr(kernels.quasisep, name)(scale=known["length_scale"], sigma=known["amplitude"])

    def kernel(values: Mapping[str, Any]) -> Any:
        amplitude, scale = (known[name] if name in known else values[name] for name in ("amplitude", "length_scale"))
        if one:
            return amplitude**2 * shape(scale[0] if np.ndim(scale) else scale)
        inverse: Any = 1.0 / (np.asarray(scale) if isinstance(scale, list) else scale)
        return amplitude**2 * Linear(inverse, shape(1.0, distance=L2Distance()))

    return kernel({}) if {"amplitude", "length_scale"} <= set(known) else kernel


def _option(name: str) -> str:
    """Return the option of the command line for a parameter."""
    return "--" + name.replace("_", "-")


def _plain(value: Any) -> Any:
    """A number for one input, a list of them for several."""
    if np.ndim(value) == 0:
        return float(value)
    values = [float(part) for part in value]
    return values[0] if len(values) == 1 else values
