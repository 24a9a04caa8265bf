"""Turn a model and data into the arguments of `sample`, and add the attributes of a fit to the result."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from concurrent.futures import Executor
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from ellipslice.engines.threads import limit_blas_threads
from ellipslice.gp.components import LIKELIHOOD, Entered
from ellipslice.gp.structure import MAX_DENSE, of_latents, prior_from_kernel
from ellipslice.gp.time_series import SeriesPrior, TimeSeries, check_series_options, time_series
from ellipslice.latent.joint import PointLikelihood as SeriesLikelihood
from ellipslice.latent.pilot import Pilot, run_pilot
from ellipslice.latent.posterior import LatentPosterior
from ellipslice.latent.update import LatentUpdate
from ellipslice.machine import available_cores
from ellipslice.parameters import choose_parametrisation as pilot
from ellipslice.parameters.joint import JointModel, JointPrior
from ellipslice.parameters.joint_update import JointUpdate
from ellipslice.parameters.named_arguments import ParameterFunction
from ellipslice.parameters.point_likelihood import PointLikelihood
from ellipslice.sampling import Until, sample
from ellipslice.sampling.arguments import chain_indices, check_draw_limit

if TYPE_CHECKING:
    import xarray

    from ellipslice.gp.model import LatentGP


WARMUP, WARMUP_OF_SERIES = 500, 50
"""Default numbers of updates that are discarded. Chains of long time series start near the posterior."""


class SampleOptions(NamedTuple):
    """Options of a fit that `sample` takes, too."""

    draws: int | None
    warmup: int | None
    chains: int
    seed: int
    thin: int
    until: Until | None
    engine: str | None
    reference: Any
    store: str | os.PathLike[str] | None
    executor: Executor | Callable[[], Executor] | None
    timeout: float | None
    progress: bool
    dims: dict[str, list[str]]
    coords: dict[str, Any]


class Problem(NamedTuple):
    """The arguments of `sample` for a model and data, except the move and the options."""

    log_likelihood: Any
    prior: Any
    keep: Callable[..., Any] | None
    structure: str
    """Description of the prior's structure, for example "f: dense, 12 values"."""
    engine: str | None = None
    """The engine that the model requires. None: any."""
    joint: pilot.JointPosterior | None = None
    """The posterior of hyperparameters and latent functions; None if all are known, or for a long time series."""
    entered: Entered = {}  # noqa: RUF012  (never modified)
    """The components of each hyperparameter."""
    series: LatentPosterior | None = None
    """The posterior of a long time series with unknown hyperparameters."""

    def sample(self, options: SampleOptions, chosen: pilot.ChosenMove | Pilot | None, initial: Any) -> xarray.DataTree:
        """Run the chains and return the draws, with the move and the initial points of the pilot runs, if any."""
        default = WARMUP if self.series is None else WARMUP_OF_SERIES
        options = options._replace(warmup=default if options.warmup is None else options.warmup)
        return sample(
            self.log_likelihood, self.prior, move=chosen and chosen.move, initial=initial, keep=self.keep,
            **options._asdict(),
        )  # fmt: skip


def check_options(model: LatentGP, reference: Any, parameter_moves: Any) -> None:
    """Raise for options that a model with, or without, unknown hyperparameters does not have."""
    if not model.parameters.size and parameter_moves is not None:
        raise ValueError(
            f"parameter_moves={parameter_moves!r} is for unknown hyperparameters, but the model has none. Leave it "
            "out, or give hyperparameters with their priors in parameters."
        )
    if model.parameters.size and reference is not None:
        raise ValueError(
            "reference is for models whose hyperparameters are all known, but this one has "
            f"{', '.join(model.parameters.priors)}. Leave reference out."
        )


def problem_of(model: LatentGP, inputs: np.ndarray, y: Any) -> Problem:
    """Return the arguments of `sample` for a model and data."""
    if not model.parameters.size:
        return _with_known(model, inputs, y)
    series = time_series(model, inputs, y)
    return _with_unknown(model, inputs, y) if series is None else _of_series(model, inputs, series)


def choose_move(
    problem: Problem, options: SampleOptions, parametrisations: tuple[str, ...] | None, latent_updates: int
) -> tuple[pilot.ChosenMove | Pilot | None, np.ndarray | None]:
    """Return the move and the initial points that pilot runs find; None if all hyperparameters are known."""
    if problem.joint is None and problem.series is None:
        return None, None
    indices = chain_indices(options.chains)  # invalid options must raise before the pilot runs, not after them
    check_draw_limit(options.draws, options.until)
    seed = int(np.random.SeedSequence(options.seed).spawn(1)[0].generate_state(1)[0])  # differs from that of the chains
    if problem.series is not None:
        check_series_options(options.engine, parametrisations)
        with limit_blas_threads(available_cores()):
            found = run_pilot(problem.series, seed)
        return found, found.starts(seed, indices)
    assert problem.joint is not None  # noqa: S101
    chosen = pilot.choose_parametrisation(
        problem.joint,
        pilot.PilotOptions(parametrisations, latent_updates, seed, options.engine, options.executor, options.timeout),
    )
    return chosen, chosen.starts(seed, indices)


def _with_known(model: LatentGP, inputs: np.ndarray, y: Any) -> Problem:
    """Return the arguments of `sample` if all hyperparameters are known."""
    log_likelihood = model.likelihood({}, y)
    parts = {
        name: prior_from_kernel(kernel({}), inputs, _mean_at(model.means[name], inputs))
        for name, kernel in model.kernels.items()
    }
    function, prior = of_latents(parts, log_likelihood)

    def keep(*f: Any, **latents: Any) -> dict[str, Any]:
        latents = {"f": f[0]} if f else latents
        return {name: parts[name].pick(value) for name, value in latents.items()}

    in_order = all(part.where is None and part.prior.shape == (len(inputs),) for part in parts.values())
    structure = "; ".join(f"{name}: {part.description}" for name, part in parts.items())
    return Problem(function, prior, None if in_order else keep, structure)


def _mean_at(mean: Any, inputs: np.ndarray) -> Any:
    return np.asarray(mean({}, X=inputs)) if isinstance(mean, ParameterFunction) else mean


def _with_unknown(model: LatentGP, inputs: np.ndarray, y: Any) -> Problem:
    """Return the arguments of `sample` for a model with unknown hyperparameters."""
    if len(inputs) > MAX_DENSE:
        raise ValueError(
            f"there are {len(inputs)} inputs, but a dense model with unknown hyperparameters takes at most "
            f"{MAX_DENSE}. Time series can be longer, with one kernel of tinygp.kernels.quasisep, a likelihood of "
            "es.likelihoods, and a mean that is linear in hyperparameters with normal priors. Otherwise use fewer "
            "inputs, fix all hyperparameters, or use es.LatentGaussianModel with the term es.terms.GP."
        )
    joint, parameters = model.joint, model.parameters
    entered = model.components.probe(inputs, y)
    of_kernel = {name for name, components in entered.items() if components != [LIKELIHOOD]}
    joint.factors.probe(inputs)
    log_likelihood, prior = PointLikelihood(model.likelihood, joint, y, len(inputs)), JointPrior(joint, inputs)

    return Problem(
        log_likelihood,
        prior,
        KeepPoint(joint, len(inputs)),
        f"dense, {len(inputs)} values, factorised for each value of the hyperparameters",
        None if joint.factors.traceable else "host",
        pilot.JointPosterior(
            prior,
            log_likelihood,
            tuple(parameters.where(of_kernel).tolist()),
            tuple(parameters.where(set(parameters.priors) - of_kernel).tolist()),
        ),
        entered,
    )


def _of_series(model: LatentGP, inputs: np.ndarray, series: TimeSeries) -> Problem:
    """Return the arguments of `sample` for a long time series with unknown hyperparameters."""
    posterior = series.posterior
    log_likelihood, prior = SeriesLikelihood(posterior), SeriesPrior(posterior, model, inputs)
    return Problem(log_likelihood, prior, series.keep, series.structure, "host", None, series.entered, posterior)


class KeepPoint:
    """The argument `keep` of `sample`: the hyperparameters and latent functions of a flat vector x.

    Parameters
    ----------
    joint : JointModel
    count : int
        Number of inputs.
    """

    def __init__(self, joint: JointModel, count: int):
        self._joint, self._count = joint, count

    def __call__(self, x: Any) -> dict[str, Any]:
        """Return what is stored of one x, by name."""
        u, _, f = self._joint.split(x, self._count)
        parameters = self._joint.parameters
        values = parameters.constrained(u) if isinstance(u, np.ndarray) else parameters.constrain(u)
        return {**values, **dict(zip(self._joint.latents, f, strict=True))}

    def of_rows(self, x: np.ndarray) -> dict[str, np.ndarray]:
        """Return what is stored of several x, shape (count, size), as `__call__` returns it for each of them."""
        parameters, width = self._joint.parameters, len(self._joint.latents) * self._count
        f = x[:, parameters.size + width :].reshape(len(x), len(self._joint.latents), self._count)
        values = parameters.constrained_rows(x[:, : parameters.size])
        return {**values, **{name: f[:, i].copy() for i, name in enumerate(self._joint.latents)}}


def describe_result(
    tree: xarray.DataTree, structure: str, entered: Entered, move: JointUpdate | LatentUpdate | None
) -> xarray.DataTree:
    """Add the attributes of a fit to the result, and return it."""
    tree.attrs["prior_structure"] = structure
    if move is None:
        return tree
    tree.attrs["hyperparameters"] = json.dumps(entered)  # as text, because NetCDF has no mappings
    if isinstance(move, LatentUpdate):
        return tree
    settings = move.settings
    if settings.pivots is not None:
        widths = " or ".join(map(str, settings.pivots.widths))
        tree.attrs["prior_structure"] += f"; with {widths} columns where these are enough"
    tree.attrs["parameter_moves"] = " and ".join(move.used) or "f fixed"
    tree.attrs |= {f"rate_of_{name}": rate for name, rate in zip(move.parametrisations, settings.rates, strict=False)}
    return tree
