"""The base class of zero-inflated counts: some zeros have another cause than the distribution of the counts."""

from __future__ import annotations

from typing import Any

import numpy as np

from ellipslice.checks import reject
from ellipslice.likelihoods.arguments import parameter, read_only
from ellipslice.likelihoods.base import Likelihood, namespace
from ellipslice.pytree import set_fields

NEGLIGIBLE = -800.0
"""Log probability below which the probability of a zero count is 0 in double precision."""


class ZeroInflated(Likelihood):
    """Base class of zero-inflated counts.

    With probability `zero_probability` a count is 0, and otherwise it has the distribution of `counts`. A subclass has
    the fields y, zero_probability, counts, is_zero, log_zero and log_counted, and calls `_set` in `__init__`.
    """

    zero_probability: Any
    counts: Any
    is_zero: Any
    log_zero: Any
    log_counted: Any

    def _set(self, zero_probability: Any, counts: Likelihood) -> None:
        """Set the fields from the likelihood of the counts without additional zeros."""
        owner, y = type(self).__name__, counts.y
        p = parameter(owner, "zero_probability", zero_probability, y.shape)
        xp, _ = namespace(p)
        if xp is np:
            problem = "is not a probability. Expected numbers from 0 to 1."
            reject(f"{owner}: zero_probability", p, (p < 0) | (p > 1), problem)
        with np.errstate(divide="ignore"):
            log_zero, log_counted = read_only(xp.log(p)), read_only(xp.log1p(-p))
        set_fields(
            self, y=y, zero_probability=p, counts=counts, is_zero=read_only(y == 0),
            log_zero=log_zero, log_counted=log_counted,
        )  # fmt: skip

    def _pointwise(self, f: Any, xp: Any, special: Any) -> Any:
        counted = self.counts._pointwise(f, xp, special)
        if xp is not np:
            # Where the probability of a zero count is 0, JAX's derivatives of it would be NaN.
            gone = (self.is_zero > 0) & (counted < NEGLIGIBLE)
            kept = self.counts._pointwise(xp.where(gone, 0.0, f), xp, special)
            counted = xp.where(gone, NEGLIGIBLE, kept)
        return xp.where(self.is_zero > 0, self._of_zero(counted, xp), self.log_counted + counted)

    def _of_zero(self, counted: Any, xp: Any) -> Any:
        """Return the log probability of a zero from that without additional zeros, with all digits near 0."""
        likely = xp.log1p((1.0 - self.zero_probability) * xp.expm1(xp.where(counted > -1.0, counted, -1.0)))
        with np.errstate(invalid="ignore"):  # NaN is an invalid value for NumPy's logaddexp
            unlikely = xp.logaddexp(self.log_zero, self.log_counted + counted)
        return xp.where(counted > -1.0, likely, unlikely)

    def _slope(self, f: np.ndarray) -> np.ndarray:
        share, _ = self._shares(f)
        return _product(share, self.counts._slope(f))

    def _curvature(self, f: np.ndarray) -> np.ndarray:
        share, rest = self._shares(f)
        slope = self.counts._slope(f)
        with np.errstate(invalid="ignore"):
            return _product(share, self.counts._curvature(f) + rest * slope * slope)

    def _shares(self, f: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return the probability that an observation comes from the distribution of the counts, and 1 minus it."""
        counted = self.counts.pointwise(f)
        total = self._of_zero(counted, np)
        share = np.where(self.is_zero > 0, np.exp(self.log_counted + counted - total), 1.0)
        return share, np.where(self.is_zero > 0, np.exp(self.log_zero - total), 0.0)

    def expected(self, f: Any) -> np.ndarray:
        return (1.0 - self.zero_probability) * self.counts.expected(f)

    def simulate(self, f: Any, rng: np.random.Generator) -> np.ndarray:
        drawn = np.asarray(self.counts.simulate(f, rng))
        return np.where(rng.random(drawn.shape) < self.zero_probability, 0, drawn)


def _product(share: np.ndarray, value: np.ndarray) -> np.ndarray:
    """Return share * value, which is 0 where share is 0, also if the value is infinite."""
    with np.errstate(invalid="ignore"):
        return np.where(share > 0, share * value, 0.0)
