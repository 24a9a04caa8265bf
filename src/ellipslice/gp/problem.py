"""From a model and data to what `sample` takes: prior, log-likelihood and labels; and what is said of the result."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from concurrent.futures import Executor
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from ellipslice.gp.places import LIKELIHOOD, Enters
from ellipslice.gp.structure import MAX_DENSE, of_latents, prior_from_kernel
from ellipslice.parameters.choose_parametrisation import ChosenMove, JointPosterior
from ellipslice.parameters.joint import JointPrior
from ellipslice.parameters.joint_update import JointUpdate
from ellipslice.parameters.named_arguments import ParameterFunction
from ellipslice.parameters.point_likelihood import PointLikelihood
from ellipslice.sampling import Until, sample

if TYPE_CHECKING:
    import xarray

    from ellipslice.gp.model import LatentGP


class SampleOptions(NamedTuple):
    """Options of a fit that are those of `sample`."""

    draws: int | None
    warmup: int
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


class Problem(NamedTuple):
    """What is sampled, but for the move."""

    log_likelihood: Any
    prior: Any
    keep: Callable[..., Any] | None
    dims: dict[str, list[str]]
    coords: dict[str, Any]
    structure: str
    """The structure of the prior, in words."""
    engine: str | None = None
    """The engine that it needs; None for any."""
    joint: JointPosterior | None = None
    """The posterior of hyperparameters and latent functions; None if all hyperparameters are known."""
    entered: Enters = {}  # noqa: RUF012  nobody changes it

    def sample(self, options: SampleOptions, chosen: ChosenMove | None, initial: Any) -> xarray.DataTree:
        """Run the chains: with the chosen move and starts, if hyperparameters are unknown."""
        return sample(
            self.log_likelihood, self.prior, move=chosen and chosen.move, initial=initial, keep=self.keep,
            dims=self.dims, coords=self.coords, **options._asdict(),
        )  # fmt: skip


def problem_of(model: LatentGP, inputs: np.ndarray, y: Any) -> Problem:
    """Return the problem of a model and data."""
    return _with_unknown(model, inputs, y) if model.parameters.size else _with_known(model, inputs, y)


def _with_known(model: LatentGP, inputs: np.ndarray, y: Any) -> Problem:
    """Return the problem of a model whose hyperparameters are all known."""
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
    structure = "; ".join(f"{name}: {part.said}" for name, part in parts.items())
    return Problem(function, prior, None if in_order else keep, *_labels(list(parts), inputs), structure)


def _mean_at(mean: Any, inputs: np.ndarray) -> Any:
    return np.asarray(mean({}, X=inputs)) if isinstance(mean, ParameterFunction) else mean


def _with_unknown(model: LatentGP, inputs: np.ndarray, y: Any) -> Problem:
    """Return the problem of a model with unknown hyperparameters."""
    if len(inputs) > MAX_DENSE:
        raise ValueError(
            f"there are {len(inputs)} inputs, and with unknown parameters of the kernel at most {MAX_DENSE} are taken."
        )
    joint, parameters, names = model.joint, model.parameters, model.latents
    entered = model.places.probe(inputs, y)
    of_kernel = {name for name, places in entered.items() if places != [LIKELIHOOD]}
    joint.factors.probe(inputs)
    log_likelihood, prior = PointLikelihood(model.likelihood, joint, y, len(inputs)), JointPrior(joint, inputs)

    def keep(x: Any) -> dict[str, Any]:
        u, _, f = joint.split(x, len(inputs))
        values = parameters.constrained(u) if isinstance(u, np.ndarray) else parameters.constrain(u)
        return {**values, **dict(zip(names, f, strict=True))}

    return Problem(
        log_likelihood,
        prior,
        keep,
        *_labels(names, inputs),
        f"dense, {len(inputs)} values, factorised for each value of the parameters",
        None if joint.factors.traceable else "host",
        JointPosterior(
            prior,
            log_likelihood,
            tuple(parameters.where(of_kernel).tolist()),
            tuple(parameters.where(set(parameters.priors) - of_kernel).tolist()),
        ),
        entered,
    )


def _labels(latents: list[str], inputs: np.ndarray) -> tuple[dict[str, list[str]], dict[str, Any]]:
    """Return dims and coords: latent functions are numbered by points; with one axis, points are labelled by inputs."""
    coords = {"point": inputs.reshape(-1)} if inputs.size == len(inputs) else {}
    return {name: ["point"] for name in latents}, coords


def describe_result(
    tree: xarray.DataTree, structure: str, entered: Enters, move: JointUpdate | None
) -> xarray.DataTree:
    """Return the result with the attributes of a fit."""
    tree.attrs["prior_structure"] = structure
    if move is None:
        return tree
    settings = move.settings
    if settings.pivots is not None:
        widths = " or ".join(map(str, settings.pivots.widths))
        tree.attrs["prior_structure"] += f"; with {widths} columns where these are enough"
    tree.attrs["hyperparameters"] = json.dumps(entered)  # as text, which NetCDF can hold, too
    tree.attrs["parameter_moves"] = " and ".join(move.used) or "f fixed"
    tree.attrs |= {f"rate_of_{name}": rate for name, rate in zip(move.parametrisations, settings.rates, strict=False)}
    return tree
