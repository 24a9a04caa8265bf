"""Ordered categories, cumulative logistic link."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.special
from jax.core import Tracer

from ellipslice.checks import as_numbers, reject
from ellipslice.likelihoods.arguments import observations, read_only
from ellipslice.likelihoods.base import Likelihood, namespace, softplus
from ellipslice.pytree import pytree, set_fields


@pytree
class Ordinal(Likelihood):
    """Cumulative logistic log-likelihood of ordered categories 1, 2, ..., K: P(y <= k) = 1 / (1 + exp(f - cut_k)).

    It is the proportional odds model. y is the category of f plus logistic noise between K - 1 increasing cut points,
    so a larger f makes higher categories more probable.

    Parameters
    ----------
    y : array_like of int
        Categories, from 1 to K. Any shape.
    cut_points : array_like of float, shape (..., K - 1)
        Increasing cut points. Leading axes broadcast to the shape of y, or to that of a batch of f.

    Raises
    ------
    ValueError
        If y has a value that is not a category, or the cut points do not increase.

    Notes
    -----
    A constant added to f and to all cut points changes nothing, so fix one of them: the mean of f, or a cut point. The
    likelihood is log-concave. It is not in the paper.

    Examples
    --------
    >>> import numpy as np
    >>> log_likelihood = Ordinal([1, 3], cut_points=[-1.0, 1.0])
    >>> log_likelihood
    Ordinal(2 observations, cut_points=array of shape (2,))
    >>> log_likelihood.pointwise(np.zeros(2)).round(4)
    array([-1.3133, -1.3133])
    """

    y: Any
    cut_points: Any
    lower: Any
    upper: Any
    constant: Any
    has_lower: Any
    has_upper: Any

    log_concave = True
    curvature_rate_bound = 1.0
    _repr_fields = ("cut_points",)

    def __init__(self, y: Any, cut_points: Any):
        owner = type(self).__name__
        y = observations(owner, y)
        cuts = _checked(owner, cut_points)
        count = cuts.shape[-1]
        bad = (y < 1) | (y > count + 1) | (y != np.floor(y))
        reject(f"{owner}: y", y, bad, f"is not a category. With {count} cut points they are 1 to {count + 1}.")
        xp, _ = namespace(cuts)
        category = y.astype(int)
        below, above = (np.clip(category - shift, 0, count - 1) for shift in (2, 1))
        lower, upper = _taken(cuts, below, xp), _taken(cuts, above, xp)
        inner = (category > 1) & (category <= count)
        # P(y = k) is expit(upper - f) expit(f - lower) (1 - exp(lower - upper)) for an inner category.
        width = xp.where(inner, upper - lower, 1.0)
        with np.errstate(divide="ignore"):
            log_width = xp.log(-xp.expm1(-width))
        set_fields(
            self, y=y, cut_points=cuts, lower=read_only(lower), upper=read_only(upper),
            constant=read_only(xp.where(inner, log_width, 0.0)),
            has_lower=read_only(category > 1), has_upper=read_only(category <= count),
        )  # fmt: skip

    def _pointwise(self, f: Any, xp: Any, special: Any) -> Any:
        above, below = softplus(f - self.upper, xp), softplus(self.lower - f, xp)
        return self.constant - self.has_upper * above - self.has_lower * below

    def _slope(self, f: np.ndarray) -> np.ndarray:
        expit = scipy.special.expit
        return self.has_lower * expit(self.lower - f) - self.has_upper * expit(f - self.upper)

    def _curvature(self, f: np.ndarray) -> np.ndarray:
        expit, below, above = scipy.special.expit, f - self.lower, f - self.upper
        return -self.has_lower * expit(below) * expit(-below) - self.has_upper * expit(above) * expit(-above)

    def expected(self, f: Any) -> np.ndarray:
        """Return the mean of the category number. Arguments are those of the base class."""
        return 1.0 + self._above(f).sum(-1)

    def simulate(self, f: Any, rng: np.random.Generator) -> np.ndarray:
        above = self._above(f)
        return 1.0 + (rng.random(above.shape[:-1])[..., None] < above).sum(-1)

    def _above(self, f: Any) -> np.ndarray:
        """Return the probability of a category above each cut point, shape (*f.shape, K - 1)."""
        return scipy.special.expit(np.asarray(self._as_array(f))[..., None] - self.cut_points)


def _checked(owner: str, cut_points: Any) -> Any:
    """Return the cut points as an array. Raise if they do not increase along the last axis."""
    if isinstance(cut_points, Tracer):
        return cut_points
    cuts = np.atleast_1d(as_numbers(cut_points, f"{owner}: cut_points"))
    steps = np.diff(cuts, axis=-1)
    if cuts.shape[-1] == 0:
        raise ValueError(f"{owner}: cut_points is empty. Expected one cut point less than categories.")
    # Equal cut points are allowed, because unknown steps between them may be rounded to 0.
    reject(f"{owner}: the step of cut_points", steps, steps < 0, "is negative. Expected increasing cut points.")
    return read_only(cuts)


def _taken(cuts: Any, index: np.ndarray, xp: Any) -> Any:
    """Return the cut point of each observation."""
    if cuts.ndim == 1:
        return cuts[index]
    shape = np.broadcast_shapes(cuts.shape[:-1], index.shape)
    full = xp.broadcast_to(cuts, (*shape, cuts.shape[-1]))
    return xp.take_along_axis(full, np.broadcast_to(index, shape)[..., None], axis=-1)[..., 0]
