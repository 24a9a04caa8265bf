"""The groups of a fit that ArviZ reads: pointwise log-likelihood, predictive draws, data and inputs."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from ellipslice.gp.names import fitted_columns, point_dimension
from ellipslice.result_parts import thinned

if TYPE_CHECKING:
    import xarray

    from ellipslice.gp.fit import Fit


def log_likelihood(fit: Fit, draws: int | None, seed: int) -> xarray.Dataset:
    """Return the log-likelihood of each observation given the latent function, with dimensions (chain, draw, point)."""
    return _of_draws(fit, draws, lambda likelihood, f: likelihood.pointwise(f))


def posterior_predictive(fit: Fit, draws: int | None, seed: int) -> xarray.Dataset:
    """Return draws of observations given the latent function at the data."""
    rng = np.random.default_rng(seed)
    return _of_draws(fit, draws, lambda likelihood, f: likelihood.simulate(f, rng))


def observed_data(fit: Fit, draws: int | None, seed: int) -> xarray.Dataset:
    """Return the data as the likelihood stores them: labels are -1 and +1."""
    return _dataset(fit, np.asarray(_first_likelihood(fit).y), {})


def censored_responses(fit: Fit) -> int:
    """Return the number of observations that are censored survival times."""
    likelihood = _first_likelihood(fit)
    event = getattr(likelihood, "event", 1.0)
    return int((np.broadcast_to(event, np.shape(likelihood.y)) == 0).sum())


def _first_likelihood(fit: Fit) -> Any:
    """Return the likelihood of the data for the first draw."""
    posterior = fit.tree["posterior"].to_dataset()
    first = {name: values[:1] for name, values in fit._parameters(posterior).items()}
    return fit._likelihood_of_draw(first, 0, fit.y)


def constant_data(fit: Fit, draws: int | None, seed: int) -> xarray.Dataset:
    """Return the inputs: one variable, or one for each axis. A column of a data frame has its own name."""
    import xarray

    axes = fit.X.reshape(len(fit.X), -1).T
    names = fitted_columns(fit.tree) or [f"X{i}" for i in range(len(axes))]
    point = point_dimension(fit.model, fit.tree)
    # A coordinate cannot be a variable of the same group, so only the labels of the points are kept.
    labels = {name: values for name, values in _coords(fit).items() if name == point}
    return xarray.Dataset({name: ((point,), values) for name, values in zip(names, axes, strict=True)}, labels)


def default_groups(fit: Fit) -> list[str]:
    """Return the groups that `to_arviz` adds by default: only the inputs if the likelihood is a function."""
    try:
        observed_data(fit, None, 0)
        only_function(fit)
    except TypeError:
        return ["constant_data"]
    return list(GROUPS)


def _of_draws(fit: Fit, draws: int | None, compute: Callable[[Any, Any], Any]) -> xarray.Dataset:
    """Return values of all observations for each draw, from its likelihood and its latent function at the data."""
    posterior = fit.tree["posterior"].to_dataset()
    posterior = posterior if draws is None else thinned(posterior, draws)
    f = posterior[only_function(fit)].values
    parameters = fit._parameters(posterior)
    values = [
        compute(fit._likelihood_of_draw(parameters, i, fit.y), each)
        for i, each in enumerate(f.reshape(-1, f.shape[-1]))
    ]
    shaped = np.stack(values).reshape(*f.shape[:2], *np.shape(values[0]))
    return _dataset(fit, shaped, {"chain": posterior.chain, "draw": posterior.draw})


def only_function(fit: Fit) -> str:
    """Return the name of the latent function. Raise if there are several."""
    if len(fit.model.latents) > 1:
        raise TypeError(
            f"the model has the latent functions {', '.join(fit.model.latents)}. Values of single observations are for "
            "models with one latent function. Use predict, or fit.tree, and compute them from the draws."
        )
    return fit.model.latents[0]


def _dataset(fit: Fit, values: np.ndarray, sampled: dict[str, Any]) -> xarray.Dataset:
    """Return values with the name of the data, for points or other observations. `sampled`: chain and draw."""
    import xarray

    point, coords = point_dimension(fit.model, fit.tree), _coords(fit)
    name = getattr(fit.y, "name", None)
    name = name if isinstance(name, str) and name not in (*coords, point, "chain", "draw") else "y"
    own = values.shape[len(sampled) :]
    is_points = own == (len(fit.X),)
    dims = [point] if is_points else [f"{name}_dim_{i}" for i in range(len(own))]
    return xarray.Dataset({name: ((*sampled, *dims), values)}, {**(coords if is_points else {}), **sampled})


def _coords(fit: Fit) -> dict[str, Any]:
    """Return the coordinates of the points."""
    point = point_dimension(fit.model, fit.tree)
    found = fit.tree["posterior"].to_dataset()[fit.model.latents[0]].coords
    return {str(name): values for name, values in found.items() if values.dims == (point,)}


GROUPS: dict[str, Callable[[Any, int | None, int], Any]] = {
    "log_likelihood": log_likelihood,
    "posterior_predictive": posterior_predictive,
    "observed_data": observed_data,
    "constant_data": constant_data,
}
"""Functions of a fit, a number of draws and a seed, by the name of the group."""
