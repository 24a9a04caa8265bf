"""The log marginal likelihood of a `LatentGP`, with hyperparameters integrated out.

The proposal is a product of t distributions of the hyperparameters u, times the Gaussian prior of f given u times sites
that approximate the likelihood. Its density is known with all constants. So is the joint density, if the log-likelihood
contains all constants.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from ellipslice.bridge.proposal import Proposal
from ellipslice.bridge.result import MIN_DRAWS, LogEvidence, draws_per_chain, log_evidence_of
from ellipslice.engines.threads import limit_blas_threads
from ellipslice.gp.problem import problem_of
from ellipslice.gp.time_series import public_name
from ellipslice.jax_settings import on_cpu
from ellipslice.latent.log_evidence import bridge_from_move
from ellipslice.latent.pilot import run_pilot
from ellipslice.latent.posterior import LatentPosterior
from ellipslice.machine import available_cores
from ellipslice.parameters.choose_parametrisation import RANK_PROBE_DRAWS, JointPosterior
from ellipslice.parameters.conditioned_noise import ConditionedNoise
from ellipslice.parameters.fit_sites import farthest_points, fit_sites
from ellipslice.parameters.joint import Point
from ellipslice.parameters.pivots import Pivots, find_pivots
from ellipslice.parameters.sites import SiteInterpolator
from ellipslice.result_parts import thinned

if TYPE_CHECKING:
    import xarray

    from ellipslice.gp.fit import Fit


def log_evidence(fit: Fit, draws: int, seed: int) -> LogEvidence:
    """Return the log marginal likelihood; see `Fit.log_evidence`."""
    if not fit.model.parameters.size:
        raise ValueError(
            "the model has no unknown hyperparameters to integrate out. Use es.evidence(log_likelihood, prior), with "
            "the prior of f at the inputs, such as es.Dense(covariance, mean)."
        )
    first, second = _halves(fit, draws)
    problem = problem_of(fit.model, fit.X, fit.y)
    if problem.series is not None:
        return _of_series(problem.series, first, draws, seed)
    posterior = problem.joint
    assert posterior is not None  # noqa: S101  (there are unknown hyperparameters)
    u, _ = _unknowns(fit, first)
    proposal = Proposal.fitted(fit.model.parameters, u)
    weights = Weights.fitted(posterior, u, proposal)
    u, f = _unknowns(fit, second)
    at_posterior = weights.of_rows(weights.at, u, f) - proposal.log_density(u)
    rng = np.random.default_rng(seed)
    u = proposal.draw(rng, max(draws, len(u)))
    eta = rng.standard_normal((len(u), *f.shape[1:]))
    at_proposal = weights.of_rows(weights.at_noise, u, eta) - proposal.log_density(u)
    return log_evidence_of(at_posterior.reshape(second.sizes["chain"], -1), at_proposal)


def _of_series(posterior: LatentPosterior, draws: xarray.Dataset, count: int, seed: int) -> LogEvidence:
    """Return the log marginal likelihood of a long time series, by the sampler of latent Gaussian models."""
    parameters = posterior.hyperparameters.parameters
    u = parameters.unconstrain({name: draws[public_name(name)].values for name in parameters.priors})
    seeds = np.random.SeedSequence(seed).generate_state(3).tolist()
    with limit_blas_threads(available_cores()):
        move = run_pilot(posterior, seeds[2]).move
    return bridge_from_move(posterior, move, u.reshape(-1, u.shape[-1]), draws.sizes["chain"], count, seeds[:2])


def _halves(fit: Fit, draws: int) -> tuple[xarray.Dataset, xarray.Dataset]:
    """Return the first half of each chain, and about `draws` draws of the second half. Raise if there are too few."""
    whole = fit.tree["posterior"].to_dataset()
    chains, each = whole.sizes["chain"], whole.sizes["draw"]
    if each // 2 < (required := draws_per_chain(MIN_DRAWS, chains)):
        raise ValueError(
            f"the chains of the fit have {each} draws each, but log_evidence requires at least {2 * required}. Fit "
            "with more draws."
        )
    second = whole.isel(draw=slice(each // 2, None))
    return whole.isel(draw=slice(each // 2)), thinned(second, chains * draws_per_chain(draws, chains))


def _unknowns(fit: Fit, draws: xarray.Dataset) -> tuple[np.ndarray, np.ndarray]:
    """Return hyperparameters u, shape (count, size), and latent functions, shape (count, latents, n), of all draws."""
    u = fit.model.parameters.unconstrain({name: draws[name].values for name in fit.model.parameters.priors})
    f = np.stack([draws[name].values for name in fit.model.latents], axis=2)
    return u.reshape(-1, u.shape[-1]), f.reshape(-1, *f.shape[2:])


class Weights(NamedTuple):
    """The log of p(u) p(f | u) p(y | f, u) / q(f | u), in which q is the prior of f times sites, normalised."""

    posterior: JointPosterior
    sites: SiteInterpolator
    pivots: Pivots | None

    @classmethod
    def fitted(cls, posterior: JointPosterior, u: np.ndarray, proposal: Proposal) -> Weights:
        """Return weights with sites that are fitted for some draws of u, shape (count, size).

        Raises
        ------
        ValueError
            If the log-likelihood has no sites.
        """
        prior, log_likelihood, of_kernel, _ = posterior
        probes = u[np.linspace(0, len(u) - 1, RANK_PROBE_DRAWS).astype(int)]
        pivots = find_pivots(prior.joint.factors, prior.inputs, probes) if of_kernel else None
        found = fit_sites(prior, log_likelihood, farthest_points(u, proposal.centre, proposal.factor), pivots)
        if isinstance(found, str):
            raise ValueError(
                "log_evidence requires Gaussian sites, which need a log-likelihood that factorises over the elements "
                f"of f, but {found}. Use es.evidence with fixed hyperparameters: it accepts any log-likelihood."
            )
        return cls(posterior, found, pivots)

    def at(self, u: Any, f: Any) -> Any:
        """Return the value at hyperparameters u and latent functions f, shape (latents, n)."""
        return self._apply(u, lambda factor, noise: self._value(u, f, noise))

    def at_noise(self, u: Any, eta: Any) -> Any:
        """Return the value at hyperparameters u and a draw of q, for its standard normals eta, shape (latents, n)."""

        def value(factor: Any, noise: ConditionedNoise) -> Any:
            return self._value(u, noise.offset + factor.unwhiten(noise.unwhiten(eta) - noise.centre), noise)

        return self._apply(u, value)

    def of_rows(self, value: Callable[[Any, Any], Any], u: np.ndarray, rows: np.ndarray) -> np.ndarray:
        """Return the values of `at` or `at_noise` for several points, one after another."""
        if not self.posterior.prior.joint.factors.traceable:
            with np.errstate(all="ignore"):
                return np.array([float(value(*pair)) for pair in zip(u, rows, strict=True)])
        with on_cpu():
            compiled = jax.jit(lambda u, rows: jax.lax.map(lambda pair: value(*pair), (u, rows)))
            return np.asarray(compiled(jnp.asarray(u), jnp.asarray(rows)))

    def _apply(self, u: Any, then: Callable[[Any, ConditionedNoise], Any]) -> Any:
        prior, log_likelihood, *_ = self.posterior
        sites = self.sites.at(u, log_likelihood)
        return prior.joint.factors.apply(
            u, prior.inputs, self.pivots, lambda factor, mean: then(factor, ConditionedNoise(factor, mean, sites))
        )

    def _value(self, u: Any, f: Any, noise: ConditionedNoise) -> Any:
        prior, log_likelihood, *_ = self.posterior
        known = log_likelihood(Point(u, 0.0 * f, f).flat) + prior.joint.parameters.log_density(u)
        return known + noise.log_evidence - noise.log_sites(f)
