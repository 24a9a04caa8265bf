"""`evidence`: log Z of a model, with an error bar."""

from __future__ import annotations

import secrets
import time
from collections.abc import Callable
from concurrent.futures import Executor
from typing import Any

import numpy as np

from ellipslice.approximations import fit_reference
from ellipslice.approximations.fit import read_terms
from ellipslice.approximations.sites import SitesReference, has_rows
from ellipslice.checks import is_number, whole_number
from ellipslice.engines.base import Engine
from ellipslice.engines.choose import choose_engine
from ellipslice.engines.workers.engine import WorkersEngine
from ellipslice.engines.workers.pool import Workers, open_workers
from ellipslice.jax_settings import jax_settings, on_cpu
from ellipslice.marginal.annealing import Cost, Schedule, Sequential, annealed, find_schedule, sequential, systematic
from ellipslice.marginal.particles import GROUP, Mover, Particles
from ellipslice.marginal.result import Evidence, compare_with_annealing, mean_of, warn_of_trouble
from ellipslice.marginal.target import Target, around_prior, around_reference
from ellipslice.moves import EllipticalSlice
from ellipslice.noise import generator, start_generator
from ellipslice.posterior import Posterior
from ellipslice.priors import Prior, TruncatedGaussian
from ellipslice.sampling.arguments import check_timeout
from ellipslice.sampling.initial_states import first_draw
from ellipslice.sampling.likelihood_checks import warn_if_not_deterministic, warn_if_prior_counted_twice

CORRELATION = 0.1
"""Of log-likelihoods before and after the updates at one power: the pilot run goes on until it is no larger."""

MOST = 400
"""Updates at one power that the pilot run tries."""


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
    """Estimate log Z, the logarithm of the integral of N(f; m, Sigma) L(f) over f: how well a model predicts its data.

    Use it to compare models of the same data, such as kernels or length scales: a difference of log Z is the logarithm
    of the Bayes factor. For many models in little time see `es.approximate_evidence`, which has no error bar.

    Particles are drawn from the prior and led to the posterior through powers of the likelihood: weighed, resampled and
    moved by elliptical slice sampling of L^power (tempered sequential Monte Carlo). A pilot run chooses the powers and
    the number of updates at each; the particles then run with both fixed, so that the estimate of Z has no bias,
    whatever the pilot run chose. They are divided into independent replicates, whose estimates are averaged; the
    error bar is their spread. The same way is gone a second time without weighing particles against each other, by
    annealed importance sampling, as a check.

    Parameters
    ----------
    log_likelihood : callable
        As for `sample`, with all its constants: log Z changes with them. -inf is fine where the likelihood is zero, and
        NaN counts as that.
    prior : Prior
    particles : int
        In all. The error is about proportional to 1 / sqrt(particles), and the time to their number.
    replicates : int
        How many independent estimates they make, at least 4; a divisor of `particles`.
    reference : {"auto", "laplace", "ep"} or None
        Begin at a Gaussian fitted to the posterior, as for `sample`, instead of the prior: fewer steps, better moves,
        a smaller error, above all for strong likelihoods. "laplace" and "ep" need a log-likelihood that is a sum over
        the values of f, written with `jax.numpy`. "auto" takes "ep" where it can and the log-likelihood is known to be
        concave, so that there is one mode. None begins at the prior: slower, and safer where there may be several.
    target_effective_fraction : float
        How much of their effective number particles keep from one power to the next, between 0 and 1. Larger is more
        steps.
    updates_per_temperature : int, optional
        At each power; chosen by the pilot run unless given: until log-likelihoods have forgotten where they were, or
        400.
    check : bool
        Whether to run annealed importance sampling too, which takes as long again.
    seed : int, optional
        The same seed gives the same estimate.
    engine : {"batched", "host"}, optional
        "batched" for what JAX can trace, on a GPU if there is one; "host" for any Python. Found by looking unless
        given.
    vectorized : bool, optional
        As for `sample`: the log-likelihood takes a batch of latents.
    executor, timeout : optional
        Workers, as for `sample`: they evaluate a log-likelihood that JAX cannot trace, for all particles side by side.
        The estimate is the same to the bit.

    Returns
    -------
    Evidence
        `log_z`, `standard_error`, the check, draws from the posterior, and how it went. Print it.

    Examples
    --------
    One number f ~ N(0, 1), seen as 0.5 with noise of deviation 1: y ~ N(0, 2), so log Z = -1.328.

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
        runner = _engine(posterior, engine, seed, workers)
        target, how = _target(posterior, runner, reference)
        runs = _Runs(target, seed, target_effective_fraction, updates_per_temperature)
        schedule = runs.pilot(min(particles, GROUP), particles)
        found = sequential(*runs.begin(1, particles), replicates, schedule, generator(seed, 1, 1), runs.cost)
        log_weights = annealed(*runs.begin(2, particles), schedule.refined(), runs.cost) if check else None

    estimate = mean_of(found.log_z)
    annealing, effective, agrees = compare_with_annealing(estimate, log_weights)
    warn_of_trouble(runs.cost, schedule, estimate, annealing, agrees)
    return Evidence(
        log_z=estimate[0],
        standard_error=estimate[1],
        replicate_log_z=found.log_z,
        ais_log_z=annealing[0],
        ais_standard_error=annealing[1],
        ais_effective_sample_size=effective,
        estimates_agree=agrees,
        draws=_posterior_draws(posterior, target, found, generator(seed, 1, 2)),
        inverse_temperatures=schedule.powers,
        updates=schedule.updates,
        correlations=schedule.correlations,
        surviving_fraction=found.ancestors,
        evaluations=runs.cost.evaluations,
        nan_evaluations=runs.cost.nan_evaluations,
        failed_searches=runs.cost.failed_searches,
        reference=how,
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
            f"{replicates} replicates cannot share {particles} particles equally. Take a multiple of {replicates}."
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
        raise ValueError(f'engine must be "batched", "host" or None (look and choose), but it is {engine!r}.')
    if isinstance(prior, TruncatedGaussian):
        raise TypeError(
            "a TruncatedGaussian has a constant of its own, which is not known. Give its Gaussian, prior.prior, and a "
            "log-likelihood that is -inf where the constraints do not hold; log Z then is that of both together. Less "
            "log Z of the constraints alone it is the evidence under the truncated prior."
        )


def _posterior_draws(posterior: Posterior, target: Target, found: Sequential, rng: np.random.Generator) -> Any:
    """Return particles as draws from the posterior: resampled, because replicates have different weights."""
    f = found.particles.f
    rows = systematic(np.repeat(found.log_z, len(f) // len(found.log_z)), rng)
    latents = posterior.log_likelihood.unpack(target.centre + f[rows])
    return latents["f"] if posterior.log_likelihood.single else latents


def _check_workers(executor: Any, timeout: Any, vectorized: bool | None) -> None:
    """Raise if workers cannot be used: they evaluate particles one by one, within a time limit of some seconds."""
    check_timeout(timeout, executor)
    if executor is not None and vectorized:
        raise ValueError(
            "vectorized=True hands all particles to one call, and executor one by one to its workers. Leave one out."
        )


def _engine(posterior: Posterior, name: str | None, seed: int, workers: Workers | None) -> Engine:
    """Return the engine that evaluates the log-likelihood. Warn if the log-likelihood looks wrong."""
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
    if engine.traced:
        raise ValueError(
            "executor is for log-likelihoods that JAX cannot trace. This one it can, and compiled code moves all "
            'particles together, in this process. Leave executor out; or say engine="host".'
        )
    return WorkersEngine(engine, workers, trial)


def _target(posterior: Posterior, engine: Engine, reference: str | None) -> tuple[Target, str]:
    """What the particles are drawn from and weighed by, and its name."""
    if reference == "auto":
        possible = posterior.log_concave and engine.traced and has_rows(posterior.prior)
        reference = "ep" if possible and not isinstance(read_terms(posterior), str) else None
    if reference is None:
        return around_prior(posterior, engine), "prior"
    fitted = fit_reference(reference, engine, lambda count: [], 0)
    assert isinstance(fitted.reference, SitesReference)  # noqa: S101  "laplace" and "ep" give these
    with on_cpu():
        return around_reference(posterior, fitted.reference), reference


class _Runs:
    """The pilot run and what follows: each with noise of its own, and all on one bill."""

    def __init__(self, target: Target, seed: int, fraction: float, updates: int | None):
        self._target, self._seed, self._fraction, self._updates = target, seed, fraction, updates
        self.cost = Cost()

    def begin(self, number: int, count: int, draws: int | None = None) -> tuple[Mover, Particles]:
        """A mover for so many particles, and draws of the Gaussian: as many, or `draws` of them."""
        own = int(np.random.SeedSequence(self._seed, spawn_key=(number,)).generate_state(1, np.uint64)[0])
        mover = self._target.mover(own, count)
        f = self._target.points(generator(self._seed, number, 0), draws or count)
        values = mover.evaluate(f)
        self.cost.evaluations += len(values)
        self.cost.nan_evaluations += int(np.isnan(values).sum())
        if (values == np.inf).any():
            raise ValueError("the log-likelihood is +inf at a draw from the prior. Z would be infinite.")
        if not np.isfinite(values).any():
            raise ValueError(
                f"the likelihood is zero (its logarithm -inf or NaN) at all {len(values):,} draws from the prior; "
                "its integral cannot be seen. Take more particles; if the region where it is not zero is far out, "
                "let the log-likelihood fall off towards it by a slope instead of a step."
            )
        return mover, Particles(f, values)

    def pilot(self, count: int, draws: int) -> Schedule:
        """Find the schedule, with `count` of the draws that have a likelihood at all."""
        mover, (f, values) = self.begin(0, count, max(count, draws))
        alive = np.flatnonzero(np.isfinite(values))
        rows = np.resize(alive, count)
        return find_schedule(
            mover,
            Particles(f[rows], values[rows]),
            generator(self._seed, 0, 1),
            self._fraction,
            CORRELATION if self._updates is None else -np.inf,
            MOST if self._updates is None else int(self._updates),
            self.cost,
        )
