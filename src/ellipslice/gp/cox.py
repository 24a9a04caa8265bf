"""`CoxProcess`: events in time or points in a window, whose rate is the exponential of a Gaussian process."""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Executor
from typing import Any

import numpy as np

from ellipslice.checks import as_numbers
from ellipslice.gp.fit import Fit
from ellipslice.gp.model import LatentGP
from ellipslice.likelihoods import Poisson
from ellipslice.sampling import Until


class CoxProcess:
    """A log Gaussian Cox process: events whose rate, exp(f), is unknown and smooth.

    Events are counted in the cells of a regular grid over the window. `Fit.predict(X).expected` is then the rate at X,
    in events per unit of time (of area, of volume), and `latent` its logarithm.

    Parameters
    ----------
    kernel : as for `LatentGP`
        Of the logarithm of the rate.
    window : sequence of (low, high)
        One pair for events in time; one for each axis of points in space.
    cells : int or sequence of int
        Along each axis. More cells cost more and blur less; a cell should be narrow beside the kernel's scale.
    mean : float or function, optional
        Of the logarithm of the rate, as for `LatentGP`; that of the average rate unless given.
    parameters : mapping, optional
        Unknown parameters of the kernel and the mean, as for `LatentGP`.
    shared : sequence of str, optional
        Names of parameters that are meant to enter both kernel and mean, as for `LatentGP`. Default: none.

    Notes
    -----
    With known parameters and more than 1,000 cells the prior is `Stationary`: an update takes O(cells log cells).

    Examples
    --------
    >>> import numpy as np
    >>> from tinygp import kernels
    >>> import ellipslice as es
    >>> coal = es.data.coal_mining()
    >>> process = es.gp.CoxProcess(kernels.ExpSquared(scale=30.0), window=(1851, 1963), cells=112)
    >>> fit = process.fit(coal.years, draws=500, seed=1)
    >>> fit.predict([1870.0, 1940.0]).expected.mean(("chain", "draw")).values.round(1)
    array([3.5, 1. ])
    """

    def __init__(
        self,
        kernel: Any,
        window: Sequence[Any],
        cells: int | Sequence[int],
        *,
        mean: Any = None,
        parameters: Mapping[str, Any] | None = None,
        shared: Sequence[str] = (),
    ):
        bounds = as_numbers(window, "window")
        bounds = bounds[None] if bounds.ndim == 1 else bounds
        if bounds.ndim != 2 or bounds.shape[1:] != (2,) or not (bounds[:, 0] < bounds[:, 1]).all():
            raise ValueError(f"window must be (low, high), or a pair for each axis, low < high; but it is {window!r}.")
        counts = np.broadcast_to(np.asarray(cells), len(bounds))
        if counts.dtype.kind not in "iu" or (counts < 1).any():
            raise ValueError(f"cells must be a whole number for each axis, at least 1, but it is {cells!r}.")
        self.window, self.cells = bounds, tuple(counts.tolist())
        self._kernel, self._mean, self._parameters, self._shared = kernel, mean, parameters, shared

    @property
    def centres(self) -> np.ndarray:
        """The cells' centres: (cells,) for one axis, (cells, axes) for more."""
        axes = [
            low + (np.arange(n) + 0.5) * (high - low) / n
            for (low, high), n in zip(self.window, self.cells, strict=True)
        ]
        return axes[0] if len(axes) == 1 else np.stack(np.meshgrid(*axes, indexing="ij"), -1).reshape(-1, len(axes))

    def counts(self, events: Any) -> np.ndarray:
        """Events in each cell, in the order of `centres`."""
        points = as_numbers(events, "events")
        if points.ndim == 0:
            raise ValueError(f"events must be an array, (n,) or (n, axes), but it is {events!r}. Give [{events!r}].")
        if points.shape == (0,):  # no event is data, too, in a window of any number of axes
            points = points.reshape(0, len(self.window))
        points = points.reshape(len(points), math.prod(points.shape[1:]))
        if points.shape[1] != len(self.window):
            raise ValueError(f"events have {points.shape[1]} axes, but the window has {len(self.window)}.")
        outside = ((points < self.window[:, 0]) | (points > self.window[:, 1])).any(axis=1)
        if outside.any():
            first = int(np.argmax(outside))
            raise ValueError(
                f"events[{first}] = {points[first]} is outside the window, as {outside.sum()} of {len(points)} events "
                "are. Make the window wider, or leave them out."
            )
        return np.histogramdd(points, self.cells, self.window.tolist())[0].ravel()

    def fit(
        self,
        events: Any,
        *,
        draws: int | None = None,
        warmup: int = 500,
        chains: int = 4,
        seed: int | None = None,
        thin: int = 1,
        until: Until | None = None,
        reference: Any = None,
        store: str | os.PathLike[str] | None = None,
        executor: Executor | Callable[[], Executor] | None = None,
        timeout: float | None = None,
        progress: bool = True,
    ) -> Fit:
        """Draw from the posterior of the rate, given events (n,) or (n, axes) inside the window.

        The options are those of `sample`. `reference="ep"` is worth trying where the parameters are known and there are
        at most 5,000 cells.
        """
        model, counts, volume = self._model(events)
        fit = model.fit(
            self.centres, counts, draws=draws, warmup=warmup, chains=chains, seed=seed, thin=thin, until=until,
            reference=reference, store=store, executor=executor, timeout=timeout, progress=progress,
        )  # fmt: skip
        return RateFit(fit, volume)

    def resume(
        self,
        store: str | os.PathLike[str],
        events: Any,
        *,
        draws: int | None = None,
        until: Until | None = None,
        executor: Executor | Callable[[], Executor] | None = None,
        timeout: float | None = None,
        progress: bool = True,
    ) -> Fit:
        """Go on with a fit that `fit(..., store=...)` began, or add draws to it: see `LatentGP.resume`."""
        model, counts, volume = self._model(events)
        fit = model.resume(
            store, self.centres, counts, draws=draws, until=until, executor=executor, timeout=timeout,
            progress=progress,
        )  # fmt: skip
        return RateFit(fit, volume)

    def open(self, store: str | os.PathLike[str], events: Any) -> Fit:
        """The fit that a store holds, as far as it is: see `LatentGP.open`."""
        model, counts, volume = self._model(events)
        return RateFit(model.open(store, self.centres, counts), volume)

    def _model(self, events: Any) -> tuple[LatentGP, np.ndarray, float]:
        """Return the model of the counts in cells, the counts, and the volume of a cell."""
        counts = self.counts(events)
        volume = float(np.prod((self.window[:, 1] - self.window[:, 0]) / self.cells))
        if self._mean is None and not counts.sum():
            raise ValueError(
                "there are no events, and mean was not given: it would be the logarithm of the average rate, which is "
                "0. Give mean, the logarithm of the rate that you expect: CoxProcess(..., mean=-1.0)."
            )
        mean = np.log(counts.sum() / (volume * len(counts))) if self._mean is None else self._mean
        model = LatentGP(self._kernel, Cells(volume), mean=mean, parameters=self._parameters, shared=self._shared)
        return model, counts, volume


class Cells:
    """Given counts, their likelihood in cells of some volume."""

    def __init__(self, volume: float):
        self._volume = volume

    def __call__(self, y: Any) -> Poisson:
        return Poisson(y, offset=np.log(self._volume))


class RateFit(Fit):
    """The fit of a Cox process: `expected` is the rate at a point, and nothing is observed at one."""

    scattered = False  # the data are cells, all over the window

    def __init__(self, fit: Fit, volume: float):
        super().__init__(fit.model, fit.X, fit.y, fit.tree)
        self._volume = volume

    @property
    def shown(self) -> np.ndarray:
        """Counts as rates."""
        return np.asarray(self.y) / self._volume

    def _posterior_predictive(
        self, drawn: np.ndarray, values: Mapping[str, np.ndarray], likelihood: Any, rng: np.random.Generator
    ) -> dict[str, np.ndarray]:
        with np.errstate(over="ignore", under="ignore"):
            return {"expected": np.exp(drawn[:, 0])}
