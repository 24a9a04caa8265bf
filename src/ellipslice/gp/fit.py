"""`Fit`: draws of a model's latent functions and hyperparameters, and predictions from them."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from ellipslice.checks import whole_number
from ellipslice.gp.arviz_groups import GROUPS, censored_responses, default_groups, only_function
from ellipslice.gp.conditional import DataPoints, compiled_draws
from ellipslice.gp.names import new_inputs, point_dimension, prediction_coords
from ellipslice.latent.fit_checks import FitChecks
from ellipslice.likelihoods import Likelihood
from ellipslice.likelihoods.arguments import without_label_warning
from ellipslice.result_parts import thinned

if TYPE_CHECKING:
    import xarray

    from ellipslice.bridge import LogEvidence
    from ellipslice.gp.model import LatentGP

DRAWS = 500
"""Default number of posterior draws for which predictions are made."""


class Fit(FitChecks):
    """Draws from the posterior of a model, with methods for predictions and plots; returned by `LatentGP.fit`.

    Attributes
    ----------
    tree : xarray.DataTree
        The result of `sample`. Group `posterior` contains the hyperparameters, and the latent functions at the inputs:
        f, or the names of the model's mapping, with dimensions (chain, draw, point).
    model : LatentGP
        The model.
    X : array, shape (n,) or (n, axes)
        Inputs of the data.
    y : array
        Data.

    Examples
    --------
    >>> import numpy as np
    >>> from tinygp import kernels
    >>> import ellipslice as es
    >>> x = np.arange(6.0)
    >>> y = 3 + np.sin(x)
    >>> model = es.gp.LatentGP(kernels.Matern52(2.0), lambda y: es.likelihoods.Gaussian(y, 0.1), mean=3.0)
    >>> fit = model.fit(x, y, draws=300, thin=10, seed=1)
    >>> fit
    Fit(LatentGP(f; hyperparameters: none), 6 points, 4 chains of 300 draws)
    >>> fit.tree.posterior.f.sizes["point"]
    6
    >>> predicted = fit.predict([1.5, 2.5])
    >>> sorted(predicted.data_vars)
    ['expected', 'latent', 'predictive']
    >>> predicted.expected.mean(("chain", "draw")).values.round()
    array([4., 4.])
    """

    _groups = GROUPS
    scattered = True
    """True if the maps of `plot` mark the inputs of the data as points. False for a Cox process."""

    def __init__(self, model: LatentGP, X: np.ndarray, y: Any, tree: xarray.DataTree):
        self.model, self.X, self.y, self.tree = model, X, y, tree

    @np.errstate(under="ignore")  # underflow to 0 is harmless here: tiny covariances and weights
    def predict(
        self, X: Any, *, draws: int = DRAWS, likelihood: Any = None, seed: int = 0, joint: bool = True
    ) -> xarray.Dataset:
        """Draw the latent functions and posterior predictive observations at new inputs.

        For each posterior draw, the latent functions at the new inputs are drawn given those at the data. The
        predictions therefore include the uncertainty in the hyperparameters, in f at the data, and in f elsewhere. At
        an input of the data they are the posterior draws themselves, except for kernels of scikit-learn.

        Parameters
        ----------
        X : array or data frame, shape (m,) or (m, axes)
            New inputs, with the same axes as the data. A data frame may have more columns than that of the data, in any
            order. The result has its index and these columns as coordinates of the points.
        draws : int
            Number of posterior draws to use: equally many of each chain, evenly spaced. Default: 500. It is rounded up
            to a multiple of the number of chains, and is at most the number of draws of the fit.
        likelihood : function, optional
            Likelihood at the new points, as a function of y. Default: that of the model. Needed if it depends on the
            point, for example a Poisson likelihood with an exposure for each one.
        seed : int
            Seed of the predictions. Default: 0.
        joint : bool
            Whether all new points are drawn jointly, at a cost of O(m^3). Default: True. False draws groups of 200
            points independently, at a cost of O(m): means and intervals of single points are still exact, but sums,
            maxima and other functions of many points are not.

        Returns
        -------
        xarray.Dataset
            Variables with dimensions (chain, draw, point): `latent`, or one per latent function, by name. For one
            latent function and a likelihood of `es.likelihoods` also `expected`, the mean of an observation given f
            (for labels the probability of +1), and `predictive`, posterior predictive draws of y.

        Raises
        ------
        ValueError
            If X has another number of axes than the data or not its columns, or the likelihood does not fit the new
            points; or, for new inputs that are not in the data, if there are more than 5,000 of them or of the data.
        """
        import xarray

        inputs = new_inputs(self, X)
        rng = np.random.default_rng(seed)
        posterior = self._thinned(draws)
        parameters = self._parameters(posterior)
        latents = np.stack([posterior[name].values for name in self.model.latents], axis=2)
        chains, kept = latents.shape[:2]
        flat = latents.reshape(chains * kept, *latents.shape[2:])
        data = DataPoints(self.model, self.X, self._compiled)
        drawn = data.draw_latents(inputs, parameters, flat, rng, joint)
        names = self.model.latents
        shape = (chains, kept, len(inputs))
        variables = {"latent" if names == ["f"] else name: drawn[:, i].reshape(shape) for i, name in enumerate(names)}
        for name, values in self._posterior_predictive(drawn, parameters, likelihood, rng).items():
            variables[name] = values.reshape(shape)
        coords = {"chain": posterior.chain, "draw": posterior.draw, **prediction_coords(self, X, inputs)}
        dims = ("chain", "draw", point_dimension(self.model, self.tree))
        return xarray.Dataset({name: (dims, value) for name, value in variables.items()}, coords)

    @np.errstate(under="ignore")
    def log_predictive_density(self, X: Any, y: Any, *, draws: int = DRAWS, seed: int = 0) -> np.ndarray:
        """Return the log predictive density of each held-out observation.

        The density of an observation is averaged over posterior draws. The model must have one latent function and a
        likelihood of `es.likelihoods`.

        Parameters
        ----------
        X : array, shape (m,) or (m, axes)
            Inputs of the held-out data.
        y : array, shape (m,)
            Held-out data.
        draws : int
            Number of posterior draws to use, as for `predict`. Default: 500.
        seed : int
            Seed of the predictions. Default: 0.

        Returns
        -------
        array, shape (m,)

        Raises
        ------
        TypeError
            If the model has several latent functions, or its likelihood is not one of `es.likelihoods`.
        """
        name = only_function(self)
        predicted = self.predict(X, draws=draws, seed=seed)
        f = predicted["latent" if name == "f" else name].values
        f = f.reshape(-1, f.shape[-1])
        values = self._parameters(self._thinned(draws))
        terms = np.stack([self._likelihood_of_draw(values, i, y).pointwise(row) for i, row in enumerate(f)])
        return np.logaddexp.reduce(terms, axis=0) - np.log(len(terms))

    def log_evidence(self, draws: int = 1000, seed: int = 0) -> LogEvidence:
        """Estimate the log marginal likelihood of the model, with hyperparameters and latent functions integrated out.

        Bridge sampling combines draws of the second half of the fit with draws of an approximation, which is fitted to
        the first half and has a known density. The likelihood must include all constants.

        Parameters
        ----------
        draws : int
            Number of posterior draws, at most half of those of the fit, and of draws of the approximation. At least
            100. Default: 1000.
        seed : int
            Seed of the draws of the approximation. Default: 0.

        Returns
        -------
        LogEvidence

        Raises
        ------
        ValueError
            If no hyperparameter is unknown, or the log-likelihood does not factorise over the elements of f.
        UnreliableEvidenceError
            If the draws do not determine log Z. The message states why.
        """
        from ellipslice.bridge.result import number_of_draws
        from ellipslice.gp.log_evidence import log_evidence

        return log_evidence(self, number_of_draws(draws), whole_number("seed", seed, 0))

    def plot(self, axes: Any = None, *, variable: str | None = None) -> Any:
        """Plot the fit: a curve with 50 % and 90 % intervals for one input axis, two maps for two.

        The maps show the posterior mean and the posterior standard deviation.

        Parameters
        ----------
        axes : matplotlib Axes, or a pair of them for two input axes; optional
            Axes of the plot. Default: a new figure.
        variable : str, optional
            Variable of `predict` to plot. Default: "expected" if there is one, otherwise "latent" or the first latent
            function.

        Returns
        -------
        matplotlib Axes, or a pair of them

        Raises
        ------
        ValueError
            If the inputs have more than two axes, or `predict` does not return the variable.
        """
        from ellipslice.gp.plot import plot

        return plot(self, axes, variable)

    @property
    def shown(self) -> np.ndarray:
        """Data as `plot` draws them, in the units of `expected`: labels -1 and +1 become 0 and 1."""
        y = np.asarray(self.y, dtype=float)
        return (y > 0) * 1.0 if set(np.unique(y)) <= {-1.0, 1.0} else y

    @property
    def hyperparameters(self) -> dict[str, list[str]]:
        """Components that each hyperparameter enters: {"length_scale": ["kernel"], "noise_scale": ["likelihood"]}."""
        return json.loads(self.tree.attrs.get("hyperparameters", "{}"))

    @property
    def parameter_moves(self) -> dict[str, float]:
        """Parametrisations that pilot runs compared, with their efficiency relative to the best one, between 0 and 1.

        The efficiency is the number of effective samples per factorisation. Empty if only one parametrisation was
        possible or if all hyperparameters of kernel and mean are known. `tree.attrs["parameter_moves"]` names those
        that were used.
        """
        attrs = {str(name): value for name, value in self.tree.attrs.items()}
        return {name.removeprefix("rate_of_"): value for name, value in attrs.items() if name.startswith("rate_of_")}

    @cached_property
    def _compiled(self) -> Callable[..., Any]:
        """Function that draws predictions, compiled once for each number of points."""
        return compiled_draws(self.model)

    def _default_groups(self) -> list[str]:
        return default_groups(self)

    def _censored(self) -> int:
        return censored_responses(self)

    def _thinned(self, draws: int) -> xarray.Dataset:
        return thinned(self.tree["posterior"].to_dataset(), draws)

    def _parameters(self, posterior: xarray.Dataset) -> dict[str, np.ndarray]:
        """Return the hyperparameters of all draws, chain after chain, with one leading axis."""
        found = {name: posterior[name].values for name in self.model.parameters.priors}
        return {name: value.reshape(-1, *value.shape[2:]) for name, value in found.items()}

    def _likelihood_of_draw(self, values: Mapping[str, np.ndarray], i: int, y: Any) -> Likelihood:
        with without_label_warning():
            built = self.model.likelihood({name: value[i] for name, value in values.items()}, y)
        if not isinstance(built, Likelihood):
            raise TypeError(f"the log-likelihood {built!r} has no pointwise values. Use a class of es.likelihoods.")
        return built

    def _posterior_predictive(
        self, drawn: np.ndarray, values: Mapping[str, np.ndarray], likelihood: Any, rng: np.random.Generator
    ) -> dict[str, np.ndarray]:
        """Return the mean of observations and draws of them, each of shape (draws, m); empty if not available."""
        if len(self.model.latents) > 1:
            return {}
        example = np.repeat(np.ravel(np.asarray(self.y))[:1], drawn.shape[-1])
        found: dict[str, list[np.ndarray]] = {"expected": [], "predictive": []}
        for i, f in enumerate(drawn[:, 0]):
            own = {name: value[i] for name, value in values.items()}
            try:
                with without_label_warning():
                    built = self.model.likelihood(own, example) if likelihood is None else likelihood(example)
            except ValueError as error:
                error.add_note(
                    "raised by the likelihood at the new points. If the likelihood depends on the point, give the one "
                    "for the new points: predict(X, likelihood=lambda y: Poisson(y, offset=...))."
                )
                raise
            if not isinstance(built, Likelihood):
                return {}
            found["expected"].append(built.expected(f))
            found["predictive"].append(built.simulate(f, rng))
        return {name: np.stack(rows) for name, rows in found.items()}

    def __repr__(self) -> str:
        sizes = self.tree["posterior"].sizes
        return f"Fit({self.model!r}, {len(self.X)} points, {sizes['chain']} chains of {sizes['draw']} draws)"
