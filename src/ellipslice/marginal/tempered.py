"""The estimate of log Z along a tempered path: a pilot run, sequential Monte Carlo and annealed importance sampling."""

from __future__ import annotations

import time
from typing import Any

import numpy as np

from ellipslice.approximations import fit_reference
from ellipslice.approximations.fit import factorise_likelihood
from ellipslice.approximations.sites import SitesReference, has_covariance_factor
from ellipslice.engines.base import Engine
from ellipslice.jax_settings import on_cpu
from ellipslice.marginal.annealing import systematic_rows
from ellipslice.marginal.arguments import EvidenceProblem, PathSettings
from ellipslice.marginal.blind_spot import smallest_share
from ellipslice.marginal.estimates import compare_with_annealing, log_mean
from ellipslice.marginal.particle_moves import PARTICLES_PER_GROUP
from ellipslice.marginal.particle_runs import TemperedRuns
from ellipslice.marginal.result import TemperedEvidence
from ellipslice.marginal.target import AnnealedTarget, target_from_prior, target_from_reference
from ellipslice.marginal.warnings import warn_if_unreliable
from ellipslice.noise import generator
from ellipslice.posterior import Posterior


def tempered_evidence(problem: EvidenceProblem, settings: PathSettings) -> TemperedEvidence:
    """Estimate log Z along a tempered path, and warn about everything that makes the estimate unreliable."""
    began = time.perf_counter()
    posterior, engine, seed, particles, replicates = problem
    target, reference = _choose_target(posterior, engine, settings.reference)
    runs = TemperedRuns(target, seed, PARTICLES_PER_GROUP)
    schedule = runs.pilot(min(particles, PARTICLES_PER_GROUP), particles, settings)
    found = runs.sequential(particles, replicates, schedule)
    log_weights = runs.annealed(particles, schedule) if settings.check else None

    estimate = log_mean(found.log_z)
    annealing, effective, agrees = compare_with_annealing(estimate, log_weights)
    warn_if_unreliable(runs.cost, schedule, estimate, annealing, agrees)
    log_weights = np.repeat(found.log_z, particles // replicates)
    return TemperedEvidence(
        log_z=estimate[0],
        standard_error=estimate[1],
        replicate_log_z=found.log_z,
        blind_spot=smallest_share(particles),
        information=_information(estimate[0], found.particles.log_likelihood, log_weights, reference),
        ais_log_z=annealing[0],
        ais_standard_error=annealing[1],
        ais_effective_sample_size=effective,
        estimates_agree=agrees,
        draws=posterior_draws(posterior, target, found.particles.f, log_weights, generator(seed, 1, 2)),
        inverse_temperatures=schedule.betas,
        updates=schedule.updates,
        correlations=schedule.correlations,
        surviving_fraction=found.surviving_fraction,
        evaluations=runs.cost.evaluations,
        nan_evaluations=runs.cost.nan_evaluations,
        failed_searches=runs.cost.failed_searches,
        reference=reference,
        engine=target.engine,
        seed=seed,
        seconds=time.perf_counter() - began,
    )


@np.errstate(under="ignore")  # a weight that underflows is 0
def _information(log_z: float, log_likelihood: np.ndarray, log_weights: np.ndarray, reference: str) -> float:
    """Return the information, from log-likelihoods of weighted draws; NaN if these are relative to a reference."""
    weights = np.exp(log_weights - np.logaddexp.reduce(log_weights))
    return float(weights @ log_likelihood) - log_z if reference == "prior" else np.nan


def posterior_draws(
    posterior: Posterior,
    target: AnnealedTarget,
    f: np.ndarray,
    log_weights: np.ndarray,
    rng: np.random.Generator,
    count: int | None = None,
) -> Any:
    """Return weighted points as equally weighted draws from the posterior, by systematic resampling.

    There are `count` draws. Default: one for each point.
    """
    latents = posterior.log_likelihood.unpack(target.centre + f[systematic_rows(log_weights, rng, count)])
    return latents["f"] if posterior.log_likelihood.single else latents


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
