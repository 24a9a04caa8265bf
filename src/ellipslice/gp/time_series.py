"""Long time series with unknown hyperparameters, in linear time, by the sampler of latent Gaussian models."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

import jax
import numpy as np
from scipy.sparse import csr_array

from ellipslice.gp.components import LIKELIHOOD, Entered
from ellipslice.jax_settings import on_cpu
from ellipslice.latent.assembly import Assembly, Block
from ellipslice.latent.definition import Analyse
from ellipslice.latent.hyperparameters import Hyperparameters
from ellipslice.latent.joint import LatentPrior, Point
from ellipslice.latent.posterior import LatentPosterior
from ellipslice.latent.terms import Fixed
from ellipslice.latent.terms.kernel_states import KernelStates
from ellipslice.likelihoods import Likelihood, LinearPredictor
from ellipslice.likelihoods.arguments import without_label_warning
from ellipslice.parameters.joint import JointPrior
from ellipslice.parameters.named_arguments import ParameterFunction
from ellipslice.priors.parts.kernels import inputs_for, is_markov

if TYPE_CHECKING:
    from ellipslice.gp.model import LatentGP

FEWEST_INPUTS = 100
"""Number of inputs above which a time series with unknown hyperparameters is sampled in linear time."""

PROBED = 20
"""Largest number of times at which the dense kernel is evaluated, to recognise the model in a store."""

FARTHEST = 8.0
"""Prior standard deviations up to which a mean is compared with a linear function, so that a kink is found."""

KERNEL, MEAN = "kernel", "mean"


class LinearMean(NamedTuple):
    """A prior mean that is linear in hyperparameters with normal priors: offset + design @ x, with x ~ N(0, I)."""

    offset: np.ndarray
    design: np.ndarray
    normals: dict[str, tuple[float, float]]
    """Mean and standard deviation of each of these hyperparameters."""


class TimeSeries(NamedTuple):
    """A model of a long time series, as a latent Gaussian model."""

    posterior: LatentPosterior
    keep: KeepSeries
    structure: str
    entered: Entered


def time_series(model: LatentGP, inputs: np.ndarray, y: Any) -> TimeSeries | None:
    """Return a model as a time series with unknown hyperparameters; None if it is not a long one.

    The kernel must be quasi-separable, the likelihood one of `es.likelihoods`, and the mean linear in hyperparameters
    with normal priors. Each hyperparameter must enter one component, and be one number.
    """
    parameters = model.parameters
    if not is_long_series(model, inputs):
        return None
    entered = model.components.probe(inputs, y)
    middle = {name: float(value) for name, value in parameters.constrained(parameters.gaussian()[0]).items()}
    with without_label_warning():
        built = model.likelihood(middle, y)
    if not isinstance(built, Likelihood) or isinstance(built, LinearPredictor) or built.y.shape != (len(inputs),):
        return None
    if any(len(components) > 1 for components in entered.values()):
        return None
    of_kernel, of_mean, of_likelihood = (
        [name for name, (component,) in entered.items() if component.split()[0] == kind]
        for kind in (KERNEL, MEAN, LIKELIHOOD)
    )
    mean = _linear_mean(model, of_mean, inputs)
    if mean is None:
        return None
    model.likelihood(middle, y)  # warns about the data, once
    kernel, where = _kernel_at(model, inputs, of_kernel, {name: middle[name] for name in of_kernel})
    posterior = _posterior(model, kernel, where, mean, of_likelihood, y)
    (name,) = model.kernels
    structure = f"{name}: Markov in time, {len(kernel.inputs)} times, states of {kernel.states} elements"
    return TimeSeries(posterior, KeepSeries(posterior, name, list(parameters.priors), mean.normals), structure, entered)


def _posterior(
    model: LatentGP, kernel: KernelStates, where: np.ndarray, mean: LinearMean, of_likelihood: list[str], y: Any
) -> LatentPosterior:
    """Return the posterior of hyperparameters, states, and coefficients of the mean, which are last."""
    priors = model.parameters.priors
    blocks = [Block(csr_array(kernel.effect)[where], kernel.bases, np.zeros((0, kernel.bases.size)), dense=True)]
    terms: list[Any] = [_KernelTerm(kernel)]
    of_terms: dict[str, dict[str, Any]] = {KERNEL: {name: priors[name] for name in kernel.names}}
    if mean.normals:
        fixed = Fixed(mean.design, names=list(mean.normals), sd=1.0).bind()
        blocks.append(Block(fixed.rows(), fixed.bases, fixed.constraints))
        terms.append(fixed)
        of_terms[MEAN] = {}
    hyperparameters = Hyperparameters(of_terms, {name: priors[name] for name in of_likelihood})
    make_likelihood = _MakeLikelihood(model.likelihood, y)
    return LatentPosterior(Assembly(blocks, mean.offset), terms, hyperparameters, make_likelihood, Analyse("numba"))


def is_long_series(model: LatentGP, inputs: np.ndarray) -> bool:
    """Return whether a model has one quasi-separable kernel, many times, and no array among its hyperparameters."""
    parameters = model.parameters
    if len(model.kernels) > 1 or len(inputs) <= FEWEST_INPUTS or inputs.size != len(inputs):
        return False
    if parameters.elements != tuple(parameters.priors):
        return False
    middle = parameters.constrained(parameters.gaussian()[0]) if parameters.size else {}
    (kernel,) = model.kernels.values()
    return is_markov(kernel(middle))


def check_series_options(engine: str | None, parameter_moves: Any) -> None:
    """Raise for options that a long time series with unknown hyperparameters does not have."""
    for name, value, allowed in (("engine", engine, (None, "host")), ("parameter_moves", parameter_moves, (None,))):
        if value not in allowed:
            raise ValueError(
                f"{name}={value!r} was given, but a time series of more than {FEWEST_INPUTS} inputs with unknown "
                f"hyperparameters has its own sampler, on the host. Leave {name} out."
            )


def draw_series(
    model: LatentGP, old: np.ndarray, new: np.ndarray, parameters: Mapping[str, np.ndarray], f: np.ndarray, rng: Any
) -> np.ndarray:
    """Draw a long time series at new times given its values f at old ones, shape (draws, old), in linear time.

    `parameters` have a leading axis of draws; they are empty if all hyperparameters are known.
    """
    draws = [{name: value[i] for name, value in parameters.items()} for i in range(len(f))]
    kernel, where = _kernel_at(model, old, list(parameters), draws[0])
    times, rows = np.unique(new.reshape(-1), return_inverse=True)
    (mean,) = model.means.values()
    means = [np.stack([_mean_at(mean, each, inputs) for each in draws]) for inputs in (old, new)]
    effects = np.empty((len(f), len(kernel.inputs)))
    effects[:, where] = f - means[0]
    return means[1] + kernel.conditional(draws, times, effects, rng)[:, np.ravel(rows)]


class SeriesPrior(LatentPrior):
    """The joint prior of a time series, which a store recognises by what it keeps of a dense model, too."""

    def __init__(self, posterior: LatentPosterior, model: LatentGP, inputs: np.ndarray):
        super().__init__(posterior, repr(model))
        times = np.unique(inputs, axis=0)
        model.joint.factors.probe(times[:: 1 + len(times) // PROBED])
        self._joint = JointPrior(model.joint, inputs)

    def stored(self) -> list[Any]:
        """Return what a store keeps to recognise another model."""
        return [*super().stored(), *self._joint.stored()]


jax.tree_util.register_static(SeriesPrior)


class KeepSeries:
    """The argument `keep` of `sample`: hyperparameters and the latent function, by name.

    Parameters
    ----------
    posterior : LatentPosterior
    latent : str
        Name of the latent function.
    order : list of str
        Names of all hyperparameters.
    normals : mapping of str to (float, float)
        Means and standard deviations of hyperparameters of the mean, which are at the end of the latents.
    """

    def __init__(
        self, posterior: LatentPosterior, latent: str, order: list[str], normals: Mapping[str, tuple[float, float]]
    ):
        self._posterior, self._latent, self._order, self._normals = posterior, latent, order, dict(normals)

    def __call__(self, flat: np.ndarray) -> dict[str, Any]:
        """Return what is stored of one point, by name."""
        return {name: values[0] for name, values in self.of_rows(flat[None]).items()}

    def of_rows(self, flat: np.ndarray) -> dict[str, np.ndarray]:
        """Return what is stored of several points, shape (draws, size)."""
        hyperparameters, assembly = self._posterior.hyperparameters, self._posterior.assembly
        u, _, x = Point.split(flat, hyperparameters.size)
        found = hyperparameters.parameters.constrained_rows(u) if hyperparameters.size else {}
        values = {public_name(name): value for name, value in found.items()}
        last = x[:, x.shape[1] - len(self._normals) :]
        for column, (name, (centre, sd)) in zip(last.T, self._normals.items(), strict=True):
            values[name] = centre + sd * column
        f = assembly.offset + (assembly.A @ x.T).T
        return {**{name: values[name] for name in self._order}, self._latent: f}


def public_name(name: str) -> str:
    """Return the user's name of a hyperparameter of the latent Gaussian model."""
    return name.removeprefix(f"{KERNEL}_")


class _KernelTerm:
    """A kernel as a term of `LatentPosterior`."""

    def __init__(self, kernel: KernelStates):
        self._kernel = kernel

    def coefficients(self, **hyperparameters: float) -> np.ndarray:
        return self._kernel.coefficients(hyperparameters)

    def log_determinant(self, **hyperparameters: float) -> float:
        return self._kernel.log_determinant(hyperparameters)


class _MakeLikelihood:
    """Function from hyperparameters to the likelihood of the data."""

    def __init__(self, function: ParameterFunction, y: Any):
        self._function, self._y = function, y

    def __call__(self, **values: float) -> Likelihood:
        with without_label_warning():
            return self._function(values, self._y)


def _kernel_at(
    model: LatentGP, inputs: np.ndarray, names: list[str], values: Mapping[str, Any]
) -> tuple[KernelStates, np.ndarray]:
    """Return the states of the kernel at the distinct times, and the index of each input's time."""
    (function,) = model.kernels.values()
    times, where = np.unique(inputs_for(function(values), inputs), return_inverse=True)
    kernel = KernelStates(function, names, times)
    kernel.probe(values)
    return kernel, np.ravel(where)


def _mean_at(mean: Any, values: Mapping[str, Any], inputs: np.ndarray) -> np.ndarray:
    with on_cpu():
        found = mean(values, X=inputs) if isinstance(mean, ParameterFunction) else mean
        return np.asarray(found, dtype=np.float64) + np.zeros(len(inputs))


def _linear_mean(model: LatentGP, names: list[str], inputs: np.ndarray) -> LinearMean | None:
    """Return the prior mean if it is linear in hyperparameters with normal priors; otherwise None."""
    from numpyro.distributions import Normal

    priors = [model.parameters.priors[name] for name in names]
    if not all(isinstance(prior, Normal) for prior in priors):
        return None
    normals = {name: (float(prior.loc), float(prior.scale)) for name, prior in zip(names, priors, strict=True)}
    (mean,) = model.means.values()

    def at(x: np.ndarray) -> np.ndarray:
        values = {name: centre + sd * each for each, (name, (centre, sd)) in zip(x, normals.items(), strict=True)}
        return _mean_at(mean, values, inputs)

    offset = at(np.zeros(len(names)))
    design = np.column_stack([at(row) - offset for row in np.eye(len(names))]) if names else np.zeros((len(offset), 0))
    some, far = np.random.default_rng(0).standard_normal((3, len(names))), FARTHEST * np.eye(len(names))
    for x in np.concatenate([some, far, -far]):
        expected = offset + design @ x
        if not np.allclose(at(x), expected, rtol=1e-9, atol=1e-9 * np.abs(design).max(initial=0.0)):
            return None
    return LinearMean(offset, design, normals) if design.any(axis=0).all() else None
