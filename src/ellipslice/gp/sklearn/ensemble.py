"""Latent values and unknown parameters without compiled code: several values of the parameters at hand at a time.

A value of the parameters costs a factorisation and a Gaussian near the posterior of the latent values, in whose
coordinates eta these are nearly a standard Gaussian whatever the parameters are. So a chain has an ensemble of values
at hand: with eta fixed it chooses among them, then with the prior's white noise z fixed (which is better where the
Gaussians fit badly), and only now and then are all but its own drawn anew. With weights p(u) / q(u) for values u drawn
from q this samples the posterior exactly (Neal 2011, MCMC using ensembles of states for problems with fast and slow
variables): nothing is approximated by the Gaussians, nor by there being few values.
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
"""Values are drawn from a Gaussian this much wider than the Laplace approximation, which is often too narrow."""

PRIOR_FRACTION = 0.25
"""Fraction of values that are drawn from near the prior instead, so that no importance weight can be large."""

LATENT_UPDATES = 10
"""Of the latent values, for one choice among the parameters."""


class EnsembleSettings(NamedTuple):
    """Settings of the chains."""

    ensemble_size: int
    """Number of values of the hyperparameters that a chain chooses among."""
    ensemble_refreshes: int
    """Number of times in a run that all but the chain's current value are drawn anew."""
    draws: int
    warmup: int
    chains: int


class EnsembleMember(NamedTuple):
    """One value of the hyperparameters, and a Gaussian approximation of the posterior of f given it."""

    values: dict[str, Any]
    log_weight: float
    """Logarithm of its prior density divided by the density that it was drawn from."""
    gaussian: GaussianApproximation


class EnsembleDraws(NamedTuple):
    """What a run keeps: nothing but numbers, so that it can be pickled."""

    places: list[dict[str, Any]]
    """The values of the parameters."""
    where: np.ndarray
    """The number of the place of each draw, (chains, draws)."""
    z: np.ndarray
    """The prior's white noise of each draw, (chains, draws, n): f = C z, with the factor C of its place."""

    def parameters(self) -> dict[str, np.ndarray]:
        """The parameters of each draw, (chains, draws, ...)."""
        return {name: np.array([place[name] for place in self.places])[self.where] for name in self.places[0]}


def draw(
    kernel: Callable[[Mapping[str, Any]], Any],
    likelihood: Callable[[Mapping[str, Any]], Likelihood],
    unknown: JoinedParameters,
    inputs: np.ndarray,
    settings: EnsembleSettings,
    rng: np.random.Generator,
) -> EnsembleDraws:
    """Draw from the posterior of parameters and latent values.

    It takes O(n^3) for each of some 50 values of the parameters at the start, and then for each of `ensemble_size *
    ensemble_refreshes` of a chain; a draw takes O(ensemble_size n^2), which is also the memory.
    """
    spread, weights = _look(kernel, likelihood, unknown, inputs) if unknown.size else (None, None)

    def fresh(rng: np.random.Generator) -> EnsembleMember:
        u = np.zeros(0) if spread is None else spread.draw(rng)
        values = unknown.constrained(u)
        matrix, seen = covariance_matrix(kernel(values), inputs), likelihood(values)
        log_weight = 0.0 if spread is None else unknown.log_density(u) - spread.log_density(u)
        return EnsembleMember(values, log_weight, gaussian_from_sites(matrix, seen, find_sites(matrix, seen, weights)))

    settings = settings if unknown.size else settings._replace(ensemble_size=1)
    runs = [_run(fresh, settings, one) for one in rng.spawn(settings.chains)]
    firsts = np.cumsum([0, *(len(values) for values, _, _ in runs)])[:-1]
    return EnsembleDraws(
        [value for values, _, _ in runs for value in values],
        np.stack([first + where for first, (_, where, _) in zip(firsts, runs, strict=True)]),
        np.stack([z for _, _, z in runs]),
    )


def at_new_inputs(
    kernel: Callable[[Mapping[str, Any]], Any], drawn: EnsembleDraws, old: np.ndarray, new: np.ndarray
) -> list[tuple[np.ndarray, np.ndarray]]:
    """New latent values given each draw: for each place that was visited their means (count, m) and variances (m,).

    It takes a factorisation for each place, not for each draw.
    """
    found = []
    where, z = drawn.where.ravel(), drawn.z.reshape(-1, len(old))
    for number in np.unique(where):
        built = kernel(drawn.places[number])
        half = solve_triangular(
            lower_factor(covariance_matrix(built, old)), covariance_function(built)(old, new), lower=True
        )
        left = variance_function(built)(new) - np.einsum("ij,ij->j", half, half)
        found.append((z[where == number] @ half, np.maximum(left, 0.0)))
    return found


class _ParameterProposal(NamedTuple):
    """Where values of the parameters are drawn from: a Gaussian near their posterior, or one near their prior."""

    centres: np.ndarray
    """(2, size)."""
    factors: np.ndarray
    """(2, size, size)."""

    def draw(self, rng: np.random.Generator) -> np.ndarray:
        number = int(rng.random() < PRIOR_FRACTION)
        return self.centres[number] + self.factors[number] @ rng.standard_normal(len(self.centres[number]))

    def log_density(self, u: np.ndarray) -> float:
        """Up to a constant."""
        x = np.linalg.solve(self.factors, (u - self.centres)[..., None])[..., 0]
        log_parts = -0.5 * (x * x).sum(-1) - np.linalg.slogdet(self.factors)[1]
        return float(np.logaddexp(*(log_parts + np.log([1 - PRIOR_FRACTION, PRIOR_FRACTION]))))


def _look(
    kernel: Any, likelihood: Any, unknown: JoinedParameters, inputs: np.ndarray
) -> tuple[_ParameterProposal, np.ndarray]:
    """Where the posterior of the parameters is, by Laplace's approximation; and where to begin to look for f's mode."""
    centre, deviation = unknown.gaussian()
    lower_factor(covariance_matrix(kernel(unknown.constrained(centre)), inputs))  # says so if the kernel is none
    weights = None

    def height(t: np.ndarray) -> float:
        nonlocal weights
        u = centre + deviation * t
        values = unknown.constrained(u)
        mode = find_mode(covariance_matrix(kernel(values), inputs), likelihood(values), weights)
        weights = mode.weights
        return mode.log_evidence + unknown.log_density(u)

    top, factor = _gaussian_near(height, unknown.size)
    height(top)  # so that weights are those at the top
    factors = np.stack([deviation[:, None] * factor, np.diag(deviation)])
    return _ParameterProposal(np.stack([centre + deviation * top, centre]), factors), np.asarray(weights)


def _gaussian_near(height: Callable[[np.ndarray], float], size: int) -> tuple[np.ndarray, np.ndarray]:
    """The mode of a log-density, and a factor of the inverse of its bend there, made wider.

    Units are the prior's deviations, so a bend of about 1 is the prior's own.
    """
    start = np.vstack([np.zeros(size), 0.7 * np.eye(size)])
    options = {"initial_simplex": start, "xatol": 0.1, "fatol": 0.1, "maxfev": 40 * size}
    top = minimize(lambda t: -height(t), np.zeros(size), method="Nelder-Mead", options=options).x
    apart = 0.25 * np.eye(size)
    middle, bend = height(top), np.zeros((size, size))
    sides = np.array([[height(top + e), height(top - e)] for e in apart])
    for i in range(size):
        bend[i, i] = (2 * middle - sides[i].sum()) / 0.25**2
        for j in range(i):
            both = height(top + apart[i] + apart[j]) + height(top - apart[i] - apart[j])
            bend[i, j] = bend[j, i] = (sides[i].sum() + sides[j].sum() - 2 * middle - both) / (2 * 0.25**2)
    values, vectors = np.linalg.eigh(bend)
    return top, PROPOSAL_WIDTH * vectors / np.sqrt(np.clip(values, 0.5, 1e4))


def _run(
    fresh: Callable[[np.random.Generator], EnsembleMember], settings: EnsembleSettings, rng: np.random.Generator
) -> tuple[list[dict[str, Any]], np.ndarray, np.ndarray]:
    """Run one chain: return the values of the parameters it visited, the number of each draw's, and its white noise."""
    ensemble_size, ensemble_refreshes, draws, warmup, _ = settings
    here = fresh(rng)
    ensemble, values = [here], []
    n = len(here.gaussian.mean)
    eta, where, z = rng.standard_normal(n), np.zeros(draws, int), np.zeros((draws, n))
    anew = {round(number) for number in np.linspace(-warmup, draws, ensemble_refreshes, endpoint=False)}
    for update in range(-warmup, draws):
        if ensemble_size > 1:
            if update in anew:
                ensemble = [here, *(fresh(rng) for _ in range(ensemble_size - 1))]
            heights = [place.log_weight + place.gaussian.log_ratio(place.gaussian.root @ eta) for place in ensemble]
            here = ensemble[_choose(heights, rng)]
        eta = _latent(here.gaussian, eta, rng)
        if ensemble_size > 1:
            z_here = here.gaussian.white(eta)
            heights = [
                place.log_weight + place.gaussian.likelihood(place.gaussian.lower @ z_here) for place in ensemble
            ]
            here = ensemble[_choose(heights, rng)]
            eta = here.gaussian.eta(z_here)
        if update >= 0:
            if not any(here.values is value for value in values):
                values.append(here.values)
            where[update] = next(i for i, value in enumerate(values) if value is here.values)
            z[update] = here.gaussian.white(eta)
    return values, where, z


def _choose(heights: list[float], rng: np.random.Generator) -> int:
    """A number, with probabilities in proportion to exp(heights); one that is not a number is never chosen."""
    sound = np.where(np.isnan(heights), -np.inf, heights)
    return int(np.argmax(sound + rng.gumbel(size=len(heights))))


def _latent(gaussian: GaussianApproximation, eta: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Updates of the latent values; root eta is carried along, so that proposals need no product."""
    n, value = len(eta), None
    normals = rng.standard_normal((LATENT_UPDATES, n))
    both = np.concatenate([eta, gaussian.root @ eta])
    for nu in np.hstack([normals, normals @ gaussian.root.T]):
        both, value, _ = step(both, nu, lambda both: gaussian.log_ratio(both[n:]), rng=rng, log_likelihood_f=value)
    return both[:n]
