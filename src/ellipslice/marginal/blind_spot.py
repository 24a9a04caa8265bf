"""The blind spot of an estimate: the smallest share of mass that its draws would have found with high probability."""

from __future__ import annotations

from scipy.special import betaincinv

FOUND = 0.95
"""Probability with which a region of the share `smallest_share` is found."""

NESTED_POINTS = 5
"""Number of live points in a region that count as found in nested sampling.

With fewer, all of them may be removed by chance before the likelihoods elsewhere are exceeded."""


def smallest_share(draws: int, points: int = 1) -> float:
    """Return the share of a region that holds at least `points` of independent draws with a probability of 0.95.

    Examples
    --------
    >>> round(smallest_share(1000), 4), round(smallest_share(1000, 5), 4)
    (0.003, 0.0091)
    """
    return float(betaincinv(points, draws - points + 1, FOUND))


def percent(share: float) -> str:
    """Return a share as text, in percent with two significant digits."""
    return f"{100 * share:.2g} %"
