"""A fitted model: draws of its latent functions and parameters, and what they say about new points."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from ellipslice.gp.conditional import PredictiveConditional, compiled_draws
from ellipslice.likelihoods import Likelihood
from ellipslice.likelihoods.arguments import without_label_warning
from ellipslice.priors.parts.features import as_inputs
from ellipslice.priors.parts.kernels import comes_from

if TYPE_CHECKING:
    import xarray

    from ellipslice.gp.model import LatentGP

DRAWS = 500
"""Of the posterior's draws that predictions are made for, unless asked for more."""


POINTS_PER_GROUP = 200
"""Number of points that are drawn together, if not all are."""


class Fit:
    """What `LatentGP.fit` returns.

    Attributes
    ----------
    tree : xarray.DataTree
        As `sample` returns it: group `posterior` holds the latent functions at the inputs (f, unless they have names)
        and the unknown parameters.
    model : LatentGP
    X, y : array
        The data.
    """

    scattered = True
    """Whether a map shows where the data are."""

    def __init__(self, model: LatentGP, X: np.ndarray, y: Any, tree: xarray.DataTree):
        self.model, self.X, self.y, self.tree = model, X, y, tree

    @np.errstate(under="ignore")  # products of small covariances, and small weights, are 0
    def predict(
        self, X: Any, *, draws: int = DRAWS, likelihood: Any = None, seed: int = 0, joint: bool = True
    ) -> xarray.Dataset:
        """The latent functions and new observations at new inputs.

        For each of the posterior's draws the latent functions there are drawn given those at the data, so that the
        spread of predictions holds all that is not known: about the parameters, about f, and about what f does between
        the data.

        Parameters
        ----------
        X : array, shape (m,) or (m, axes)
        draws : int
            How many to make, from as many of the posterior's draws, spread evenly over chains.
        likelihood : function, optional
            Takes y, as the model's `likelihood` does, and returns the observation model at the new points. Needed only
            where that depends on the point, such as a Poisson with an exposure for each.
        seed : int
        joint : bool
            False draws the points in groups of 200, each group by itself: means and intervals of each point are as
            good, and m points cost O(m) in place of O(m^3). What depends on many points, a sum or a maximum, needs
            True.

        Returns
        -------
        xarray.Dataset
            `latent` (or a variable of each latent function's name); and, for likelihoods of `es.likelihoods`,
            `expected`, what is observed on average (for labels the probability of +1), and `predictive`, new
            observations. Dimensions are (chain, draw, point).
        """
        import xarray

        inputs = as_inputs(X, "X")
        if inputs.ndim != self.X.ndim or inputs.shape[1:] != self.X.shape[1:]:
            raise ValueError(f"X has shape {inputs.shape}, but the model was fitted to inputs of shape {self.X.shape}.")
        rng = np.random.default_rng(seed)
        posterior = self._thinned(draws)
        parameters = self._parameters(posterior)
        latents = np.stack([posterior[name].values for name in self.model.latents], axis=2)
        chains, kept = latents.shape[:2]
        flat = latents.reshape(chains * kept, *latents.shape[2:])
        drawn = self._drawn(inputs, parameters, flat, rng, joint)
        names = self.model.latents
        shape = (chains, kept, len(inputs))
        variables = {"latent" if names == ["f"] else name: drawn[:, i].reshape(shape) for i, name in enumerate(names)}
        for name, seen in self._posterior_predictive(drawn, parameters, likelihood, rng).items():
            variables[name] = seen.reshape(shape)
        coords = {"chain": posterior.chain, "draw": posterior.draw}
        if inputs.size == len(inputs):
            coords["point"] = inputs.reshape(-1)
        return xarray.Dataset({name: (("chain", "draw", "point"), value) for name, value in variables.items()}, coords)

    @np.errstate(under="ignore")
    def log_predictive_density(self, X: Any, y: Any, *, draws: int = DRAWS, seed: int = 0) -> np.ndarray:
        """The logarithm of the predictive density of each of some new observations, as held-out data are scored.

        Needs one latent function and a likelihood of `es.likelihoods`.
        """
        predicted = self.predict(X, draws=draws, seed=seed)
        if len(self.model.latents) > 1:
            raise TypeError("log_predictive_density is for models of one latent function.")
        (name,) = self.model.latents
        f = predicted["latent" if name == "f" else name].values.reshape(-1, predicted.sizes["point"])
        values = self._parameters(self._thinned(draws))
        terms = np.stack([self._built(values, i, y).pointwise(row) for i, row in enumerate(f)])
        return np.logaddexp.reduce(terms, axis=0) - np.log(len(terms))

    def plot(self, axes: Any = None, *, what: str | None = None) -> Any:
        """Draw the fit: a function with its intervals where there is one input, two maps where there are two.

        Parameters
        ----------
        axes : matplotlib Axes, or for two inputs a pair of them; optional
        what : str, optional
            A variable of `predict`: "expected" if there is one, else "latent" or the first latent function.

        Returns
        -------
        axes, or a pair of them
        """
        from ellipslice.gp.plot import plot

        return plot(self, axes, what)

    def _drawn(
        self, inputs: np.ndarray, parameters: Mapping[str, np.ndarray], f: np.ndarray, rng: Any, joint: bool
    ) -> np.ndarray:
        """The latent functions at new inputs, (draws, latents, m). At an input of the data they are known."""
        known = self._among_data(inputs, parameters)
        drawn = f[..., np.maximum(known, 0)]
        unknown = np.flatnonzero(known < 0)
        ends = range(POINTS_PER_GROUP, len(unknown), POINTS_PER_GROUP)
        for where in [unknown] if joint else np.split(unknown, ends):
            if len(where):
                conditional = PredictiveConditional(self.model, self.X, inputs[where], self._compiled)
                drawn[..., where] = conditional.draw(parameters, f, rng)
        return drawn

    def _among_data(self, inputs: np.ndarray, parameters: Mapping[str, np.ndarray]) -> np.ndarray:
        """Which input of the data each new one is; -1 for none, and for all if the kernel may have noise of its own."""
        found = np.full(len(inputs), -1)
        first = {name: value[0] for name, value in parameters.items()}
        if all(comes_from(kernel(first), "tinygp") for kernel in self.model.kernels.values()):
            number = {point.tobytes(): i for i, point in reversed(list(enumerate(self.X + 0.0)))}
            found[:] = [number.get(point.tobytes(), -1) for point in inputs + 0.0]  # + 0.0: -0.0 is 0.0
        return found

    @property
    def shown(self) -> np.ndarray:
        """The data as pictures show them, in the units of `expected`: labels as 0 and 1."""
        y = np.asarray(self.y, dtype=float)
        return (y > 0) * 1.0 if set(np.unique(y)) <= {-1.0, 1.0} else y

    @property
    def hyperparameters(self) -> dict[str, list[str]]:
        """What each unknown parameter enters: {"length_scale": ["kernel"], "noise_scale": ["likelihood"]}, say."""
        return json.loads(self.tree.attrs.get("hyperparameters", "{}"))

    @property
    def parameter_moves(self) -> dict[str, float]:
        """How the kernel's parameters were moved: effective draws for the same work, of the best in pilot runs."""
        attrs = {str(name): value for name, value in self.tree.attrs.items()}
        return {name.removeprefix("rate_of_"): value for name, value in attrs.items() if name.startswith("rate_of_")}

    @cached_property
    def _compiled(self) -> Callable[..., Any]:
        """For predictions, compiled once for each number of points."""
        return compiled_draws(self.model)

    def _thinned(self, draws: int) -> xarray.Dataset:
        """Some of the draws, as many of each chain."""
        posterior = self.tree["posterior"].to_dataset()
        each = min(posterior.sizes["draw"], max(1, -(-draws // posterior.sizes["chain"])))
        return posterior.isel(draw=np.linspace(0, posterior.sizes["draw"] - 1, each).astype(int))

    def _parameters(self, posterior: xarray.Dataset) -> dict[str, np.ndarray]:
        """The unknown parameters of each draw, chain after chain."""
        found = {name: posterior[name].values for name in self.model.parameters.priors}
        return {name: value.reshape(-1, *value.shape[2:]) for name, value in found.items()}

    def _built(self, values: Mapping[str, np.ndarray], i: int, y: Any) -> Likelihood:
        with without_label_warning():
            built = self.model.likelihood({name: value[i] for name, value in values.items()}, y)
        if not isinstance(built, Likelihood):
            raise TypeError(f"the likelihood is a function of its own, {built!r}; expected one of es.likelihoods.")
        return built

    def _posterior_predictive(
        self, drawn: np.ndarray, values: Mapping[str, np.ndarray], likelihood: Any, rng: np.random.Generator
    ) -> dict[str, np.ndarray]:
        """What is observed on average, and new observations, as far as the likelihood can say."""
        if len(self.model.latents) > 1:
            return {}
        example = np.repeat(np.ravel(np.asarray(self.y))[:1], drawn.shape[-1])
        seen: dict[str, list[np.ndarray]] = {"expected": [], "predictive": []}
        for i, f in enumerate(drawn[:, 0]):
            mine = {name: value[i] for name, value in values.items()}
            try:
                with without_label_warning():
                    built = self.model.likelihood(mine, example) if likelihood is None else likelihood(example)
            except ValueError as error:
                error.add_note(
                    "raised by the likelihood at new points. If it depends on the point, say what it is there: "
                    "predict(X, likelihood=lambda y: Poisson(y, offset=...))."
                )
                raise
            if not isinstance(built, Likelihood):
                return {}
            seen["expected"].append(built.expected(f))
            seen["predictive"].append(built.simulate(f, rng))
        return {name: np.stack(rows) for name, rows in seen.items()}

    def __repr__(self) -> str:
        sizes = self.tree["posterior"].sizes
        return f"Fit({self.model!r}, {len(self.X)} points, {sizes['chain']} chains of {sizes['draw']} draws)"
