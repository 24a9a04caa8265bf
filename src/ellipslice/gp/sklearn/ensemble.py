"""Ensemble MCMC for latent functions with unknown hyperparameters, in NumPy.

Each value u of the hyperparameters costs a factorisation and a Gaussian approximation of the posterior of f. In the
coordinates eta of this Gaussian, f is nearly standard normal for every u. Each chain therefore keeps an ensemble of
values of u, and an update chooses among them twice: with eta fixed, and with the white noise z of f = C z fixed, which
is better where the Gaussians fit badly. From time to time, all values but the current one are redrawn from a proposal
q, with importance weights p(u) / q(u).

The posterior is sampled exactly, for any Gaussians and any size of the ensemble (Neal 2011, MCMC using ensembles of
states for problems with fast and slow variables).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import numpy as np
from scipy.linalg import solve_triangular
from scipy.optimize import minimize

from ellipslice.gp.sklearn.estimator_parameters import JoinedParameters
from ellipslice.gp.sklearn.laplace import (
    GaussianApproximation,
    find_mode,
    find_sites,
    gaussian_from_sites,
    lower_factor,
)
from ellipslice.likelihoods import Likelihood
from ellipslice.moves import step
from ellipslice.priors.parts.kernels import covariance_function, covariance_matrix, variance_function

PROPOSAL_WIDTH = 1.5
"""Factor by which the proposal is wider than the Laplace approximation, which is often too narrow."""

PRIOR_FRACTION = 0.25
"""Fraction of values that are drawn from a Gaussian approximation of the prior, to bound the importance weights."""

LATENT_UPDATES = 10
"""Number of updates of f in each update of a chain."""


class EnsembleSettings(NamedTuple):
    """Settings of a run, as the estimators have them."""

    ensemble_size: int
    """Number of hyperparameter values that a chain chooses among."""
    ensemble_refreshes: int
    """Number of times per run that all but the chain's current value are redrawn."""
    draws: int
    """Number of draws per chain."""
    warmup: int
    """Number of discarded updates at the start of each chain."""
    chains: int
    """Number of chains."""


class EnsembleMember(NamedTuple):
    """One value u of the hyperparameters, and a Gaussian approximation of the posterior of f given it."""

    values: dict[str, Any]
    """The hyperparameters by name."""
    log_weight: float
    """Log importance weight, log p(u) - log q(u), up to a constant."""
    gaussian: GaussianApproximation


class EnsembleDraws(NamedTuple):
    """Draws of hyperparameters and white noise. They are plain arrays, so that fitted estimators can be pickled."""

    values: list[dict[str, Any]]
    """The hyperparameters of each member of an ensemble that was visited."""
    member: np.ndarray
    """Index of the member of each draw in `values`, shape (chains, draws)."""
    z: np.ndarray
    """White noise of each draw, shape (chains, draws, n): f = C z, with the factor C of its member."""

    def parameters(self) -> dict[str, np.ndarray]:
        """Return the hyperparameters of all draws, each of shape (chains, draws, ...)."""
        return {name: np.array([value[name] for value in self.values])[self.member] for name in self.values[0]}


def draw(
    kernel: Callable[[Mapping[str, Any]], Any],
    likelihood: Callable[[Mapping[str, Any]], Likelihood],
    unknown: JoinedParameters,
    inputs: np.ndarray,
    settings: EnsembleSettings,
    rng: np.random.Generator,
) -> EnsembleDraws:
    """Draw from the posterior of hyperparameters and latent function.

    A factorisation, O(n^3), is needed for some 50 values of the hyperparameters at the start, and then for about
    `ensemble_size * ensemble_refreshes` values per chain. An update and the memory cost O(ensemble_size n^2).

    Parameters
    ----------
    kernel, likelihood : callable
        From a mapping of hyperparameters to the kernel, and to the likelihood.
    unknown : JoinedParameters
        The hyperparameters. If there are none, ensembles have one member.
    inputs : array, shape (n, axes)
    settings : EnsembleSettings
    rng : Generator
    """
    proposal, weights = _fit_proposal(kernel, likelihood, unknown, inputs) if unknown.size else (None, None)

    def draw_member(rng: np.random.Generator) -> EnsembleMember:
        u = np.zeros(0) if proposal is None else proposal.draw(rng)
        values = unknown.constrained(u)
        matrix, own = covariance_matrix(kernel(values), inputs), likelihood(values)
        log_weight = 0.0 if proposal is None else unknown.log_density(u) - proposal.log_density(u)
        return EnsembleMember(values, log_weight, gaussian_from_sites(matrix, own, find_sites(matrix, own, weights)))

    settings = settings if unknown.size else settings._replace(ensemble_size=1)
    runs = [_run(draw_member, settings, one) for one in rng.spawn(settings.chains)]
    firsts = np.cumsum([0, *(len(values) for values, _, _ in runs)])[:-1]
    return EnsembleDraws(
        [value for values, _, _ in runs for value in values],
        np.stack([first + member for first, (_, member, _) in zip(firsts, runs, strict=True)]),
        np.stack([z for _, _, z in runs]),
    )


def at_new_inputs(
    kernel: Callable[[Mapping[str, Any]], Any], drawn: EnsembleDraws, old: np.ndarray, new: np.ndarray
) -> list[tuple[np.ndarray, np.ndarray]]:
    """Return the conditional distribution of f at new inputs given each draw.

    For each member that was visited these are the means for its draws, shape (count, m), and the variances, shape (m,).
    Each member needs one factorisation.
    """
    found = []
    member, z = drawn.member.ravel(), drawn.z.reshape(-1, len(old))
    for number in np.unique(member):
        built = kernel(drawn.values[number])
        half = solve_triangular(
            lower_factor(covariance_matrix(built, old)), covariance_function(built)(old, new), lower=True
        )
        variance = variance_function(built)(new) - np.einsum("ij,ij->j", half, half)
        found.append((z[member == number] @ half, np.maximum(variance, 0.0)))
    return found


class _ParameterProposal(NamedTuple):
    """The proposal q(u) of hyperparameters: a mixture of Gaussian approximations of their posterior and their prior."""

    centres: np.ndarray
    """Means of the two Gaussians, shape (2, size)."""
    factors: np.ndarray
    """Factors of their covariances, shape (2, size, size)."""

    def draw(self, rng: np.random.Generator) -> np.ndarray:
        """Return one draw of u, shape (size,)."""
        number = int(rng.random() < PRIOR_FRACTION)
        return self.centres[number] + self.factors[number] @ rng.standard_normal(len(self.centres[number]))

    def log_density(self, u: np.ndarray) -> float:
        """Return log q(u), up to a constant."""
        x = np.linalg.solve(self.factors, (u - self.centres)[..., None])[..., 0]
        log_parts = -0.5 * (x * x).sum(-1) - np.linalg.slogdet(self.factors)[1]
        return float(np.logaddexp(*(log_parts + np.log([1 - PRIOR_FRACTION, PRIOR_FRACTION]))))


def _fit_proposal(
    kernel: Any, likelihood: Any, unknown: JoinedParameters, inputs: np.ndarray
) -> tuple[_ParameterProposal, np.ndarray]:
    """Return the proposal, by a Laplace approximation of the posterior of u, and weights of the mode of f there."""
    centre, std = unknown.gaussian()
    lower_factor(covariance_matrix(kernel(unknown.constrained(centre)), inputs))  # raises if it is not a covariance
    weights = None

    def log_posterior(t: np.ndarray) -> float:
        nonlocal weights
        u = centre + std * t
        values = unknown.constrained(u)
        mode = find_mode(covariance_matrix(kernel(values), inputs), likelihood(values), weights)
        weights = mode.weights
        return mode.log_evidence + unknown.log_density(u)

    mode, factor = _wide_laplace(log_posterior, unknown.size)
    log_posterior(mode)  # sets `weights` to those at the mode
    factors = np.stack([std[:, None] * factor, np.diag(std)])
    return _ParameterProposal(np.stack([centre + std * mode, centre]), factors), np.asarray(weights)


def _wide_laplace(log_density: Callable[[np.ndarray], float], size: int) -> tuple[np.ndarray, np.ndarray]:
    """Return the mode of a log density, and a factor of the inverse of its negative Hessian, times `PROPOSAL_WIDTH`.

    The unit is the prior standard deviation, so the prior alone has a curvature of about 1.
    """
    start = np.vstack([np.zeros(size), 0.7 * np.eye(size)])
    options = {"initial_simplex": start, "xatol": 0.1, "fatol": 0.1, "maxfev": 40 * size}
    mode = minimize(lambda t: -log_density(t), np.zeros(size), method="Nelder-Mead", options=options).x
    steps = 0.25 * np.eye(size)
    middle, curvature = log_density(mode), np.zeros((size, size))
    sides = np.array([[log_density(mode + e), log_density(mode - e)] for e in steps])
    for i in range(size):
        curvature[i, i] = (2 * middle - sides[i].sum()) / 0.25**2
        for j in range(i):
            both = log_density(mode + steps[i] + steps[j]) + log_density(mode - steps[i] - steps[j])
            curvature[i, j] = curvature[j, i] = (sides[i].sum() + sides[j].sum() - 2 * middle - both) / (2 * 0.25**2)
    values, vectors = np.linalg.eigh(curvature)
    return mode, PROPOSAL_WIDTH * vectors / np.sqrt(np.clip(values, 0.5, 1e4))


def _run(
    draw_member: Callable[[np.random.Generator], EnsembleMember], settings: EnsembleSettings, rng: np.random.Generator
) -> tuple[list[dict[str, Any]], np.ndarray, np.ndarray]:
    """Run one chain.

    Return the hyperparameters of the members that it visited, the index of each draw's member, shape (draws,), and the
    white noise of the draws, shape (draws, n).
    """
    ensemble_size, ensemble_refreshes, draws, warmup, _ = settings
    current = draw_member(rng)
    ensemble, values = [current], []
    n = len(current.gaussian.mean)
    eta, index, z = rng.standard_normal(n), np.zeros(draws, int), np.zeros((draws, n))
    refreshes = {round(number) for number in np.linspace(-warmup, draws, ensemble_refreshes, endpoint=False)}
    for update in range(-warmup, draws):
        if ensemble_size > 1:
            if update in refreshes:
                ensemble = [current, *(draw_member(rng) for _ in range(ensemble_size - 1))]
            log_weights = [one.log_weight + one.gaussian.log_ratio(one.gaussian.root @ eta) for one in ensemble]
            current = ensemble[_choose(log_weights, rng)]
        eta = _update_latent(current.gaussian, eta, rng)
        if ensemble_size > 1:
            z_now = current.gaussian.white(eta)
            log_weights = [one.log_weight + one.gaussian.likelihood(one.gaussian.lower @ z_now) for one in ensemble]
            current = ensemble[_choose(log_weights, rng)]
            eta = current.gaussian.eta(z_now)
        if update >= 0:
            if not any(current.values is value for value in values):
                values.append(current.values)
            index[update] = next(i for i, value in enumerate(values) if value is current.values)
            z[update] = current.gaussian.white(eta)
    return values, index, z


def _choose(log_weights: list[float], rng: np.random.Generator) -> int:
    """Return an index, drawn with probabilities proportional to exp(log_weights). NaN is never chosen."""
    safe = np.where(np.isnan(log_weights), -np.inf, log_weights)
    return int(np.argmax(safe + rng.gumbel(size=len(log_weights))))


def _update_latent(gaussian: GaussianApproximation, eta: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Return eta after `LATENT_UPDATES` updates. The state includes root @ eta, so that proposals need no product."""
    n, value = len(eta), None
    normals = rng.standard_normal((LATENT_UPDATES, n))
    both = np.concatenate([eta, gaussian.root @ eta])
    for nu in np.hstack([normals, normals @ gaussian.root.T]):
        both, value, _ = step(both, nu, lambda both: gaussian.log_ratio(both[n:]), rng=rng, log_likelihood_f=value)
    return both[:n]
