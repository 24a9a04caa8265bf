"""A Gaussian restricted by linear inequalities, A f <= b."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property
from typing import Any

import numpy as np
import scipy.sparse

from ellipslice.checks import as_numbers, check_real
from ellipslice.priors.base import Layout, Prior, is_single
from ellipslice.priors.parts.augmented import PredictorPrior
from ellipslice.priors.parts.feasible_point import interior_point

DRAWS = 64
"""Draws by which the spread of the constraints' products is judged."""

CONSTANT = 1e-10
"""A product that spreads by less than this part of what cancels in it does not vary under the prior."""


class TruncatedGaussian:
    """A Gaussian prior that is zero wherever A f <= b does not hold, for `sample`.

    For positive, increasing or convex functions, ordered effects, orthants and polytopes: anything that linear
    inequalities can say. Every proposal keeps them, whatever the likelihood, and there is nothing to tune. Where they
    hold for most draws of the prior anyway, a log-likelihood that is -inf elsewhere does as well.

    Parameters
    ----------
    prior : Prior
        Any of this library's priors, with its mean.
    A : array or scipy.sparse array, shape (constraints, N)
        A row for each constraint, on the flat latent f, mean included. (A `Stack` has its latents one after the other.)
    b : float or array, shape (constraints,)
        Their bounds. An infinite bound is none.

    Notes
    -----
    `sample` runs `moves.ConstrainedSlice`: elliptical slice sampling on the arcs of the ellipse where all constraints
    hold (Gessner, Kanjilal & Hennig 2020; Wu & Gardner 2024). Chains start around the mean, if that is inside, else
    around a point found by linear programming, unless `initial` is given. (With a thousand dense constraints on a
    thousand values that takes seconds.) A region without an inside (f_1 <= f_2 and f_2 <= f_1) is refused: condition
    the prior on equalities instead.

    An update costs O(N + m log m) for m constraints, beside a draw and its product with A.

    References
    ----------
    Gessner, Kanjilal & Hennig (2020), Integrals over Gaussians under linear domain constraints, AISTATS.
    Wu & Gardner (2024), A fast, robust elliptical slice sampling method for truncated multivariate normal
    distributions.

    Examples
    --------
    Two correlated values of which the first is the larger, and the same without any data:

    >>> import numpy as np
    >>> import ellipslice as es
    >>> ordered = es.TruncatedGaussian(es.Dense([[1.0, 0.5], [0.5, 1.0]]), [[-1.0, 1.0]], 0.0)
    >>> ordered
    TruncatedGaussian(Dense(2 values, rank 2), 1 constraint)
    >>> tree = es.sample(es.likelihoods.Gaussian([0.0, 1.0], 1.0), ordered, draws=200, seed=1)
    >>> bool((tree.posterior.f[..., 0] >= tree.posterior.f[..., 1]).all())
    True
    >>> alone = es.sample(None, ordered, draws=200, seed=1)
    >>> int(alone.sample_stats.proposals.max())
    1
    """

    stored_as = "TruncatedGaussian"

    def __init__(self, prior: Prior, A: Any, b: Any):
        if not isinstance(prior, Prior):
            hint = " Put all constraints into one A." if isinstance(prior, TruncatedGaussian) else ""
            raise TypeError(
                f"prior must be one of ellipslice's priors, such as Dense(covariance), but it is a "
                f"{type(prior).__name__}.{hint}"
            )
        matrix = _as_matrix(A, prior.size)
        bounds = _as_bounds(b, matrix.shape[0])
        kept = bounds < np.inf
        self.prior, self.A, self.b = prior, matrix[kept], bounds[kept]

    @classmethod
    def box(cls, prior: Prior, lower: Any = -np.inf, upper: Any = np.inf) -> TruncatedGaussian:
        """The Gaussian between a lower and an upper bound for each value.

        Parameters
        ----------
        prior : Prior
        lower, upper : float or array of the prior's shape; for a `Stack` a mapping of names to these
            Infinite where there is no bound. Latents that a mapping does not name have none.

        Examples
        --------
        >>> import numpy as np
        >>> import ellipslice as es
        >>> es.TruncatedGaussian.box(es.Diagonal(np.ones(3)), lower=0.0, upper=[1.0, 2.0, np.inf])
        TruncatedGaussian(Diagonal(shape (3,)), 5 constraints)
        """
        if not isinstance(prior, Prior):
            return cls(prior, None, None)  # which says what it should be
        low, high = _as_box(lower, prior.layout, "lower", -np.inf), _as_box(upper, prior.layout, "upper", np.inf)
        if not (low < high).all():
            i = int(np.argmin(low < high))
            raise ValueError(
                f"lower must be below upper, but at value {i} of the flat latent they are {low[i]} and {high[i]}. A "
                "value that is known is no latent: condition the prior on it."
            )
        below, above = np.flatnonzero(low > -np.inf), np.flatnonzero(high < np.inf)
        signs = np.concatenate([-np.ones(len(below)), np.ones(len(above))])
        columns = np.concatenate([below, above])
        shape = (len(signs), prior.size)
        A = scipy.sparse.csr_array((signs, (np.arange(len(signs)), columns)), shape=shape)
        return cls(prior, A, np.concatenate([-low[below], high[above]]))

    def product(self, f: Any) -> Any:
        """A f for each of a batch of flat vectors (..., N)."""
        if isinstance(self.A, np.ndarray):
            return f @ self.A.T
        rows = np.asarray(f).reshape(-1, self.A.shape[1])
        return np.asarray(self.A @ rows.T).T.reshape(*f.shape[:-1], self.A.shape[0])

    @cached_property
    def bounds(self) -> np.ndarray:
        """The bounds of the centred f, b - A mean; infinite for a constraint on what does not vary under the prior.

        (Its product would be rounding, which could seem to break it.) Refused if such a constraint does not hold.
        """
        mean = np.zeros(self.prior.size) if self.prior.mean is None else self.prior.mean
        bounds = self.b - self.product(mean)
        constant = self._spread[0] <= CONSTANT * self._spread[1]
        rounding = 1e-9 * (self._spread[1] + np.abs(self.b) + abs(self.A) @ np.abs(mean))
        broken = constant & (bounds < -rounding)
        if broken.any():
            i = int(np.argmax(broken))
            raise ValueError(
                f"no point keeps A f <= b: under the prior, row {i} of A times f is always "
                f"{self.b[i] - bounds[i]:.6g}, and b[{i}] is {self.b[i]:.6g}."
            )
        return np.where(constant, np.inf, bounds)

    @cached_property
    def inside(self) -> np.ndarray:
        """A centred flat f well inside the constraints; refused if there is none."""
        return interior_point(self.prior, self.A, self.bounds, self._draws, self._spread[0])

    def slack(self, f: np.ndarray) -> np.ndarray:
        """How far each constraint is from being met, b - A f, at a centred flat f; 0 where it is that to rounding."""
        product, bounds = self.product(f), self.bounds
        rounding = 1e-13 * (abs(self.A) @ np.abs(f) + np.where(bounds < np.inf, np.abs(bounds), 0.0) + np.abs(self.b))
        slack = bounds - product
        return np.where(np.abs(slack) <= rounding, 0.0, slack)

    @cached_property
    def _draws(self) -> np.ndarray:
        return np.asarray(self.prior.draw_zero_mean(np.random.default_rng(0), DRAWS))

    @cached_property
    def _spread(self) -> tuple[np.ndarray, np.ndarray]:
        """How much A nu varies, and how large what is added up in it is, for each constraint."""
        varies = np.sqrt((self.product(self._draws) ** 2).mean(0))
        return varies, abs(self.A) @ np.sqrt((self._draws**2).mean(0))

    def __repr__(self) -> str:
        count = len(self.b)
        return f"TruncatedGaussian({self.prior!r}, {count} constraint{'' if count == 1 else 's'})"


class AugmentedPrior(PredictorPrior):
    """The prior of [x, A f], whose draws are [nu, A nu], not truncated. The sampler's own; users see f alone.

    Parameters
    ----------
    base : Prior
        Draws x, which begins with the centred f.
    truncated : TruncatedGaussian
    """

    asked_for = "TruncatedGaussian"

    instead = (
        "it carries A f along for all values together. Use ConstrainedSlice, which `sample` takes unless another move "
        "is given."
    )

    def __init__(self, base: Prior, truncated: TruncatedGaussian):
        dense = isinstance(truncated.A, np.ndarray)
        super().__init__(base, self._product, len(truncated.b), dense)
        self.bounds, self._truncated = truncated.bounds, truncated

    def _product(self, f: Any) -> Any:
        return self._truncated.product(f[..., : self._truncated.prior.size])


def _as_matrix(A: Any, size: int) -> Any:
    matrix: Any
    if scipy.sparse.issparse(A):
        check_real("A", A.dtype)
        matrix = scipy.sparse.csr_array(A, dtype=np.float64, copy=True)
        as_numbers(matrix.data, "the non-zeros of A")
    else:
        matrix = as_numbers(A, "A")
    if matrix.ndim != 2 or matrix.shape[1] != size:
        raise ValueError(
            f"A has shape {matrix.shape}; expected (constraints, {size}), a row for each constraint and a column for "
            "each value of the prior's flat latent."
        )
    return matrix


def _as_bounds(b: Any, count: int) -> np.ndarray:
    bounds = as_numbers(b, "b", finite=False)
    if bounds.shape not in ((), (count,)):
        raise ValueError(f"b has shape {bounds.shape}; expected a number or ({count},), a bound for each row of A.")
    if np.isnan(bounds).any() or (bounds == -np.inf).any():
        raise ValueError("b must be numbers above -inf, but some are NaN or -inf. +inf stands for no bound.")
    return np.broadcast_to(bounds, (count,)).copy()


def _as_box(bound: Any, layout: Layout, name: str, none: float) -> np.ndarray:
    if isinstance(bound, Mapping):
        unknown = sorted(str(key) for key in bound if key not in dict(layout))
        if unknown:
            known = ", ".join(latent for latent, _ in layout)
            raise ValueError(f"{name} has {', '.join(unknown)}, but the prior's latents are {known}.")
    elif not is_single(layout) and np.ndim(bound):
        names = ", ".join(latent for latent, _ in layout)
        raise TypeError(f"{name} must be a number, or a mapping with some of the prior's latents, {names}.")
    parts = []
    for latent, shape in layout:
        values = as_numbers(bound.get(latent, none) if isinstance(bound, Mapping) else bound, name, finite=False)
        if values.shape not in ((), shape):
            raise ValueError(f"{name} has shape {values.shape} for {latent}; expected a number, or {shape}.")
        if np.isnan(values).any():
            raise ValueError(f"{name} must be numbers, but some of them are NaN. {none} stands for no bound.")
        parts.append(np.broadcast_to(values, shape).ravel())
    return np.concatenate(parts)
