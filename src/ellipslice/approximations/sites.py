"""Gaussian sites in place of the likelihood of each element of f, and the reference that is the prior times sites.

The prior times sites is a Gaussian Q, and log(Q / prior) is a sum over sites: O(N), whatever the prior.
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
    """Gaussian sites in place of the likelihood: exp(linear g - precision g^2 / 2) of g = f - origin.

    Expectation propagation and Laplace's approximation find them. Arrays have one element for each element of f, and
    may have leading axes, such as one for the latent functions of a model.
    """

    linear: Any
    precision: Any
    origin: Any = 0.0
    """Near f: squares of data far from 0 would leave no digits for what they differ by."""

    def about(self, origin: Any) -> Sites:
        """Return the same sites, up to a constant factor, with another origin."""
        return Sites(self.linear - self.precision * (origin - self.origin), self.precision, origin)

    def log_value(self, f: Any) -> Any:
        """Return the logarithm of the product of all sites at f."""
        away = f - self.origin
        return (self.linear * away - 0.5 * self.precision * away * away).sum()


@dataclass(frozen=True, eq=False)
class SitesReference:
    """The reference Gaussian that is the prior times sites exp(linear f - precision f^2 / 2), f being centred.

    Parameters
    ----------
    linear, precision : array, shape (size,)
        The precisions are at least 0, so that there is a Gaussian for any prior.
    """

    stored_as = "Sites"

    linear: np.ndarray
    precision: np.ndarray

    elementwise: ClassVar[bool] = True

    def relative_to(self, prior: Prior) -> RelativeSites:
        """The reference for this prior, whose factor becomes a dense matrix."""
        rows = as_rows(prior)
        check_size(len(self.linear), rows.shape[1], "values", prior)
        return RelativeSites(rows, self)


@pytree
class RelativeSites:
    """A `SitesReference` relative to a prior, whose covariance may be singular."""

    centre: Any
    linear: Any
    precision: Any

    host: HostOnly

    def __init__(self, rows: np.ndarray, sites: SitesReference):
        narrowed = triangular(narrow(rows, sites.precision))
        centre = narrowed.T @ (narrowed @ sites.linear)
        set_fields(self, centre=centre, linear=sites.linear, precision=sites.precision, host=HostOnly(narrowed))

    @property
    def rows(self) -> np.ndarray:
        """The covariance of Q is rows.T @ rows. Square ones are triangular. On the host only, where draws are made."""
        return self.host.value

    def log_ratio_on_ellipse(self, x: Any, nu: Any) -> LogRatio:
        """The ratio of Q and P on an ellipse."""
        slope = self.linear - self.precision * self.centre
        bent_x, bent_nu = self.precision * x, self.precision * nu
        pairs = ((slope, x), (slope, nu), (x, bent_x), (nu, bent_x), (nu, bent_nu))
        return LogRatio(*(dot(one, two) for one, two in pairs))

    def draw(self, rng: np.random.Generator, count: int) -> np.ndarray:
        """Draws from Q with its mean taken away, shape (count, size)."""
        return draw_by_rows(self.rows, len(self.rows) == self.rows.shape[1], rng, count)


def triangular(rows: np.ndarray) -> np.ndarray:
    """The same covariance by upper triangular rows, if they are square: draws then cost almost half."""
    return np.asarray(np.linalg.qr(rows, mode="r")) if len(rows) == rows.shape[1] else rows


def narrow(rows: np.ndarray, precision: np.ndarray) -> np.ndarray:
    """The factor of inv(inv(Sigma) + diag(precision)) from the one of Sigma = rows.T @ rows, which may be singular."""
    return solve_triangular(white_root(rows, precision), rows, lower=True, check_finite=False)


def white_root(rows: np.ndarray, precision: np.ndarray) -> np.ndarray:
    """The factor of Q's precision where the prior is white, I + rows diag(precision) rows.T; lower triangular."""
    weighted = rows * np.sqrt(np.abs(precision))
    inner = (weighted * np.sign(precision) if (precision < 0).any() else weighted) @ weighted.T
    inner.flat[:: len(inner) + 1] += 1.0
    return cholesky(inner, lower=True)


def log_normalizer(rows: np.ndarray, sites: Sites | SitesReference) -> float:
    """The logarithm of the integral of N(f; 0, rows.T @ rows) exp(linear f - precision f^2 / 2)."""
    root = white_root(rows, sites.precision)
    z = solve_triangular(root, rows @ sites.linear, lower=True)
    return 0.5 * float(z @ z) - float(np.log(root.diagonal()).sum())


def check_size(found: int, expected: int, what: str, prior: Prior) -> None:
    """Raise if a reference was made for another prior."""
    if found == expected:
        return
    carried = (
        ", those of A f among them, which likelihoods.LinearPredictor carries along"
        if isinstance(prior, PredictorPrior)
        else ""
    )
    raise ValueError(
        f"ReferenceSlice was given a reference for {found} {what}, but the prior has {expected}{carried}. Let `sample` "
        "fit "
        'one: leave move out, and give reference="auto".'
    )


LIMIT = 5_000
"""Most values of a prior, whose factor becomes a dense matrix."""


def has_rows(prior: Prior) -> bool:
    """Whether a prior has a factor for `as_rows`. One that is known only through its draws has none."""
    return prior.linear and prior.size <= LIMIT and prior.noise_size > 0


def as_rows(prior: Prior, asked: str = "a reference", instead: str = "Leave it out (reference=None)") -> np.ndarray:
    """The factor of a prior's covariance, rows.T @ rows.

    `asked` and `instead` say, in an error, what needs it, and what to do where there is none.
    """
    if prior.size > LIMIT:
        raise ValueError(
            f"a reference makes a dense matrix of the prior's {prior.size} values; at most {LIMIT} are taken."
        )
    if not has_rows(prior):
        raise TypeError(
            f"{asked} needs a covariance, but {prior!r} is known only through its draws. {instead}, or "
            "give a prior with a covariance, such as Dense(covariance)."
        )
    with jax_settings():
        return np.asarray(prior.unwhiten(np.eye(prior.noise_size)))
