"""p(y_i | other responses) for one draw, with the linear predictor of row i integrated out.

A draw of hyperparameters u and latents x is divided, as `draws` describes, into the linear predictor of row i and the
rest. Let

    r_i = p(y_i | rest, u, responses without y_i)
        = integral of p(y_i | eta_i) f(eta_i) d eta_i / integral of f(eta_i) d eta_i,

where f is the density of eta_i given the rest, u and all responses except y_i, up to a constant. It contains the
likelihoods of the other rows, whose linear predictors change with eta_i. Both integrals are one-dimensional, and are
computed by the trapezoidal rule. Then 1 / p(y_i | other responses) is the posterior mean of 1 / r_i, exactly, because
1 / r_i is the conditional mean of 1 / p(y_i | eta_i) given the rest and u. Its variance is never larger, and much
smaller if y_i is informative about eta_i. If the likelihood is Gaussian, r_i depends on u alone.

The reference chooses the direction and the first nodes. It has no other influence on the result, apart from the
relative increase `assembly.INFLATION` of its precision.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from ellipslice.latent.leave_out.draws import RowDraw

NODES = 15
"""Number of nodes of the first trapezoidal rule."""

REACH = 6.0
"""Standard deviations between the centre and the last node."""

MOST_ROUNDS = 6
"""Largest number of rules for an integral. Each has twice the intervals of the one before, around a new centre."""

LARGEST_END = 1e-6
"""Largest value at the last nodes, relative to the largest value."""

LARGEST_DIFFERENCE = 0.01
"""Largest relative difference between the rule and that with every second node, whose error is about that of the rule
to the power of 1/4."""

SMALLEST_SPREAD = 0.75
"""Smallest standard deviation of a density, relative to the distance of the nodes."""

MOST_VALUES = 150_000
"""Largest number of values of the likelihood that are computed at once: few enough for the cache."""

SMALLEST_VARIANCE = 1e-12
"""Rows whose reference variance is smaller than this, relative to the largest, are not integrated."""


class Lines(NamedTuple):
    """Lines through a draw: linear predictors eta + shift * t, where t is the change of the row's own predictor."""

    draw: RowDraw
    rows: np.ndarray
    """Row of each line, shape (lines,)."""
    shift: np.ndarray
    """Change of all linear predictors per unit of t, shape (lines, rows)."""
    slope: np.ndarray
    """Derivative of the log prior density at t = 0, shape (lines,)."""
    curvature: np.ndarray
    """Second derivative of the log prior density."""

    @classmethod
    def through(cls, draw: RowDraw, rows: np.ndarray) -> Lines:
        """Return the line of each of some rows."""
        variance = draw.covariance[rows, rows]
        shift = draw.covariance[rows] / variance[:, None]
        slope = (draw.mean - draw.change)[rows] / variance - shift @ draw.site_slopes
        curvature = shift**2 @ draw.sites.precision - 1 / variance
        return cls(draw, rows, shift, slope, curvature)

    def log_densities(self, t: np.ndarray, lines: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return log f and log p(y_i | eta_i) at t, shape (nodes, lines), on some of the lines."""
        count = len(lines)
        padded = np.arange(_padded(count, len(self.rows))) % count
        t, lines = t[:, padded], lines[padded]
        prior = (self.slope[lines] + 0.5 * self.curvature[lines] * t) * t
        others, own = np.empty(t.shape), np.empty(t.shape)
        width = max(1, MOST_VALUES // (len(t) * self.shift.shape[1]))
        for first in range(0, len(lines), width):
            part = slice(first, first + width)
            rows = self.rows[lines[part]]
            eta = self.draw.eta + t[:, part, None] * self.shift[lines[part]]
            values = np.require(self.draw.likelihood.pointwise(eta), requirements="W")
            own[:, part] = values[:, np.arange(len(rows)), rows]
            values[:, np.arange(len(rows)), rows] = 0.0
            others[:, part] = values.sum(-1)
        return (prior + others)[:, :count], own[:, :count]


def _padded(count: int, most: int) -> int:
    """Return a number of lines that few calls differ in, because JAX compiles a user's family for each shape."""
    return min(1 << (count - 1).bit_length(), most)


def log_cavity_densities(draw: RowDraw, rows: np.ndarray) -> np.ndarray:
    """Return log r_i for each of some rows."""
    variance = np.diagonal(draw.covariance)
    moving = variance[rows] > SMALLEST_VARIANCE * variance.max(initial=0.0)
    found = draw.likelihood.pointwise(draw.eta)[rows]
    if moving.any():
        found[moving] = _on_lines(Lines.through(draw, rows[moving]))
    return found


def _on_lines(lines: Lines) -> np.ndarray:
    """Return log r_i for each line."""
    draw, rows = lines.draw, lines.rows
    variance, (precision, linear) = draw.covariance[rows, rows], draw.sites
    centre = (draw.mean - draw.change)[rows]
    without = np.maximum(1 - precision[rows] * variance, 1e-6)  # relative precision without the row's own site
    cavity = variance / without
    cavity_centre = cavity * (draw.mean[rows] / variance - linear[rows]) - draw.change[rows]

    def with_own(t: np.ndarray, which: np.ndarray) -> np.ndarray:
        others, own = lines.log_densities(t, which)
        return others + own

    def without_own(t: np.ndarray, which: np.ndarray) -> np.ndarray:
        return lines.log_densities(t, which)[0]

    numerator = log_integrals(with_own, centre, np.sqrt(variance))
    return numerator - log_integrals(without_own, cavity_centre, np.sqrt(cavity))


def log_integrals(
    log_density: Callable[[np.ndarray, np.ndarray], np.ndarray], centre: np.ndarray, sd: np.ndarray
) -> np.ndarray:
    """Return the logarithms of the integrals of several densities on the line, by the trapezoidal rule.

    Its error decreases exponentially with the number of nodes per standard deviation for smooth densities.

    Parameters
    ----------
    log_density : callable
        From nodes, shape (nodes, chosen), and the numbers of the chosen densities to the logarithms of these densities.
    centre, sd : arrays, shape (densities,)
        First centre and standard deviation of each density. A wrong one is corrected.
    """
    found, which = np.empty(len(centre)), np.arange(len(centre))
    centre, sd = centre.copy(), sd.copy()
    count = NODES
    for _ in range(MOST_ROUNDS):
        step = 2 * REACH * sd[which] / (count - 1)
        nodes = centre[which] + sd[which] * np.linspace(-REACH, REACH, count)[:, None]
        with np.errstate(all="ignore"):
            values = log_density(nodes, which)
        values = np.where(np.isnan(values), -np.inf, values)
        top = values.max(0)
        weights = np.exp(values - np.where(np.isfinite(top), top, 0.0))
        total = np.maximum(weights.sum(0), np.finfo(float).tiny)
        found[which] = top + np.log(total * step)
        end = np.maximum(weights[0], weights[-1])
        mean = (weights * nodes).sum(0) / total
        spread = np.sqrt((weights * (nodes - mean) ** 2).sum(0) / total)
        difference = np.abs(2 * weights[::2].sum(0) / total - 1)
        again = ~((end <= LARGEST_END) & (difference <= LARGEST_DIFFERENCE) & (spread >= SMALLEST_SPREAD * step))
        if not again.any():
            break
        least = np.where(end > LARGEST_END, 2 * sd[which], step / 2)
        centre[which], sd[which] = mean, np.maximum(spread, least)
        which, count = which[again], 2 * count - 1
    return found
