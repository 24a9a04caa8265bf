"""Site approximations of the likelihood, and the reference Gaussian that is the prior times sites.

A site is a Gaussian factor that approximates the likelihood of one element of f. The prior times sites is a Gaussian Q,
and log(Q / prior) is a sum over sites, which costs O(N) for any prior.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

import numpy as np
from scipy.linalg import cholesky, solve_triangular

from ellipslice.jax_settings import jax_settings
from ellipslice.moves.reference_slice import LogRatio
from ellipslice.priors import Prior
from ellipslice.priors.dense import draw_by_rows
from ellipslice.priors.parts.augmented import PredictorPrior
from ellipslice.programs.vector_sums import dot
from ellipslice.pytree import HostOnly, pytree, set_fields


class Sites(NamedTuple):
    """Sites exp(linear g - precision g^2 / 2) with g = f - origin, one for each element of f.

    Expectation propagation and the Laplace approximation fit them. Arrays may have leading axes, for example one for
    the latent functions of a model.
    """

    linear: Any
    """Linear coefficients, shape (..., size)."""
    precision: Any
    """Precisions, shape (..., size)."""
    origin: Any = 0.0
    """Point near f. Default: 0. If f is far from 0, an origin near it avoids the loss of digits in f^2."""

    def about(self, origin: Any) -> Sites:
        """Return these sites with another origin. They change by a constant factor."""
        return Sites(self.linear - self.precision * (origin - self.origin), self.precision, origin)

    def log_value(self, f: Any) -> Any:
        """Return the logarithm of the product of all sites at f."""
        away = f - self.origin
        return (self.linear * away - 0.5 * self.precision * away * away).sum()


@dataclass(frozen=True, eq=False)
class SitesReference:
    """The reference Gaussian that is the prior times sites exp(linear f - precision f^2 / 2), with f centred.

    Parameters
    ----------
    linear, precision : array, shape (size,)
        Precisions are at least 0, so the product is a Gaussian for any prior.
    """

    stored_as = "Sites"

    linear: np.ndarray
    precision: np.ndarray

    elementwise: ClassVar[bool] = True

    def relative_to(self, prior: Prior) -> RelativeSites:
        """Return the reference relative to a prior, whose covariance factor becomes a dense matrix."""
        rows = covariance_factor(prior)
        check_size(len(self.linear), rows.shape[1], "elements", prior)
        return RelativeSites(rows, self)


@pytree
class RelativeSites:
    """A `SitesReference` relative to a prior, whose covariance may be singular."""

    centre: Any
    linear: Any
    precision: Any

    host: HostOnly

    def __init__(self, rows: np.ndarray, sites: SitesReference):
        factor = triangular(posterior_factor(rows, sites.precision))
        centre = factor.T @ (factor @ sites.linear)
        set_fields(self, centre=centre, linear=sites.linear, precision=sites.precision, host=HostOnly(factor))

    @property
    def rows(self) -> np.ndarray:
        """Factor of the covariance of Q, rows.T @ rows; upper triangular if square. Available only on the host."""
        return self.host.value

    def log_ratio_on_ellipse(self, x: Any, nu: Any) -> LogRatio:
        """Return log(Q / prior) on the ellipse through x and nu."""
        gradient = self.linear - self.precision * self.centre
        scaled_x, scaled_nu = self.precision * x, self.precision * nu
        pairs = ((gradient, x), (gradient, nu), (x, scaled_x), (nu, scaled_x), (nu, scaled_nu))
        return LogRatio(*(dot(one, two) for one, two in pairs))

    def log_ratio(self, x: Any) -> Any:
        """Return log(Q / prior) at centre + x, up to a constant."""
        return ((self.linear - self.precision * self.centre) * x - 0.5 * self.precision * x * x).sum()

    def draw(self, rng: np.random.Generator, count: int) -> np.ndarray:
        """Draw from Q, without its mean. Return an array of shape (count, size)."""
        return draw_by_rows(self.rows, len(self.rows) == self.rows.shape[1], rng, count)


def triangular(rows: np.ndarray) -> np.ndarray:
    """Return an upper triangular factor of the same covariance if `rows` is square: draws then cost almost half."""
    return np.asarray(np.linalg.qr(rows, mode="r")) if len(rows) == rows.shape[1] else rows


def posterior_factor(rows: np.ndarray, precision: np.ndarray) -> np.ndarray:
    """Return the factor of inv(inv(Sigma) + diag(precision)), for Sigma = rows.T @ rows, which may be singular."""
    return solve_triangular(white_precision_factor(rows, precision), rows, lower=True, check_finite=False)


def white_precision_factor(rows: np.ndarray, precision: np.ndarray) -> np.ndarray:
    """Return the lower Cholesky factor of I + rows diag(precision) rows.T, the whitened precision of Q."""
    weighted = rows * np.sqrt(np.abs(precision))
    inner = (weighted * np.sign(precision) if (precision < 0).any() else weighted) @ weighted.T
    inner.flat[:: len(inner) + 1] += 1.0
    return cholesky(inner, lower=True)


def log_normalizer(rows: np.ndarray, sites: Sites | SitesReference) -> float:
    """Return the logarithm of the integral of N(f; 0, rows.T @ rows) exp(linear f - precision f^2 / 2)."""
    lower = white_precision_factor(rows, sites.precision)
    z = solve_triangular(lower, rows @ sites.linear, lower=True)
    return 0.5 * float(z @ z) - float(np.log(lower.diagonal()).sum())


def check_size(found: int, expected: int, what: str, prior: Prior) -> None:
    """Raise if a reference was fitted for another prior. `what` names the entries that are counted."""
    if found == expected:
        return
    extra = (
        ", including those of the linear predictor A f, which are part of the state"
        if isinstance(prior, PredictorPrior)
        else ""
    )
    raise ValueError(
        f"ReferenceSlice was given a reference for {found} {what}, but the prior has {expected}{extra}. Let `sample` "
        'fit one: leave move out, and use reference="auto".'
    )


MAX_REFERENCE_SIZE = 5_000
"""Largest prior, in elements, for a reference Gaussian: the covariance factor becomes a dense matrix."""


def has_covariance_factor(prior: Prior) -> bool:
    """Return whether `covariance_factor` accepts a prior: not if it is too large, or known only through its draws."""
    return prior.linear and prior.size <= MAX_REFERENCE_SIZE and prior.noise_size > 0


def covariance_factor(prior: Prior, asked: str = "a reference", instead: str = "Use reference=None") -> np.ndarray:
    """Return a factor of a prior's covariance rows.T @ rows as a dense matrix, shape (noise_size, size).

    In an error message, `asked` is the argument that requires it, and `instead` what to use otherwise.
    """
    if prior.size > MAX_REFERENCE_SIZE:
        raise ValueError(
            f"{asked} requires a dense matrix, but the prior has {prior.size} elements; at most {MAX_REFERENCE_SIZE} "
            f"are possible. {instead}."
        )
    if not has_covariance_factor(prior):
        raise TypeError(
            f"{asked} requires a covariance, but {prior!r} is known only through its draws. {instead}, or a prior "
            "with a covariance, for example Dense(covariance)."
        )
    with jax_settings():
        return np.asarray(prior.unwhiten(np.eye(prior.noise_size)))
