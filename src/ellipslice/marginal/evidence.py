"""`evidence`: the log marginal likelihood log Z of a model, with a standard error."""

from __future__ import annotations

import secrets
from collections.abc import Callable
from concurrent.futures import Executor
from typing import Any

from ellipslice.checks import whole_number
from ellipslice.engines.workers.pool import open_workers
from ellipslice.jax_settings import jax_settings
from ellipslice.marginal.arguments import (
    EvidenceProblem,
    PathSettings,
    check_arguments,
    check_workers,
    choose_evidence_engine,
)
from ellipslice.marginal.compare import compare_methods
from ellipslice.marginal.nested_evidence import nested_evidence
from ellipslice.marginal.result import Evidence
from ellipslice.marginal.tempered import tempered_evidence
from ellipslice.posterior import Posterior
from ellipslice.priors import Prior


def evidence(
    log_likelihood: Callable[..., Any],
    prior: Prior,
    *,
    method: str = "auto",
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
    method : {"auto", "tempered", "nested"}
        Default: "auto". Neither method finds every part of the posterior: see `Evidence.blind_spot`.

        - "tempered": sequential Monte Carlo from the prior to the posterior. Accurate for informative data and in high
          dimensions. It can miss a narrow part of the posterior that contains most of the evidence.
        - "nested": nested sampling with elliptical slice updates. It finds narrower parts, but its standard error is
          larger for informative data: about sqrt(information / particles).
        - "auto": "tempered", compared with "nested" where that is affordable. It is not if the log-likelihood is known
          to be log-concave, or if too many evaluations are expected: more than 10^9 divided by the number of elements
          of f for compiled code, or else more than twice those of "tempered". If the estimates do not agree, a warning
          says so, and the result is that of "nested".
    particles : int
        Total number of particles, or of live points. At least 8 (for "nested" at least 8 per replicate), and a multiple
        of `replicates`. Default: 1000. The standard error is roughly proportional to 1 / sqrt(particles), and the time
        to `particles`.
    replicates : int
        Number of independent groups of particles, whose spread gives the standard error. At least 4, with at least
        2 particles each. Default: 10.
    reference : {"auto", "laplace", "ep"} or None
        Gaussian that the particles of "tempered" are first drawn from. Default: "auto".

        - "laplace", "ep": the Laplace approximation of the posterior, or that of expectation propagation. This needs
          fewer steps and gives a smaller error, above all for informative data. The log-likelihood must be written with
          `jax.numpy` and factorise over the elements of f.
        - None: the prior. Slower, and safer if the posterior may have several modes.
        - "auto": "ep" if it is possible and the log-likelihood is known to be log-concave, so that there is one mode;
          otherwise the prior.
    target_effective_fraction : float
        Fraction of the particles that stays effective from one inverse temperature of "tempered" to the next. Between
        0 and 1. Default: 0.8. A larger fraction gives more steps.
    updates_per_temperature : int, optional
        Number of updates of every particle at each inverse temperature. At least 1. Default: chosen by the pilot run,
        which increases it until the correlation of the log-likelihoods before and after is at most 0.1, up to 400.
    check : bool
        Whether "tempered" estimates log Z by annealed importance sampling, too. Default: True. It takes about as long
        again.
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
        `log_z`, `standard_error`, `blind_spot`, draws from the posterior, and statistics of the run: a
        `TemperedEvidence` or a `NestedEvidence`. After a comparison, `other` is the estimate by the other method.

    Raises
    ------
    TypeError, ValueError
        If an argument is invalid, if the log-likelihood is +inf at a draw, or if the likelihood is zero at all first
        draws.

    Notes
    -----
    The tempered method is sequential Monte Carlo. Particles are drawn from the prior and brought to the posterior
    through L(f)^beta with an inverse temperature beta that increases from 0 to 1. At each beta they are weighted,
    resampled if the weights are unequal, and moved by elliptical slice sampling.

    A pilot run chooses the inverse temperatures and the numbers of updates. The replicates then run with both fixed, so
    the estimate of Z is unbiased for any choice of the pilot run. As a check, annealed importance sampling runs without
    resampling, with one update at each of more inverse temperatures, in equal steps between those of the schedule.

    Nested sampling removes the quarter of the live points with the smallest likelihoods, and replaces them by draws
    from the prior with a larger likelihood: copies of other live points after a number of elliptical slice updates with
    a fixed slice level. Each run has twice as many updates as the one before it, from 4 to at most 256, until the
    insertion ranks of the replacements are uniform and independent of the copied points in two successive runs. The
    last run is the estimate.

    Examples
    --------
    One element f ~ N(0, 1), observed as 0.5 with noise of standard deviation 1: y ~ N(0, 2), so log Z = -1.328.

    >>> import jax.numpy as jnp
    >>> import ellipslice as es
    >>> def log_likelihood(f):
    ...     return -0.5 * jnp.sum((0.5 - f) ** 2) - 0.5 * jnp.log(2 * jnp.pi)
    >>> result = es.evidence(log_likelihood, es.Diagonal([1.0]), reference=None, seed=1)
    >>> abs(result.log_z + 1.328) < 5 * result.standard_error, result.methods_agree
    (True, True)

    References
    ----------
    Del Moral, Doucet & Jasra (2006), Sequential Monte Carlo samplers, JRSS B 68. Neal (2001), Annealed importance
    sampling, Statistics and Computing 11. Zhou, Johansen & Aston (2016), Toward automatic model comparison, JCGS 25.
    Skilling (2006), Nested sampling for general Bayesian computation, Bayesian Analysis 1. Fowlie, Handley & Su (2020),
    Nested sampling cross-checks using order statistics, MNRAS 497.
    """
    settings = PathSettings(reference, target_effective_fraction, updates_per_temperature, check)
    check_arguments(prior, particles, replicates, settings, method, engine)
    check_workers(executor, timeout, vectorized)
    seed = secrets.randbits(32) if seed is None else whole_number("seed", seed, 0)
    posterior = Posterior(prior, log_likelihood, vectorized=vectorized)
    with jax_settings(), open_workers(executor, timeout) as workers:
        runner = choose_evidence_engine(posterior, engine, seed, workers)
        problem = EvidenceProblem(posterior, runner, seed, int(particles), int(replicates))
        if method == "nested":
            return nested_evidence(problem)
        tempered = tempered_evidence(problem, settings)
        return tempered if method == "tempered" else compare_methods(problem, tempered)
