"""Check the arguments of `evidence`, and choose the engine that evaluates the log-likelihood."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from ellipslice.checks import is_number, whole_number
from ellipslice.engines.base import Engine
from ellipslice.engines.choose import choose_engine
from ellipslice.engines.workers.engine import WorkersEngine
from ellipslice.engines.workers.pool import Workers
from ellipslice.moves import EllipticalSlice
from ellipslice.noise import start_generator
from ellipslice.posterior import Posterior
from ellipslice.priors import TruncatedGaussian
from ellipslice.sampling.arguments import check_timeout
from ellipslice.sampling.initial_states import first_draw
from ellipslice.sampling.likelihood_checks import warn_if_not_deterministic, warn_if_prior_counted_twice

MIN_LIVE_POINTS = 8
"""Smallest number of live points of each replicate of nested sampling."""


METHODS = "auto", "tempered", "nested"
"""Values of the argument `method`."""


class PathSettings(NamedTuple):
    """Arguments of `evidence` that only the tempered method uses, with their defaults."""

    reference: str | None = "auto"
    target_effective_fraction: float = 0.8
    updates_per_temperature: int | None = None
    check: bool = True


class EvidenceProblem(NamedTuple):
    """Parts that both methods share: the model, its engine, the seed and the numbers of particles and replicates."""

    posterior: Posterior
    engine: Engine
    seed: int
    particles: int
    replicates: int


def check_arguments(
    prior: Any, particles: Any, replicates: Any, settings: PathSettings, method: Any, engine: Any
) -> None:
    """Raise if an argument of `evidence` cannot be used."""
    if method not in METHODS:
        raise ValueError(f'method must be "auto", "tempered" or "nested", but it is {method!r}.')
    whole_number("particles", particles, 8)
    whole_number("replicates", replicates, 4)
    least = MIN_LIVE_POINTS if method == "nested" else 2
    if particles % replicates or particles < least * replicates:
        raise ValueError(
            f"{replicates} replicates cannot share {particles} particles equally. Use a multiple of {replicates}, at "
            f"least {least * replicates}."
        )
    _check_settings(settings, method)
    if engine not in (None, "batched", "host"):
        raise ValueError(f'engine must be "batched", "host" or None (automatic), but it is {engine!r}.')
    if isinstance(prior, TruncatedGaussian):
        raise TypeError(
            "the prior is a TruncatedGaussian, whose normalising constant is unknown. Use its Gaussian, prior.prior, "
            "with a log-likelihood that is -inf where a constraint is violated. Then compute log Z of the constraints "
            "alone in the same way (log-likelihood 0 or -inf), and subtract it to get log Z under the truncated prior."
        )


def _check_settings(settings: PathSettings, method: str) -> None:
    """Raise if a setting of the tempered method is invalid, or if it is given for nested sampling."""
    reference, fraction, updates, _ = settings
    if updates is not None:
        whole_number("updates_per_temperature", updates, 1)
    if not is_number(fraction) or not 0 < fraction < 1:
        raise ValueError(f"target_effective_fraction must be a number between 0 and 1, but it is {fraction!r}.")
    if reference not in (None, "auto", "laplace", "ep"):
        raise ValueError(f'reference must be "auto", "laplace", "ep" or None, but it is {reference!r}.')
    defaults = PathSettings()
    given = [name for name, value in settings._asdict().items() if value not in (None, getattr(defaults, name))]
    if method == "nested" and given:
        raise ValueError(f'{given[0]} is an option of the tempered method. Leave it out with method="nested".')


def check_workers(executor: Any, timeout: Any, vectorized: bool | None) -> None:
    """Raise if `timeout` is not valid, or if workers are given and particles must be evaluated in one batch."""
    check_timeout(timeout, executor)
    if executor is not None and vectorized:
        raise ValueError(
            "vectorized=True passes all particles to one call, but executor passes them one by one to its workers. "
            "Use only one of the two."
        )


def choose_evidence_engine(posterior: Posterior, name: str | None, seed: int, workers: Workers | None) -> Engine:
    """Return the engine that evaluates the log-likelihood. Warn if it is random or seems to contain the prior."""
    trial = first_draw(posterior, start_generator(seed, 0))
    engine, _ = choose_engine(posterior, name, trial, EllipticalSlice())
    if workers is not None:
        engine = _with_workers(engine, workers, trial)
    value = engine.evaluate(trial)
    if np.isfinite(value):
        warn_if_not_deterministic(value, engine.evaluate(trial), "a second time")
    warn_if_prior_counted_twice(engine)
    return engine


def _with_workers(engine: Engine, workers: Workers, trial: np.ndarray) -> Engine:
    """Return an engine that evaluates on workers. Raise if JAX can trace the log-likelihood."""
    if engine.traced:
        raise ValueError(
            "executor is for log-likelihoods that JAX cannot trace. It can trace this one, so compiled code in this "
            'process moves all particles. Leave executor out, or set engine="host".'
        )
    return WorkersEngine(engine, workers, trial)
