"""Gaussian Markov random fields: Gaussians with a sparse precision matrix."""

from __future__ import annotations

from typing import Any

import jax.numpy as jnp
import numpy as np
from jax.core import Tracer

from ellipslice.checks import as_mean
from ellipslice.priors.base import Prior, check_small, log_normal, on_span
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
from ellipslice.priors.parts.sparse_conditional import SparseConditional
from ellipslice.pytree import pytree, set_fields, static


@pytree
class SparsePrecision(Prior):
    """A Gaussian prior with a sparse precision matrix, the inverse of the covariance.

    Use it on graphs, lattices and meshes, where each element depends directly on few others. `random_walk`, `car` and
    `matern` make the usual precisions. `Markov` is faster for a time series, and `Stationary` for a stationary kernel
    on a regular grid.

    An intrinsic field has a singular precision: the density does not change along some directions, such as a constant
    added to all elements. Linear constraints must fix these directions. Other fields may have constraints, too.

    Parameters
    ----------
    precision : scipy.sparse array or matrix, shape (N, N)
        Symmetric and positive definite, or semi-definite with constraints.
    mean : float or array, shape (N,)
        Prior mean, added to the constrained field. Default: 0.
    constraints : array, shape (M, N), or "null space", optional
        Every draw f, without the mean, satisfies constraints @ f = 0. "null space" makes draws orthogonal to the null
        space of the precision. If the null space is the constants, the elements sum to zero on every connected
        component. Default: no constraints.
    null_space : array, shape (N, K), optional
        Columns that span the null space of the precision. Default: found, if it consists of constants, and of straight
        lines in the index, on connected components.
    cholesky : {"scipy", "cholmod"}
        Package that factorises the precision. CHOLMOD (of cvxopt) took a third of the time on a lattice of 300 x 300,
        and draws take the same time. The draws for a seed depend on the package. Default: "scipy".
    shape : tuple of int, optional
        Shape of the latent, if its N elements are a grid. Default: (N,).

    Raises
    ------
    ValueError
        If the precision is not symmetric or not positive semi-definite, or is singular without enough constraints.
    ImportError
        If `cholesky` is "cholmod" and cvxopt is not installed.

    Notes
    -----
    Draws are made on the host, by one sparse factorisation, and then one sparse triangular solve per draw, for many
    draws in one call. On a lattice of n x n, the factorisation costs O(n^3), and a draw and the memory O(n^2 log n).
    `log_density` costs a product with the precision, and `condition` a dense factorisation of the block, once.
    `unwhiten` and `whiten` work on the host only.

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
    """Indices of the elements that are drawn first. The others are 0 until the constraints are imposed."""
    constraints: Constraints | None
    log_determinant: Any
    """Log determinant of the covariance, on the span of the draws."""
    mean: Any
    shape: tuple[int, ...] = static()
    factor: SparseCholesky = static()
    """Cholesky factor of the precision of the free elements, on the host."""

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
            raise ValueError(
                f"shape is {shape}, which has {int(np.prod(shape))} elements, but the precision has {size} rows. "
                "Expected the same number."
            )
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
        """Return an intrinsic random walk at regular times: differences of the given order are independent.

        The elements sum to zero. With order 2 they are also orthogonal to straight lines. Add an intercept, or a line,
        in a `Stack`. For a walk at irregular times or with a proper start, see `Markov.random_walk`.

        Parameters
        ----------
        size : int
            Number of elements. Greater than `order`.
        order : {1, 2}
            Order of the differences. Default: 1.
        precision : float
            Precision of the differences, 1 / variance. Positive. Default: 1.
        mean : float or array, shape (size,)
            Prior mean. Default: 0.

        Examples
        --------
        >>> SparsePrecision.random_walk(50, order=2, precision=100.0)
        SparsePrecision(50 values, 244 non-zeros, 2 constraints)
        """
        return cls(random_walk(size, order, precision), mean, constraints="null space")

    @classmethod
    def car(cls, graph: Any, correlation: float = 1.0, *, precision: float = 1.0, mean: Any = 0.0) -> SparsePrecision:
        """Return a conditional autoregression (CAR) on a graph.

        Given the rest, the mean of an element is `correlation` times the mean of its neighbours. The precision matrix
        is precision * (D - correlation * W), with the weights W of the graph and the diagonal matrix D of their sums
        (Besag 1974). A correlation of 1 gives the intrinsic field (ICAR), which sums to zero on every connected
        component.

        Parameters
        ----------
        graph : scipy.sparse or array, shape (N, N)
            Symmetric weights, at least 0: usually 1 for neighbours, else 0. The diagonal must be 0, and every node must
            have a neighbour.
        correlation : float
            Above -1 and at most 1. Default: 1.
        precision : float
            Factor of the precision matrix. Positive. Default: 1.
        mean : float or array, shape (N,)
            Prior mean. Default: 0.

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
        """Return a Matérn field on a regular lattice, by a stochastic differential equation.

        The method of Lindgren, Rue & Lindgren (2011) approximates the Matérn kernel well if `spacing` is a fraction of
        `length_scale`. The boundary is reflecting: the variance is twice as large at an edge, and four times in a
        corner of two axes. Extend the lattice by a length scale beyond the data.

        Parameters
        ----------
        shape : int or tuple of int
            Shape of the lattice. 1, 2 or 3 axes.
        spacing : float
            Distance between neighbours, along all axes. Positive.
        length_scale : float
            Length scale of the kernel, in the same unit as `spacing`. Positive.
        smoothness : float
            Parameter nu of the Matérn kernel: 0.5, 1.5, ... with one or three axes, and 1, 2, ... with two. A larger
            one makes the precision less sparse.
        variance : float
            Prior variance of each element in the interior. Positive. Default: 1.
        mean : float or array
            Prior mean, a number or an array of shape `shape`. Default: 0.
        cholesky : {"scipy", "cholmod"}
            Package that factorises the precision; see `SparsePrecision`. Default: "scipy".

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

    def covariance_product(self, g: Any) -> Any:
        """Return Sigma @ g for one flat vector g. JAX can trace it: the host solves one system with the precision."""
        if self.constraints is None:
            return self.factor.solve_traced(g)
        solved = self.factor.solve_traced(self.constraints.project_transposed(g)[self.free])
        return self.constraints.project(jnp.zeros_like(g).at[self.free].set(solved))

    def draw_zero_mean(self, rng: np.random.Generator, count: int) -> np.ndarray:
        """Draw from N(0, Sigma), without the mean. Return an array of shape (count, size)."""
        return self.unwhiten(rng.standard_normal((count, self.noise_size)))

    def whiten(self, f: Any) -> Any:
        rows = _rows_of(f, "whiten")
        if self.constraints is not None:
            rows = self.constraints.unpin(rows)
        return self.factor.whiten(rows[:, self.free]).reshape(*f.shape[:-1], self.noise_size)

    def log_density(self, f: Any) -> Any:
        # z'z = f'Qf, which needs no factor on the host.
        square = jnp.sum(f[..., self.rows] * self.values * f[..., self.columns], -1)
        log_density = log_normal(jnp.sqrt(jnp.maximum(square, 0.0))[..., None], self.log_determinant, self.rank)
        return log_density if self.constraints is None else on_span(log_density, f, self.constraints.project(f))

    def condition(self, block: Any) -> BlockConditional:
        block = check_small(as_block(block, self.size))
        return SparseConditional(block, self)

    def __repr__(self) -> str:
        count = 0 if self.constraints is None else self.constraints.count
        under = f", {count} constraint{'s' if count > 1 else ''}" if count else ""
        return f"SparsePrecision({self.size} values, {len(self.values)} non-zeros{under})"


def _rows_of(values: Any, capability: str) -> np.ndarray:
    """Return concrete vectors (..., n) as rows of a matrix. Raise TypeError if JAX is tracing."""
    if isinstance(values, Tracer):
        raise TypeError(
            f"SparsePrecision has no `{capability}` in compiled code, because its factor is on the host. Call it on "
            "arrays, use `draw_zero_mean`, or use Markov or a Kronecker of dense factors, which can be compiled."
        )
    array = np.asarray(values, dtype=np.float64)
    return array.reshape(-1, array.shape[-1])
