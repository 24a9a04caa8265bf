"""A log-likelihood of the linear predictor A f, which is part of the state so that proposals need no product."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from ellipslice.checks import as_numbers, check_real
from ellipslice.likelihoods.base import Likelihood


class LinearPredictor:
    """A log-likelihood of the linear predictor A f, for generalised linear models and others with a design matrix A.

    A point on an ellipse is a f + b nu, and its predictor is a A f + b A nu. `sample` therefore stores A f with f and
    computes A nu with nu: one product per update, and none per proposal. This saves time if the product with A is
    expensive compared with the likelihood.

    Parameters
    ----------
    design : array, scipy.sparse array or LinearOperator, shape (rows, N); or mapping of names to these
        Design matrix A. It maps the flat latent vector, including its mean, to the predictor. For a `Stack` give one
        matrix for all latents, or one per latent by name; then the products are added.
    likelihood : callable
        Log-likelihood of the predictor, an array of shape (rows,): an instance of a class of `ellipslice.likelihoods`,
        or any function.

    Raises
    ------
    TypeError
        If `likelihood` is not callable, or is a class instead of an instance.
    ValueError
        If `design` is not a matrix, is not finite, or does not have one row per observation.

    Notes
    -----
    Products with A are computed on the host, so a sparse matrix or an operator is possible for any engine that
    compiles the likelihood. The state has `rows` more elements. The stored predictor is never recomputed from f, but it
    stays equal to A f up to rounding error, because each update damps earlier rounding errors. The move `Local` does
    not accept this class.

    Examples
    --------
    >>> import numpy as np
    >>> import ellipslice as es
    >>> rng = np.random.default_rng(0)
    >>> X = rng.standard_normal((500, 3))
    >>> y = np.where(rng.random(500) < 1 / (1 + np.exp(-X @ [1.0, -2.0, 0.5])), 1, -1)
    >>> model = es.likelihoods.LinearPredictor(X, es.likelihoods.Logistic(y))
    >>> model
    LinearPredictor(500 x 3, Logistic(500 labels))
    >>> tree = es.sample(model, es.Diagonal(np.full(3, 10.0)), draws=500, warmup=500, seed=1)
    >>> tree.posterior.f.shape
    (4, 500, 3)
    """

    def __init__(self, design: Any, likelihood: Callable[[Any], Any]):
        if isinstance(likelihood, type) and issubclass(likelihood, Likelihood):
            name = likelihood.__name__
            raise TypeError(f"likelihood is the class {name}. Give an instance with the data, {name}(y).")
        if not callable(likelihood):
            raise TypeError(
                f"likelihood must be a function of the predictor A f, but it is a {type(likelihood).__name__}. Give an "
                "instance of a class of ellipslice.likelihoods, or a function."
            )
        if isinstance(design, Mapping) and not design:
            raise ValueError("design is an empty mapping. Give a matrix for each of the prior's latents, by name.")
        by_name = isinstance(design, Mapping)
        self.matrices = {name: _as_matrix(design[name], f"design[{name!r}]") for name in design} if by_name else None
        self.matrix = _as_matrix(design, "design") if self.matrices is None else None
        self.likelihood = likelihood
        rows = {name: matrix.shape[0] for name, matrix in self._parts.items()}
        if len(set(rows.values())) > 1:
            raise ValueError(
                f"the matrices in design have different numbers of rows: {rows}. Give each one row per observation."
            )
        self.rows = next(iter(rows.values()))
        if isinstance(likelihood, Likelihood) and likelihood.y.shape != (self.rows,):
            raise ValueError(
                f"design has {self.rows} rows, but {likelihood!r} has observations of shape {likelihood.y.shape}. "
                "Expected one row of the design matrix for each observation."
            )

    @property
    def _parts(self) -> dict[str, Any]:
        return {"f": self.matrix} if self.matrices is None else self.matrices

    @property
    def dense(self) -> bool:
        """True if all matrices are NumPy arrays, so that compiled code can compute the products."""
        return all(isinstance(matrix, np.ndarray) for matrix in self._parts.values())

    def columns(self, layout: Any) -> list[tuple[Any, slice]]:
        """Return each matrix with the slice of the flat vector that it multiplies. Raise if the shapes do not fit."""
        sizes = {name: int(np.prod(shape)) for name, shape in layout}
        if self.matrices is None:
            size = sum(sizes.values())
            assert self.matrix is not None  # noqa: S101  one of the two is given
            if self.matrix.shape[1] != size:
                raise ValueError(
                    f"design has shape {self.matrix.shape}, but the prior has {size} elements. Expected ({self.rows}, "
                    f"{size}): one column per element."
                )
            return [(self.matrix, slice(0, size))]
        if set(self.matrices) != set(sizes):
            raise ValueError(
                f"design has matrices for {', '.join(self.matrices)}, but the prior's latents are {', '.join(sizes)}. "
                "Give one matrix for each latent."
            )
        spans, start = [], 0
        for name, size in sizes.items():
            matrix = self.matrices[name]
            if matrix.shape[1] != size:
                raise ValueError(
                    f"design[{name!r}] has shape {matrix.shape}, but {name} has {size} elements. Expected "
                    f"({self.rows}, {size})."
                )
            spans.append((matrix, slice(start, start + size)))
            start += size
        return spans

    def __call__(self, f: Any) -> Any:
        """Return the log-likelihood at one f, an array or a mapping of names to arrays. It computes the product A f."""
        latents = f if isinstance(f, Mapping) else {"f": f}
        if set(latents) != set(self._parts):
            given = ", ".join(map(str, latents))
            raise ValueError(f"f must be a mapping with the names {', '.join(self._parts)}, but it has {given}.")
        return self.likelihood(sum(matrix @ np.ravel(latents[name]) for name, matrix in self._parts.items()))

    def __repr__(self) -> str:
        sizes = [f"{matrix.shape[1]}" for matrix in self._parts.values()]
        what = getattr(self.likelihood, "__qualname__", None) or repr(self.likelihood)
        return f"LinearPredictor({self.rows} x {' + '.join(sizes)}, {what})"


def multiply_rows(matrix: Any, f: Any) -> Any:
    """Return A f for every f of an array of shape (..., N), shape (..., rows)."""
    if isinstance(matrix, np.ndarray):
        return f @ matrix.T
    columns = np.asarray(f).reshape(-1, matrix.shape[1]).T
    return np.asarray(matrix @ columns).T.reshape(*f.shape[:-1], matrix.shape[0])


def _as_matrix(A: Any, name: str) -> Any:
    """Return a design matrix as a float64 array, a sparse array or an operator. Raise if it is not finite or 2-D."""
    from scipy.sparse import issparse
    from scipy.sparse.linalg import LinearOperator

    if isinstance(A, LinearOperator):
        return A
    advice = "Drop rows with missing values."
    sparse = issparse(A)
    values = A.tocsr() if sparse else as_numbers(A, name, advice=advice)
    if values.ndim != 2 or 0 in values.shape:
        raise ValueError(f"{name} has shape {values.shape}; expected (rows, N), with the predictor {name} @ f.")
    if sparse:
        check_real(name, values.dtype)
        values = values.astype(np.float64)  # a copy, so later changes of the caller's matrix have no effect
        as_numbers(values.data, f"the non-zero entries of {name}", advice=advice)
    return values
