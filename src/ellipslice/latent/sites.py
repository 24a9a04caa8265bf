"""Sites as a function of the hyperparameters, interpolated between some values of them, the anchors."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from ellipslice.latent.newton import SMALLEST_PRECISION, expand, positive
from ellipslice.latent.posterior import Conditional, Sites
from ellipslice.latent.student import StudentT


class InterpolatedSites(NamedTuple):
    """Sites for any value of the hyperparameters: a callable from a `Conditional` to `Sites`.

    For unknown parameters of the family, the change of the second-order expansion of the log-likelihood at a fixed
    linear predictor is added. For Gaussian noise this is exact: sites that fit for one noise scale fit for all.
    """

    student: StudentT
    """Approximation of the posterior of the hyperparameters, whose t variables define distances."""
    anchors: np.ndarray
    """The t variables of the anchors, shape (count, hyperparameters)."""
    width: float
    """The weight of an anchor is a Gaussian of the distance, with this standard deviation."""
    precision: np.ndarray
    """Precisions of the sites of each anchor, less those of the expansion if there is one, shape (count, rows)."""
    linear: np.ndarray
    """Linear coefficients of the sites of each anchor, less those of the expansion, shape (count, rows)."""
    offset: np.ndarray
    eta: np.ndarray | None = None
    """Linear predictor of the expansion. None if the family has no unknown parameters."""

    @classmethod
    def between(
        cls,
        found: Sequence[tuple[Conditional, Sites]],
        student: StudentT,
        offset: np.ndarray,
        eta: np.ndarray | None,
    ) -> InterpolatedSites:
        """Return an interpolator between sites that were fitted for some values of the hyperparameters."""
        anchors = student.white(np.stack([at.u for at, _ in found]))
        own = [sites if eta is None else _difference(sites, expand(at.likelihood, eta, offset)) for at, sites in found]
        return cls(
            student,
            anchors,
            _spacing(anchors),
            np.stack([sites.precision for sites in own]),
            np.stack([sites.linear for sites in own]),
            offset,
            eta,
        )

    def __call__(self, at: Conditional) -> Sites:
        """Return the sites for hyperparameters."""
        if len(self.anchors) == 1:
            precision, linear = self.precision[0], self.linear[0]
        else:
            log_weights = -0.5 * ((self.student.white(at.u) - self.anchors) ** 2).sum(-1) / self.width**2
            weights = np.exp(log_weights - log_weights.max())
            weights /= weights.sum()
            precision, linear = weights @ self.precision, weights @ self.linear
        if self.eta is None:
            return Sites(precision, linear)
        now = expand(at.likelihood, self.eta, self.offset)
        total = precision + now.precision
        moved = positive(total)
        # Where the precision was limited, the slope of the site at the fixed linear predictor is kept.
        linear = linear + now.linear + (moved - total) * (self.eta - self.offset)
        finite = np.isfinite(moved) & np.isfinite(linear)
        return Sites(np.where(finite, moved, SMALLEST_PRECISION), np.where(finite, linear, 0.0))


def _spacing(anchors: np.ndarray) -> float:
    """Return the median distance of an anchor to the nearest other one, at least 0.5."""
    distance = np.sqrt(((anchors[:, None] - anchors) ** 2).sum(-1))
    np.fill_diagonal(distance, np.inf)
    nearest = distance.min(1)
    return max(float(np.median(nearest)), 0.5) if np.isfinite(nearest).all() else 0.5


def _difference(sites: Sites, expansion: Sites) -> Sites:
    return Sites(sites.precision - expansion.precision, sites.linear - expansion.linear)
