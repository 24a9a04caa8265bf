"""Latent values and unknown parameters without compiled code: parameters at a few places, latent values by ellipses.

The posterior of a handful of parameters is smooth and narrow, and each value of them costs a factorisation. So they
take values at a few places only, spread over where Laplace's approximation says the posterior is, each with the weight
that makes them stand for the whole prior. Given this, nothing is approximated: chains move between the places and, on
ellipses of the Gaussian that is near the posterior there, through the latent values.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import numpy as np
from scipy.linalg import solve_triangular
from scipy.optimize import minimize
from scipy.stats import norm, qmc

from ellipslice.gp.near import Near, covariance, find_mode, lower_factor, near
from ellipslice.gp.parameters import Parameters
from ellipslice.likelihoods import Likelihood
from ellipslice.moves import step
from ellipslice.priors.kernels import covariance_function, variance_function

WIDER = 1.3
"""Places are spread wider than Laplace's approximation: weights can make up for too wide, not for too narrow."""

LATENT_UPDATES = 3
"""Of the latent values, for one move between places."""


class LogNormals:
    """Positive parameters with independent log-normal priors.

    Parameters
    ----------
    priors : mapping of str to (float, float)
        The median of each, and the standard deviation of its logarithm.
    """

    def __init__(self, priors: Mapping[str, tuple[float, float]]):
        self.names, self.size = list(priors), len(priors)
        self._centre = np.log([median for median, _ in priors.values()])
        self._deviation = np.array([deviation for _, deviation in priors.values()])

    def gaussian(self) -> tuple[np.ndarray, np.ndarray]:
        """Mean and standard deviations of u, the logarithms."""
        return self._centre, self._deviation

    def constrained(self, u: np.ndarray) -> dict[str, float]:
        """The parameters of one u."""
        return dict(zip(self.names, np.exp(u).tolist(), strict=True))

    def log_density(self, u: np.ndarray) -> float:
        """Of one u."""
        return float(norm.logpdf(u, self._centre, self._deviation).sum())


class Together:
    """Unknown parameters as one vector u without constraints: `LogNormals`, and `Parameters` of the user's choice."""

    def __init__(self, *parts: LogNormals | Parameters):
        self._parts = [part for part in parts if part.size]
        self._cuts = np.cumsum([part.size for part in self._parts])[:-1]
        self.size = sum(part.size for part in self._parts)

    def gaussian(self) -> tuple[np.ndarray, np.ndarray]:
        """Mean and standard deviations of a Gaussian near the prior of u."""
        pairs = [part.gaussian() for part in self._parts]
        return np.concatenate([centre for centre, _ in pairs]), np.concatenate([deviation for _, deviation in pairs])

    def constrained(self, u: np.ndarray) -> dict[str, Any]:
        """The parameters of one u."""
        values: dict[str, Any] = {}
        for part, own in zip(self._parts, np.split(u, self._cuts), strict=False):
            values |= part.constrained(own)
        return {name: float(value) if np.ndim(value) == 0 else value for name, value in values.items()}

    def log_density(self, u: np.ndarray) -> float:
        """Of one u."""
        pairs = zip(self._parts, np.split(u, self._cuts), strict=False)
        return float(sum(part.log_density(own) for part, own in pairs))


class Draws(NamedTuple):
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
    unknown: Together,
    inputs: np.ndarray,
    *,
    places: int,
    draws: int,
    warmup: int,
    chains: int,
    rng: np.random.Generator,
) -> Draws:
    """Draw from the posterior of parameters and latent values.

    It takes O(n^3) for each place and about fifty times more to find them, and O(places n^2) for a draw and in memory.
    """
    values, log_weights = _places(kernel, likelihood, unknown, inputs, places, rng)
    gaussians = []
    for value in values:
        matrix, seen = covariance(kernel(value), inputs), likelihood(value)
        gaussians.append(near(matrix, seen, find_mode(matrix, seen)))
    runs = [_run(gaussians, log_weights, draws, warmup, one) for one in rng.spawn(chains)]
    return Draws(values, np.stack([where for where, _ in runs]), np.stack([z for _, z in runs]))


def at_new_inputs(
    kernel: Callable[[Mapping[str, Any]], Any], drawn: Draws, old: np.ndarray, new: np.ndarray
) -> list[tuple[np.ndarray, np.ndarray]]:
    """New latent values given each draw: for each place that was visited their means (count, m) and variances (m,).

    It takes a factorisation for each place, not for each draw.
    """
    found = []
    where, z = drawn.where.ravel(), drawn.z.reshape(-1, len(old))
    for number in np.unique(where):
        built = kernel(drawn.places[number])
        half = solve_triangular(lower_factor(covariance(built, old)), covariance_function(built)(old, new), lower=True)
        left = variance_function(built)(new) - np.einsum("ij,ij->j", half, half)
        found.append((z[where == number] @ half, np.maximum(left, 0.0)))
    return found


def _places(
    kernel: Any, likelihood: Any, unknown: Together, inputs: np.ndarray, count: int, rng: np.random.Generator
) -> tuple[list[dict[str, Any]], np.ndarray]:
    """Values of the parameters, and the logarithm of the prior's density over that of the places."""
    if not unknown.size:
        return [{}], np.zeros(1)
    centre, deviation = unknown.gaussian()
    weights = None

    def height(t: np.ndarray) -> float:
        nonlocal weights
        u = centre + deviation * t
        value = dict(unknown.constrained(u))
        mode = find_mode(covariance(kernel(value), inputs), likelihood(value), weights)
        weights = mode.weights
        return mode.log_evidence + unknown.log_density(u)

    top, factor = _gaussian_near(height, unknown.size)
    spread = (qmc.Halton(unknown.size, scramble=False).random(count) + rng.random(unknown.size)) % 1.0
    normals = norm.ppf(np.clip(spread, 1e-9, 1 - 1e-9))
    values = [centre + deviation * (top + factor @ normal) for normal in normals]
    log_weights = [unknown.log_density(u) + 0.5 * x @ x for u, x in zip(values, normals, strict=True)]
    return [dict(unknown.constrained(u)) for u in values], np.array(log_weights)


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
    return top, WIDER * vectors / np.sqrt(np.clip(values, 0.5, 1e4))


def _run(
    gaussians: list[Near], log_weights: np.ndarray, draws: int, warmup: int, rng: np.random.Generator
) -> tuple[np.ndarray, np.ndarray]:
    """One chain: the place and the white noise of each draw."""
    n = len(gaussians[0].mean)
    eta, where, kept = rng.standard_normal(n), np.zeros(draws, int), np.zeros((draws, n))
    z = np.zeros((draws, n))
    for update in range(-warmup, draws):
        if len(gaussians) > 1:
            heights = log_weights + np.array([gaussian.log_ratio(gaussian.root @ eta) for gaussian in gaussians])
            number = int(np.argmax(heights + rng.gumbel(size=len(heights))))
        else:
            number = 0
        eta = _latent(gaussians[number], eta, rng)
        if update >= 0:
            where[update], kept[update] = number, eta
    for number in np.unique(where):
        mine = where == number
        z[mine] = gaussians[number].white(kept[mine])
    return where, z


def _latent(gaussian: Near, eta: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Updates of the latent values; root eta is carried along, so that proposals need no product."""
    n, value = len(eta), None
    normals = rng.standard_normal((LATENT_UPDATES, n))
    both = np.concatenate([eta, gaussian.root @ eta])
    for nu in np.hstack([normals, normals @ gaussian.root.T]):
        both, value, _ = step(both, nu, lambda both: gaussian.log_ratio(both[n:]), rng=rng, log_likelihood_f=value)
    return both[:n]
