"""Gaussian Markov random fields: what is sparse is the inverse of the covariance."""

from __future__ import annotations

from typing import Any

import jax.numpy as jnp
import numpy as np
from jax.core import Tracer

from ellipslice.checks import as_mean
from ellipslice.priors.base import Prior, check_small, inverse_factor, log_normal, on_span
from ellipslice.priors.dense import Dense
from ellipslice.priors.parts.conditional import BlockConditional, as_block, complement
from ellipslice.priors.parts.constraints import (
    Constraints,
    as_constraints,
    choose_pinned,
    find_null_space,
    solve_constraints,
)
from ellipslice.priors.parts.precisions import as_precision, car, matern, not_definite, random_walk
from ellipslice.priors.parts.sparse_cholesky import NotPositiveDefiniteError, SparseCholesky
from ellipslice.pytree import pytree, set_fields, static


@pytree
class SparsePrecision(Prior):
    """A Gaussian given by a sparse precision, the inverse of its covariance.

    Use it for values on graphs, lattices and meshes, where each depends directly on few others: `random_walk`,
    `car` and `matern` make the usual ones. For a time series `Markov` is faster, for a stationary kernel on
    a regular grid `Stationary`.

    An intrinsic field has a singular precision: there are directions, such as the same constant added to all values, of
    which it says nothing. Linear constraints must fix them. Other fields may have constraints too.

    Parameters
    ----------
    precision : scipy.sparse array or matrix, shape (N, N)
        Symmetric and positive definite, or semi-definite with constraints.
    mean : float or array, shape (N,)
        Added to the constrained field.
    constraints : array, shape (M, N), or "null space", optional
        Every draw f has constraints @ f = 0. "null space" says that f has no part in the directions the precision says
        nothing of: if these are constants, that values sum to zero on every connected component.
    null_space : array, shape (N, K), optional
        Those directions. Constants, and straight lines in the index, on each component are found without it.
    cholesky : {"scipy", "cholmod"}
        Who factorises. CHOLMOD (of cvxopt) took a third of the time on a lattice of 300 x 300, and draws at the same
        speed. The same seed gives other draws with the other one.
    shape : tuple of int, optional
        Of the latent, if its N values are a grid.

    Notes
    -----
    Draws are made on the host: one sparse factorisation, then a sparse triangular solve for each draw, many at a time.
    On a lattice of n x n that is O(n^3) once and O(n^2 log n) for each draw. `log_density` costs a product with the
    precision; `condition` a dense factorisation of the block. `unwhiten` and `whiten` work on the host only.

    Examples
    --------
    >>> import numpy as np
    >>> from scipy.sparse import diags_array
    >>> precision = diags_array([-np.ones(99), 2.1 * np.ones(100), -np.ones(99)], offsets=[-1, 0, 1])
    >>> SparsePrecision(precision)
    SparsePrecision(100 values, 298 non-zeros)
    >>> SparsePrecision.random_walk(100)
    SparsePrecision(100 values, 298 non-zeros, 1 constraint)
    """

    stored_as = "SparsePrecision"

    rows: Any
    columns: Any
    values: Any
    free: Any
    """The values that are drawn first. The others are set to 0 until the constraints move them."""
    constraints: Constraints | None
    log_determinant: Any
    """Of the covariance, on its span."""
    mean: Any
    shape: tuple[int, ...] = static()
    factor: SparseCholesky = static()
    """Of the precision of the free values; on the host."""

    def __init__(
        self,
        precision: Any,
        mean: Any = 0.0,
        *,
        constraints: Any = None,
        null_space: Any = None,
        cholesky: str = "scipy",
        shape: int | tuple[int, ...] | None = None,
    ):
        matrix = as_precision(precision)
        size = matrix.shape[0]
        shape = (size,) if shape is None else tuple(int(n) for n in np.atleast_1d(np.asarray(shape)))
        if int(np.prod(shape)) != size:
            raise ValueError(f"shape {shape} has {int(np.prod(shape))} values, but the precision has {size}.")
        directions = find_null_space(matrix, null_space)
        given = as_constraints(constraints, directions, size)
        free = complement(pinned := choose_pinned(directions), size)
        try:
            factor = SparseCholesky(matrix[free][:, free], cholesky)
        except NotPositiveDefiniteError:
            raise ValueError(not_definite(directions)) from None
        solved, log_determinant = solve_constraints(matrix, factor, free, pinned, given, directions)
        entries = matrix.tocoo()
        set_fields(self, rows=entries.row.astype(np.int64), columns=entries.col.astype(np.int64), values=entries.data)
        set_fields(self, free=free, constraints=solved, log_determinant=np.asarray(log_determinant))
        set_fields(self, mean=as_mean(mean, shape), shape=shape, factor=factor)

    @classmethod
    def random_walk(cls, size: int, order: int = 1, *, precision: float = 1.0, mean: Any = 0.0) -> SparsePrecision:
        """A random walk at regular times: differences of the given order are independent, of the given precision.

        Intrinsic: values sum to zero; of order 2 they have no straight line in them either. Add the level, or the line,
        in a `Stack`. For a walk at irregular times or with a start, see `Markov.random_walk`.

        Examples
        --------
        >>> SparsePrecision.random_walk(50, order=2, precision=100.0)
        SparsePrecision(50 values, 244 non-zeros, 2 constraints)
        """
        return cls(random_walk(size, order, precision), mean, constraints="null space")

    @classmethod
    def car(cls, graph: Any, correlation: float = 1.0, *, precision: float = 1.0, mean: Any = 0.0) -> SparsePrecision:
        """A conditional autoregression on a graph: a value is its neighbours' mean, times `correlation`, plus noise.

        The precision is precision * (D - correlation * W), with W the graph's weights and D their sums (Besag 1974).
        A correlation of 1 is the intrinsic field (ICAR); it sums to zero on every connected component.

        Parameters
        ----------
        graph : scipy.sparse or array, shape (N, N)
            Symmetric weights, 0 or more; no loops, and no node without neighbours.
        correlation : float
            From -1 to 1.
        precision : float
        mean : float or array, shape (N,)

        Examples
        --------
        >>> import numpy as np
        >>> triangle = np.ones((3, 3)) - np.eye(3)
        >>> SparsePrecision.car(triangle)
        SparsePrecision(3 values, 9 non-zeros, 1 constraint)
        """
        matrix = car(graph, correlation, precision)
        return cls(matrix, mean, constraints="null space" if correlation == 1 else None)

    @classmethod
    def matern(
        cls,
        shape: int | tuple[int, ...],
        spacing: float,
        length_scale: float,
        *,
        smoothness: float,
        variance: float = 1.0,
        mean: Any = 0.0,
        cholesky: str = "scipy",
    ) -> SparsePrecision:
        """A Matérn field on a regular lattice, by its stochastic differential equation (Lindgren, Rue & Lindgren 2011).

        It approximates the Matérn kernel, well if `spacing` is a fraction of `length_scale`. Its edges reflect: there
        the variance is twice as large, and in a corner of two axes four times. Let the lattice reach a length scale
        beyond the data.

        Parameters
        ----------
        shape : int or tuple of int
            Of the lattice; 1, 2 or 3 axes.
        spacing : float
            Distance of neighbours.
        length_scale : float
        smoothness : float
            The kernel's nu. With one axis 0.5, 1.5, ...; with two 1, 2, ...; with three 0.5, 1.5, ... The smoother,
            the fuller the precision.
        variance : float
        mean : float or array of that shape
        cholesky : {"scipy", "cholmod"}

        Examples
        --------
        >>> SparsePrecision.matern((30, 40), 1.0, 5.0, smoothness=1).shape
        (30, 40)
        """
        shape, matrix = matern(shape, spacing, length_scale, smoothness, variance)
        return cls(matrix, mean, cholesky=cholesky, shape=shape)

    @property
    def noise_size(self) -> int:
        return len(self.free)

    @property
    def traceable(self) -> bool:
        return False

    @property
    def rank(self) -> int:
        return self.size - (0 if self.constraints is None else self.constraints.count)

    def null_space(self) -> np.ndarray | None:
        return np.zeros((0, self.size)) if self.constraints is None else np.asarray(self.constraints.matrix)

    def unwhiten(self, z: Any) -> Any:
        drawn = self.factor.unwhiten(_rows_of(z, "unwhiten")).reshape(*z.shape[:-1], self.noise_size)
        if self.constraints is None:
            return np.ascontiguousarray(drawn)
        whole = np.zeros((*drawn.shape[:-1], self.size))
        whole[..., self.free] = drawn
        return self.constraints.project(whole)

    def draw_zero_mean(self, rng: np.random.Generator, count: int) -> np.ndarray:
        """Draws from N(0, Sigma), the mean left out, shape (count, size)."""
        return self.unwhiten(rng.standard_normal((count, self.noise_size)))

    def whiten(self, f: Any) -> Any:
        rows = _rows_of(f, "whiten")
        if self.constraints is not None:
            rows = self.constraints.unpin(rows)
        return self.factor.whiten(rows[:, self.free]).reshape(*f.shape[:-1], self.noise_size)

    def log_density(self, f: Any) -> Any:
        # z'z is f'Qf, which takes no call to the host.
        square = jnp.sum(f[..., self.rows] * self.values * f[..., self.columns], -1)
        log_density = log_normal(jnp.sqrt(jnp.maximum(square, 0.0))[..., None], self.log_determinant, self.rank)
        return log_density if self.constraints is None else on_span(log_density, f, self.constraints.project(f))

    def condition(self, block: Any) -> BlockConditional:
        block = check_small(as_block(block, self.size))
        return _ThroughNeighbours(block, self)

    def __repr__(self) -> str:
        count = 0 if self.constraints is None else self.constraints.count
        under = f", {count} constraint{'s' if count > 1 else ''}" if count else ""
        return f"SparsePrecision({self.size} values, {len(self.values)} non-zeros{under})"


@pytree
class _ThroughNeighbours(BlockConditional):
    """A block depends on its neighbours, and through constraints on what the others add up to."""

    block: Any
    neighbours: Any
    weights: Any
    matrix: Any
    """The constraints; or None."""
    lift: Any
    prior: Prior

    by_numpy = True

    def __init__(self, block: np.ndarray, whole: SparsePrecision):
        from scipy.sparse import coo_array

        entries = (whole.values, (whole.rows, whole.columns))
        strip = coo_array(entries, shape=(whole.size, whole.size)).tocsr()[block]
        precision = strip[:, block].toarray()
        others = complement(block, whole.size)
        beyond = strip[:, others]
        touching = np.unique(beyond.indices)
        matrix = None if whole.constraints is None else whole.constraints.matrix
        if matrix is None:
            factor = inverse_factor(precision)
            covariance, lift, prior = factor @ factor.T, None, Dense(factor=factor)
        else:
            left, values, right = np.linalg.svd(matrix[:, block])
            rank = int(np.sum(values > 1e-10))  # of rows of unit length in all
            plane = right[rank:].T
            covariance = plane @ np.linalg.solve(plane.T @ precision @ plane, plane.T)
            particular = (right[:rank].T / values[:rank]) @ left[:, :rank].T
            lift = particular - covariance @ (precision @ particular)
            prior = Dense((covariance + covariance.T) / 2)
        set_fields(self, block=block, neighbours=others[touching], matrix=matrix, lift=lift, prior=prior)
        set_fields(self, weights=-(beyond[:, touching].toarray().T @ covariance))

    def mean(self, f: Any) -> Any:
        mean = f[..., self.neighbours] @ self.weights
        if self.matrix is None:
            return mean
        elsewhere = f @ self.matrix.T - f[..., self.block] @ self.matrix[:, self.block].T
        return mean - elsewhere @ self.lift.T


def _rows_of(values: Any, capability: str) -> np.ndarray:
    """Concrete vectors as rows of a matrix."""
    if isinstance(values, Tracer):
        raise TypeError(
            f"SparsePrecision has no `{capability}` in compiled code: its factor is on the host. Use `draw_zero_mean`, "
            "or call it on arrays; Markov and Kronecker of dense factors can be compiled."
        )
    array = np.asarray(values, dtype=np.float64)
    return array.reshape(-1, array.shape[-1])
