"""`evidence`: the log marginal likelihood log Z of a model, with a standard error."""

from __future__ import annotations

import secrets
import time
from collections.abc import Callable
from concurrent.futures import Executor
from typing import Any

import numpy as np

from ellipslice.approximations import fit_reference
from ellipslice.approximations.fit import factorise_likelihood
from ellipslice.approximations.sites import SitesReference, has_covariance_factor
from ellipslice.checks import is_number, whole_number
from ellipslice.engines.base import Engine
from ellipslice.engines.choose import choose_engine
from ellipslice.engines.workers.engine import WorkersEngine
from ellipslice.engines.workers.pool import Workers, open_workers
from ellipslice.jax_settings import jax_settings, on_cpu
from ellipslice.marginal.annealing import SequentialResult, systematic_rows
from ellipslice.marginal.particle_moves import PARTICLES_PER_GROUP
from ellipslice.marginal.particle_runs import ParticleRuns
from ellipslice.marginal.result import Evidence, compare_with_annealing, log_mean, warn_if_unreliable
from ellipslice.marginal.target import AnnealedTarget, target_from_prior, target_from_reference
from ellipslice.moves import EllipticalSlice
from ellipslice.noise import generator, start_generator
from ellipslice.posterior import Posterior
from ellipslice.priors import Prior, TruncatedGaussian
from ellipslice.sampling.arguments import check_timeout
from ellipslice.sampling.initial_states import first_draw
from ellipslice.sampling.likelihood_checks import warn_if_not_deterministic, warn_if_prior_counted_twice


def evidence(
    log_likelihood: Callable[..., Any],
    prior: Prior,
    *,
    particles: int = 1000,
    replicates: int = 10,
    reference: str | None = "auto",
    target_effective_fraction: float = 0.8,
    updates_per_temperature: int | None = None,
    check: bool = True,
    seed: int | None = None,
    engine: str | None = None,
    vectorized: bool | None = None,
    executor: Executor | Callable[[], Executor] | None = None,
    timeout: float | None = None,
) -> Evidence:
    """Estimate the log marginal likelihood (log evidence), log Z, with a standard error.

    Z is the integral of N(f; m, Sigma) L(f) over f. Use it to compare models of the same data, for example kernels or
    length scales: the difference of two log Z is the logarithm of the Bayes factor. `es.approximate_evidence` is faster
    for many models, but has no standard error.

    Parameters
    ----------
    log_likelihood : callable
        Log-likelihood, as for `sample`, including all normalising constants: log Z depends on them. It may return -inf
        where the likelihood is zero. NaN counts as a likelihood of zero.
    prior : Prior
        Prior of f. A `TruncatedGaussian` raises, because its normalising constant is unknown.
    particles : int
        Total number of particles. At least 8, and a multiple of `replicates`. Default: 1000. The standard error is
        roughly proportional to 1 / sqrt(particles), and the time to `particles`.
    replicates : int
        Number of independent groups of particles, whose spread gives the standard error. At least 4, with at least
        2 particles each. Default: 10.
    reference : {"auto", "laplace", "ep"} or None
        Gaussian that the particles are first drawn from. Default: "auto".

        - "laplace", "ep": the Laplace approximation of the posterior, or that of expectation propagation. This needs
          fewer steps and gives a smaller error, above all for informative data. The log-likelihood must be written with
          `jax.numpy` and factorise over the elements of f.
        - None: the prior. Slower, and safer if the posterior may have several modes.
        - "auto": "ep" if it is possible and the log-likelihood is known to be log-concave, so that there is one mode;
          otherwise the prior.
    target_effective_fraction : float
        Fraction of the particles that stays effective from one inverse temperature to the next. Between 0 and 1.
        Default: 0.8. A larger fraction gives more steps.
    updates_per_temperature : int, optional
        Number of updates of every particle at each inverse temperature. At least 1. Default: chosen by the pilot run,
        which increases it until the correlation of the log-likelihoods before and after is at most 0.1, up to 400.
    check : bool
        Whether to estimate log Z by annealed importance sampling, too. Default: True. It takes about as long again.
    seed : int, optional
        Seed of all random numbers, at least 0. Default: a random one, which is stored in the result.
    engine : {"batched", "host"}, optional
        "batched" runs compiled code, on a GPU if JAX has one; "host" accepts any Python function. Default: "batched" if
        JAX can trace the log-likelihood and draw from the prior, otherwise "host".
    vectorized : bool, optional
        True if the log-likelihood accepts a batch of latents, as for `sample`. Default: its attribute `vectorized`, or
        False.
    executor : concurrent.futures.Executor or callable, optional
        Workers that evaluate the log-likelihood of all particles in parallel, as for `sample`, if JAX cannot trace it.
        The estimate is bit-identical with and without workers.
    timeout : float, optional
        Seconds without an answer from any worker after which TimeoutError is raised. Above 0. Default: no limit.

    Returns
    -------
    Evidence
        `log_z`, `standard_error`, the estimate by annealed importance sampling, draws from the posterior, and
        statistics of the run. `print` shows both estimates.

    Raises
    ------
    TypeError, ValueError
        If an argument is invalid, if the log-likelihood is +inf at a draw, or if the likelihood is zero at all first
        draws.

    Notes
    -----
    The method is sequential Monte Carlo. Particles are drawn from the prior and brought to the posterior through
    L(f)^beta with an inverse temperature beta that increases from 0 to 1. At each beta they are weighted, resampled if
    the weights are unequal, and moved by elliptical slice sampling.

    A pilot run chooses the inverse temperatures and the numbers of updates. The replicates then run with both fixed, so
    the estimate of Z is unbiased for any choice of the pilot run. As a check, annealed importance sampling runs without
    resampling, with one update at each of more inverse temperatures, in equal steps between those of the schedule.

    Examples
    --------
    One element f ~ N(0, 1), observed as 0.5 with noise of standard deviation 1: y ~ N(0, 2), so log Z = -1.328.

    >>> import jax.numpy as jnp
    >>> import ellipslice as es
    >>> def log_likelihood(f):
    ...     return -0.5 * jnp.sum((0.5 - f) ** 2) - 0.5 * jnp.log(2 * jnp.pi)
    >>> result = es.evidence(log_likelihood, es.Diagonal([1.0]), reference=None, seed=1)
    >>> abs(result.log_z + 1.328) < 5 * result.standard_error, result.estimates_agree
    (True, True)

    References
    ----------
    Del Moral, Doucet & Jasra (2006), Sequential Monte Carlo samplers, JRSS B 68. Neal (2001), Annealed importance
    sampling, Statistics and Computing 11. Zhou, Johansen & Aston (2016), Toward automatic model comparison, JCGS 25.
    """
    began = time.perf_counter()
    _check_arguments(
        particles, replicates, target_effective_fraction, updates_per_temperature, reference, engine, prior
    )
    particles, replicates = int(particles), int(replicates)
    _check_workers(executor, timeout, vectorized)
    seed = secrets.randbits(32) if seed is None else whole_number("seed", seed, 0)
    posterior = Posterior(prior, log_likelihood, vectorized=vectorized)
    with jax_settings(), open_workers(executor, timeout) as workers:
        runner = _choose_engine(posterior, engine, seed, workers)
        target, reference_used = _choose_target(posterior, runner, reference)
        runs = ParticleRuns(target, seed, target_effective_fraction, updates_per_temperature)
        schedule = runs.pilot(min(particles, PARTICLES_PER_GROUP), particles)
        found = runs.sequential(particles, replicates, schedule)
        log_weights = runs.annealed(particles, schedule) if check else None

    estimate = log_mean(found.log_z)
    annealing, effective, agrees = compare_with_annealing(estimate, log_weights)
    warn_if_unreliable(runs.cost, schedule, estimate, annealing, agrees)
    return Evidence(
        log_z=estimate[0],
        standard_error=estimate[1],
        replicate_log_z=found.log_z,
        ais_log_z=annealing[0],
        ais_standard_error=annealing[1],
        ais_effective_sample_size=effective,
        estimates_agree=agrees,
        draws=_posterior_draws(posterior, target, found, generator(seed, 1, 2)),
        inverse_temperatures=schedule.betas,
        updates=schedule.updates,
        correlations=schedule.correlations,
        surviving_fraction=found.surviving_fraction,
        evaluations=runs.cost.evaluations,
        nan_evaluations=runs.cost.nan_evaluations,
        failed_searches=runs.cost.failed_searches,
        reference=reference_used,
        engine=target.engine,
        seed=seed,
        seconds=time.perf_counter() - began,
    )


def _check_arguments(
    particles: Any,
    replicates: Any,
    target_effective_fraction: Any,
    updates: Any,
    reference: Any,
    engine: Any,
    prior: Any,
) -> None:
    """Raise if an argument of `evidence` cannot be used."""
    whole_number("particles", particles, 8)
    whole_number("replicates", replicates, 4)
    if particles % replicates or particles < 2 * replicates:
        raise ValueError(
            f"{replicates} replicates cannot share {particles} particles equally. Use a multiple of {replicates}, at "
            f"least {2 * replicates}."
        )
    if updates is not None:
        whole_number("updates_per_temperature", updates, 1)
    if not is_number(target_effective_fraction) or not 0 < target_effective_fraction < 1:
        raise ValueError(
            f"target_effective_fraction must be a number between 0 and 1, but it is {target_effective_fraction!r}."
        )
    if reference not in (None, "auto", "laplace", "ep"):
        raise ValueError(f'reference must be "auto", "laplace", "ep" or None, but it is {reference!r}.')
    if engine not in (None, "batched", "host"):
        raise ValueError(f'engine must be "batched", "host" or None (automatic), but it is {engine!r}.')
    if isinstance(prior, TruncatedGaussian):
        raise TypeError(
            "the prior is a TruncatedGaussian, whose normalising constant is unknown. Use its Gaussian, prior.prior, "
            "with a log-likelihood that is -inf where a constraint is violated. Then compute log Z of the constraints "
            "alone in the same way (log-likelihood 0 or -inf), and subtract it to get log Z under the truncated prior."
        )


def _posterior_draws(
    posterior: Posterior, target: AnnealedTarget, found: SequentialResult, rng: np.random.Generator
) -> Any:
    """Return particles as draws from the posterior. They are resampled, because replicates have different weights."""
    f = found.particles.f
    rows = systematic_rows(np.repeat(found.log_z, len(f) // len(found.log_z)), rng)
    latents = posterior.log_likelihood.unpack(target.centre + f[rows])
    return latents["f"] if posterior.log_likelihood.single else latents


def _check_workers(executor: Any, timeout: Any, vectorized: bool | None) -> None:
    """Raise if `timeout` is not valid, or if workers are given and particles must be evaluated in one batch."""
    check_timeout(timeout, executor)
    if executor is not None and vectorized:
        raise ValueError(
            "vectorized=True passes all particles to one call, but executor passes them one by one to its workers. "
            "Use only one of the two."
        )


def _choose_engine(posterior: Posterior, name: str | None, seed: int, workers: Workers | None) -> Engine:
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


def _choose_target(posterior: Posterior, engine: Engine, reference: str | None) -> tuple[AnnealedTarget, str]:
    """Return the target for a value of `reference`, and the name of the Gaussian that it begins at."""
    if reference == "auto":
        possible = posterior.log_concave and engine.traced and has_covariance_factor(posterior.prior)
        reference = "ep" if possible and not isinstance(factorise_likelihood(posterior), str) else None
    if reference is None:
        return target_from_prior(posterior, engine), "prior"
    fitted = fit_reference(reference, engine, lambda count: [], 0)
    assert isinstance(fitted.reference, SitesReference)  # noqa: S101  both methods return sites
    with on_cpu():
        return target_from_reference(posterior, fitted.reference), reference
