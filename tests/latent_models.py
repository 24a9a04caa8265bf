"""Small latent Gaussian models for the tests, and their densities by dense linear algebra, without the package's."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpyro.distributions as dist
from scipy import linalg, special, stats

from ellipslice import LatentGaussianModel
from ellipslice.jax_settings import jax_settings
from ellipslice.latent.assembly import INFLATION
from ellipslice.latent.definition import Definition
from ellipslice.latent.posterior import LatentPosterior, Sites
from ellipslice.latent.terms import AR1, BYM, BYM2, ICAR, IID, RW1, RW2, Fixed

ROWS = 24
_rng = np.random.default_rng(5)
EDGES = [("a", "b"), ("b", "c"), ("c", "a"), ("d", "e")]
GRAPH = {"graph": EDGES, "regions": list("abcdef")}
"""Two connected components and an island."""

DATA = {
    "x": _rng.standard_normal(ROWS),
    "g": np.repeat(["p", "q", "r", "s"], 6),
    "t": _rng.integers(0, 7, ROWS),
    "age": np.array([20.0, 22.0, 27.0, 28.0, 40.0])[_rng.integers(0, 5, ROWS)],
    "region": _rng.choice(list("abcdef"), ROWS),
}
Y = {
    "gaussian": _rng.normal(1.0, 1.0, ROWS),
    "poisson": _rng.poisson(2.0, ROWS),
    "negative_binomial": _rng.poisson(3.0, ROWS),
    "binomial": _rng.integers(0, 6, ROWS),
    "bernoulli": _rng.integers(0, 2, ROWS),
}
SD = dist.LogNormal(-0.5, 0.7)
COLUMNS = {"poisson": {"exposure": np.linspace(0.5, 2.0, ROWS)}, "binomial": {"trials": 6}}


def model(family: str, terms: list[Any], y: Any = None, **options: Any) -> LatentGaussianModel:
    """Return a model of the data above."""
    y = Y[family] if y is None else y
    return LatentGaussianModel(y, terms, data=DATA, family=family, **{**COLUMNS.get(family, {}), **options})


def make_models() -> dict[str, LatentGaussianModel]:
    """Return models that together have every term, several constraints and improper directions, and every family."""
    missing = np.where(np.arange(ROWS) % 5 == 2, np.nan, Y["poisson"])
    return {
        "constraints and a trend": model(
            "poisson", [Fixed(["1", "x"]), RW2("age", prior=SD), BYM2("region", **GRAPH)], missing
        ),
        "flat fixed effects": model(
            "bernoulli", [Fixed(["1", "x"], sd="flat"), AR1("t", prior=SD), IID("g", weights="x", prior=SD)]
        ),
        "two components": model("gaussian", [RW1("t", prior=SD), ICAR("region", **GRAPH, prior=SD)], offset=DATA["x"]),
        "five hyperparameters": model(
            "negative_binomial",
            [Fixed("1"), BYM("region", **GRAPH, prior=SD), RW2("age", constraint="trend", prior=SD), IID("g")],
        ),
        "free level": model("binomial", [RW2("t", cyclic=True, constraint="none", prior=SD, values=range(7))]),
        "no hyperparameters": model("binomial", [Fixed(["1", "x"], sd=1.5)]),
    }


MODELS = make_models()


@dataclass
class Dense:
    """A model at one value of the hyperparameters, with sites, by dense matrices."""

    posterior: LatentPosterior
    u: np.ndarray
    sites: Sites

    def __post_init__(self) -> None:
        posterior = self.posterior
        values = posterior.hyperparameters.at(self.u)
        pairs = list(zip(posterior.terms, values.of_terms, strict=True))
        terms: Any = [term for term, _ in pairs]
        self.Q = linalg.block_diag(*(term.precision(**own).toarray() for term, own in pairs))
        self.C = linalg.block_diag(np.zeros((0, 0)), *(term.constraints for term in terms))
        flat = linalg.block_diag(np.zeros((0, 0)), *(term.improper for term in terms))
        self.A = posterior.assembly.A.toarray()
        self.offset = posterior.assembly.offset
        w, b = self.sites
        self.H = self.Q + INFLATION * np.diag(np.diag(self.Q)) + self.A.T @ (w[:, None] * self.A)
        self.inside = null_space(self.C)
        """Orthonormal basis of {C x = 0}."""
        self.proper = null_space(np.concatenate([self.C, flat]))
        self.precision = self.inside.T @ self.H @ self.inside
        self.covariance = self.inside @ np.linalg.inv(self.precision) @ self.inside.T
        self.mean = self.covariance @ self.A.T @ b

    def log_prior(self, x: np.ndarray) -> float:
        """Return log p(x | u) on {C x = 0}, without powers of 2 pi."""
        return 0.5 * log_det(self.proper.T @ self.Q @ self.proper) - 0.5 * float(x @ self.Q @ x)

    def log_reference(self, x: np.ndarray) -> float:
        """Return log q(x | u) on {C x = 0}, without powers of 2 pi."""
        away = self.inside.T @ (x - self.mean)
        return 0.5 * log_det(self.precision) - 0.5 * float(away @ self.precision @ away)


def null_space(rows: np.ndarray) -> np.ndarray:
    """Return an orthonormal basis of the vectors that are orthogonal to rows."""
    return linalg.null_space(rows) if len(rows) else np.eye(rows.shape[1])


def log_det(matrix: np.ndarray) -> float:
    sign, value = np.linalg.slogdet(matrix) if len(matrix) else (1.0, 0.0)
    assert sign == 1.0
    return float(value)


def wrong_sites(posterior: LatentPosterior, seed: int = 0) -> Sites:
    """Return sites that have nothing to do with the responses."""
    rng, rows = np.random.default_rng(seed), len(posterior.assembly.offset)
    return Sites(rng.uniform(0.1, 3.0, rows), rng.standard_normal(rows))


def some_u(posterior: LatentPosterior, seed: int = 0) -> np.ndarray:
    """Return a value of the hyperparameters."""
    return np.random.default_rng([seed, 1]).uniform(-1.0, 0.6, posterior.hyperparameters.size)


def log_ratio(definition: Definition, dense: Dense, x: np.ndarray) -> float:
    """Return log p(u) + log p(x | u) + log p(y | x, u) - log q(x | u), up to powers of 2 pi."""
    family, observed = definition.family.name, definition.observed
    eta = dense.A @ x + dense.offset
    if family == "poisson":
        eta = eta + np.log(COLUMNS["poisson"]["exposure"][observed])
    parameters = dense.posterior.hyperparameters.at(dense.u).of_family
    likelihood = log_likelihood(family, definition.y[observed], eta, parameters)
    return log_prior_of_u(dense.posterior, dense.u) + dense.log_prior(x) - dense.log_reference(x) + likelihood


def log_likelihood(family: str, y: np.ndarray, eta: np.ndarray, parameters: Any) -> float:
    """Return the log-likelihood by SciPy."""
    if family == "gaussian":
        return stats.norm(eta, parameters["noise_scale"]).logpdf(y).sum()
    if family == "poisson":
        return stats.poisson(np.exp(eta)).logpmf(y).sum()
    if family == "negative_binomial":
        r = parameters["dispersion"]
        return stats.nbinom(r, r / (r + np.exp(eta))).logpmf(y).sum()
    if family == "binomial":
        return stats.binom(6, special.expit(eta)).logpmf(y).sum()
    return stats.bernoulli(special.expit(eta)).logpmf(y).sum()


def log_prior_of_u(posterior: LatentPosterior, u: np.ndarray) -> float:
    """Return the log prior density of u: that of the hyperparameters times the derivative of u -> value, by NumPyro."""
    total = 0.0
    with jax_settings():  # in double precision
        for value, prior in zip(u, posterior.hyperparameters.parameters.priors.values(), strict=True):
            transform = dist.transforms.biject_to(prior.support)
            constrained = transform(value)
            total += float(prior.log_prob(constrained) + transform.log_abs_det_jacobian(value, constrained))
    return total
