"""Gaussian priors under linear inequality constraints, A f <= b."""

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

SCALE_DRAWS = 64
"""Number of draws from which the standard deviation of A f under the prior is estimated."""

CONSTANT_TOLERANCE = 1e-10
"""Relative standard deviation of a row of A f below which it is taken to be constant under the prior.

It is relative to the size of the terms of the sum, which may cancel."""


class TruncatedGaussian:
    """A Gaussian prior that is restricted to A f <= b, for `sample`.

    Use it for positive, increasing or convex functions, ordered effects, orthants and polytopes. Every proposal
    satisfies the constraints, for any likelihood, and there is nothing to tune. If most draws of the prior satisfy the
    constraints, a log-likelihood of -inf outside of them is an alternative.

    Parameters
    ----------
    prior : Prior
        Any prior of this library. The constraints are on f with its mean, not on the centred f.
    A : array or scipy.sparse array, shape (constraints, N)
        One row per constraint, one column per element of the flat latent f. The latents of a `Stack` are concatenated.
    b : float or array, shape (constraints,)
        Upper bounds of A f. +inf means no bound.

    Raises
    ------
    TypeError
        If `prior` is not a prior.
    ValueError
        If `A` or `b` has another shape, or `b` has NaN or -inf.

    Notes
    -----
    `sample` uses `moves.ConstrainedSlice`: elliptical slice sampling on the arcs of the ellipse where all constraints
    hold (Gessner, Kanjilal & Hennig 2020; Wu & Gardner 2024). Without `initial`, chains start around the mean if it
    satisfies the constraints, else around a point found by linear programming. With a thousand dense constraints on a
    thousand elements, the linear program takes seconds. A region without an interior (f_1 <= f_2 and f_2 <= f_1) raises
    a ValueError: condition the prior on equalities instead.

    With m constraints, set-up costs that of the prior and memory O(m N) for a dense A. An update costs a draw, its
    product with A, and O(N + m log m).

    References
    ----------
    Gessner, Kanjilal & Hennig (2020), Integrals over Gaussians under linear domain constraints, AISTATS.
    Wu & Gardner (2024), A fast, robust elliptical slice sampling implementation for linearly truncated multivariate
    normal distributions, arXiv:2407.10449.

    Examples
    --------
    Two correlated elements of which the first is the larger, with data and without:

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
            hint = " Put all constraints into one matrix A." if isinstance(prior, TruncatedGaussian) else ""
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
        """Return the prior restricted to lower <= f <= upper, for each element.

        Parameters
        ----------
        prior : Prior
        lower, upper : float or array of the shape of the prior, or for a `Stack` a mapping from names to these
            Bounds, lower below upper. An infinite bound means no bound, and so does a latent that is not in the
            mapping. Default: no bounds.

        Examples
        --------
        >>> import numpy as np
        >>> import ellipslice as es
        >>> es.TruncatedGaussian.box(es.Diagonal(np.ones(3)), lower=0.0, upper=[1.0, 2.0, np.inf])
        TruncatedGaussian(Diagonal(shape (3,)), 5 constraints)
        """
        if not isinstance(prior, Prior):
            return cls(prior, None, None)  # raises, with the message for a wrong prior
        low, high = _as_box(lower, prior.layout, "lower", -np.inf), _as_box(upper, prior.layout, "upper", np.inf)
        if not (low < high).all():
            i = int(np.argmin(low < high))
            raise ValueError(
                f"lower must be below upper, but at index {i} of the flat latent they are {low[i]} and {high[i]}. If "
                "the value is known, condition the prior on it instead."
            )
        below, above = np.flatnonzero(low > -np.inf), np.flatnonzero(high < np.inf)
        signs = np.concatenate([-np.ones(len(below)), np.ones(len(above))])
        columns = np.concatenate([below, above])
        shape = (len(signs), prior.size)
        A = scipy.sparse.csr_array((signs, (np.arange(len(signs)), columns)), shape=shape)
        return cls(prior, A, np.concatenate([-low[below], high[above]]))

    def product(self, f: Any) -> Any:
        """Return A f for flat vectors f (..., N), shape (..., constraints)."""
        if isinstance(self.A, np.ndarray):
            return f @ self.A.T
        rows = np.asarray(f).reshape(-1, self.A.shape[1])
        return np.asarray(self.A @ rows.T).T.reshape(*f.shape[:-1], self.A.shape[0])

    @cached_property
    def bounds(self) -> np.ndarray:
        """Bounds of A f for the centred f: b - A mean, shape (constraints,).

        The bound is infinite if the row of A f does not vary under the prior: rounding errors could otherwise break
        the constraint. Raise ValueError if such a constraint does not hold.
        """
        mean = np.zeros(self.prior.size) if self.prior.mean is None else self.prior.mean
        bounds = self.b - self.product(mean)
        constant = self._product_scale[0] <= CONSTANT_TOLERANCE * self._product_scale[1]
        rounding = 1e-9 * (self._product_scale[1] + np.abs(self.b) + abs(self.A) @ np.abs(mean))
        broken = constant & (bounds < -rounding)
        if broken.any():
            i = int(np.argmax(broken))
            raise ValueError(
                f"no point satisfies A f <= b: under the prior, row {i} of A f is always "
                f"{self.b[i] - bounds[i]:.6g}, but b[{i}] is {self.b[i]:.6g}. Change the constraint or the prior."
            )
        return np.where(constant, np.inf, bounds)

    @cached_property
    def inside(self) -> np.ndarray:
        """A centred flat f in the interior of the constraints, shape (N,). Raise ValueError if there is none."""
        return interior_point(self.prior, self.A, self.bounds, self._draws, self._product_scale[0])

    def slack(self, f: np.ndarray) -> np.ndarray:
        """Return b - A f at a centred flat f, shape (constraints,); 0 where it is 0 up to rounding error."""
        product, bounds = self.product(f), self.bounds
        rounding = 1e-13 * (abs(self.A) @ np.abs(f) + np.where(bounds < np.inf, np.abs(bounds), 0.0) + np.abs(self.b))
        slack = bounds - product
        return np.where(np.abs(slack) <= rounding, 0.0, slack)

    @cached_property
    def _draws(self) -> np.ndarray:
        """Draws of the prior, for the scale of the constraints, shape (SCALE_DRAWS, N)."""
        return np.asarray(self.prior.draw_zero_mean(np.random.default_rng(0), SCALE_DRAWS))

    @cached_property
    def _product_scale(self) -> tuple[np.ndarray, np.ndarray]:
        """Standard deviation of A nu, and the size of the terms of that sum, for each constraint."""
        deviation = np.sqrt((self.product(self._draws) ** 2).mean(0))
        return deviation, abs(self.A) @ np.sqrt((self._draws**2).mean(0))

    def __repr__(self) -> str:
        count = len(self.b)
        return f"TruncatedGaussian({self.prior!r}, {count} constraint{'' if count == 1 else 's'})"


class AugmentedPrior(PredictorPrior):
    """The Gaussian prior of [x, A f], without truncation. Its draws are [nu, A nu]. Users see only f.

    Parameters
    ----------
    base : Prior
        Prior of x, which begins with the centred f.
    truncated : TruncatedGaussian
    """

    user_class = "TruncatedGaussian"

    instead = (
        "the constraints couple all elements. Use ConstrainedSlice, the default move of `sample` for a "
        "TruncatedGaussian."
    )

    def __init__(self, base: Prior, truncated: TruncatedGaussian):
        dense = isinstance(truncated.A, np.ndarray)
        super().__init__(base, self._product, len(truncated.b), dense)
        self.bounds, self._truncated = truncated.bounds, truncated

    def _product(self, f: Any) -> Any:
        return self._truncated.product(f[..., : self._truncated.prior.size])


def _as_matrix(A: Any, size: int) -> Any:
    """Return A as a dense or CSR array of floats. Raise if it does not have `size` columns, or is not finite."""
    matrix: Any
    if scipy.sparse.issparse(A):
        check_real("A", A.dtype)
        matrix = scipy.sparse.csr_array(A, dtype=np.float64, copy=True)
        as_numbers(matrix.data, "the non-zeros of A")
    else:
        matrix = as_numbers(A, "A")
    if matrix.ndim != 2 or matrix.shape[1] != size:
        raise ValueError(
            f"A has shape {matrix.shape}; expected (constraints, {size}), one row per constraint and one column per "
            "element of the flat latent."
        )
    return matrix


def _as_bounds(b: Any, count: int) -> np.ndarray:
    """Return b as an array (count,). Raise ValueError if it has another shape, NaN or -inf."""
    bounds = as_numbers(b, "b", finite=False)
    if bounds.shape not in ((), (count,)):
        raise ValueError(f"b has shape {bounds.shape}; expected a number or ({count},), one bound per row of A.")
    if np.isnan(bounds).any() or (bounds == -np.inf).any():
        raise ValueError("b must be above -inf, but it has NaN or -inf. Use +inf for no bound.")
    return np.broadcast_to(bounds, (count,)).copy()


def _as_box(bound: Any, layout: Layout, name: str, none: float) -> np.ndarray:
    """Return the bounds of all elements as a flat array; `none` is the value that means no bound."""
    if isinstance(bound, Mapping):
        unknown = sorted(str(key) for key in bound if key not in dict(layout))
        if unknown:
            known = ", ".join(latent for latent, _ in layout)
            raise ValueError(f"{name} has {', '.join(unknown)}, but the prior's latents are {known}.")
    elif not is_single(layout) and np.ndim(bound):
        names = ", ".join(latent for latent, _ in layout)
        raise TypeError(f"{name} must be a number, or a mapping with names of latents of the prior ({names}) as keys.")
    parts = []
    for latent, shape in layout:
        values = as_numbers(bound.get(latent, none) if isinstance(bound, Mapping) else bound, name, finite=False)
        if values.shape not in ((), shape):
            raise ValueError(f"{name} has shape {values.shape} for {latent}; expected a number or shape {shape}.")
        if np.isnan(values).any():
            raise ValueError(f"{name} has NaN for {latent}; expected numbers. Use {none} for no bound.")
        parts.append(np.broadcast_to(values, shape).ravel())
    return np.concatenate(parts)
