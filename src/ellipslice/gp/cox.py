"""`CoxProcess`: events in time or points in space, whose rate is the exponential of a Gaussian process."""

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
from ellipslice.gp.names import with_names_of
from ellipslice.likelihoods import Poisson
from ellipslice.sampling import Until


class CoxProcess:
    """Log-Gaussian Cox process: a Poisson process whose rate exp(f) is unknown and smooth.

    Events are counted in the cells of a regular grid over the window, and each count is Poisson distributed.
    `Fit.predict(X).expected` is the rate at X, in events per unit of time, area or volume; `latent` is its logarithm.

    Parameters
    ----------
    kernel : tinygp kernel, scikit-learn kernel or function
        Covariance of the log rate, as for `LatentGP`.
    window : (low, high), or a sequence of these
        Range of the events: one pair for events in time, one pair for each axis of points in space.
    cells : int or sequence of int
        Number of cells along each axis, at least 1. The rate is constant within a cell, so a cell should be narrow
        compared with the length scale of the kernel. More cells cost more time.
    mean : float or function, optional
        Prior mean of the log rate, as for `LatentGP`. Default: the logarithm of the number of events divided by the
        size of the window.
    parameters : mapping of str to numpyro distribution, optional
        Hyperparameters of kernel and mean, with their priors, as for `LatentGP`. Default: none.
    shared : sequence of str, optional
        Names of hyperparameters that enter both kernel and mean, as for `LatentGP`. Default: none.

    Attributes
    ----------
    window : array, shape (axes, 2)
        Lower and upper end of each axis.
    cells : tuple of int
        Number of cells along each axis.

    Raises
    ------
    ValueError
        If window or cells are not as described.

    Notes
    -----
    With known hyperparameters, more than 1,000 cells and a stationary kernel, an update costs O(cells log cells). With
    unknown hyperparameters at most 5,000 cells are possible, or any number in time with a kernel of
    `tinygp.kernels.quasisep`.

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
            raise ValueError(
                f"window must be (low, high) with low < high, or one such pair for each axis, but it is {window!r}."
            )
        counts = np.broadcast_to(np.asarray(cells), len(bounds))
        if counts.dtype.kind not in "iu" or (counts < 1).any():
            raise ValueError(f"cells must be a whole number, at least 1, for each axis, but it is {cells!r}.")
        self.window, self.cells = bounds, tuple(counts.tolist())
        self._kernel, self._mean, self._parameters, self._shared = kernel, mean, parameters, shared

    @property
    def centres(self) -> np.ndarray:
        """Centres of all cells: shape (cells,) for one axis, (cells, axes) for more."""
        axes = [
            low + (np.arange(n) + 0.5) * (high - low) / n
            for (low, high), n in zip(self.window, self.cells, strict=True)
        ]
        return axes[0] if len(axes) == 1 else np.stack(np.meshgrid(*axes, indexing="ij"), -1).reshape(-1, len(axes))

    def counts(self, events: Any) -> np.ndarray:
        """Return the number of events in each cell, in the order of `centres`.

        Parameters
        ----------
        events : array, shape (n,) or (n, axes)
            Times or points inside the window.

        Returns
        -------
        array, shape (cells,)

        Raises
        ------
        ValueError
            If an event is outside the window, or has another number of axes.
        """
        points = as_numbers(events, "events")
        if points.ndim == 0:
            raise ValueError(
                f"events must be an array of shape (n,) or (n, axes), but it is {events!r}. Give [{events!r}]."
            )
        if points.shape == (0,):  # an empty list does not show its number of axes
            points = points.reshape(0, len(self.window))
        points = points.reshape(len(points), math.prod(points.shape[1:]))
        if points.shape[1] != len(self.window):
            raise ValueError(
                f"events have {points.shape[1]} axes, but the window has {len(self.window)}. Give one pair "
                "(low, high) per axis."
            )
        outside = ((points < self.window[:, 0]) | (points > self.window[:, 1])).any(axis=1)
        if outside.any():
            first = int(np.argmax(outside))
            raise ValueError(
                f"events[{first}] = {points[first]} is outside the window ({outside.sum()} of {len(points)} events "
                "are). Make the window wider, or leave them out."
            )
        return np.histogramdd(points, self.cells, self.window.tolist())[0].ravel()

    def fit(
        self,
        events: Any,
        *,
        draws: int | None = None,
        warmup: int | None = None,
        chains: int = 4,
        seed: int | None = None,
        thin: int = 1,
        until: Until | None = None,
        reference: Any = None,
        store: str | os.PathLike[str] | None = None,
        executor: Executor | Callable[[], Executor] | None = None,
        timeout: float | None = None,
        progress: bool = True,
        dims: Mapping[str, Sequence[str]] | None = None,
        coords: Mapping[str, Any] | None = None,
    ) -> Fit:
        """Draw from the posterior of the log rate.

        Parameters
        ----------
        events : array or data frame, shape (n,) or (n, axes)
            Times or points inside the window. The columns of a data frame become coordinates of the cells in results.
        draws, warmup, chains, seed, thin, until, reference, store, executor, timeout, progress, dims, coords
            Options of `LatentGP.fit`, with the same defaults. If chains mix slowly, hyperparameters are known and there
            are at most 5,000 cells, try `reference="ep"`.

        Returns
        -------
        Fit
            Its `predict` returns `latent`, the log rate, and `expected`, the rate, at any points.

        Raises
        ------
        ValueError
            If an event is outside the window, if there are no events and no `mean`, or if options contradict each
            other.
        """
        model, counts, volume = self._model(events)
        fit = model.fit(
            with_names_of(events, self.centres), counts, draws=draws, warmup=warmup, chains=chains, seed=seed,
            thin=thin, until=until, reference=reference, store=store, executor=executor, timeout=timeout,
            progress=progress, dims=dims, coords=coords,
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
        """Continue a run that `fit(..., store=...)` began, or add draws to it.

        Parameters
        ----------
        store : path
            Folder that was given to `fit`.
        events : array, shape (n,) or (n, axes)
            The events that were given to `fit`.
        draws, until, executor, timeout, progress
            Options of `LatentGP.resume`, with the same defaults.

        Returns
        -------
        Fit
            All draws of the store.
        """
        model, counts, volume = self._model(events)
        fit = model.resume(
            store, with_names_of(events, self.centres), counts, draws=draws, until=until, executor=executor,
            timeout=timeout, progress=progress,
        )  # fmt: skip
        return RateFit(fit, volume)

    def open(self, store: str | os.PathLike[str], events: Any) -> Fit:
        """Return the fit in a store, for predictions and plots; also during the run that writes it.

        Parameters
        ----------
        store : path
            Folder that was given to `fit`.
        events : array, shape (n,) or (n, axes)
            The events that were given to `fit`.

        Returns
        -------
        Fit
            The draws that are in the store now.
        """
        model, counts, volume = self._model(events)
        return RateFit(model.open(store, with_names_of(events, self.centres), counts), volume)

    def _model(self, events: Any) -> tuple[LatentGP, np.ndarray, float]:
        """Return the model of the counts, the counts of all cells, and the volume of a cell."""
        counts = self.counts(events)
        volume = float(np.prod((self.window[:, 1] - self.window[:, 0]) / self.cells))
        if self._mean is None and not counts.sum():
            raise ValueError(
                "there are no events, and mean was not given: its default, the logarithm of the average rate, would be "
                "-inf. Give mean, the logarithm of the rate that you expect: CoxProcess(..., mean=-1.0)."
            )
        mean = np.log(counts.sum() / (volume * len(counts))) if self._mean is None else self._mean
        model = LatentGP(self._kernel, Cells(volume), mean=mean, parameters=self._parameters, shared=self._shared)
        return model, counts, volume


class Cells:
    """Function from counts to their log-likelihood, for cells of a given volume; it can be pickled."""

    def __init__(self, volume: float):
        self._volume = volume

    def __call__(self, y: Any) -> Poisson:
        return Poisson(y, offset=np.log(self._volume))


class RateFit(Fit):
    """Fit of a Cox process, returned by `CoxProcess.fit`.

    In predictions, `expected` is the rate at a point. Points have no counts, so there is no `predictive`.
    """

    scattered = False  # the inputs are the centres of all cells, not the events

    def __init__(self, fit: Fit, volume: float):
        super().__init__(fit.model, fit.X, fit.y, fit.tree)
        self._volume = volume

    @property
    def shown(self) -> np.ndarray:
        """Counts of the cells as rates: events per unit of time, area or volume."""
        return np.asarray(self.y) / self._volume

    def _posterior_predictive(
        self, drawn: np.ndarray, values: Mapping[str, np.ndarray], likelihood: Any, rng: np.random.Generator
    ) -> dict[str, np.ndarray]:
        with np.errstate(over="ignore", under="ignore"):  # far from the data a draw of the rate may be 0 or infinite
            return {"expected": np.exp(drawn[:, 0])}
